"""What the body of a spec says beside its values: the length of an axis, and a name for a condition."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import amax, axes, concat, eq, exp, length, op, size, sum, tensor, where
from derive.notation.spec import OpCall
from derive.output.live import build
from tests.derive.live import assert_derived

d, e, k, n, t, u, v = axes("d e k n t u v")


@op
def spread(f, x: tensor[n, u], w: tensor[k]):
    """A transposed convolution of stride 2: no read tells how long it is."""
    length(t, 2 * (size(u) - 1) + size(k))
    f.y[n, t] = sum(where(eq(2 * u + k, t), x[n, u] * w[k], 0), over=(u, k))
    return f.y


@op
def spread_and_squared(f, x: tensor[n, u], w: tensor[k]):
    """What is said of a called op's axis is said of its caller's."""
    f.y = spread(x, w)
    f.z[n, v] = f.y[n, v] ** 2
    return f.z


@op
def parted(f, x: tensor[n, t], a: tensor[d], b: tensor[e]):
    """The length of an input's axis is asked for, and its pieces are read as what was joined."""
    length(t, size(d) + size(e))
    f.y[n] = sum(exp(x[n, d]) * a[d], over=d) + sum(x[n, e + size(d)] ** 2 * b[e], over=e)
    return f.y


@op
def first_half(f, x: tensor[n, d]):
    length(k, size(d) / 2)
    f.y[n, k] = x[n, k] ** 3
    return f.y


@op
def kept_open(f, x: tensor[n, d], w: tensor[d]):
    """One condition of sums and one of elements, asked by several equations."""
    f.open[n] = (sum(x[n, d] * w[d], over=d) > 0) & (amax(x[n, d], over=d) < 2)
    f.large[n, d] = (x[n, d] > 0.5) | ~f.open[n]
    f.z[d] = sum(where(f.open[n] & f.large[n, d], exp(x[n, d]), 0), over=n)
    f.y[n, d] = where(f.large[n, d], x[n, d] ** 2, x[n, d] * w[d]) + f.z[d]
    return f.y


@op
def asked_by_another_axis(f, x: tensor[d, d], w: tensor[d]):
    """The sum is over the axis by whose name the condition is read."""
    f.c[n] = sum(x[n, d], over=d) > 0
    f.y[d] = where(f.c[d], w[d] ** 2, 0)
    return f.y


@op
def front_of_constants(f, x: tensor[n, t]):
    """A piece of several places that are alike shows its axis by asking for it."""
    length(k, size(t) // 2)
    f.y[n, u] = concat(where(k < size(k), 3, 0), x[n, t] ** 2, along=u)
    return f.y


def _spread(x: Tensor, w: Tensor) -> Tensor:
    return torch.nn.functional.conv_transpose1d(x[:, None], w[None, None], stride=2)[:, 0]


def _parted(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x[:, : len(a)].exp() @ a + x[:, len(a) :].square() @ b


def _kept_open(x: Tensor, w: Tensor) -> Tensor:
    is_open = ((x @ w > 0) & (x.amax(1) < 2))[:, None]
    large = (x > 0.5) | ~is_open
    return torch.where(large, x**2, x * w) + torch.where(is_open & large, x.exp(), 0).sum(0)


def _front(x: Tensor) -> Tensor:
    return torch.cat([x.new_full((len(x), x.shape[1] // 2), 3), x**2], 1)


SPECS: dict[str, tuple[OpCall, Callable[..., Tensor], dict[str, tuple[int, ...]]]] = {
    "spread": (spread, _spread, {"x": (3, 5), "w": (4,)}),
    "spread_and_squared": (spread_and_squared, lambda x, w: _spread(x, w) ** 2, {"x": (3, 5), "w": (2,)}),
    "parted": (parted, _parted, {"x": (3, 7), "a": (3,), "b": (4,)}),
    "kept_open": (kept_open, _kept_open, {"x": (7, 5), "w": (5,)}),
    "asked_by_another_axis": (
        asked_by_another_axis,
        lambda x, w: torch.where(x.sum(1) > 0, w**2, 0) + 0 * x.sum(),
        {"x": (5, 5), "w": (5,)},
    ),
    "front_of_constants": (front_of_constants, _front, {"x": (3, 7)}),
}


@pytest.mark.parametrize("name", SPECS)
def test_gradients_are_those_of_autograd(name: str) -> None:
    spec, reference, shapes = SPECS[name]
    assert_derived(spec.op, reference, shapes)


def test_an_input_must_be_as_long_as_is_said() -> None:
    x, a, b = torch.randn(2, 6), torch.randn(2), torch.randn(3)
    message = r"parted, equation y: axis t must be as long as d \+ e, but t = 6 and d = 2 and e = 3"
    with pytest.raises(ValueError, match=message):
        build(parted)(x, a, b)


def test_half_a_length_is_asked_to_be_whole() -> None:
    half = build(first_half)
    assert half(torch.randn(2, 6)).shape == (2, 3)
    with pytest.raises(ValueError, match=r"first_half, equation y: size\(d\) must be a multiple of 2, but d = 5"):
        half(torch.randn(2, 5))


def test_a_name_for_a_condition_is_the_condition() -> None:
    @op
    def kept_open_in_full(f, x: tensor[n, d], w: tensor[d]):
        f.s[n] = sum(x[n, d] * w[d], over=d)
        f.m[n] = amax(x[n, d], over=d)
        f.z[d] = sum(where((f.s[n] > 0) & (f.m[n] < 2) & (x[n, d] > 0.5), exp(x[n, d]), 0), over=n)
        f.y[n, d] = where((x[n, d] > 0.5) | ~((f.s[n] > 0) & (f.m[n] < 2)), x[n, d] ** 2, x[n, d] * w[d]) + f.z[d]
        return f.y

    x, w = torch.randn(7, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    assert [e.name for e in kept_open.op.equations if e.given] == ["z", "y"]
    torch.testing.assert_close(build(kept_open)(x, w), build(kept_open_in_full)(x, w), rtol=0, atol=0)
