"""Windows of which one begins where the other ends are written back as they lie, without a loop."""

import pytest
from torch import Tensor

from derive import axes, exp, op, sum, tanh, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

c, h, n, t, u, v, w = axes("c h n t u v w")
two, pair, three = axes("two=2 pair=2 three=3")


@op
def softly(f, x: tensor[n, c, h, w]):
    """SoftPool (Stergiou, Poppe & Kalliatakis, 2021)."""
    f.a[n, c, u, two, v, pair] = x[n, c, 2 * u + two, 2 * v + pair]
    f.e[n, c, u, two, v, pair] = exp(f.a[n, c, u, two, v, pair])
    weighed = sum(f.a[n, c, u, two, v, pair] * f.e[n, c, u, two, v, pair], over=(two, pair))
    f.y[n, c, u, v] = weighed / sum(f.e[n, c, u, two, v, pair], over=(two, pair))
    return f.y


@op
def from_the_second(f, x: tensor[n, t]):
    f.a[n, u, three] = tanh(x[n, 3 * u + three + 1])
    f.y[n, u] = sum(f.a[n, u, three] ** 2, over=three) ** 2
    return f.y


@op
def overlapping(f, x: tensor[n, t]):
    f.a[n, u, three] = tanh(x[n, 2 * u + three])
    f.y[n, u] = sum(f.a[n, u, three] ** 2, over=three) ** 2
    return f.y


@op
def apart(f, x: tensor[n, t]):
    """A place between two windows has no gradient."""
    f.a[n, u, two] = tanh(x[n, 3 * u + two])
    f.y[n, u] = sum(f.a[n, u, two] ** 2, over=two) ** 2
    return f.y


def _softly(x: Tensor) -> Tensor:
    a = x.unfold(2, 2, 2).unfold(3, 2, 2)
    return (a * a.exp()).sum((4, 5)) / a.exp().sum((4, 5))


def _windows(start: int, width: int, step: int):
    return lambda x: x[:, start:].unfold(1, width, step).tanh().square().sum(2).square()


@pytest.mark.parametrize("length", [4, 6, 7, 8, 9])
def test_values_and_gradients(length: int) -> None:
    assert_derived(softly.op, _softly, {"x": (2, 3, length, 5)})
    for made, plain in (
        (from_the_second, _windows(1, 3, 3)), (overlapping, _windows(0, 3, 2)), (apart, _windows(0, 2, 3)),
    ):  # fmt: skip
        assert_derived(made.op, plain, {"x": (2, length)})


def test_nothing_loops() -> None:
    for made, line in (
        (softly, "dx[:, :, : 2 * u, : 2 * v] = da.flatten(4, 5).flatten(2, 3)"),
        (from_the_second, "[:, 1 : 1 + 3 * u] = da.flatten(1, 2)"),
    ):
        code = code_of(made.op)
        assert line in code and "for at_" not in code, code
    assert "da.flatten(" not in code_of(overlapping.op) and "da.flatten(" not in code_of(apart.op)
