"""Each instruction computes what its row says, evaluated from the notation, and stands where a program means it."""

from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from derive import axes, erf, exp, op, scalar, sigmoid, sqrt, sum, tensor, where
from derive.backends.torch.instructions import ALL, BY_NAME, LINE, ROWS, SETS, Instruction, bound, of_sets
from derive.backends.torch.selection import with_instructions
from derive.catalogue import catalogue
from derive.facts.instances import Instance, agree, drawings
from derive.ir.equations import Op
from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import AxisValue, Call, Node, Num, Read, Reduce, Scal
from derive.notation.spec import OpCall
from derive.output.live import build
from derive.pipeline import derivation_of
from derive.primitives import PRIMITIVES
from tests.corpus import corpus
from tests.shell import derive

ROWS_LONG, LONG = 4, 9
NUMBERS = {"k": 0.3, "a": 1.7, "low": -1.0, "high": 2.0, "e": 1e-5}
FAR = (-1e4, -300.0, -89.0, -20.5, -3.0, -1.0, -0.5, -0.3, 0.0, -0.0,
       0.3, 0.5, 1.0, 2.0, 3.0, 6.0, 21.0, 45.0, 89.0, 1e4)  # fmt: skip


def index_of(row: Instruction, variable: str) -> tuple[str, ...]:
    """The axes of a variable: rows of a few places, along which the reductions are."""
    if variable in row.vectors.split():
        return ("d",)
    return ("n",) if variable in row.statistics.split() else ("n", "d")


def drawn(row: Instruction, variable: str) -> Tensor:
    """Ties, thresholds and places far from 0, beside others; a softmax is shares, of a sigmoid all lies within 1."""
    lengths = {"n": ROWS_LONG, "d": LONG}
    shape = [lengths[a] for a in index_of(row, variable)]
    values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(ord(variable[0])))
    if variable == "x":
        values.view(-1)[: len(FAR)] = torch.tensor(FAR, dtype=torch.float64)
    return torch.softmax(values, -1) if variable == "p" else torch.tanh(values) if variable == "y" else values


def evaluated(node: Node, over: tuple[str, ...], given: dict[str, Tensor]) -> Tensor:
    """A node of the notation, element by element, where tensors and numbers hold this."""
    lengths = {"n": ROWS_LONG, "d": LONG}
    known: dict[tuple[object, ...], float] = {}
    for name, tensor_ in given.items():
        places = product(*map(range, tensor_.shape))
        known |= {(name, at, "drawn"): float(tensor_[at]) for at in places}
    known |= {(name, (), "drawn"): value for name, value in NUMBERS.items()}
    instance = Instance({}, lengths=lengths, known=known)
    places = product(*(range(lengths[a]) for a in over))
    found = [instance.value(node, dict(zip(over, at, strict=True))) for at in places]
    return torch.tensor(found, dtype=torch.float64).view([lengths[a] for a in over])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_call_is_what_its_row_says(row: Instruction) -> None:
    given = {v: drawn(row, v) for v in row.tensors}
    code = {v: t[:, None] if v in row.statistics.split() else t for v, t in given.items()}
    known = {"torch": torch, "functional": torch.nn.functional, **code, **NUMBERS, "d": 1}
    made = eval(row.call, known)
    args = (*(Read(v, index_of(row, v)) for v in row.tensors), *map(Scal, row.scalars), *map(AxisValue, row.axes))
    wrong = 0.0
    for k, found in enumerate(made if isinstance(made, tuple) else (made,)):
        meant = bound(row, args, k)
        over = tuple(a for a in ("n", "d") if a in axes_of(meant))
        wanted = evaluated(meant, over, given)
        apart = (found.squeeze() - wanted).abs() / wanted.abs().clamp(min=1)  # of each element by itself
        wrong = max(wrong, float(apart.max()))
    assert (wrong < 1e-13) != bool(row.differs), wrong


def axes_of(node: Node) -> set[str]:
    """The axes that a node runs over."""
    return set(node_axes(node))


def test_no_row_has_the_name_of_a_function_or_of_another_row() -> None:
    names = [name for row in ROWS for name in row.results]
    assert len(set(names)) == len(names) and not set(names) & set(PRIMITIVES)
    assert all(row.among in SETS for row in ROWS)


def test_a_row_with_a_mistake_is_refused_as_it_is_written() -> None:
    with pytest.raises(ValueError, match="shrunk: abz in its meaning is no function of the notation"):
        Instruction("shrunk", "functional.shrunk(x)", "abz(x)")
    with pytest.raises(ValueError, match="shrunk: its call does not have k, which it is said to mean"):
        Instruction("shrunk", "functional.shrunk(x)", "where(x > k, x, 0)", "k")


def test_a_row_that_differs_is_in_no_set() -> None:
    assert any(row.differs for row in ROWS) and not any(row.differs for row in of_sets(ALL))
    assert not of_sets("plain") and set(of_sets(LINE)) < set(of_sets(ALL))


CHANGED = {
    "attention": "softmax_backward", "bias_gelu": "gelu_backward", "elu": "elu_backward", "gelu": "gelu_backward",
    "gelu_tanh": "gelu_tanh_backward", "layernorm": "layer_norm_backward", "leaky_relu": "leaky_relu_backward",
    "log_softmax": "log_softmax_backward", "sigmoid": "sigmoid_backward", "silu": "silu_backward",
    "softmax": "softmax_backward", "softplus": "softplus_backward", "tanh": "tanh_backward",
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.filterwarnings("error")
def test_a_backward_of_the_catalogue_becomes_the_call_that_computes_it(name: str) -> None:
    """As it is emitted, it agrees with autograd of the equations: `build` would warn of what it cannot prove."""
    made = next(o for o in catalogue() if o.name == name)
    assert CHANGED[name] in called(made, ALL)
    assert BY_NAME[CHANGED[name]][0].call.partition("(")[0] in build(made, instructions=ALL).source


def called(made: OpCall | Op, chosen: str) -> set[str]:
    """The instructions that both programs of an op call."""
    found = with_instructions(derivation_of(made if isinstance(made, Op) else made.op), of_sets(chosen))
    statements = (*found.forward.statements, *found.backward.statements)
    return {n.fn for s in statements for n in walk(s.value) if isinstance(n, Call) and n.fn in BY_NAME}


n, d, e = axes("n d e")


@op
def gelu_as_written_elsewhere(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] / 2 + x[n, d] * erf(x[n, d] / sqrt(2)) / 2
    return f.y


@op
def layers(f, x: tensor[n, d], w: tensor[d, e]):
    f.h[n, e] = sum(x[n, d] * w[d, e], over=d)
    f.y[n, e] = f.h[n, e] * sigmoid(f.h[n, e])
    return f.y


@op
def scaled_exponential(f, x: tensor[n, d]):
    f.y[n, d] = where(x[n, d] > 0, 2 * x[n, d], 3 * (exp(x[n, d]) - 1))
    return f.y


@op
def bent_at_its_threshold(f, x: tensor[n, d]):
    f.y[n, d] = where(x[n, d] >= 0, x[n, d], x[n, d] / 4)
    return f.y


@op
def nearly_gelu(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] * sigmoid(1.702 * x[n, d])
    return f.y


@op
def shrunk(f, x: tensor[n, d], k: scalar):
    f.y[n, d] = where(abs(x[n, d]) > k, x[n, d], 0)
    return f.y


@op
def clipped(f, x: tensor[n, d], low: scalar, high: scalar):
    f.y[n, d] = where(x[n, d] <= low, low, where(x[n, d] >= high, high, x[n, d]))
    return f.y


@op
def errors_one_by_one(f, x: tensor[n, d], t: tensor[n, d]):
    f.z[n, d] = x[n, d] - t[n, d]
    f.y[n, d] = where(abs(f.z[n, d]) <= 1, f.z[n, d] ** 2 / 2, abs(f.z[n, d]) - 1 / 2)
    return f.y


@op
def errors_one_by_one_from(f, x: tensor[n, d], t: tensor[n, d], k: scalar):
    f.z[n, d] = x[n, d] - t[n, d]
    f.y[n, d] = where(abs(f.z[n, d]) < k, f.z[n, d] ** 2 / 2, k * (abs(f.z[n, d]) - k / 2))
    return f.y


@pytest.mark.parametrize("name", ["farther_than_its_own", "slabs_and_rays", "segment_minimum_or_nothing"])
def test_what_is_asked_of_tensors_stays_beside_what_nearly_always_says_the_same(name: str) -> None:
    """Another mask that is 0 there nearly always, ties, of which one is the rule, and places that nothing reaches."""
    made = next(s.op for s in corpus() if s.name == name)
    assert not called(made, ALL)


@pytest.mark.parametrize(
    ("made", "calls"),
    [
        (gelu_as_written_elsewhere, {"gelu", "gelu_backward"}),
        (layers, {"silu", "silu_backward"}),
        (scaled_exponential, {"elu", "elu_backward"}),
        (nearly_gelu, set()),
        (shrunk, {"hardshrink", "hardshrink_backward"}),
        (clipped, {"hardtanh_backward"}),
        (errors_one_by_one, {"huber", "huber_backward"}),
        (errors_one_by_one_from, set()),  # the call refuses a threshold that is below 0, and a caller's may be
    ],
    ids=lambda made: getattr(getattr(made, "op", None), "name", ""),
)
@pytest.mark.filterwarnings("error")
def test_a_call_stands_wherever_a_program_means_it(made: OpCall, calls: set[str]) -> None:
    assert called(made, LINE) == calls
    build(made, instructions=LINE)


def test_a_call_that_differs_at_a_threshold_alone_is_none() -> None:
    """`leaky_relu_backward` has the slope at 0 itself, this op's backward has 1."""
    assert "leaky_relu_backward" not in called(bent_at_its_threshold, LINE)


def test_values_tell_functions_apart_that_differ_at_one_place() -> None:
    x, many = Read("x", ("n",)), drawings({}, ())
    above, from_0 = (Call("where", (Call(fn, (x, Num(Fraction(0)))), ONE, x)) for fn in ("gt", "ge"))
    assert not agree(above, from_0, ("n",), many)
    assert agree(above, Call("where", (Call("le", (x, Num(Fraction(0)))), x, ONE)), ("n",), many)


def test_what_chance_does_not_meet_is_not_left_out() -> None:
    """A count of ties that is 1 nearly always, a value that is infinite where nothing was reached."""
    x, y, many = Read("x", ("n",)), Read("y", ("n",)), drawings({}, ())
    ties = Reduce("sum", ("d",), Call("where", (Call("eq", (Read("z", ("n", "d")), y)), ONE, Num(Fraction(0)))))
    counted = Call("div", (x, Call("maximum", (ties, ONE))))
    assert not agree(counted, x, ("n",), many)
    finite = Call("where", (Call("lt", (x, Num(float("inf")))), x, Num(Fraction(0))))
    assert not agree(finite, x, ("n",), many)


def test_what_is_small_all_over_is_not_the_same() -> None:
    """What differs by less than 1e-12 of a number that is as small is another function."""
    x, many = Read("x", ("n",)), drawings({}, ())
    one, other = (Call("mul", (Num(Fraction(1, 10**12)), Call(fn, (x,)))) for fn in ("tanh", "sigmoid"))
    assert not agree(one, other, ("n",), many)


def test_a_guard_of_what_is_singular_is_not_nothing() -> None:
    """`x**(y - 1) * y` is no number where both are 0, and is what it is chosen from everywhere else."""
    x, y = (Read(name, ("n",)) for name in "xy")
    slope = Call("mul", (Call("pow", (x, Call("sub", (y, ONE)))), y))
    guarded = Call("where", (Call("eq", (y, Num(Fraction(0)))), Num(Fraction(0)), slope))
    assert not agree(guarded, slope, ("n",), drawings({}, ()))


def test_nothing_is_said_of_what_is_0_everywhere() -> None:
    x = Read("x", ("n",))
    zero = Call("sub", (x, x))
    assert not agree(zero, Call("mul", (zero, x)), ("n",), drawings({}, ()))


def test_kernels_call_none(tmp_path: Path) -> None:
    done = derive("generate", "gelu", "--backend", "cpu", "--instructions", "line", "--out", "made", cwd=tmp_path)
    assert done.returncode == 2 and "kernels call none" in done.stderr and not (tmp_path / "made").exists()
