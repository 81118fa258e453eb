"""Functions in pieces keep their digits: in float32 no more is lost than in the equations as they are written.

Every form that stands in for a choice is held against the equations, executed with `torch.where` in float32, and both
against float64, element by element: densely around every join and every zero of a piece. A new form that lost the
digits of what is small, by a difference of what is large, would show here; so would a gradient.
"""

import pytest
import torch

from derive.emit import render
from derive.ir.equations import Op
from derive.notation import axes, exp, expm1, maximum, minimum, op, relu, scalar, sign, tensor, where
from derive.pipeline import derivation_of
from derive.verify.places import World
from derive.verify.reference import execute
from tests.derive.live import chooses, module

n = axes("n")


@op
def huber_by_size(f, x: tensor[n], d: scalar):
    f.y[n] = where(abs(x[n]) <= d, x[n] ** 2 / 2, d * (abs(x[n]) - d / 2))
    return f.y


@op
def huber_from_above(f, x: tensor[n], d: scalar):
    f.y[n] = where(x[n] > d, d * (x[n] - d / 2), where(x[n] < -d, -d * (x[n] + d / 2), x[n] ** 2 / 2))
    return f.y


@op
def huber_from_below(f, x: tensor[n], d: scalar):
    f.y[n] = where(x[n] < -d, -d * (x[n] + d / 2), where(x[n] > d, d * (x[n] - d / 2), x[n] ** 2 / 2))
    return f.y


@op
def huber_between(f, x: tensor[n], d: scalar):
    f.y[n] = where((x[n] >= -d) & (x[n] <= d), x[n] ** 2 / 2, d * (abs(x[n]) - d / 2))
    return f.y


@op
def huber_outside(f, x: tensor[n], d: scalar):
    f.y[n] = where(abs(x[n]) > d, d * abs(x[n]) - d**2 / 2, x[n] ** 2 / 2)
    return f.y


@op
def huber_of_one(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1, x[n] - 1 / 2, where(x[n] < -1, -x[n] - 1 / 2, x[n] ** 2 / 2))
    return f.y


@op
def huber_by_minimum(f, x: tensor[n], d: scalar):
    f.m[n] = minimum(abs(x[n]), d)
    f.y[n] = f.m[n] ** 2 / 2 + d * (abs(x[n]) - f.m[n])
    return f.y


@op
def huber_on_the_left(f, x: tensor[n]):
    f.y[n] = where(x[n] < -1, -x[n] - 1 / 2, x[n] ** 2 / 2)
    return f.y


@op
def huber_on_the_right(f, x: tensor[n], d: scalar):
    f.y[n] = where(x[n] < d, x[n] ** 2 / 2, d * x[n] - d**2 / 2)
    return f.y


@op
def smooth_l1(f, x: tensor[n], d: scalar):
    f.y[n] = where(abs(x[n]) < d, x[n] ** 2 / (2 * d), abs(x[n]) - d / 2)
    return f.y


@op
def smooth_l1_in_pieces(f, x: tensor[n], d: scalar):
    f.y[n] = where(x[n] <= -d, -x[n] - d / 2, where(x[n] >= d, x[n] - d / 2, x[n] ** 2 / (2 * d)))
    return f.y


@op
def quantile_huber(f, x: tensor[n], d: scalar, tau: scalar = 0.3):
    f.w[n] = abs(tau - where(x[n] < 0, 1, 0))
    f.y[n] = f.w[n] * where(abs(x[n]) <= d, x[n] ** 2 / (2 * d), abs(x[n]) - d / 2)
    return f.y


@op
def smooth_hinge(f, x: tensor[n]):
    f.y[n] = where(x[n] >= 1, 0, where(x[n] <= 0, 1 / 2 - x[n], (1 - x[n]) ** 2 / 2))
    return f.y


@op
def smooth_hinge_from_below(f, x: tensor[n]):
    f.y[n] = where(x[n] < 0, 1 / 2 - x[n], where(x[n] < 1, (1 - x[n]) ** 2 / 2, 0))
    return f.y


@op
def modified_huber(f, x: tensor[n]):
    f.y[n] = where(x[n] >= -1, maximum(0, 1 - x[n]) ** 2, -4 * x[n])
    return f.y


@op
def tukey(f, x: tensor[n], d: scalar):
    f.r[n] = x[n] / d
    f.y[n] = where(abs(f.r[n]) <= 1, d**2 / 6 * (1 - (1 - f.r[n] ** 2) ** 3), d**2 / 6)
    return f.y


@op
def hard_sigmoid(f, x: tensor[n]):
    f.y[n] = where(x[n] < -3, 0, where(x[n] > 3, 1, x[n] / 6 + 1 / 2))
    return f.y


@op
def hard_sigmoid_clamped(f, x: tensor[n]):
    f.y[n] = minimum(maximum(x[n] + 3, 0), 6) / 6
    return f.y


@op
def hard_sigmoid_by_fifths(f, x: tensor[n]):
    f.y[n] = where(x[n] < -2.5, 0, where(x[n] > 2.5, 1, x[n] / 5 + 1 / 2))
    return f.y


@op
def hard_swish(f, x: tensor[n]):
    f.y[n] = where(x[n] <= -3, 0, where(x[n] >= 3, x[n], x[n] * (x[n] + 3) / 6))
    return f.y


@op
def hard_swish_clamped(f, x: tensor[n]):
    f.y[n] = x[n] * minimum(maximum(x[n] + 3, 0), 6) / 6
    return f.y


@op
def hard_tanh(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1, 1, where(x[n] < -1, -1, x[n]))
    return f.y


@op
def relu6(f, x: tensor[n]):
    f.y[n] = where(x[n] > 6, 6, where(x[n] > 0, x[n], 0))
    return f.y


@op
def soft_shrink(f, x: tensor[n], d: scalar):
    f.y[n] = where(x[n] > d, x[n] - d, where(x[n] < -d, x[n] + d, 0))
    return f.y


@op
def hard_shrink(f, x: tensor[n], d: scalar):
    f.y[n] = where(abs(x[n]) > d, x[n], 0)
    return f.y


@op
def smelu(f, x: tensor[n], d: scalar):
    f.y[n] = where(x[n] >= d, x[n], where(x[n] <= -d, 0, (x[n] + d) ** 2 / (4 * d)))
    return f.y


@op
def smelu_of_one(f, x: tensor[n]):
    f.y[n] = where(x[n] >= 1, x[n], where(x[n] <= -1, 0, (x[n] + 1) ** 2 / 4))
    return f.y


@op
def three_pieces(f, x: tensor[n]):
    f.y[n] = where(x[n] < 0, 0, where(x[n] < 1, x[n] ** 2, 2 * x[n] - 1))
    return f.y


@op
def three_pieces_down(f, x: tensor[n]):
    f.y[n] = where(x[n] < 1, 3 - 2 * x[n], where(x[n] < 2, x[n] ** 2 - 4 * x[n] + 4, 0))
    return f.y


@op
def four_pieces(f, x: tensor[n]):
    last = where(x[n] < 2, 2 * x[n] - 1, 3 * x[n] ** 2 / 2 - 4 * x[n] + 5)
    f.y[n] = where(x[n] < 0, 0, where(x[n] < 1, x[n] ** 2, last))
    return f.y


@op
def four_cubics(f, x: tensor[n]):
    inner = where(x[n] < 1, x[n] ** 3 - x[n], where(x[n] < 2, 2 * (x[n] - 1), (x[n] - 2) ** 3 + 2 * x[n] - 2))
    f.y[n] = where(x[n] < 0, -x[n], inner)
    return f.y


@op
def quadratic_spline(f, x: tensor[n]):
    f.a[n] = abs(x[n])
    f.y[n] = where(f.a[n] < 1 / 2, 3 / 4 - x[n] ** 2, where(f.a[n] < 3 / 2, (3 / 2 - f.a[n]) ** 2 / 2, 0))
    return f.y


@op
def cubic_spline(f, x: tensor[n]):
    f.a[n] = abs(x[n])
    inner = (4 - 6 * f.a[n] ** 2 + 3 * f.a[n] ** 3) / 6
    f.y[n] = where(f.a[n] < 1, inner, where(f.a[n] < 2, (2 - f.a[n]) ** 3 / 6, 0))
    return f.y


@op
def keys_kernel(f, x: tensor[n]):
    f.a[n] = abs(x[n])
    near = (f.a[n] - 1) * (3 * f.a[n] ** 2 - 2 * f.a[n] - 2) / 2
    far = (1 - f.a[n]) * (2 - f.a[n]) ** 2 / 2
    f.y[n] = where(f.a[n] <= 1, near, where(f.a[n] < 2, far, 0))
    return f.y


@op
def hat(f, x: tensor[n]):
    f.y[n] = where(x[n] < 0, 0, where(x[n] < 1, x[n], where(x[n] < 2, 2 - x[n], 0)))
    return f.y


@op
def hat_by_size(f, x: tensor[n]):
    f.y[n] = where(abs(x[n]) < 1, 1 - abs(x[n]), 0)
    return f.y


@op
def ridge(f, x: tensor[n]):
    f.y[n] = where(x[n] < 1, x[n], 2 - x[n])
    return f.y


@op
def valley(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1, x[n] - 2, -x[n])
    return f.y


@op
def valley_with_slopes(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1 / 2, 3 * x[n] - 2, -x[n] / 3 - 1 / 3)
    return f.y


@op
def soft_clip(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1, 1, where(x[n] < -1, -1, (3 * x[n] - x[n] ** 3) / 2))
    return f.y


@op
def soft_clip_of_thirds(f, x: tensor[n]):
    f.y[n] = where(x[n] >= 1, 2 / 3, where(x[n] <= -1, -2 / 3, x[n] - x[n] ** 3 / 3))
    return f.y


@op
def above_a_tenth(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0.1, x[n] ** 2 - 0.01, 0)
    return f.y


@op
def above_a_third(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1 / 3, 3 * x[n] - 1, 0)
    return f.y


@op
def elu(f, x: tensor[n], d: scalar):
    f.y[n] = where(x[n] > 0, x[n], d * expm1(x[n]))
    return f.y


@op
def elu_as_written(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n], exp(x[n]) - 1)
    return f.y


@op
def one_more(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n] + 1, exp(x[n]))
    return f.y


@op
def one_less(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, 1 - x[n], exp(x[n]))
    return f.y


@op
def parabola_after_exp(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, (1 - x[n]) ** 2, exp(-2 * x[n]))
    return f.y


@op
def parabola_after_line(f, x: tensor[n]):
    f.y[n] = where(x[n] < 1, x[n] ** 2 - 3 * x[n] + 3, 2 - x[n])
    return f.y


@op
def bent_beside_one(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, 3 * x[n] + 1, x[n] + 1)
    return f.y


@op
def bent_three_to_one(f, x: tensor[n]):
    f.y[n] = 3 * relu(x[n]) - minimum(x[n], 0) / 3 - 1
    return f.y


@op
def leaky_by_maximum(f, x: tensor[n]):
    f.y[n] = maximum(x[n], x[n] / 1000)
    return f.y


@op
def line_or_parabola(f, x: tensor[n]):
    f.y[n] = minimum(x[n], x[n] ** 2)
    return f.y


@op
def parabola_or_cubic(f, x: tensor[n]):
    f.y[n] = maximum(x[n] ** 2, x[n] ** 3)
    return f.y


@op
def two_parabolas(f, x: tensor[n], d: scalar):
    f.v[n] = minimum(maximum(x[n], -d), d)
    f.y[n] = maximum((x[n] - 1) ** 2, (f.v[n] - 1) ** 2)
    return f.y


@op
def gentle_below(f, x: tensor[n], low: scalar = -6.0):
    f.y[n] = where(x[n] > low, x[n], low + (x[n] - low) / 10)
    return f.y


@op
def steep_below(f, x: tensor[n], low: scalar = -6.0):
    f.y[n] = where(x[n] > low, x[n], 3 * x[n] - 2 * low)
    return f.y


@op
def parabola_before_line(f, x: tensor[n], low: scalar = -6.0):
    f.y[n] = where(x[n] < low, x[n] ** 2 / 2, low * x[n] - low**2 / 2)
    return f.y


@op
def much_smaller(f, x: tensor[n]):
    f.y[n] = maximum(x[n] ** 2, x[n] ** 2 / 3000 + 1)
    return f.y


@op
def pinball(f, x: tensor[n], small: scalar):
    f.y[n] = maximum(small * x[n], (small - 1) * x[n])
    return f.y


@op
def clipped_slope(f, x: tensor[n], d: scalar):
    f.y[n] = where(abs(x[n]) <= d, x[n] / d, sign(x[n]))
    return f.y


IN_PIECES = [made.op for made in list(globals().values()) if isinstance(getattr(made, "op", None), Op)]
NUMBERS = {"d": 0.75, "tau": 0.3, "small": 1e-5, "low": -6.0}
ENDS = (0, 0.1, 1 / 3, 0.5, 2 / 3, 0.75, 1, 3**0.5, 1.5, 2, 2.5, 3, 6)
"""Where some piece begins, or is 0."""
UNIT = 2.0**-24
"""What rounding to float32 loses, of what is rounded."""


def _points() -> torch.Tensor:
    apart = torch.logspace(-6, 3, 400, dtype=torch.float64)
    ends = torch.tensor([*ENDS, *(-e for e in ENDS)], dtype=torch.float64)
    around = (ends[:, None, None] + torch.stack([apart, -apart])).flatten()
    exact = ends[ends.float().double() == ends]  # the others are on either side, in either precision
    x = torch.cat([around, exact]).float().unique()
    return x[~torch.isin(x, ends[ends.float().double() != ends].float())]


def _executed(made: Op, x: torch.Tensor, numbers: dict[str, float] = NUMBERS) -> tuple[torch.Tensor, torch.Tensor]:
    """The value and the slope of the equations as they are written."""
    x = x.clone().requires_grad_()
    y = execute(made, World({"n": len(x)}, {"x": x}, numbers)).tensors["y"]
    return y.detach().to(x.dtype), torch.autograd.grad(y.sum(), x)[0]


def _lost(made: Op, x: torch.Tensor) -> list[torch.Tensor]:
    """What the equations lose in float32, at most, at a place and at a few beside it: that one is exact is chance."""
    most = [torch.zeros(len(x), dtype=torch.float64) for _ in range(2)]
    for k in range(-4, 5):
        place = x * (1 + 2 * k * UNIT)
        for at, (direct, right) in enumerate(zip(_executed(made, place), _executed(made, place.double()), strict=True)):
            most[at] = torch.maximum(most[at], (direct.double() - right).abs())
    return [torch.nn.functional.max_pool1d(m[None, None], 33, 1, 16)[0, 0] for m in most]


@pytest.mark.parametrize("made", IN_PIECES, ids=lambda made: made.name)
def test_no_more_digits_are_lost_than_as_it_is_written(made: Op) -> None:
    """At most twice as much, or two units in the last place."""
    x = _points()
    leaf = x.clone().requires_grad_()
    numbers = [NUMBERS[o.name] for o in made.operands if not o.is_tensor]
    y = getattr(module(made), made.name)(leaf, *numbers)
    found = (y.detach(), torch.autograd.grad(y.sum(), leaf)[0])
    for ours, right, as_written in zip(found, _executed(made, x.double()), _lost(made, x), strict=True):
        assert ours.dtype == torch.float32
        lost = (ours.double() - right).abs()
        beyond = torch.where(right.abs() < 1e38, lost - 2 * as_written - 4 * UNIT * right.abs(), 0)
        worst = int(beyond.argmax())
        assert beyond[worst] <= 0, (x[worst].item(), ours[worst].item(), right[worst].item(), as_written[worst].item())


WITH_A_NUMBER = [made for made in IN_PIECES if "d" in {o.name for o in made.operands}]


@pytest.mark.parametrize("made", WITH_A_NUMBER, ids=lambda made: made.name)
def test_a_number_of_the_caller_may_be_below_0(made: Op) -> None:
    x = _points().double()
    leaf = x.clone().requires_grad_()
    numbers = NUMBERS | {"d": -0.75}
    y = getattr(module(made), made.name)(leaf, *(numbers[o.name] for o in made.operands if not o.is_tensor))
    found = (y.detach(), torch.autograd.grad(y.sum(), leaf)[0])
    for ours, right in zip(found, _executed(made, x, numbers), strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-12, atol=1e-12)


def test_a_piece_is_clamped_and_not_chosen() -> None:
    """Nor multiplied out about another join."""
    code = render(derivation_of(smooth_hinge.op))
    assert "y = (1 - x.clamp(0, 1)).square_().div_(2).sub_(x.clamp(max=0))" in code and not chooses(code)
    assert "y = torch.minimum(2 - x, x)" in render(derivation_of(ridge.op))
    for made in (huber_by_size, huber_between, huber_outside, smooth_l1, clipped_slope):
        assert not chooses(render(derivation_of(made.op))), made.op.name
