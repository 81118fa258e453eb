"""Windows of which one begins where the other ends are written back as they lie, without a loop."""

import pytest
from torch import Tensor

from derive import axes, exp, mean, op, sum, tanh, tensor
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
        (softly, "dx[:, :, : 2 * u, : 2 * v].unflatten(2, (u, 2)).unflatten(4, (v, 2)).copy_(da)"),
        (from_the_second, "[:, 1 : 1 + 3 * u].unflatten(1, (u, 3)).copy_(da)"),
    ):
        code = code_of(made.op)
        assert line in code and "for at_" not in code, code
    assert "copy_(da" not in code_of(overlapping.op) and "copy_(da" not in code_of(apart.op)


@op
def averaged(f, x: tensor[n, h, w]):
    """Windows from the second row on, which lie side by side; what is left over at the ends has no gradient."""
    f.y[n, u, v] = mean(x[n, 3 * u + three + 1, 2 * v + two], over=(three, two))
    return f.y


@op
def averaged_by_channel(f, x: tensor[n, t, c], g: tensor[c]):
    f.y[n, u, c] = g[c] * mean(x[n, 3 * u + three, c], over=three)
    return f.y


@pytest.mark.parametrize("length", [4, 7, 9, 11])
def test_what_is_the_same_all_over_a_window_is_repeated(length: int) -> None:
    def plain(x: Tensor) -> Tensor:
        return x[:, 1:].unfold(1, 3, 3).unfold(2, 2, 2).mean((3, 4))

    assert_derived(averaged.op, plain, {"x": (2, length, length)})
    assert_derived(
        averaged_by_channel.op, lambda x, g: g * x.unfold(1, 3, 3).mean(3), {"x": (2, length, 3), "g": (3,)}
    )
    assert "repeat_interleave(2, 3)" in code_of(averaged.op)
    assert not any("for at_" in code_of(made.op) for made in (averaged, averaged_by_channel))
