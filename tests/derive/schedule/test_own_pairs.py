"""Sums with the same number for a point and itself leave that pair out, where differences make their weight."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, constant, exp, op, scalar, softplus, sum, tensor, where
from derive.ir.equations import Op
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.soundness import check
from derive.ir.program import Assign, AxisValue, Call, Node, Program, Read, Reduce
from derive.output.live import build
from derive.pipeline import derivation_of
from derive.schedule.own_pairs import without_what_cancels
from derive.verify.verify import Verification, verify, verify_kernels
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, inputs_of

d, e, i, j, n = axes("d e i j n")


@op
def pulled(f, x: tensor[n, d], mass: tensor[n], soft: scalar = 0.05):
    f.inv[i, j] = (sum((x[j, d] - x[i, d]) ** 2, over=d) + soft**2) ** -1.5
    f.a[i, d] = sum(mass[j] * f.inv[i, j] * (x[j, d] - x[i, d]), over=j)
    return f.a


@op
def along_edges(f, h: tensor[n, d], adjacent: tensor[n, n]):
    f.y[i, d] = sum(adjacent[i, j] * (h[j, d] - h[i, d]), over=j)
    return f.y


@op
def smoothed(f, x: tensor[n, d], v: tensor[n, e]):
    """Each point has the others' values, in shares: a weight of a pair less what a point has for itself."""
    f.u[i, j] = exp(-sum((x[i, d] - x[j, d]) ** 2, over=d))
    f.a[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.y[i, e] = sum(f.a[i, j] * v[j, e], over=j)
    return f.y


def test_shares_of_pairs() -> None:
    def plain(x: Tensor, v: Tensor) -> Tensor:
        return (-(x[:, None] - x).square().sum(2)).softmax(1) @ v

    leaves = list(inputs_of(smoothed.op, {"x": (5, 3), "v": (5, 2)}).values())
    assert_alike(build(smoothed)(*leaves), plain(*leaves), leaves)


def naive(x: Tensor, mass: Tensor, soft: float = 0.05) -> Tensor:
    apart = x - x[:, None]
    inv = (apart.square().sum(-1) + soft**2) ** -1.5
    return (mass[:, None] * inv[..., None] * apart).sum(1)


def gradient(forward: Callable[..., Tensor], x: Tensor, mass: Tensor, dtype: torch.dtype) -> Tensor:
    x = x.to(dtype).requires_grad_()
    torch.manual_seed(1)
    out = forward(x, mass.to(dtype))
    return torch.autograd.grad(out, x, torch.randn(out.shape).to(dtype))[0].double()


def test_gradients() -> None:
    inputs = inputs_of(pulled.op, {"x": (5, 3), "mass": (5,)})
    assert_alike(build(pulled)(**inputs, soft=1.0), naive(**inputs, soft=1.0), list(inputs.values()))


@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
def test_every_digit_of_float32(spread: float) -> None:
    """Autograd has none left where the points are 100 apart: a point's weight for itself is 8000, others' 1e-6."""
    torch.manual_seed(0)
    x, mass = spread * torch.randn(60, 3), torch.rand(60)
    truth, found = (gradient(f, x, mass, t) for f, t in ((naive, torch.float64), (build(pulled), torch.float32)))
    assert (found - truth).norm() <= 1e-6 * truth.norm()


@op
def ranked(f, s: tensor[n], above: constant[n]):
    """A point is not above itself, whatever weighs it."""
    f.y[()] = sum(where(above[i] > above[j], softplus(s[j] - s[i]), 0), over=(i, j))
    return f.y


def test_a_strict_comparison_has_no_diagonal() -> None:
    assert "!=" not in code_of(ranked.op) and "fill_diagonal_" not in code_of(ranked.op)
    inputs = inputs_of(ranked.op, {"s": (6,), "above": (6,)})
    s, above = inputs.values()
    plain = (torch.nn.functional.softplus(s - s[:, None]) * (above[:, None] > above)).sum()
    assert_alike(build(ranked)(**inputs), plain, [s])


def test_one_point_feels_nothing() -> None:
    assert gradient(build(pulled), torch.randn(1, 3), torch.rand(1), torch.float32).eq(0).all()


def test_a_weight_that_is_given_is_multiplied_as_it_is() -> None:
    assert "inv_of_others" in code_of(pulled.op) and code_of(pulled.op).count("inv.clone()") == 1
    made = derivation_of(along_edges.op).backward
    assert "!=" not in str(made), made


@pytest.mark.parametrize("verified", [verify, verify_kernels])
def test_in_every_situation(verified: Callable[[Op], Verification]) -> None:
    assert verified(pulled.op).right


# --- the law by itself ----------------------------------------------------------------------------------------

GIVEN = (("x", ("n", "d")), ("m", ("n",)), ("k", ("n",)), ("g", ("n", "d")), ("given", ("n", "j")))


def times(*factors: Node) -> Node:
    whole, *others = factors
    for f in others:
        whole = Call("mul", (whole, f))
    return whole


def total(*factors: Node, over: str) -> Node:
    return Reduce("sum", (over,), times(*factors))


def m(axis: str) -> Read:
    return Read("m", (axis,))


def g(axis: str) -> Read:
    return Read("g", (axis, "d"))


def w(*index: str) -> Read:
    return Read("w", index)


def first(weight: Node) -> Node:
    return times(m("n"), total(weight, g("i"), over="i"))


def second(weight: Node, *others: Node) -> Node:
    return times(g("n"), total(weight, *others, over="j"))


BY_DIFFERENCES = Call("exp", (Reduce("sum", ("d",), Call("sub", (Read("x", ("n", "d")), Read("x", ("j", "d"))))),))
APART = Call("where", (Call("ne", (AxisValue("n"), AxisValue("j"))), Read("given", ("n", "j")), ZERO))
SIGN = Call("sign", (Call("sub", (m("n"), m("j"))),))
CASES = [
    pytest.param("sign", first(w("i", "n")), "sub", second(w("n", "j"), m("j")), False, id="0 for itself"),
    pytest.param("w", first(w("i", "n")), "sub", second(w("n", "j"), m("j")), True, id="cancels"),
    pytest.param("w", first(w("i", "n")), "sub", second(w("j", "n"), m("j")), True, id="one way round"),
    pytest.param("w", first(w("i", "n")), "add", second(w("n", "j"), m("j")), False, id="added"),
    pytest.param("w", first(w("i", "n")), "sub", second(w("n", "j"), m("j"), m("j")), False, id="another number"),
    pytest.param("w", first(w("i", "n")), "sub", second(w("n", "j"), Read("k", ("j",))), False, id="another factor"),
    pytest.param("given", first(w("i", "n")), "sub", second(w("n", "j"), m("j")), False, id="a weight that is given"),
    pytest.param("left out", first(w("i", "n")), "sub", second(w("n", "j"), m("j")), False, id="left out before"),
]


@pytest.mark.parametrize(("weight", "one", "fn", "other", "apart"), CASES)
@pytest.mark.parametrize("named", [False, True])
def test_both_or_neither(weight: str, one: Node, fn: str, other: Node, apart: bool, named: bool) -> None:
    given, left_out = Read("given", ("n", "j")), times(APART, BY_DIFFERENCES)
    values = {"w": BY_DIFFERENCES, "given": given, "left out": left_out, "sign": SIGN}
    made = [Assign("w", ("n", "j"), values[weight])]
    if named:
        made.append(Assign("a", ("n", "d"), other))
        other = Read("a", ("n", "d"))
    made.append(Assign("dx", ("n", "d"), Call(fn, (one, other))))
    program = check(Program("dx", GIVEN, (), tuple(made), ("dx",)))
    found = without_what_cancels(program, along_edges.op)
    assert found != program if apart else found == program
    if apart:
        assert str(found).count("w_of_others[") == 3 and str(found).count(" w[") == 2, found


def test_what_is_read_elsewhere_stays() -> None:
    """A sum that something else wants with all its pairs is not written anew for one reader."""
    made = (
        Assign("w", ("n", "j"), BY_DIFFERENCES),
        Assign("a", ("n", "d"), second(w("n", "j"), m("j"))),
        Assign("dx", ("n", "d"), Call("sub", (first(w("i", "n")), Read("a", ("n", "d"))))),
    )
    program = check(Program("dx", GIVEN, (), made, ("dx", "a")))
    assert without_what_cancels(program, along_edges.op) == program
