"""Choices at a threshold that are written without choosing, and those that must stay."""

import math
from fractions import Fraction

import pytest
import torch

from derive.backends.torch.thresholds import without_choices
from derive.emit import render
from derive.ir.program import Assign, Call, Num, Program, Read, Scal, Scatter
from derive.notation import (
    axes,
    cos,
    exp,
    expm1,
    log,
    maximum,
    minimum,
    oo,
    op,
    relu,
    scalar,
    sigmoid,
    sin,
    size,
    sqrt,
    sum,
    tensor,
    where,
)
from derive.pipeline import derivation_of
from tests.derive.live import chooses, module

n, c = axes("n c")
POINTS = torch.tensor([-math.inf, -1e30, -2.0, -1e-9, -0.0, 0.0, 1e-9, 0.7, 2.0, 90.0, 1e30], dtype=torch.float64)


@op
def feature_map(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n] + 1, exp(x[n]))
    return f.y


@op
def bounded_rows(f, x: tensor[n, c], z: tensor[n, c]):
    f.h[n, c] = where(x[n, c] > 0, maximum(x[n, c], 0) + 1, exp(minimum(x[n, c], 0)))
    f.y[n] = sum(f.h[n, c] * z[n, c], over=c)
    return f.y


@op
def leaky_rows(f, x: tensor[n, c], z: tensor[n, c]):
    f.h[n, c] = where(x[n, c] > 0, x[n, c], x[n, c] / 5)
    f.y[n] = sum(f.h[n, c] * z[n, c] ** 2, over=c)
    return f.y


@op
def gate(f, x: tensor[n]):
    f.y[n] = where(x[n] >= 0, x[n] + 0.5, sigmoid(x[n]))
    return f.y


@op
def scaled_elu(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n], 2 * expm1(x[n]))
    return f.y


@op
def leaky(f, x: tensor[n], slope: scalar = 0.1):
    f.y[n] = where(x[n] >= 0, x[n], slope * x[n])
    return f.y


@op
def bounded_loss(f, x: tensor[n], t: scalar = 0.5):
    f.y[n] = where(abs(x[n]) <= t, x[n] ** 2 / 2, t * (abs(x[n]) - t / 2))
    return f.y


@op
def jumping(f, x: tensor[n]):
    f.y[n] = where(x[n] < 3, 2, exp(-x[n]))
    return f.y


@op
def guarded(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n] * log(x[n]), x[n])
    return f.y


@op
def of_another(f, x: tensor[n], z: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n], x[n] * z[n])
    return f.y


@op
def filled(f, x: tensor[n]):
    f.y[n] = exp(where(x[n] > 0, x[n], -oo))
    return f.y


@op
def filled_by_the_caller(f, x: tensor[n], fill: scalar = -math.inf):
    f.y[n] = where(x[n] > 0, x[n], fill)
    return f.y


@op
def kept_as_asked(f, x: tensor[n, c], z: tensor[n, c], slope: scalar = 0.1):
    f.h[n, c] = where(x[n, c] > 0, x[n, c], slope * x[n, c])
    f.y[n] = sum(f.h[n, c] * z[n, c], over=c)
    return f.y


FORWARDS = {
    "feature_map": lambda x: torch.where(x > 0, x + 1, x.exp()),
    "gate": lambda x: torch.where(x >= 0, x + 0.5, x.sigmoid()),
    "scaled_elu": lambda x: torch.where(x > 0, x, 2 * x.expm1()),
    "leaky": lambda x: torch.where(x >= 0, x, 0.1 * x),
    "bounded_loss": lambda x: torch.where(x.abs() <= 0.5, x**2 / 2, 0.5 * (x.abs() - 0.25)),
    "jumping": lambda x: torch.where(x < 3, 2, (-x).exp()),
}


FOLLOWED = [feature_map, gate, scaled_elu, leaky, bounded_loss, jumping]


@pytest.mark.parametrize("made", FOLLOWED)
def test_the_same_at_the_threshold_and_far_from_it(made) -> None:
    assert not chooses(render(derivation_of(made.op)).partition("_forward(")[2].partition("def ")[0])
    name = made.op.name
    x, z = (POINTS.clone().requires_grad_() for _ in range(2))
    got, want = getattr(module(made.op), name)(x), FORWARDS[name](z)
    torch.testing.assert_close(got, want, rtol=1e-14, atol=0)
    dy = torch.randn_like(POINTS)
    finite = POINTS.abs() < 1e20  # beyond, autograd multiplies what its `where` left out, 0, by an infinite slope
    for found, right in zip(torch.autograd.grad(got, x, dy), torch.autograd.grad(want, z, dy), strict=True):
        torch.testing.assert_close(found[finite], right[finite], rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    ("made", "right"),
    [
        (bounded_rows, lambda x, z: (torch.where(x > 0, x.clamp(min=0) + 1, x.clamp(max=0).exp()) * z).sum(1)),
        (leaky_rows, lambda x, z: (torch.where(x > 0, x, x / 5) * z**2).sum(1)),
    ],
)
def test_neither_pass_chooses(made, right) -> None:
    """Nor where a branch is bounded by the threshold itself, or its slope divided by a number."""
    code = render(derivation_of(made.op))
    assert not chooses(code), code
    x = torch.tensor([[-2.0, -1e-3, 0.0, 0.4], [3.0, 90.0, -90.0, -0.0]], dtype=torch.float64)
    z, dy = torch.randn(2, 4, dtype=torch.float64), torch.randn(2, dtype=torch.float64)
    (x1, z1), (x2, z2) = ([v.clone().requires_grad_() for v in (x, z)] for _ in range(2))
    got, want = getattr(module(made.op), made.op.name)(x1, z1), right(x2, z2)
    torch.testing.assert_close(got, want, rtol=1e-14, atol=0)
    where = x != 0  # clamp(max=0) has the slope 1 at 0, the smaller of two equal values 1/2
    mine, theirs = torch.autograd.grad(got, (x1, z1), dy), torch.autograd.grad(want, (x2, z2), dy)
    for found, wanted in zip(mine, theirs, strict=True):
        torch.testing.assert_close(found[where], wanted[where], rtol=1e-13, atol=0)


def test_small_values_keep_their_digits() -> None:
    x = torch.tensor([1e-9, -1e-9, 3e-5], dtype=torch.float32)
    torch.testing.assert_close(module(bounded_loss.op).bounded_loss(x), x**2 / 2, rtol=1e-6, atol=0)


@pytest.mark.parametrize("made", [guarded, of_another, filled])
def test_what_may_be_infinite_is_chosen(made) -> None:
    assert chooses(render(derivation_of(made.op)).partition("_forward(")[2].partition("def ")[0])


def test_a_mask_that_is_kept_is_one_number_an_element() -> None:
    code = render(derivation_of(kept_as_asked.op))
    assert not chooses(code.partition("_backward(")[2].partition("class ")[0])


def test_a_mask_turned_is_the_opposite_condition() -> None:
    given = (("on", ("n",)),)
    chosen = Call("where", (Read("on", ("n",)), Num(Fraction(0)), Num(Fraction(1))))
    program = without_choices(Program("masked", given, (), (Assign("y", ("n",), chosen),), ("y",)))
    assert [str(s) for s in program.statements] == ["y[n] = where(~on[n], 1, 0)"]


@op
def bent_by_extrema(f, x: tensor[n], slope: scalar = 0.1):
    f.y[n] = 2 + maximum(x[n], 0) + slope * minimum(x[n], 0)
    return f.y


@op
def bent_by_a_bound(f, x: tensor[n], slope: scalar = 0.1):
    f.y[n] = 2 + relu(x[n]) - slope * relu(-x[n])
    return f.y


@op
def bent_by_a_magnitude(f, x: tensor[n], slope: scalar = 0.1):
    f.y[n] = 2 + (1 + slope) / 2 * x[n] + (1 - slope) / 2 * abs(x[n])
    return f.y


@op
def bent_by_a_choice(f, x: tensor[n], slope: scalar = 0.1):
    f.y[n] = where(x[n] < 0, slope * x[n], x[n]) + 2
    return f.y


@op
def larger_share(f, x: tensor[n]):
    f.y[n] = 2 + maximum(x[n] / 10, x[n])
    return f.y


@op
def steeper(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, -2 * x[n], 5 * x[n])
    return f.y


BENT = [bent_by_extrema, bent_by_a_bound, bent_by_a_magnitude, bent_by_a_choice, larger_share]


@pytest.mark.parametrize("made", BENT)
@pytest.mark.parametrize("slope", [0.1, -0.3, 0.0, 7])
def test_a_line_that_bends_at_zero_is_one_call(made, slope) -> None:
    forward = render(derivation_of(made.op)).partition("_forward(")[2].partition("def ")[0]
    assert "y = functional.leaky_relu(x, " in forward, forward
    x = torch.cat([POINTS[1:], torch.tensor([math.inf, math.nan], dtype=torch.float64)])
    by = (slope,) if made is not larger_share else ()
    y, _ = getattr(module(made.op), f"{made.op.name}_forward")(x, *by)
    right = torch.where(x > 0, x, x * (slope if by else 0.1)) + 2
    torch.testing.assert_close(y, right, rtol=1e-15, atol=0, equal_nan=True)


def test_what_no_call_has_is_a_multiple_of_one() -> None:
    assert "functional.leaky_relu(x, -2.5).mul_(-2)" in render(derivation_of(steeper.op))
    y, _ = module(steeper.op).steeper_forward(POINTS)
    torch.testing.assert_close(y, torch.where(POINTS > 0, -2 * POINTS, 5 * POINTS), rtol=1e-15, atol=0)


@pytest.mark.parametrize("slope", [0.01, -0.3, 0.0, 1e8, 7])
def test_a_slope_stands_where_the_mask_does_not(slope) -> None:
    """As it is, whatever the mask is: nothing is added up to 1."""
    backward = render(derivation_of(leaky.op)).partition("_backward(")[2].partition("class ")[0]
    assert "functional.threshold_(x_from_zero.view(torch.int8).to(dy.dtype), 0, slope).mul_(dy)" in backward
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        x = POINTS.to(dtype).requires_grad_()
        (dx,) = torch.autograd.grad(module(leaky.op).leaky(x, slope).sum(), x)
        assert dx.equal(torch.where(x >= 0, 1, torch.tensor(slope, dtype=dtype)))


@op
def between_bounds(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1, 1, where(x[n] < -1, -1, x[n]))
    return f.y


@op
def shrunk(f, x: tensor[n], by: scalar = 0.5):
    f.y[n] = where(x[n] > by, x[n] - by, where(x[n] < -by, x[n] + by, 0))
    return f.y


@op
def gentle_outside(f, x: tensor[n]):
    f.y[n] = where(x[n] > 1, x[n] / 10, where(x[n] < -1, x[n] / 10, 3 * x[n]))
    return f.y


@pytest.mark.parametrize(
    ("made", "right"),
    [
        (between_bounds, lambda x: torch.where(x > 1, 1, torch.where(x < -1, -1, x))),
        (shrunk, lambda x: torch.where(x > 0.5, x - 0.5, torch.where(x < -0.5, x + 0.5, 0))),
        (gentle_outside, lambda x: torch.where(x.abs() > 1, x / 10, 3 * x)),
    ],
)
def test_choices_that_take_the_same_are_one(made, right) -> None:
    """One mask is kept, a byte an element, for what is asked at two bounds."""
    forward, _, backward = render(derivation_of(made.op)).partition("_backward(")
    assert "x_outside = " in forward and not chooses(backward.partition("class ")[0])
    x, z = (POINTS.clone().requires_grad_() for _ in range(2))
    y, wanted = getattr(module(made.op), made.op.name)(x), right(z)
    torch.testing.assert_close(y, wanted, rtol=1e-14, atol=0)
    dy = torch.randn_like(POINTS)
    (found,), (expected,) = torch.autograd.grad(y, x, dy), torch.autograd.grad(wanted, z, dy)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


@op
def shrunk_hard(f, x: tensor[n], by: scalar = 0.5):
    f.y[n] = where(abs(x[n]) > by, 3 * x[n] + x[n] ** 2, 0)
    return f.y


@op
def kept_within(f, x: tensor[n], z: tensor[n]):
    f.y[n] = where(x[n] > 1, 0, where(x[n] > -1, 2 * z[n], 0))
    return f.y


def test_what_is_left_out_between_two_bounds_is_finite() -> None:
    assert not chooses(render(derivation_of(shrunk_hard.op)))
    y, _ = module(shrunk_hard.op).shrunk_hard_forward(POINTS[1:])
    torch.testing.assert_close(y, torch.where(POINTS[1:].abs() > 0.5, 3 * POINTS[1:] + POINTS[1:] ** 2, 0))


def test_what_lies_between_two_bounds_is_chosen_once() -> None:
    code = render(derivation_of(kept_within.op))
    assert "x_inside = (~(x > 1)) & (x > -1)" in code and "torch.where(x_inside, 2 * z, 0)" in code, code


@op
def in_three_steps(f, x: tensor[n], w: tensor[n]):
    f.y[n] = w[n] * where(x[n] > 0.5, 3, where(x[n] < 0.7, -2, 0))
    return f.y


@op
def signs_with_a_gap(f, x: tensor[n], w: tensor[n]):
    f.y[n] = where(x[n] > 0.5, w[n], where(x[n] < -0.5, -w[n], 0))
    return f.y


@pytest.mark.parametrize(("made", "a", "b", "t"), [(in_three_steps, 3, -2, 0.7), (signs_with_a_gap, 1, -1, -0.5)])
def test_one_of_three_multiples_is_weighed_by_two_masks(made, a, b, t) -> None:
    """The first condition counts where both hold."""
    backward = render(derivation_of(made.op)).partition("_backward(")[2].partition("class ")[0]
    assert not chooses(backward), backward
    w, dy = torch.randn(2, len(POINTS), dtype=torch.float64)
    y, saved = getattr(module(made.op), f"{made.op.name}_forward")(POINTS, w)
    _, dw = getattr(module(made.op), f"{made.op.name}_backward")(dy, *saved)
    right = torch.where(POINTS > 0.5, a, torch.where(t > POINTS, b, 0))
    assert y.equal(w * right) and dw.equal(dy * right)


@op
def turned_by_margin(f, c: tensor[n], m: tensor[n], z: tensor[n]):
    f.y[n] = where(z[n] > 0, c[n] * cos(m[n]) - sqrt(maximum(1 - c[n] ** 2, 1e-7)) * sin(m[n]), c[n])
    return f.y


def test_what_may_be_infinite_is_chosen_among_three() -> None:
    """Where c is 1, what the bound leaves out is 1/sqrt(1 - c**2)."""
    c, m, z = (torch.tensor(v, dtype=torch.float64) for v in ([1, -1, 1.1, 0.6], [0.3, 2, 1, 1], [1, 1, 1, 1]))
    y, saved = module(turned_by_margin.op).turned_by_margin_forward(c, m, z)
    dc, *_ = module(turned_by_margin.op).turned_by_margin_backward(torch.ones_like(y), *saved)
    right = torch.stack([*torch.cos(m[:3]), torch.cos(m[3]) + 0.75 * torch.sin(m[3])])
    torch.testing.assert_close(dc, right)


@op
def log_clamped(f, x: tensor[n], z: tensor[n]):
    f.y[n] = z[n] * log(maximum(x[n], 0.5))
    return f.y


def test_half_at_a_tie_is_one_step() -> None:
    """One pass asks for the sign, where two masks would be two comparisons, made real and added."""
    assert "(z / maximum_x_half).mul_((x - 0.5).sign_().add_(1)).div_(2)" in render(derivation_of(log_clamped.op))


@op
def gone_above(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, 0, exp(x[n]))
    return f.y


def test_nothing_is_added_to_what_is_weighed_by_a_mask() -> None:
    code = render(derivation_of(gone_above.op))
    assert not chooses(code) and "0 * " not in code and ".add" not in code.partition("_backward(")[0], code
    y, _ = module(gone_above.op).gone_above_forward(POINTS)
    assert y.equal(torch.where(POINTS > 0, 0, POINTS.exp()))


@op
def scaled_and_bent(f, x: tensor[n], slope: scalar = 0.2):
    f.y[n] = sqrt(2) * where(x[n] > 0, x[n], slope * x[n])
    return f.y


def test_a_product_that_both_branches_read_is_written_where_it_is_read() -> None:
    """In the memory of the slopes: one large tensor less."""
    wanted = "(x_above_zero.view(torch.int8).to(dy.dtype), 0, slope).mul_(dy).mul_(math.sqrt(2))"
    assert wanted in render(derivation_of(scaled_and_bent.op))


@op
def lopsided(f, x: tensor[n], tau: scalar = 0.7):
    f.y[n] = abs(tau - where(x[n] < 0, 1, 0)) * x[n] ** 2
    return f.y


def test_a_mask_beside_a_number_is_read_as_bytes() -> None:
    assert "(x < 0).view(torch.int8).to(x.dtype)" in render(derivation_of(lopsided.op))


def test_bounds_are_one_call() -> None:
    assert "y = x.clamp(-1, 1)" in render(derivation_of(between_bounds.op))


def test_what_is_below_a_threshold_may_be_any_number() -> None:
    assert "functional.threshold(x, 0, fill)" in render(derivation_of(filled_by_the_caller.op))
    y, _ = module(filled_by_the_caller.op).filled_by_the_caller_forward(POINTS)
    assert y.equal(torch.where(POINTS > 0, POINTS, -math.inf))


@op
def signed(f, x: tensor[n], z: tensor[n]):
    f.y[n] = where(z[n] > 0, x[n], -x[n])
    return f.y


@op
def tripled(f, x: tensor[n], z: tensor[n]):
    f.y[n] = where(z[n] > 0, 3 * x[n], x[n])
    return f.y


@pytest.mark.parametrize(
    ("made", "step", "a", "b"), [(signed, "(torch.sign(z), 0, -1)", 1, -1), (tripled, ", 0, 3)", 3, 1)]
)
def test_between_whole_numbers_a_mask_is_one_step(made, step, a, b) -> None:
    """No digit is lost in any precision."""
    code = render(derivation_of(made.op))
    assert "functional.threshold_" in code and step in code, code
    z = torch.tensor([-math.inf, -2, -0.0, 0, 1e-7, 3, math.inf])
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        x = torch.linspace(0.3, 2, 7, dtype=dtype).requires_grad_()
        y = getattr(module(made.op), made.op.name)(x, z.to(dtype))
        assert y.equal(torch.where(z.to(dtype) > 0, a * x, b * x))
        assert torch.autograd.grad(y.sum(), x)[0].equal(torch.where(z.to(dtype) > 0, a, b).to(dtype))


@op
def folded(f, x: tensor[n]):
    f.y[n] = where(x[n] >= 0, x[n], -x[n])
    return f.y


@op
def far_from(f, x: tensor[n], t: scalar = 0.7):
    f.y[n] = where(x[n] < t, 2 * (x[n] - t), 2 * t - 2 * x[n])
    return f.y


def test_branches_that_mirror_each_other_are_a_magnitude() -> None:
    """At the threshold the gradient is still that of the branch which is taken there."""
    assert "y = torch.abs(x)" in render(derivation_of(folded.op))
    assert "torch.abs(x - t)" in render(derivation_of(far_from.op))
    for made, right, slope in [
        (folded, POINTS.abs(), torch.where(POINTS >= 0, 1.0, -1.0)),
        (far_from, -2 * (POINTS - 0.7).abs(), torch.where(POINTS < 0.7, 2.0, -2.0)),
    ]:
        x = POINTS.clone().requires_grad_()
        y = getattr(module(made.op), made.op.name)(x)
        torch.testing.assert_close(y, right, rtol=1e-15, atol=0)
        assert torch.autograd.grad(y.sum(), x)[0].equal(slope.double())


@pytest.mark.parametrize(
    ("one", "zero", "value"),
    [
        (1, -1, "x[n] * threshold(where(on[n], 1, 0), 0, -1)"),
        (-1, 1, "x[n] * threshold(where(~on[n], 1, 0), 0, -1)"),
        (1, Fraction(201, 2), "x[n] * threshold(where(on[n], 1, 0), 0, 201/2)"),
    ],
)
def test_multiples_are_chosen_among_numbers(one, zero, value) -> None:
    x = Read("x", ("n",))
    by = [x if k == 1 else Call("neg", (x,)) if k == -1 else Call("mul", (Num(Fraction(k)), x)) for k in (one, zero)]
    chosen = Assign("y", ("n",), Call("where", (Read("on", ("n",)), *by)))
    given = (("x", ("n",)), ("on", ("n",)))
    (found,) = without_choices(Program("masked", given, (), (chosen,), ("y",))).statements
    assert str(found.value) == value


def test_what_is_added_to_is_not_what_it_was_first() -> None:
    u, h, one = Read("u", ("c",)), Read("h", ("c",)), Num(Fraction(1))
    inner = Call("div", (Call("pow", (u, Num(Fraction(2)))), Num(Fraction(2))))
    outer = Call("sub", (h, Num(Fraction(1, 2))))
    first = Assign("h", ("c",), Call("absolute", (u,)))
    last = Assign("y", ("c",), Call("where", (Call("le", (h, one)), inner, outer)))
    given = (("u", ("c",)), ("x", ("n",)), ("to", ("n",)))
    add = Scatter("h", ("c",), (Read("to", ("n",)),), Read("x", ("n",)), onto="h")
    whole = Program("added", given, (), (first, add, last), ("y",))
    assert without_choices(whole) == whole
    assert without_choices(Program("plain", given, (), (first, last), ("y",))).statements[-1] != last


@op
def interval(f, lo: tensor[n], hi: tensor[n], x: tensor[n], alpha: scalar = 0.1):
    f.below[n] = where(x[n] < lo[n], lo[n] - x[n], 0)
    f.above[n] = where(x[n] > hi[n], (x[n] - hi[n]) ** 2, 0)
    f.y[n] = 2 / alpha * (f.below[n] + f.above[n])
    return f.y


@op
def larger_of_two(f, a: tensor[n], b: tensor[n]):
    f.y[n] = maximum(a[n], b[n]) * exp(-abs(a[n] - b[n]))
    return f.y


def test_a_difference_or_nothing_is_a_relu():
    """Also where the difference is no number: infinities that are equal, and what is no number itself."""
    made = module(interval.op)
    ends = torch.tensor([math.inf, -math.inf, math.nan, 0.0, 1.5], dtype=torch.float64)
    lo, hi, x = (v.flatten() for v in torch.meshgrid(ends, ends, ends, indexing="ij"))
    y, _ = made.interval_forward(lo, hi, x)
    wanted = 20 * (torch.where(x < lo, lo - x, 0) + torch.where(x > hi, (x - hi) ** 2, 0))
    torch.testing.assert_close(y, wanted, equal_nan=True)
    forward = render(derivation_of(interval.op)).partition("def interval_backward")[0]
    assert not chooses(forward)
    assert "(lo - x).relu_().nan_to_num_(0, math.inf)" in forward


def test_half_at_a_tie_of_two_tensors_is_a_sign():
    made = module(larger_of_two.op)
    a, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]))
    wanted = torch.autograd.grad((torch.maximum(a, b) * torch.exp(-abs(a - b))).sum(), (a, b))
    _, saved = made.larger_of_two_forward(a.detach(), b.detach())
    found = made.larger_of_two_backward(torch.ones(3, dtype=torch.float64), *saved)
    for g, e in zip(found, wanted, strict=True):
        torch.testing.assert_close(g, e)
    assert not chooses(render(derivation_of(larger_of_two.op)))


def test_what_is_computed_is_compared_since_it_may_be_infinite():
    a, b, u = (Read(name, ("n",)) for name in "abu")
    half, one, zero = (Num(Fraction(k, 2)) for k in (1, 2, 0))

    def step(x: Read, y: Read) -> Assign:
        tie = Call("where", (Call("eq", (x, y)), half, zero))
        return Assign("s", ("n",), Call("where", (Call("gt", (x, y)), one, tie)))

    logarithm = Assign("u", ("n",), Call("log", (a,)))
    given = (("a", ("n",)), ("b", ("n",)))
    computed = Program("computed", given, (), (logarithm, step(u, b)), ("s",))
    assert "sign" not in str(without_choices(computed))
    inputs = without_choices(Program("inputs", given, (), (step(a, b),), ("s",)))
    assert [str(s) for s in inputs.statements] == ["s[n] = (sign(a[n] - b[n]) + 1) / 2"]
    kept = Program("kept", given, (), (step(a, b),), ("s",))
    assert "sign" not in str(without_choices(kept, computed=frozenset("b")))


@op
def one_sided(f, lo: tensor[n], x: tensor[n], alpha: scalar = 0.1):
    """Where the condition holds, the gradient is a number."""
    f.y[n] = exp(lo[n]) + 2 / alpha * where(x[n] < lo[n], lo[n] - x[n], 0)
    return f.y


def test_a_number_under_a_condition():
    assert not chooses(render(derivation_of(one_sided.op)))
    lo, x = torch.randn(2, 9, dtype=torch.float64)
    _, saved = module(one_sided.op).one_sided_forward(lo, x)
    found = module(one_sided.op).one_sided_backward(torch.ones(9, dtype=torch.float64), *saved)
    jump = torch.where(x < lo, 20.0, 0.0).double()
    for g, e in zip(found, (lo.exp() + jump, -jump), strict=True):
        torch.testing.assert_close(g, e)


@op
def filled_or_nothing(f, x: tensor[n], z: tensor[n], fill: scalar = -math.inf):
    f.y[n] = where(x[n] > z[n], fill, 0) + 2 * z[n]
    return f.y


@op
def shared_or_nothing(f, x: tensor[n, c], z: tensor[n, c]):
    f.y[n, c] = where(x[n, c] > z[n, c], 1 / (size(c) - 1), 0) + 2 * z[n, c]
    return f.y


@op
def huge_or_nothing(f, x: tensor[n], z: tensor[n]):
    """What float32 holds as infinity."""
    f.y[n] = where(x[n] > z[n], 4 * 10**38, 0) + 2 * z[n]
    return f.y


@pytest.mark.parametrize("made", [filled_or_nothing, shared_or_nothing, huge_or_nothing])
def test_no_mask_for_a_number_that_may_be_infinite(made):
    x, z = torch.tensor([[[0.0], [2.0]], [[1.0], [1.0]]], dtype=torch.float64)
    if made is not shared_or_nothing:
        x, z = x[:, 0], z[:, 0]
    y, _ = getattr(module(made.op), f"{made.op.name}_forward")(x, z)
    assert y.flatten()[0] == 2 and y.flatten()[1].abs() > 1e38
    assert chooses(render(derivation_of(made.op)))


@op
def floored(f, x: tensor[n], c: scalar = -1e9):
    f.y[n] = where(x[n] > c, x[n], c)
    return f.y


@op
def bounded_below(f, x: tensor[n]):
    f.y[n] = where(x[n] >= -1000, 2 * x[n] + 1, -1999)
    return f.y


@op
def capped_above(f, x: tensor[n], c: scalar = 1e9):
    f.y[n] = where(x[n] < c, 3 * x[n], 3 * c)
    return f.y


@op
def steeper_below(f, x: tensor[n]):
    f.y[n] = where(x[n] > -100, x[n], 2 * x[n] + 100)
    return f.y


@op
def steeper_above(f, x: tensor[n]):
    f.y[n] = where(x[n] > 100, 2 * x[n] - 100, x[n])
    return f.y


@pytest.mark.parametrize(
    ("made", "code", "right"),
    [
        (floored, "x.clamp(min=c)", lambda x: x.clamp(min=-1e9)),
        (bounded_below, "x.clamp(min=-1000).mul_(2).add_(1)", lambda x: torch.where(x >= -1000, 2 * x + 1, -1999)),
        (capped_above, "x.clamp(max=c).mul_(3)", lambda x: torch.where(x < 1e9, 3 * x, 3e9)),
        (steeper_below, ".add_(x.clamp(min=-100))", lambda x: torch.where(x > -100, x, 2 * x + 100)),
        (steeper_above, ".add_(x.clamp(max=100))", lambda x: torch.where(x > 100, 2 * x - 100, x)),
    ],
)
def test_nothing_is_lost_of_what_is_small_beside_the_threshold(made, code, right) -> None:
    """`relu(x - c) + c` has as many digits of `x` as `c` has."""
    forward = render(derivation_of(made.op)).partition("_backward(")[0]
    assert code in forward and not chooses(forward), forward
    x = torch.tensor([-1e12, -3e3, -101.0, -2.5, -1e-6, 0.0, 1e-7, 0.3, 101.0, 2e3, 1e12])
    found = getattr(module(made.op), made.op.name)(x)
    torch.testing.assert_close(found.double(), right(x.double()), rtol=2e-7, atol=0)


@op
def or_one(f, x: tensor[n], z: tensor[n]):
    f.y[n] = x[n] / where(z[n] > 0, z[n], 1)
    return f.y


def test_a_value_above_a_threshold_or_a_number_is_one_call() -> None:
    assert "x / functional.threshold(z, 0, 1)" in render(derivation_of(or_one.op))
    x, z = (torch.randn(20, dtype=torch.float64, requires_grad=True) for _ in range(2))
    got, want = module(or_one.op).or_one(x, z), x / torch.where(z > 0, z, 1)
    assert got.equal(want)
    dy = torch.randn_like(got)
    for found, wanted in zip(torch.autograd.grad(got, (x, z), dy), torch.autograd.grad(want, (x, z), dy), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-14, atol=0)


@op
def bounded_elu(f, x: tensor[n], a: scalar = 1.5):
    """The smaller of `x` and 0 passes on half at 0, nothing above."""
    f.y[n] = where(x[n] > 0, x[n], a * (exp(minimum(x[n], 0)) - 1))
    return f.y


def test_a_step_that_is_nothing_beyond_the_threshold_takes_no_mask() -> None:
    code = render(derivation_of(bounded_elu.op))
    assert "torch.relu(x).sign_().addcmul_(x.clamp(max=0).exp_(), 1 - torch.sign(x), value=a / 2)" in code, code
    x = POINTS.clone().requires_grad_()
    least = torch.minimum(x, torch.zeros(()))
    wanted = torch.where(x > 0, x, 1.5 * (torch.exp(least) - 1))
    got = module(bounded_elu.op).bounded_elu(x, 1.5)
    dy = torch.randn_like(got)
    torch.testing.assert_close(got, torch.where(x > 0, x, 1.5 * torch.expm1(least)), rtol=1e-14, atol=0)
    ours, theirs = (torch.autograd.grad(f, x, dy)[0] for f in (got, wanted))
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=0)


def test_a_threshold_that_is_one_less_a_number_of_the_callers_is_a_number() -> None:
    r, below, half = Read("r", ("n",)), Call("sub", (Num(Fraction(1)), Scal("low"))), Num(Fraction(1, 2))
    tie = Call("where", (Call("eq", (r, below)), half, Num(Fraction(0))))
    choice = Call("where", (Call("gt", (r, below)), Num(Fraction(1)), tie))
    program = Program("step", (("r", ("n",)),), ("low",), (Assign("y", ("n",), choice),), ("y",))
    (made,) = without_choices(program, computed=frozenset({"r"})).statements
    assert str(made.value) == "(sign(r[n] - (1 - low)) + 1) / 2", made


@op
def hard_swish(f, x: tensor[n]):
    """A choice inside a choice, both by numbers; the inner one may be written by a `relu` of a number."""
    f.y[n] = where(x[n] <= -3, 0, where(x[n] >= 3, x[n], x[n] * (x[n] + 3) / 6))
    return f.y


def test_a_choice_inside_a_choice_by_another_number() -> None:
    x = torch.linspace(-6, 6, 41, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(41, dtype=torch.float64)
    found, right = module(hard_swish.op).hard_swish(x), torch.nn.functional.hardswish(x)
    torch.testing.assert_close(found, right)
    (ours,), (theirs,) = (torch.autograd.grad(v, x, dy) for v in (found, right))
    inside = (x.detach().abs() - 3).abs() > 1e-9  # there the slopes are conventions
    torch.testing.assert_close(ours[inside], theirs[inside])


@op
def cancels_on_paper(f, w: tensor[n]):
    """The slope of `w/w` is `1/w - w/w**2`: 0 to algebra, and no number where `w` is 0."""
    f.y[n] = where(w[n] > 0, w[n] / where(w[n] > 0, w[n], 1), w[n]) ** 2
    return f.y


@op
def cancels_above_one(f, w: tensor[n]):
    f.u[n] = where(w[n] > 1, w[n] - 1, 1)
    f.y[n] = where(w[n] > 1, f.u[n] ** 2 / f.u[n] + (w[n] - 1) / f.u[n], 2 * w[n]) * w[n]
    return f.y


@pytest.mark.parametrize("made", [cancels_on_paper, cancels_above_one], ids=lambda o: o.op.name)
def test_what_is_not_taken_is_not_divided_by(made) -> None:
    w = torch.tensor([-2.0, -0.5, 0.0, 0.3, 1.0, 1.5, 4.0], dtype=torch.float64)
    right = {
        "cancels_on_paper": (torch.where(w > 0, 1, w**2), torch.where(w > 0, 0, 2 * w)),
        "cancels_above_one": (torch.where(w > 1, w * w, 2 * w * w), torch.where(w > 1, 2 * w, 4 * w)),
    }[made.op.name]
    y, saved = vars(module(made.op))[f"{made.op.name}_forward"](w)
    dw = vars(module(made.op))[f"{made.op.name}_backward"](torch.ones_like(y), *saved)
    torch.testing.assert_close((y, dw), right, rtol=1e-12, atol=1e-12)
