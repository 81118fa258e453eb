"""What is chosen at the ends of an axis is joined to what is chosen between them: no place is asked for."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import amax, axes, constant, eq, maximum, mean, op, size, sum, tanh, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, assert_derived_at, inputs_of, module

d, h, n, t, w = axes("d h n t w")
five = axes("five=5")
three = axes("three=3")


@op
def periodic(f, x: tensor[..., t]):
    f.left[..., t] = where(eq(t, 0), x[..., size(t) - 1], x[..., t - 1])
    f.right[..., t] = where(eq(t, size(t) - 1), x[..., 0], x[..., t + 1])
    f.y[..., t] = tanh(f.left[..., t] + f.right[..., t] - 2 * x[..., t])
    return f.y


@op
def repeated(f, x: tensor[n, t]):
    """The element itself stands at the end."""
    f.y[n, t] = maximum(where(t >= 1, x[n, t - 1], x[n, t]), where(t < size(t) - 1, x[n, t + 1], x[n, t]))
    return f.y


@op
def one_sided(f, x: tensor[t, d]):
    """numpy.gradient: a choice inside another, for the other end."""
    last = size(t) - 1
    inner = where(eq(t, last), x[last, d] - x[last - 1, d], (x[t + 1, d] - x[t - 1, d]) / 2)
    f.y[t, d] = where(eq(t, 0), x[1, d] - x[0, d], inner) * x[t, d]
    return f.y


@op
def both_at_once(f, x: tensor[n, t]):
    f.y[n, t] = where((t >= 1) & (t < size(t) - 1), x[n, t - 1] * x[n, t + 1], 2 * x[n, t])
    return f.y


@op
def two_places(f, x: tensor[n, t], first: tensor[n]):
    """What is the same at several places is joined several times."""
    f.y[n, t] = x[n, t] * where(t >= 2, x[n, t - 2], first[n])
    return f.y


@op
def around_by_three(f, x: tensor[n, t]):
    f.y[n, t] = x[n, t] * where(t < size(t) - 3, x[n, t + 3], x[n, t + 3 - size(t)])
    return f.y


@op
def before_a_sum(f, x: tensor[n, t]):
    """Total variation on a circle: the choice stands inside a sum."""
    f.y[n] = sum((x[n, t] - where(t >= 1, x[n, t - 1], x[n, size(t) - 1])) ** 2, over=t)
    return f.y


@op
def along_both(f, x: tensor[n, h, w]):
    f.y[n, h, w] = x[n, h, w] * (
        where(eq(h, 0), x[n, size(h) - 1, w], x[n, h - 1, w]) + where(eq(w, 0), x[n, h, size(w) - 1], x[n, h, w - 1])
    )
    return f.y


@op
def of_fixed_length(f, x: tensor[n, five]):
    f.y[n, five] = where(five >= 1, x[n, five - 1], x[n, 4]) * x[n, five]
    return f.y


@op
def cross(f, a: tensor[n, three], b: tensor[n, three]):
    """A circle of three places."""
    one, two = (three + 1) % 3, (three + 2) % size(three)
    f.y[n, three] = a[n, one] * b[n, two] - a[n, two] * b[n, one]
    return f.y


@op
def upwind(f, u: tensor[n, t], g: constant[t]):
    """A circle under a condition on values: what is on the other side is joined as ever."""
    f.y[n, t] = where(g[t] > 0, u[n, t] - u[n, (t - 1) % size(t)], u[n, (t + 1) % size(t)] ** 2)
    return f.y


def _one_sided(x: Tensor) -> Tensor:
    return torch.gradient(x, dim=0)[0] * x


def _repeated(x: Tensor) -> Tensor:
    around = functional.pad(x[:, None], (1, 1), mode="replicate")[:, 0]
    return torch.maximum(around[:, :-2], around[:, 2:])


def _both_at_once(x: Tensor) -> Tensor:
    return torch.cat([2 * x[:, :1], x[:, :-2] * x[:, 2:], 2 * x[:, -1:]], 1)


def _two_places(x: Tensor, first: Tensor) -> Tensor:
    return x * torch.cat([first[:, None].expand(-1, 2), x[:, :-2]], 1)


CASES: list[tuple[OpCall, Callable[..., Tensor], dict[str, int]]] = [
    (periodic, lambda x: (x.roll(1, -1) + x.roll(-1, -1) - 2 * x).tanh(), {"...": 2, "t": 5}),
    (periodic, lambda x: (x.roll(1, -1) + x.roll(-1, -1) - 2 * x).tanh(), {"...": 2, "t": 1}),
    (repeated, _repeated, {"n": 3, "t": 4}),
    (one_sided, _one_sided, {"t": 5, "d": 2}),
    (both_at_once, _both_at_once, {"n": 3, "t": 4}),
    (both_at_once, _both_at_once, {"n": 3, "t": 2}),
    (two_places, _two_places, {"n": 3, "t": 5}),
    (around_by_three, lambda x: x * x.roll(-3, 1), {"n": 2, "t": 5}),
    (around_by_three, lambda x: x * x.roll(-3, 1), {"n": 2, "t": 3}),
    (before_a_sum, lambda x: (x - x.roll(1, 1)).square().sum(1), {"n": 3, "t": 4}),
    (along_both, lambda x: x * (x.roll(1, 1) + x.roll(1, 2)), {"n": 2, "h": 3, "w": 4}),
    (cross, torch.linalg.cross, {"n": 4, "three": 3}),
    (of_fixed_length, lambda x: x * x.roll(1, 1), {"n": 2, "five": 5}),
]


@pytest.mark.parametrize(("made", "plain", "lengths"), CASES)
def test_gradients(made: OpCall, plain: Callable[..., Tensor], lengths: dict[str, int]) -> None:
    assert_derived_at(made.op, plain, lengths)


@pytest.mark.parametrize("made", list(dict.fromkeys(case[0] for case in CASES)))
def test_slices_are_joined(made: OpCall) -> None:
    code = code_of(made.op)
    assert "torch.cat" in code, code
    assert not any(word in code for word in ("torch.where(", "where_by_bits(", "arange", "pad(", "index_add")), code


def test_one_place_is_a_slice() -> None:
    code = code_of(periodic.op)
    assert "left = torch.cat([x[..., t - 1 :], x[..., :t_inner]], -1)" in code, code
    assert "right = torch.cat([x[..., 1:], x[..., :1]], -1)" in code, code


def test_a_fixed_length_is_not_checked() -> None:
    assert "check_length" not in code_of(cross.op)


def _upwind(u: Tensor, g: Tensor) -> Tensor:
    return torch.where(g > 0, u - u.roll(1, 1), u.roll(-1, 1).square())


@pytest.mark.parametrize("length", [1, 2, 5])
def test_under_a_condition_on_values(length: int) -> None:
    inputs = inputs_of(upwind.op, {"u": (3, length), "g": (length,)})
    assert_alike(module(upwind.op).upwind(**inputs), _upwind(**inputs), [inputs["u"]])
    code = code_of(upwind.op)
    assert "torch.cat([u[:, 1:], u[:, :1]], 1)" in code and "pad(" not in code, code


@pytest.mark.parametrize(
    ("made", "length", "least"), [(one_sided, 1, 2), (both_at_once, 1, 2), (around_by_three, 2, 3), (repeated, 0, 1)]
)
def test_an_axis_without_these_places_is_refused(made: OpCall, length: int, least: int) -> None:
    shape = (length, 2) if made is one_sided else (2, length)
    with pytest.raises(ValueError, match=rf"^{made.op.name}, equation y: .*axis t.* but t = {length}"):
        getattr(module(made.op), f"{made.op.name}_forward")(torch.zeros(shape))
    shape = (least, 2) if made is one_sided else (2, least)
    getattr(module(made.op), f"{made.op.name}_forward")(torch.zeros(shape))


@op
def strongest_neighbour(f, x: tensor[n, t]):
    """A maximum of what is joined: its ties are shared."""
    f.y[n] = amax(where(t >= 1, x[n, t - 1], x[n, t]) + x[n, t], over=t)
    return f.y


@op
def moved_mean(f, x: tensor[n, t]):
    f.y[n, t] = where(t >= 1, x[n, t - 1], mean(x[n, t], over=t)) - x[n, t]
    return f.y


@pytest.mark.parametrize("made", [strongest_neighbour, moved_mean, along_both, around_by_three, cross, upwind])
def test_in_every_situation(made: OpCall) -> None:
    found = verify(made.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@op
def two_at_each_end(f, u: tensor[n, t], k: tensor[t]):
    """Diffusion between walls, with a conductivity at each place."""
    f.r[n, t] = where(t + 1 < size(t), (k[t] + k[t + 1]) / 2 * (u[n, t + 1] - u[n, t]), -k[t] * u[n, t])
    f.l[n, t] = where(t >= 1, (k[t] + k[t - 1]) / 2 * (u[n, t] - u[n, t - 1]), k[t] * u[n, t])
    f.y[n, t] = u[n, t] + f.r[n, t] - f.l[n, t]
    return f.y


PRINT = """
from tests.derive.against_loops import code_of
from tests.derive.rules.test_joined_ends import two_at_each_end
print(code_of(two_at_each_end.op))
"""


def test_which_of_two_reads_names_a_length_does_not_depend_on_the_hash_seed() -> None:
    def printed(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."}
        return subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True).stdout

    found = {printed(seed) for seed in ("1", "4", "6", "9")}
    assert len(found) == 1 and "must fit into axis t" in found.pop()
