"""What a condition keeps from the ends of an axis is computed between them, and added to what stands everywhere."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, exp, op, scalar, size, sqrt, sum, tanh, tensor, where
from derive.notation.spec import OpCall
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from tests.derive.live import assert_derived_at, chooses, module

c, h, n, s, t, w = axes("c h n s t w")
five = axes("five=5")


@op
def difference(f, x: tensor[n, t]):
    f.y[n, t] = where(t + 1 < size(t), tanh(x[n, t + 1] - x[n, t]), 0)
    return f.y


@op
def central(f, x: tensor[t, c]):
    """Zeros around would not do: where a condition fails, the other neighbour is read."""
    f.y[t, c] = where((t >= 1) & (t < size(t) - 1), (x[t + 1, c] - x[t - 1, c]) / 2, 0)
    return f.y


@op
def heat_step(f, u: tensor[..., h, w], a: scalar = 0.2):
    """What is chosen at the ends is a part of what is chosen between them."""
    inside = (h >= 1) & (h + 1 < size(h)) & (w >= 1) & (w + 1 < size(w))
    around = u[..., h - 1, w] + u[..., h + 1, w] + u[..., h, w - 1] + u[..., h, w + 1] - 4 * u[..., h, w]
    f.y[..., h, w] = where(inside, u[..., h, w] + a * around, u[..., h, w])
    return f.y


@op
def otherwise(f, x: tensor[n, t]):
    """The condition says where something else stands."""
    f.y[n, t] = where(t < 1, x[n, t], x[n, t] - x[n, t - 1])
    return f.y


@op
def temporal_difference(f, r: tensor[n, t], v: tensor[n, t], gamma: scalar = 0.9):
    """With zeros around no condition is needed, but to add in place takes no tensor with zeros around."""
    f.y[n, t] = r[n, t] + where(t + 1 < size(t), gamma * v[n, t + 1], 0) - v[n, t]
    return f.y


@op
def five_points(f, u: tensor[h, w]):
    f.y[h, w] = (
        where(h >= 1, u[h - 1, w], 0)
        + where(h + 1 < size(h), u[h + 1, w], 0)
        + where(w >= 1, u[h, w - 1], 0)
        + where(w + 1 < size(w), u[h, w + 1], 0)
        - 4 * u[h, w]
    )
    return f.y


@op
def divided(f, x: tensor[n, t], a: tensor[t]):
    """Where the condition fails, 0 may be divided by 0."""
    f.y[n, t] = where(t >= 1, x[n, t - 1] / a[t], 0)
    return f.y


@op
def summed(f, x: tensor[t, c]):
    """The sum is over another axis; a condition on values stays, and so do the places that are counted."""
    f.y[t] = sum(where((t > 1) & (x[t, c] > 0), t * (x[t, c] - x[t - 2, c]) ** 2, 0), over=c)
    return f.y


@op
def both_ends(f, x: tensor[t, c]):
    """Two choices in one equation, and a third in a sum, over as many places."""
    f.y[t, c] = where(t >= 1, x[t, c] - x[t - 1, c], 0) - where(t + 1 < size(t), x[t + 1, c] - x[t, c], 0)
    f.l[()] = sum(where(t >= 1, (x[t, c] - x[t - 1, c]) ** 2, 0), over=(t, c))
    return f.y, f.l


@op
def total_variation(f, x: tensor[n, h, w], eps: scalar = 0.01):
    f.down[n, h, w] = where(h + 1 < size(h), x[n, h + 1, w] - x[n, h, w], 0)
    f.right[n, h, w] = where(w + 1 < size(w), x[n, h, w + 1] - x[n, h, w], 0)
    f.y[n] = sum(sqrt(f.down[n, h, w] ** 2 + f.right[n, h, w] ** 2 + eps), over=(h, w))
    return f.y


@op
def of_fixed_length(f, x: tensor[n, five]):
    f.y[n, five] = where(five >= 2, x[n, five] - x[n, five - 2], 0)
    return f.y


@op
def shift(f, x: tensor[n, t]):
    """One element alone is read of a tensor with zeros around it."""
    f.y[n, t] = where(t >= 1, x[n, t - 1], 0)
    return f.y


@op
def decayed(f, x: tensor[n, t]):
    """A condition on two axes is a mask."""
    f.y[n, t] = sum(where(t >= s, exp(s - t) * x[n, s], 0), over=s)
    return f.y


def _between(x: Tensor, inner: Tensor, *ends: tuple[int, int]) -> Tensor:
    """What stands between the ends of the last dimensions of `x`, so far from the first and the last place of each."""
    if inner.numel() == 0:
        return 0 * x
    return functional.pad(inner, [k for end in ends[::-1] for k in end])


def _central(x: Tensor) -> Tensor:
    return _between(x, x[2:] - x[:-2], (1, 1), (0, 0)) / 2


def _heat_step(u: Tensor) -> Tensor:
    inner = u[..., 1:-1, 1:-1]
    sides = u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2] if inner.numel() else inner
    return u + 0.2 * _between(u, sides - 4 * inner, (1, 1), (1, 1))


def _five_points(u: Tensor) -> Tensor:
    above, below = _between(u, u[:-1], (1, 0), (0, 0)), _between(u, u[1:], (0, 1), (0, 0))
    return above + below + _between(u, u[:, :-1], (0, 0), (1, 0)) + _between(u, u[:, 1:], (0, 0), (0, 1)) - 4 * u


def _summed(x: Tensor) -> Tensor:
    inner = torch.where(x[2:] > 0, torch.arange(2, max(2, len(x)))[:, None] * (x[2:] - x[:-2]) ** 2, 0)
    return _between(x[:, 0], inner.sum(1), (2, 0))


def _total_variation(x: Tensor) -> Tensor:
    down = _between(x, x[:, 1:] - x[:, :-1], (0, 1), (0, 0))
    right = _between(x, x[:, :, 1:] - x[:, :, :-1], (0, 0), (0, 1))
    return (down.square() + right.square() + 0.01).sqrt().sum((1, 2))


PLAIN: dict[str, Callable[..., Tensor]] = {
    "difference": lambda x: _between(x, (x[:, 1:] - x[:, :-1]).tanh(), (0, 1)),
    "central": _central,
    "heat_step": _heat_step,
    "otherwise": lambda x: x - _between(x, x[:, :-1], (1, 0)),
    "temporal_difference": lambda r, v: r + 0.9 * _between(v, v[:, 1:], (0, 1)) - v,
    "five_points": _five_points,
    "divided": lambda x, a: _between(x, x[:, :-1] / a[1:], (1, 0)) + 0 * a,
    "summed": _summed,
    "total_variation": _total_variation,
    "of_fixed_length": lambda x: _between(x, x[:, 2:] - x[:, :3], (2, 0)),
    "shift": lambda x: _between(x, x[:, :-1], (1, 0)),
}
OPS: dict[str, OpCall] = {
    made.op.name: made
    for made in (
        difference, central, heat_step, otherwise, temporal_difference, five_points, divided, summed, both_ends,
        total_variation, of_fixed_length, shift, decayed,
    )
}  # fmt: skip
ELSEWHERE = {"shift", "decayed"}
"""Those that are no such choice."""


@pytest.mark.parametrize("length", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("name", PLAIN)
def test_values_and_gradients(name: str, length: int) -> None:
    lengths = {"...": 2, "n": 3, "h": length, "w": 4, "t": length, "c": 2, "five": 5}
    assert_derived_at(OPS[name].op, PLAIN[name], lengths)


@pytest.mark.parametrize("name", OPS)
def test_battery(name: str) -> None:
    found = verify(OPS[name].op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@pytest.mark.parametrize("name", sorted(OPS.keys() - ELSEWHERE))
def test_nothing_is_computed_to_be_left_out(name: str) -> None:
    code = inspect.getsource(module(OPS[name].op)).partition(f"def {name}_forward")[2]
    assert "place_" not in code
    assert "_padded" not in code
    assert chooses(code) == ("arange" in code) == (name == "summed")


def test_one_element_alone_is_read_with_zeros_around() -> None:
    code = inspect.getsource(module(shift.op))
    assert "x_padded = functional.pad(x, (1, 0))" in code
    assert "t_inner =" not in code


def test_two_axes_are_a_mask() -> None:
    assert "t_inner =" not in inspect.getsource(module(decayed.op))


def test_it_is_added_to_what_stands_everywhere() -> None:
    """No tensor has zeros around it, forward or back, and nothing is negated to be put there first."""
    code = inspect.getsource(module(heat_step.op))
    assert "y = u.clone()" in code
    assert "y[..., 1 : 1 + h_inner, 1 : 1 + w_inner].add_(" in code
    assert "new_zeros(" not in code
    code = inspect.getsource(module(both_ends.op))
    assert "y = functional.pad(y_around_inner, (0, 0, 0, 1))" in code
    assert "y[1:] += y_around2_inner" in code
    assert "t_inner2" not in code
    code = inspect.getsource(module(central.op))
    assert "dx[2:] = dy_over_two" in code
    assert "dx[:t_inner] -= dy_over_two" in code


def test_what_is_left_out_may_be_no_number() -> None:
    x, a = torch.ones(2, 3, requires_grad=True), torch.tensor([0.0, 2.0, 4.0], requires_grad=True)
    y = module(divided.op).divided(x, a)
    y.sum().backward()
    assert y.tolist() == [[0, 0.5, 0.25]] * 2
    assert a.grad is not None and a.grad.tolist() == [0, -0.5, -0.125]
    assert x.grad is not None and x.grad.tolist() == [[0.5, 0.25, 0]] * 2


def test_the_input_is_kept() -> None:
    assert [saved.label for saved in derivation_of(difference.op).saved] == ["x"]


def test_the_equations_are_shown_as_they_were_written() -> None:
    doc = str(module(difference.op).__doc__)
    assert "y[n, t] = where(t + 1 < size(t), -tanh(x[n, t] - x[n, t + 1]), 0)" in doc
    assert "t_inner" not in doc.partition("Backward")[0]
