"""A finite gradient under a condition is multiplied by it; anything else stays a choice."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from derive import (
    amax,
    amin,
    axes,
    concat,
    constant,
    eq,
    exp,
    log,
    maximum,
    mean,
    minimum,
    op,
    relu,
    scalar,
    size,
    sqrt,
    sum,
    tensor,
    where,
)
from derive.emit import render
from derive.ir.program import Call, Num, Read
from derive.output.live import build
from derive.pipeline import derivation_of
from derive.schedule.compared import clamped, on_each_side
from derive.verify.verify import verify, verify_kernels
from tests.derive.live import chooses, module

n, d, j, k = axes("n d j k")


@op
def hinge(f, s: tensor[n, d], t: constant[n, d]):
    f.m[n, d] = maximum(1 - t[n, d] * s[n, d], 0)
    f.loss[()] = mean(f.m[n, d] ** 2 + f.m[n, d], over=(n, d))
    return f.loss


@op
def clipped(f, x: tensor[n, d], lo: scalar = -1.0, hi: scalar = 1.0):
    f.y[n, d] = minimum(maximum(x[n, d], lo), hi)
    return f.y


@op
def clipped_to_numbers(f, x: tensor[n, d], w: tensor[n, d]):
    f.y[n, d] = w[n, d] * minimum(maximum(x[n, d], -1), 1)
    return f.y


@op
def spread(f, x: tensor[n, d], w: tensor[n, d]):
    f.s[n, d] = minimum(maximum(x[n, d], -1), 1)
    f.y[n, d] = exp(f.s[n, d] * w[n, d])
    return f.y


@op
def layers(f, x: tensor[n, d], W: tensor[d, k]):
    f.h[n, k] = relu(sum(x[n, d] * W[d, k], over=d))
    f.y[n] = sum(f.h[n, k] ** 3, over=k)
    return f.y


@op
def root(f, x: tensor[n, d]):
    f.h[n, d] = maximum(x[n, d], 0)
    f.y[n, d] = sqrt(f.h[n, d])
    return f.y


@op
def entropy(f, p: tensor[n, d]):
    f.y[n, d] = where(p[n, d] > 0, p[n, d] * log(p[n, d]), 0)
    return f.y


@op
def margins(f, a: tensor[n, d], b: tensor[n, d]):
    f.y[n] = sum(maximum(a[n, d], b[n, d]) * exp(minimum(a[n, d], 0)), over=d)
    return f.y


@op
def huber(f, r: tensor[n, d], t: scalar = 1.5):
    f.y[n, d] = where(r[n, d] <= t, r[n, d] ** 2 / 2, t * (r[n, d] - t / 2))
    return f.y


@op
def squares_kept(f, x: tensor[n, d], gate: constant[n, d]):
    f.y[n, d] = where(gate[n, d] > 0, relu(x[n, d]) ** 2, 0)
    return f.y


@op
def over_its_root(f, x: tensor[n, d]):
    f.r[n] = sqrt(sum(relu(x[n, d]) ** 2, over=d) + 1)
    f.y[n] = f.r[n] * sum(where(x[n, d] < 0, abs(x[n, d]) ** 3, abs(x[n, d])), over=d)
    return f.y


@op
def clipped_by_rows(f, r: tensor[n, d], a: constant[n, d], mask: constant[n, d]):
    """A row without a place counts as one."""
    f.total[n] = sum(minimum(r[n, d] * a[n, d], 2 * a[n, d]) * mask[n, d], over=d)
    f.y[n] = f.total[n] / maximum(sum(mask[n, d], over=d), 1)
    return f.y


@op
def clipped_by_counts(f, r: tensor[n, d], a: constant[n, d], mask: constant[n, d]):
    f.count[n] = maximum(1, sum(mask[n, d], over=d))
    f.y[n] = sum(minimum(r[n, d] * a[n, d], 2 * a[n, d]) / f.count[n] * mask[n, d], over=d)
    return f.y


@op
def pinball(f, x: tensor[n, d], tau: constant[d]):
    f.y[n, d] = maximum(tau[d] * x[n, d], (tau[d] - 1) * x[n, d])
    return f.y


@op
def slopes(f, x: tensor[n, d]):
    f.y[n, d] = maximum(x[n, d], x[n, d] / 4) + 2 * minimum(-3 * x[n, d], 5 * x[n, d])
    return f.y


def _by_rows(r, a, mask):
    return (torch.minimum(r * a, 2 * a) * mask).sum(1) / mask.sum(1).clamp(min=1)


PLAIN = {
    "pinball": lambda x, tau: torch.maximum(tau * x, (tau - 1) * x),
    "slopes": lambda x: torch.maximum(x, x / 4) + 2 * torch.minimum(-3 * x, 5 * x),
    "clipped_by_rows": _by_rows,
    "clipped_by_counts": _by_rows,
    "squares_kept": lambda x, gate: torch.where(gate > 0, torch.relu(x).square(), 0),
    "over_its_root": lambda x: (
        (torch.relu(x).square().sum(1) + 1).sqrt() * torch.where(x < 0, x.abs() ** 3, x.abs()).sum(1)
    ),
    "huber": lambda r: torch.where(r <= 1.5, r**2 / 2, 1.5 * (r - 0.75)),
    "hinge": lambda s, t: (lambda m: (m**2 + m).mean())(torch.maximum(1 - t * s, torch.zeros_like(s))),
    "clipped": lambda x: torch.minimum(torch.maximum(x, -torch.ones_like(x)), torch.ones_like(x)),
    "clipped_to_numbers": lambda x, w: w * torch.minimum(torch.maximum(x, -torch.ones_like(x)), torch.ones_like(x)),
    "spread": lambda x, w: torch.exp(w * torch.minimum(torch.maximum(x, -torch.ones_like(x)), torch.ones_like(x))),
    "layers": lambda x, W: (torch.relu(x @ W) ** 3).sum(1),
    "margins": lambda a, b: (torch.maximum(a, b) * torch.exp(torch.minimum(a, torch.zeros_like(a)))).sum(1),
}


TIES = [hinge, clipped, clipped_to_numbers, spread, layers, margins, huber, squares_kept, over_its_root]
TIES += [clipped_by_rows, clipped_by_counts, slopes]


@pytest.mark.parametrize("spec", TIES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_with_ties(spec, dtype):
    """Whole numbers, so that many of what is compared are equal."""
    op, made = spec.op, module(spec.op)
    generator = torch.Generator().manual_seed(0)
    args = [torch.randint(-2, 3, (6, 6), generator=generator).to(dtype) for _ in op.operands if _.is_tensor]
    wanted = [o.differentiable for o in op.operands if o.is_tensor]
    leaves = [a.clone().requires_grad_(w) for a, w in zip(args, wanted, strict=True)]
    exact = PLAIN[op.name](*leaves)
    dy = torch.randn(exact.shape, generator=generator, dtype=dtype)
    y, saved = getattr(made, f"{op.name}_forward")(*args)
    torch.testing.assert_close(y, exact.detach())
    found = getattr(made, f"{op.name}_backward")(dy, *saved)
    for g, e in zip(
        found if isinstance(found, tuple) else (found,),
        torch.autograd.grad(exact, [a for a in leaves if a.requires_grad], dy),
        strict=True,
    ):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_quantiles_that_autograd_has(dtype):
    x = torch.tensor([[-2.0, 0.0, 1e-30, 3.0], [0.0, -0.0, -1e20, 2.0]], dtype=dtype, requires_grad=True)
    tau = torch.tensor([0.1, 0.5, 0.9, 1.0], dtype=dtype)
    exact = PLAIN["pinball"](x, tau)
    dy = torch.randn(exact.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    y, saved = module(pinball.op).pinball_forward(x.detach(), tau)
    torch.testing.assert_close(y, exact.detach())
    found = module(pinball.op).pinball_backward(dy, *saved)
    torch.testing.assert_close(found, torch.autograd.grad(exact, x, dy)[0])


def test_a_small_quantile_keeps_its_digits():
    x, tau = torch.tensor([[3.0, -2.0, 0.0, 1e-30]]), torch.tensor([1e-5, 0.01, 0.02, 1 - 2**-24])
    _, saved = module(pinball.op).pinball_forward(x, tau)
    found = module(pinball.op).pinball_backward(torch.ones_like(x), *saved)
    assert found.equal(torch.where(x > 0, tau, torch.where(x < 0, tau - 1, tau - 0.5)))


def test_multiples_of_one_tensor_are_told_by_its_sign():
    assert backward(pinball) == ["dx[n, d] = dy[n, d] * (tau[d] - (1 - sign(x[n, d])) / 2)"]
    (sign, line) = backward(slopes)
    assert sign == "sign_x[n, d] = sign(x[n, d])" and "where" not in line and line.count("sign_x[n, d]") == 2, line


@pytest.mark.parametrize(("spec", "chosen"), [(hinge, False), (clipped, False), (root, True), (entropy, True)])
def test_what_stays_a_choice(spec, chosen):
    """`dy / (2 * sqrt(h))` and `log(p)` are infinite where they are left out."""
    assert chooses(render(derivation_of(spec.op))) is chosen


def test_a_choice_of_what_is_compared_is_an_extremum():
    assert "r.clamp(max=t)" in render(derivation_of(huber.op))


def backward(spec) -> list[str]:
    return [str(s) for s in derivation_of(spec.op).backward.statements]


def test_both_ends_of_a_clamp_ask_the_same_tensor():
    assert backward(clipped) == ["dx[n, d] = dy[n, d] * (sign(hi - x[n, d]) + 1) * (sign(x[n, d] - lo) + 1) / 4"]


def test_ends_that_are_numbers_make_one_factor():
    """Each passes on half at a tie, so that what passes is half the sum of both signs."""
    assert "dx[n, d] = dy[n, d] * w[n, d] * (sign(x[n, d] + 1) + sign(1 - x[n, d])) / 2" in backward(clipped_to_numbers)


def test_both_ends_of_a_clamp_are_one_choice():
    (line,) = (line for line in backward(spread) if "where" in line)
    assert "where((x[n, d] >= -1) & (x[n, d] <= 1), ds[n, d] * (sign(x[n, d] + 1) + sign(1 - x[n, d])) / 2, 0)" in line


def test_infinite_gradients_are_left_out():
    made = module(root.op)
    x = torch.tensor([[-1.0, -2.0], [4.0, -0.5]])
    _, saved = made.root_forward(x)
    assert made.root_backward(torch.ones(2, 2), *saved).tolist() == [[0, 0], [0.25, 0]]


@op
def rectified_twice(f, x: tensor[n, d], W: tensor[d, k]):
    f.h[n, d] = relu(x[n, d])
    f.y[n, k] = sum(f.h[n, d] * W[d, k], over=d)
    return f.y


def test_what_a_threshold_passes_on_is_one_call():
    assert "dx = torch.ops.aten.threshold_backward(dh, h, 0)" in render(derivation_of(rectified_twice.op))


def test_no_mask_where_the_gradient_vanishes_itself():
    """3 * h**2 * dy is 0 where h is."""
    backward = render(derivation_of(layers.op)).partition("_backward(")[2]
    assert "sign" not in backward
    assert "where" not in backward


def test_no_choice_where_what_is_chosen_is_zero_beside_it():
    source = render(derivation_of(squares_kept.op)).partition("def squares_kept_backward")[2]
    assert "torch.relu(x)" in source and "x > 0" not in source, source


def test_a_function_under_a_condition_is_what_it_is_on_that_side():
    source = render(derivation_of(over_its_root.op)).partition("def over_its_root_backward")[2].partition("class")[0]
    assert "where_by_bits(x > 0, " in source and "relu" not in source and "abs" not in source, source


def test_what_is_no_number_stays_none_beside_a_condition():
    u, zero = Read("u", ("n",)), Num(Fraction(0))
    choice = Call("where", (Call("gt", (u, zero)), Call("relu", (u,)), Call("relu", (u,))))
    assert on_each_side(choice).args[1:] == (u, Call("relu", (u,)))


@op
def hats(f, x: tensor[n, d], w: tensor[n, d, k]):
    """An axis is a number like any other: finite."""
    f.y[n] = sum(w[n, d, k] * relu(1 - abs(x[n, d] - k)), over=(d, k))
    return f.y


def test_what_is_counted_is_finite():
    text = render(derivation_of(hats.op))
    assert not chooses(text)
    x = torch.tensor([[0.0, 1.0, 0.5, 7.0]], dtype=torch.float64, requires_grad=True)
    w = torch.rand(1, 4, 3, dtype=torch.float64, requires_grad=True)
    y = (w * torch.relu(1 - (x[:, :, None] - torch.arange(3)).abs())).sum((1, 2))
    wanted = torch.autograd.grad(y.sum(), (x, w))
    _, saved = module(hats.op).hats_forward(x.detach(), w.detach())
    for g, e in zip(module(hats.op).hats_backward(torch.ones_like(y.detach()), *saved), wanted, strict=True):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("made", [clipped_by_rows, clipped_by_counts])
def test_what_a_count_of_one_at_least_divides_is_finite(made):
    assert not chooses(render(derivation_of(made.op)))


@op
def largest_of_neighbours(f, x: tensor[n, d, k]):
    f.y[n, d] = amax(relu(x[n, d, k]), over=k)
    return f.y


def test_what_a_maximum_shares_out_is_finite():
    """Of elements as large as their maximum there is one at least, so that none is chosen."""
    assert not chooses(render(derivation_of(largest_of_neighbours.op)))
    x = torch.randint(-2, 3, (5, 4, 3), generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    y, saved = module(largest_of_neighbours.op).largest_of_neighbours_forward(x.detach())
    dy = torch.randn_like(y)
    (wanted,) = torch.autograd.grad(torch.relu(x).amax(2), x, dy)
    torch.testing.assert_close(module(largest_of_neighbours.op).largest_of_neighbours_backward(dy, *saved), wanted)


@op
def bounded_integral(f, x: tensor[n, d], gain: tensor[()], cap: scalar = 2.0):
    """What is left out by its place is left out for every input; so it is with padding."""
    f.total[n, d] = sum(where(k <= d, x[n, k], 0), over=k)
    f.step[n, j] = concat(0, f.total[n, d], along=j)
    f.y[n, j] = minimum(maximum(gain[()] * f.step[n, j], -cap), cap)
    return f.y


def test_a_clamp_of_a_sum_up_to_a_place_is_not_chosen():
    assert not chooses(render(derivation_of(bounded_integral.op)))
    x, gain = torch.randn(3, 5, dtype=torch.float64, requires_grad=True), torch.tensor(1.5, requires_grad=True).double()
    y = torch.nn.functional.pad(x.cumsum(1), (1, 0)).mul(gain).clamp(-2, 2)
    dy = torch.randn_like(y)
    made = module(bounded_integral.op)
    _, saved = made.bounded_integral_forward(x.detach(), gain.detach())
    for g, e in zip(made.bounded_integral_backward(dy, *saved), torch.autograd.grad(y, (x, gain), dy), strict=True):
        torch.testing.assert_close(g, e)


@op
def counted_elsewhere(f, s: tensor[n, d], z: tensor[n, d], w: tensor[n]):
    """A maximum of one tensor, and how often it is found in another: perhaps never."""
    f.m[n] = amax(z[n, d], over=d)
    f.count[n] = sum(where(eq(s[n, d], f.m[n]), 1, 0), over=d)
    f.y[n] = where(f.count[n] > 0, w[n] / f.count[n], 0)
    return f.y


def test_what_is_no_share_of_a_maximum_is_chosen():
    z = torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=torch.float64)
    s = torch.tensor([[2.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    made = build(counted_elsewhere.op, save="input")
    _, saved = made.forward(s, z, s[0])
    assert made.backward(s[0], *saved).dw.tolist() == [1, 0]


@op
def divided_by_its_place(f, x: tensor[n, d]):
    f.y[n, d] = where(x[n, d] > 0, x[n, d] / d, 0)
    return f.y


@op
def divided_by_a_length(f, x: tensor[n, d]):
    f.y[n, d] = where(x[n, d] > 0, x[n, d] / (size(d) - 1), 0)
    return f.y


@pytest.mark.parametrize("made", [divided_by_its_place, divided_by_a_length])
def test_what_is_divided_by_zero_is_chosen(made):
    x = torch.tensor([[-1.0], [2.0]], dtype=torch.float64)
    _, saved = getattr(module(made.op), f"{made.op.name}_forward")(x)
    dx = getattr(module(made.op), f"{made.op.name}_backward")(torch.ones_like(x), *saved)
    assert dx.flatten().tolist() == [0, float("inf")]


def test_a_clamp_may_be_spelled_with_its_ends_first() -> None:
    @op
    def gated(f, w: tensor[n, d], x: tensor[n, d]):
        f.y[n, d] = w[n, d] * minimum(maximum(3 * x[n, d] - 1, 0), 1)
        return f.y

    ends_last = gated

    @op
    def gated(f, w: tensor[n, d], x: tensor[n, d]):
        f.y[n, d] = w[n, d] * minimum(1, maximum(0, 3 * x[n, d] - 1))
        return f.y

    first, last = (render(derivation_of(o.op)) for o in (gated, ends_last))
    assert first == last and not chooses(first)


@op
def slabs(f, o: constant[n, d], r: tensor[n, d].nonzero, a: tensor[d], b: tensor[d]):
    """Where rays meet planes, in any order: a ray along a plane never does."""
    f.t[n, d] = (a[d] - o[n, d]) / r[n, d]
    f.u[n, d] = (b[d] - o[n, d]) / r[n, d]
    f.near[n] = amax(minimum(f.t[n, d], f.u[n, d]), over=d)
    f.far[n] = amin(maximum(f.t[n, d], f.u[n, d]), over=d)
    return f.near, f.far


def test_what_is_computed_is_compared_by_its_sign():
    """One sign for all shares of a pair, and the ties of both as they are counted."""
    text = "\n".join(backward(slabs))
    assert "where(t[n, d] " not in text and text.count("sign(") == 1, text
    assert text.count("maximum(t[n, d], u[n, d])") == text.count("minimum(t[n, d], u[n, d])") == 1, text


@op
def the_larger(f, t: tensor[n], u: tensor[n]):
    f.y[n] = maximum(t[n], u[n])
    return f.y


@op
def the_larger_product(f, t: tensor[n], u: tensor[n], w: tensor[n]):
    f.y[n] = maximum(t[n] * w[n], u[n] * w[n])
    return f.y


def test_two_computed_infinities_tie():
    """What overflows on both sides is as large: each passes on half."""
    values = [1e200, 1e200, -1e200, 3.0], [2e200, -1e200, -2e200, 2.0], [1e200, 1e200, 1e200, 1.0]
    t, u, w = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values)
    assert any("sign(" in line for line in backward(the_larger_product))
    dy = torch.tensor([0.7, -1.2, 0.4, 2.0], dtype=torch.float64)
    made = module(the_larger_product.op).the_larger_product(t, u, w)
    found, right = (torch.autograd.grad(y, (t, u, w), dy) for y in (made, torch.maximum(t * w, u * w)))
    torch.testing.assert_close(found, right, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_two_infinities_tie(dtype):
    """Their difference is no number, which has no sign but 0."""
    inf = torch.inf
    t = torch.tensor([inf, inf, -inf, -inf, 1.0, 2.0, 0.0, -inf] * 9, dtype=dtype, requires_grad=True)
    u = torch.tensor([inf, -inf, inf, -inf, inf, 2.0, -1.0, 0.0] * 9, dtype=dtype, requires_grad=True)
    made, dy = build(the_larger.op), torch.ones_like(t)
    y, saved = made.forward(t.detach(), u.detach())
    exact = torch.maximum(t, u)
    torch.testing.assert_close(y, exact.detach())
    for ours, theirs in zip(made.backward(dy, *saved), torch.autograd.grad(exact, (t, u), dy), strict=True):
        torch.testing.assert_close(ours, theirs)


@op
def leaking(f, x: tensor[n, d], w: tensor[n, d], slope: scalar):
    """What is passed on is divided by what may be 0."""
    f.q[n, d] = w[n, d] / sum(w[n, d], over=d)
    f.y[n, d] = f.q[n, d] * maximum(x[n, d], slope * x[n, d])
    return f.y


@op
def leaking_a_tenth(f, x: tensor[n, d], w: tensor[n, d], slope: scalar):
    f.q[n, d] = w[n, d] / sum(w[n, d], over=d)
    f.y[n, d] = slope * f.q[n, d] * maximum(x[n, d], x[n, d] / 10)
    return f.y


@pytest.mark.parametrize("slope", [0.2, 0.0, -0.5, 3.0, 1.0, 1e-9, 1e9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("made", [leaking, leaking_a_tenth])
def test_multiples_of_what_may_not_be_finite_are_weighed_by_numbers(made, dtype, slope):
    """A small slope keeps its digits beside 1, and a large one leaves 1 its own."""
    assert not any("where" in line for line in backward(made))
    x = torch.tensor([[torch.inf, -torch.inf, 0.0, -0.0, 1e-30, -2.0, 3.0]], dtype=dtype, requires_grad=True)
    w = torch.arange(1, 8, dtype=dtype)[None]
    by = slope if made is leaking else 0.1
    exact = w / w.sum() * torch.maximum(x, by * x) * (1 if made is leaking else slope)
    _, saved = getattr(module(made.op), f"{made.op.name}_forward")(x.detach(), w, slope)
    dx, _ = getattr(module(made.op), f"{made.op.name}_backward")(torch.ones_like(x), *saved)
    keep = x.isfinite() | (made is leaking and by != 0)  # 0 times what is infinite is no number; a sign knows no tie
    (right,) = torch.autograd.grad(exact, x, torch.ones_like(x))
    torch.testing.assert_close(dx[keep], right[keep], rtol=4 * torch.finfo(dtype).eps, atol=0)


@op
def root_of_larger(f, x: tensor[n, d], z: tensor[n, d]):
    f.h[n, d] = maximum(x[n, d], z[n, d])
    f.y[n, d] = sqrt(f.h[n, d])
    return f.y


def test_either_share_of_what_may_be_infinite_is_one_choice():
    """`dy / (2 * sqrt(h))` is infinite where `h` is 0; the other side has nothing of it."""
    lines = [line for line in backward(root_of_larger) if "where" in line]
    assert [line.count("where") for line in lines] == [1, 1], lines
    x, z = torch.tensor([[0.0, -1.0, 0.0, 4.0]]), torch.tensor([[-1.0, 0.0, 0.0, 4.0]])
    _, saved = module(root_of_larger.op).root_of_larger_forward(x, z)
    dx, dz = module(root_of_larger.op).root_of_larger_backward(torch.ones(1, 4), *saved)
    assert dx.tolist() == [[torch.inf, 0, torch.inf, 0.125]] and dz.tolist() == [[0, torch.inf, torch.inf, 0.125]]


@op
def squared_beyond(f, x: tensor[n, d], b: tensor[d]):
    f.y[n, d] = maximum(x[n, d] - b[d], 0) ** 2
    return f.y


@op
def cubed_below(f, x: tensor[n, d], b: tensor[d]):
    f.y[n, d] = minimum(x[n, d] - b[d], 0) ** 3
    return f.y


@op
def squared_turned(f, x: tensor[n, d]):
    f.y[n, d] = maximum(-x[n, d], 0) ** 2
    return f.y


@op
def distance_beyond(f, x: tensor[n, d], b: tensor[d]):
    f.y[n] = sqrt(sum(maximum(x[n, d] - b[d], 0) ** 2, over=d))
    return f.y


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (squared_beyond, "dx[n, d] = 2 * relu(x[n, d] - b[d]) * dy[n, d]"),
        (cubed_below, "dx[n, d] = 3 * minimum(x[n, d] - b[d], 0)**2 * dy[n, d]"),
        (squared_turned, "dx[n, d] = 2 * minimum(x[n, d], 0) * dy[n, d]"),
        (distance_beyond, "dx[n, d] = where(x_minus_b[n, d] >= 0, dy[n] / y[n] * x_minus_b[n, d], 0)"),
    ],
)
def test_what_is_passed_on_is_its_own_step(spec, line):
    assert line in backward(spec), backward(spec)


@pytest.mark.parametrize("spec", [squared_beyond, cubed_below, squared_turned, distance_beyond, slabs, root_of_larger])
def test_gradients_in_every_situation(spec):
    assert verify(spec.op).right


@pytest.mark.parametrize("spec", [cubed_below, slabs])
def test_gradients_of_kernels_in_every_situation(spec):
    assert verify_kernels(spec.op).right


@op
def apart(f, x: tensor[n, d], y: tensor[n, d]):
    f.d[n, d] = maximum(x[n, d] - y[n, d], y[n, d] - x[n, d])
    return f.d


def test_the_larger_of_a_difference_either_way_round_passes_on_a_sign() -> None:
    """Nothing at a tie, without a cotangent less itself."""
    lines = [str(s) for s in derivation_of(apart.op).backward.statements]
    assert not any("dd[n, d] - dd" in line or "dd[n, d] + dd" in line for line in lines), lines
    assert lines[0].endswith("sign(x[n, d] - y[n, d])") and lines[-1] == "dy[n, d] = -dx[n, d]", lines
    x, y, cotangent = (torch.randn(5, 7, dtype=torch.float64) for _ in range(3))
    x[0], x.requires_grad, y.requires_grad = y[0], True, True
    (right,) = torch.autograd.grad(torch.maximum(x - y, y - x), x, cotangent, retain_graph=True)
    assert right[0].eq(0).all()
    found = torch.autograd.grad(module(apart.op).apart(x, y), (x, y), cotangent)
    torch.testing.assert_close(found, (right, -right), rtol=0, atol=0)


@op
def huber_by_number(f, x: tensor[n, d], y: constant[n, d]):
    f.e[n, d] = x[n, d] - y[n, d]
    f.y_[n, d] = where(abs(f.e[n, d]) <= 1.5, f.e[n, d] ** 2 / 2, 1.5 * abs(f.e[n, d]) - 1.125)
    return f.y_


@op
def huber_by_caller(f, x: tensor[n, d], y: constant[n, d], most: scalar = 1.0):
    f.e[n, d] = x[n, d] - y[n, d]
    f.y_[n, d] = where(abs(f.e[n, d]) > most, most * (abs(f.e[n, d]) - most / 2), f.e[n, d] ** 2 / 2)
    return f.y_


@op
def smaller_slope(f, x: tensor[n, d]):
    """Another slope outside is no clamp."""
    f.y[n, d] = where(abs(x[n, d]) <= 1, x[n, d] ** 2 / 2, 2 * abs(x[n, d]))
    return f.y


def test_a_choice_by_a_magnitude_is_a_clamp() -> None:
    assert any("minimum(maximum(e[n, d], -3/2), 3/2)" in line for line in backward(huber_by_number))
    assert any("sign(e[n, d]) * minimum(abs(e[n, d]), most)" in line for line in backward(huber_by_caller))
    assert any("where(" in line for line in backward(smaller_slope))
    x, y, cotangent = (torch.randn(5, 7, dtype=torch.float64) for _ in range(3))
    x[0, :3] = y[0, :3] + torch.tensor([0.0, 1.5, -1.5])
    x.requires_grad = True
    right = ((x - y).clamp(-1.5, 1.5) * cotangent).detach()
    caller = module(huber_by_caller.op).huber_by_caller
    for made in (module(huber_by_number.op).huber_by_number(x, y), caller(x, y, 1.5)):
        torch.testing.assert_close(torch.autograd.grad(made, x, cotangent)[0], right, rtol=1e-14, atol=0)
    (below,) = torch.autograd.grad(caller(x, y, -0.5), x, cotangent)
    torch.testing.assert_close(below, -0.5 * torch.sign(x - y) * cotangent)


E = Read("e", ("n",))
SIZE, WHOLE, SIGN = Call("absolute", (E,)), Num(Fraction(1)), Call("sign", (E,))


@pytest.mark.parametrize(
    ("condition", "inside_first"),
    [
        (Call("le", (SIZE, WHOLE)), True),
        (Call("gt", (SIZE, WHOLE)), False),
        (Call("ge", (WHOLE, SIZE)), True),
        (Call("lt", (WHOLE, SIZE)), False),
    ],
    ids=str,
)
def test_the_side_that_a_clamp_keeps(condition, inside_first):
    """However the two are compared; the other way round it is none, nor for a bound below 0."""
    right = Call("where", (condition, *((E, SIGN) if inside_first else (SIGN, E))))
    assert str(clamped(right)) == "minimum(maximum(e[n], -1), 1)"
    assert clamped(replace(right, args=(condition, *right.args[:0:-1]))) is None
    below = Num(Fraction(-1))
    swapped = replace(condition, args=tuple(below if a == WHOLE else a for a in condition.args))
    values = (E, Call("neg", (SIGN,)))
    assert clamped(Call("where", (swapped, *(values if inside_first else values[::-1])))) is None


@op
def nothing_first(f, x: tensor[n, d], z: constant[n, d]):
    f.y[n, d] = where(z[n, d] <= 0, 0, 2 * x[n, d])
    return f.y


def test_nothing_where_a_condition_holds_is_a_product_where_it_does_not() -> None:
    """What is asked is kept, a byte an element; where nothing can be compared it does not hold."""
    (line,) = backward(nothing_first)
    assert line.endswith("where(~z_up_to_zero[n, d], 1, 0)"), line
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    z = torch.tensor([[0.0, 1, -1], [torch.nan, torch.inf, -torch.inf]], dtype=torch.float64)
    cotangent = torch.randn(2, 3, dtype=torch.float64)
    (found,) = torch.autograd.grad(module(nothing_first.op).nothing_first(x, z), x, cotangent)
    torch.testing.assert_close(found, torch.where(z <= 0, 0, 2 * cotangent), rtol=0, atol=0)


@op
def weighed_by_features(f, x: tensor[n, d], z: tensor[k, d], v: tensor[k, j]):
    """Divided by what is never below 0, and a number."""
    f.q[n, d] = relu(x[n, d]) ** 2
    f.p[k, d] = relu(z[k, d]) ** 2
    f.r[n] = sum(f.q[n, d] * sum(f.p[k, d], over=k), over=d) + 1e-6
    f.y[n, j] = sum(f.q[n, d] * sum(f.p[k, d] * v[k, j], over=k), over=d) / f.r[n]
    return f.y


@op
def over_its_sum(f, x: tensor[n, d]):
    f.h[n, d] = relu(x[n, d])
    f.y[n, d] = f.h[n, d] / (sum(f.h[n, k], over=k) + 1e-6)
    return f.y


@op
def over_a_root(f, x: tensor[n, d]):
    f.h[n, d] = relu(x[n, d])
    f.y[n, d] = f.h[n, d] / sqrt(mean(f.h[n, k] ** 2, over=k) + 1e-6)
    return f.y


@op
def over_what_may_be_zero(f, x: tensor[n, d]):
    f.h[n, d] = relu(x[n, d])
    f.y[n, d] = f.h[n, d] / (sum(f.h[n, k], over=k) + 1e-20)
    return f.y


@pytest.mark.parametrize("made", [weighed_by_features, over_its_sum, over_a_root])
def test_what_is_divided_by_a_sum_with_a_floor_is_finite(made) -> None:
    assert not chooses(render(derivation_of(made.op)))
    assert verify(made.op).right


def test_a_tiny_floor_is_none() -> None:
    assert "torch.ops.aten.threshold_backward((dy - sum_dy_y)" in render(derivation_of(over_what_may_be_zero.op))


@op
def smooth_absolute(f, e: tensor[n, d], k: scalar = 1.0):
    f.y_[n, d] = where((e[n, d] >= -k) & (e[n, d] <= k), e[n, d] ** 2 / (2 * k), abs(e[n, d]) - k / 2)
    return f.y_


@op
def smooth_outside(f, e: tensor[n, d]):
    f.y_[n, d] = where((e[n, d] < -2) | (e[n, d] > 2), abs(e[n, d]) - 1, e[n, d] ** 2 / 4)
    return f.y_


@pytest.mark.parametrize(("made", "by"), [(smooth_absolute, [0.75]), (smooth_absolute, [-0.75]), (smooth_outside, [])])
def test_a_slope_between_its_signs_is_clamped(made, by):
    """Over a number, and where two conditions say of a magnitude that it is small."""
    assert not chooses(render(derivation_of(made.op))), render(derivation_of(made.op))
    e = torch.tensor([[-torch.inf, -3.0, -0.75, -1e-9], [0.0, 0.3, 1.5, torch.inf]], dtype=torch.float64)
    k = by[0] if by else 2.0
    _, saved = getattr(module(made.op), f"{made.op.name}_forward")(e, *by)
    found = getattr(module(made.op), f"{made.op.name}_backward")(torch.full_like(e, 3.0), *saved)
    torch.testing.assert_close(found, 3 * torch.where(e.abs() <= k, e / k, e.sign()), rtol=1e-15, atol=0)
