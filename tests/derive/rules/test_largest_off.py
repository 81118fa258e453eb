"""Sums of exponentials whose size cancels: finite for scores of any size, with no gradient through the largest."""

import math

import pytest
import torch
from torch import Tensor

from derive import (
    amax,
    axes,
    constant,
    eq,
    exp,
    index,
    log,
    maximum,
    mean,
    minimum,
    oo,
    op,
    scalar,
    sqrt,
    sum,
    tanh,
    tensor,
    where,
)
from derive.pipeline import derive_op
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, assert_derived_at, module

c, d, k, n, m, t, u = axes("c d k n m t u")


@op
def at_labels(f, z: tensor[n, c], y: index(c)[n]):
    f.e[n, c] = exp(z[n, c])
    f.s[n] = sum(f.e[n, c], over=c)
    f.p[n, c] = f.e[n, c] / f.s[n]
    f.loss[n] = -log(f.p[n, y[n]])
    return f.loss


@op
def log_sum(f, z: tensor[n, c]):
    f.y[n] = log(sum(exp(z[n, c]), over=c))
    return f.y


@op
def log_mean(f, z: tensor[n, c], tau: scalar = 2):
    f.y[n] = tau * log(mean(exp(z[n, c] / tau), over=c))
    return f.y


@op
def weighed(f, z: tensor[n, c], v: tensor[c, d]):
    f.e[n, c] = exp(z[n, c])
    f.y[n, d] = sum(f.e[n, c] * v[c, d], over=c) / sum(f.e[n, c], over=c)
    return f.y


@op
def both_ways(f, z: tensor[n, c]):
    f.y[n, c] = exp(2 * z[n, c]) / sum(exp(z[n, c]), over=c) / sum(exp(z[n, c]), over=n)
    return f.y


@op
def left_out(f, z: tensor[n, c], keep: constant[n, c]):
    f.y[n] = log(sum(where(keep[n, c] > 0, exp(z[n, c]), 0), over=c))
    return f.y


@op
def both_ways_apart(f, z: tensor[n, c]):
    """Two shares of the same exponentials, along one axis and the other."""
    f.p[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=c)
    f.q[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=n)
    f.y[n, c] = f.p[n, c] * f.q[n, c]
    return f.y


@op
def of_distances(f, x: tensor[n, d], w: tensor[k, d]):
    f.e[n, k] = exp(-sum((x[n, d] - w[k, d]) ** 2, over=d))
    f.y[n] = log(sum(f.e[n, k], over=k))
    return f.y


@op
def weighed_by_distance(f, x: tensor[n, d], w: tensor[k, d], v: tensor[k]):
    f.e[n, k] = exp(-sum((x[n, d] - w[k, d]) ** 2, over=d))
    f.y[n] = sum(f.e[n, k] * v[k], over=k) / sum(f.e[n, k], over=k)
    return f.y


@op
def with_one_more(f, z: tensor[n, c]):
    f.y[n] = log(1 + sum(exp(z[n, c]), over=c))
    return f.y


@op
def with_none_chosen(f, z: tensor[n, c]):
    """A softmax that may choose nothing: exp(0) stands beside the others."""
    f.e[n, c] = exp(-z[n, c])
    f.p[n, c] = f.e[n, c] / (sum(f.e[n, c], over=c) + 1)
    return f.p


@op
def one_positive(f, pos: tensor[n], neg: tensor[n, c]):
    """InfoNCE (van den Oord, Li & Vinyals, 2018)."""
    f.loss[n] = -log(exp(pos[n]) / (exp(pos[n]) + sum(exp(neg[n, c]), over=c)))
    return f.loss


@op
def with_a_sink(f, z: tensor[n, c], sink: tensor[n], v: tensor[c, d]):
    f.p[n, c] = exp(z[n, c]) / (3 * exp(sink[n]) + sum(exp(z[n, c]), over=c))
    f.y[n, d] = sum(f.p[n, c] * v[c, d], over=c)
    return f.y


@op
def by_counts(f, z: tensor[n, c], w: tensor[c]):
    """Balanced softmax (Ren et al., 2020)."""
    f.y[n] = log(sum(w[c] ** 2 * exp(z[n, c]), over=c))
    return f.y


@op
def by_a_mask(f, z: tensor[n, c], w: tensor[n, c], v: tensor[n, c, d]):
    f.e[n, c] = w[n, c] ** 2 * exp(z[n, c])
    f.y[n, d] = sum(f.e[n, c] * v[n, c, d], over=c) / sum(f.e[n, c], over=c)
    return f.y


def _with_one(z: Tensor, other: Tensor, count: float = 1) -> Tensor:
    return torch.cat([z, (other + math.log(count)).expand(len(z), 1)], 1)


def _one_positive(pos: Tensor, neg: Tensor) -> Tensor:
    return _with_one(neg, pos[:, None]).logsumexp(1) - pos


def _with_a_sink(z: Tensor, sink: Tensor, v: Tensor) -> Tensor:
    return _with_one(z, sink[:, None], 3).softmax(1)[:, :-1] @ v


def _by_a_mask(z: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return ((z + w.square().log()).softmax(1)[:, None] @ v).squeeze(1)


def softmax_of_both(z: Tensor) -> Tensor:
    return z.softmax(1) * z.softmax(0)


def log_sum_of_distances(x: Tensor, w: Tensor) -> Tensor:
    return (-(x[:, None] - w).square().sum(2)).logsumexp(1)


MADE = [
    (log_sum, lambda z: z.logsumexp(1)),
    (log_mean, lambda z: 2 * ((z / 2).logsumexp(1) - math.log(4))),
    (weighed, lambda z, v: z.softmax(1) @ v),
    (both_ways, softmax_of_both),
    (both_ways_apart, softmax_of_both),
    (with_one_more, lambda z: _with_one(z, z.new_zeros(())).logsumexp(1)),
    (with_none_chosen, lambda z: _with_one(-z, z.new_zeros(())).softmax(1)[:, :-1]),
    (one_positive, _one_positive),
    (with_a_sink, _with_a_sink),
    (by_counts, lambda z, w: (z + w.square().log()).logsumexp(1)),
    (by_a_mask, _by_a_mask),
    (of_distances, log_sum_of_distances),
    (weighed_by_distance, lambda x, w, v: (-(x[:, None] - w).square().sum(2)).softmax(1) @ v),
]
DISTANCES = (of_distances, weighed_by_distance)
LENGTHS = {"n": 5, "c": 4, "d": 3, "k": 4}


@pytest.mark.parametrize(("made", "reference"), MADE, ids=lambda v: getattr(getattr(v, "op", None), "name", ""))
def test_values_and_gradients(made, reference):
    assert_derived_at(made.op, reference, LENGTHS)


@pytest.mark.parametrize("far", [-300.0, 300.0])
@pytest.mark.parametrize(("made", "reference"), MADE, ids=lambda v: getattr(getattr(v, "op", None), "name", ""))
def test_scores_of_any_size_in_float32(made, reference, far):
    """About 300, of which no exponential is finite in float32, nor in its reciprocal."""
    draw = torch.Generator().manual_seed(0)
    shapes = [[LENGTHS[a.base] for a in o.axes] for o in made.op.operands if o.is_tensor]
    given = [torch.randn(s, generator=draw).double() for s in shapes]
    given[0] = (given[0] + (far if made not in DISTANCES else abs(far) ** 0.5)).float().double()
    grads = []
    for dtype, function in ((torch.float64, reference), (torch.float32, getattr(module(made.op), made.op.name))):
        leaves = [g.to(dtype, copy=True).requires_grad_() for g in given]
        y = function(*leaves)
        (y * torch.linspace(1, 2, y.numel(), dtype=dtype).reshape(y.shape)).sum().backward()
        grads.append([y.detach(), *(leaf.grad for leaf in leaves)])
    off = 1e-4 if made in DISTANCES else 1e-6  # squares of 300 are rounded before they are subtracted
    for want, got in zip(*grads, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=off, atol=off)


def test_a_label_whose_share_underflows():
    z = torch.tensor([[0.0, 200.0, 100.0]], requires_grad=True)
    loss = module(at_labels.op).at_labels(z, torch.tensor([0]))
    loss.sum().backward()
    torch.testing.assert_close(loss.detach(), torch.tensor([200.0]))
    torch.testing.assert_close(z.grad, torch.tensor([[-1.0, 1.0, 0.0]]))


@op
def least_of_some(f, z: tensor[n, c], keep: constant[n, c]):
    """A soft minimum, of which the smallest is taken off."""
    f.w[n, c] = where(keep[n, c] > 0, z[n, c], oo)
    f.y[n] = log(sum(exp(-f.w[n, c]), over=c))
    return f.y


@pytest.mark.parametrize(("made", "sign"), [(left_out, 1), (least_of_some, -1)], ids=["largest", "smallest"])
def test_a_row_of_which_all_is_left_out_is_minus_infinity(made, sign):
    z, keep = torch.randn(3, 4), torch.ones(3, 4)
    keep[1] = 0
    y, _ = getattr(module(made.op), f"{made.op.name}_forward")(z, keep)
    torch.testing.assert_close(y, (sign * z).masked_fill(keep == 0, -math.inf).logsumexp(1))


@op
def of_a_label(f, z: tensor[n, c], keep: constant[n, c], y: index(c)[n]):
    """The logarithms of a sum and of a share of it."""
    f.e[n, c] = where(keep[n, c] > 0, exp(z[n, c]), 0)
    f.s[n] = sum(f.e[n, c], over=c)
    f.p[n, c] = f.e[n, c] / f.s[n]
    f.l[n] = log(f.p[n, y[n]]) + log(f.s[n])
    return f.l


@op
def of_a_near_one(f, z: tensor[n, c], y: index(c)[n]):
    """Shares that fall with a distance."""
    f.p[n, c] = exp(-z[n, c]) / sum(exp(-z[n, c]), over=c)
    f.l[n] = log(f.p[n, y[n]])
    return f.l


def test_a_share_is_a_difference_where_the_maximum_has_a_bound_or_is_a_minimum():
    z, y = torch.tensor([[0.0, 200.0, 100.0]]), torch.tensor([0])
    found, *_ = module(of_a_label.op).of_a_label_forward(z, torch.ones(1, 3), y)
    torch.testing.assert_close(found, torch.tensor([0.0]))
    found, *_ = module(of_a_near_one.op).of_a_near_one_forward(-z, y)
    torch.testing.assert_close(found, torch.tensor([-200.0]))


@pytest.mark.parametrize("made", [both_ways, weighed_by_distance], ids=lambda made: made.op.name)
def test_battery(made):
    found = verify(made.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


@op
def average_of_some(f, z: tensor[n, c], v: tensor[c], keep: constant[n, c]):
    f.e[n, c] = where(keep[n, c] > 0, exp(z[n, c]), 0)
    f.y[n] = sum(f.e[n, c] * v[c], over=c) / sum(f.e[n, c], over=c)
    return f.y


@op
def shares_under_a_mask(f, z: tensor[n, c], keep: constant[n, c]):
    f.e[n, c] = keep[n, c] * exp(z[n, c])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    return f.p


@op
def log_sum_under_a_mask(f, z: tensor[n, c], keep: constant[n, c]):
    f.y[n] = log(sum(keep[n, c] * exp(z[n, c]), over=c))
    return f.y


@pytest.mark.parametrize("far", [75.0, 85.0, 300.0])
def test_what_a_weight_of_0_leaves_out_is_no_part_of_the_largest(far):
    z, keep = torch.tensor([[-20.0, far, -21.0]], requires_grad=True), torch.tensor([[1.0, 0.0, 1.0]])
    right = torch.tensor([[-20.0, -math.inf, -21.0]])
    p = module(shares_under_a_mask.op).shares_under_a_mask(z, keep)
    torch.testing.assert_close(p.detach(), right.softmax(1))
    p[0, 0].backward()
    torch.testing.assert_close(z.grad, torch.tensor([[0.19661193, 0.0, -0.19661193]]))
    y, *_ = module(log_sum_under_a_mask.op).log_sum_under_a_mask_forward(z.detach(), keep)
    torch.testing.assert_close(y, right.logsumexp(1))


@op
def log_sum_of_learned(f, z: tensor[n, c], w: tensor[c]):
    f.y[n] = log(sum(w[c] * exp(z[n, c]), over=c))
    return f.y


@op
def shares_of_learned(f, z: tensor[n, c], w: tensor[n, c]):
    f.e[n, c] = w[n, c] * exp(z[n, c])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    return f.p


@pytest.mark.parametrize("far", [0.0, 50.0, 900.0])
def test_a_learned_weight_of_0_has_its_gradient(far):
    """That of what it would let in, where no float is too small for it; and it makes nothing else no number."""
    z = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z[:, 0] += far
    w = torch.tensor([0.0, 0.5, 0.2, 0.3], dtype=torch.float64).expand(3, 4)
    largest = z[:, 1:].amax(1, keepdim=True)
    leaves = z.requires_grad_(), w.clone().requires_grad_()
    e = leaves[1] * (leaves[0] - largest).clamp(max=60).exp()
    p = module(shares_of_learned.op).shares_of_learned(*leaves)
    assert_alike(p, e / e.sum(1, keepdim=True), leaves)
    leaves = z, w[0].clone().requires_grad_()
    e = leaves[1] * (z - largest).clamp(max=60).exp()
    y = module(log_sum_of_learned.op).log_sum_of_learned(*leaves)
    assert_alike(y, largest.squeeze(1) + e.sum(1).log(), leaves)


@op
def log_sum(f, z: tensor[n, c]):
    f.y[n] = log(sum(exp(z[n, c]), over=c))
    return f.y


@op
def log_shares(f, z: tensor[n, c]):
    f.y[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    return f.y


def test_a_logarithm_of_nothing_goes_out_as_such():
    z = torch.tensor([[-math.inf, -math.inf], [-math.inf, 3.0]])
    y, *_ = module(log_sum.op).log_sum_forward(z)
    assert torch.equal(y, torch.tensor([-math.inf, 3.0]))
    assert "torch.log_softmax(" in code_of(log_shares.op)


@op
def at_risk(f, s: tensor[n], time: constant[n]):
    """What a proportional hazards model sums (Cox, 1972), a row for each place, of scores of one axis."""
    f.y[n] = log(sum(where(time[m] >= time[n], exp(s[m]), 0), over=m))
    return f.y


@op
def at_risk_inside(f, s: tensor[n], time: constant[n]):
    f.y[n] = log(sum(exp(where(time[m] >= time[n], s[m], -oo)), over=m))
    return f.y


@pytest.mark.parametrize("far", [0.0, 900.0, -900.0])
@pytest.mark.parametrize("made", [at_risk, at_risk_inside], ids=["outside", "inside"])
def test_a_condition_of_more_axes_than_the_scores(made, far):
    g = torch.Generator().manual_seed(0)
    s, time = (torch.randn(7, dtype=torch.float64, generator=g) for _ in "st")
    s = (s * 30 + far).requires_grad_()
    wanted = torch.where(time >= time[:, None], s, -math.inf).logsumexp(1)
    assert_alike(getattr(module(made.op), made.op.name)(s, time), wanted, (s,))


@op
def of_those_of_a_kind(f, z: tensor[n, c], same: constant[n, c]):
    """What has weight in one sum has not in the other, and no largest is that of both."""
    f.e[n, c] = exp(z[n, c])
    f.y[n] = -log(sum(same[n, c] * f.e[n, c], over=c) / sum(f.e[n, c], over=c))
    return f.y


@op
def beside_and_alone(f, z: tensor[n, c], a: tensor[n]):
    f.s[n] = sum(exp(z[n, c]), over=c)
    f.y[n] = exp(a[n]) / (f.s[n] + exp(a[n])) + log(f.s[n])
    return f.y


@op
def beside_two(f, z: tensor[n, c], a: tensor[n]):
    f.y[n] = log(1 + exp(a[n]) + sum(exp(z[n, c]), over=c))
    return f.y


def test_sums_that_differ_in_what_stands_beside_them():
    z, a = torch.tensor([[-50.0, -51.0]]), torch.tensor([80.0])
    y, *_ = module(beside_and_alone.op).beside_and_alone_forward(z, a)
    torch.testing.assert_close(y, 1 + z.logsumexp(1))
    z, a = torch.tensor([[-5.0, 200.0], [-3.0, -900.0], [1.0, 2.0]]), torch.tensor([300.0, 2.0, -900.0])
    y, *_ = module(beside_two.op).beside_two_forward(z, a)
    torch.testing.assert_close(y, torch.cat([z, a[:, None], torch.zeros(3, 1)], 1).logsumexp(1))
    z, same = torch.tensor([[-40.0, 40.0]]), torch.tensor([[1.0, 0.0]])
    y, *_ = module(of_those_of_a_kind.op).of_those_of_a_kind_forward(z, same)
    torch.testing.assert_close(y, torch.tensor([80.0]))


@op
def left_out_beside(f, z: tensor[n, c], keep: constant[n, c], b: tensor[n]):
    f.w[n, c] = where(keep[n, c] > 0, z[n, c], -oo)
    f.y[n] = log(sum(exp(f.w[n, c]), over=c) + exp(b[n]))
    return f.y


def test_where_nothing_is_left_beside_nothing_it_is_minus_infinity():
    z, keep, b = torch.randn(2, 3), torch.tensor([[0.0, 0, 0], [1, 0, 1]]), torch.tensor([-math.inf, 0.5])
    y, *_ = module(left_out_beside.op).left_out_beside_forward(z, keep, b)
    right = torch.cat([z.masked_fill(keep == 0, -math.inf), b[:, None]], 1).logsumexp(1)
    torch.testing.assert_close(y, right)


@op
def of_a_counted_label(f, z: tensor[n, c], y: index(c)[n], w: constant[c]):
    f.loss[n] = -log(w[y[n]] * exp(z[n, y[n]]) / sum(w[c] * exp(z[n, c]), over=c))
    return f.loss


def test_a_weighed_share_that_underflows():
    z, w = torch.tensor([[0.0, 200.0, 100.0]], requires_grad=True), torch.tensor([1.0, 2.0, 3.0])
    loss = module(of_a_counted_label.op).of_a_counted_label(z, torch.tensor([0]), w)
    loss.sum().backward()
    torch.testing.assert_close(loss.detach(), torch.tensor([200.0 + math.log(2)]))
    torch.testing.assert_close(z.grad, torch.tensor([[-1.0, 1.0, 0.0]]))


def test_weighed_exponentials_are_made_once():
    forward = code_of(by_a_mask.op).partition("_backward(")[0]
    assert forward.count("torch.exp(") == 1 and forward.count("w.square()") + forward.count("w**2") == 1, forward


def test_what_the_maximum_is_of_is_written_over():
    code = code_of(average_of_some.op)
    assert ".sub_(where_keep_z_max).exp_()" in code, code


@pytest.mark.parametrize("made", [at_labels, *(made for made, _ in MADE)], ids=lambda made: made.op.name)
def test_no_gradient_goes_through_the_largest(made):
    steps = derive_op(made.op).steps
    largest = [e.name for e in steps.op.equations if e.kind in ("amax", "amin")]
    assert largest
    assert not any(steps.adjoint(name) for name in largest)


@op
def capped(f, z: tensor[n, c]):
    """No larger than 30."""
    f.w[n, c] = 30 * tanh(z[n, c] / 30)
    f.y[n] = log(sum(exp(f.w[n, c]), over=c))
    return f.y


@op
def clamped(f, z: tensor[n, c], tau: scalar = 2):
    f.w[n, c] = minimum(maximum(z[n, c], -10), 20) - 5 * tanh(z[n, c])
    f.y[n] = log(sum(exp(f.w[n, c]), over=c))
    return f.y


@op
def sum_is_wanted(f, z: tensor[n, c]):
    f.s[n] = sum(exp(z[n, c]), over=c)
    f.y[n] = log(f.s[n])
    return f.y, f.s


@op
def with_two_sums(f, z: tensor[n, c], w: tensor[n, d]):
    """Neither is the largest of the other."""
    f.y[n] = log(sum(exp(z[n, c]), over=c) + sum(exp(w[n, d]), over=d))
    return f.y


@op
def beside_a_table(f, z: tensor[n, c], w: tensor[n, d]):
    f.y[n, d] = log(exp(w[n, d]) + sum(exp(z[n, c]), over=c))
    return f.y


@op
def by_the_root(f, z: tensor[n, c]):
    f.y[n, c] = exp(z[n, c]) / sqrt(sum(exp(2 * z[n, c]), over=c))
    return f.y


@op
def tails(f, x: tensor[n, t]):
    """Running sums, of which each has its own largest."""
    f.tail[n, t] = sum(where(u >= t, exp(x[n, u]), 0), over=u)
    f.y[n] = sum(log(f.tail[n, t]), over=t)
    return f.y


@op
def of_one_place(f, z: tensor[n, c], y: index(c)[n]):
    """A sum that is one element."""
    f.lp[n] = log(sum(where(eq(c, y[n]), exp(z[n, c]), 0), over=c))
    return f.lp


@op
def asked_of_the_sum(f, z: tensor[n, c]):
    """What is asked of a sum is asked of all of it."""
    f.y[n] = where(sum(exp(z[n, c]), over=c) > 2, log(sum(exp(z[n, c]), over=c)), 0)
    return f.y


@op
def largest_is_written(f, z: tensor[n, c]):
    f.m[n] = amax(z[n, c], over=c)
    f.y[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    return f.y


@op(stepwise=True)
def gives_every_gradient(f, z: tensor[n, c]):
    f.e[n, c] = exp(z[n, c])
    f.y[n] = log(sum(f.e[n, c], over=c))
    return f.y


LEFT = [capped, clamped, sum_is_wanted, with_two_sums, beside_a_table, by_the_root, tails, of_one_place]
LEFT += [largest_is_written, gives_every_gradient, asked_of_the_sum]


@pytest.mark.parametrize("made", LEFT, ids=lambda made: made.op.name)
def test_left_as_it_is_written(made):
    assert not any(e.free for e in derive_op(made.op).named.equations)


def test_an_axis_without_places_is_refused_by_name():
    with pytest.raises(ValueError, match="log_sum: axis c has length 0 in z, but its maximum needs at least one place"):
        module(log_sum.op).log_sum(torch.ones(3, 0))


@op
def distilled(f, z: tensor[n, c], w: tensor[n, c], tau: scalar = 2):
    f.p[n, c] = exp(z[n, c] / tau) / sum(exp(z[n, c] / tau), over=c)
    f.q[n, c] = exp(w[n, c] / tau) / sum(exp(w[n, c] / tau), over=c)
    f.loss[()] = mean(sum(f.q[n, c] * (log(f.q[n, c]) - log(f.p[n, c])), over=c), over=n)
    return f.loss


def _distilled(z: Tensor, w: Tensor) -> Tensor:
    q = (w / 2).softmax(1)
    return (q * ((w / 2).log_softmax(1) - (z / 2).log_softmax(1))).sum(1).mean()


def test_what_a_local_derivative_stands_for_is_not_kept_beside_it():
    """The two derivatives are as large as both inputs: of the forms that keep no more, the shorter one."""
    assert_derived_at(distilled.op, _distilled, LENGTHS)
    derivation = derive_op(distilled.op)
    assert [s.axes for s in derivation.saved] == [("n", "c"), ("n", "c")]
    assert len(derivation.backward.statements) <= 4


@pytest.mark.parametrize("made", DISTANCES, ids=lambda made: made.op.name)
def test_of_what_is_subtracted_the_smallest_is_taken(made) -> None:
    """Minus the distances would be a tensor more."""
    code = code_of(made.op)
    assert "amin(1" in code and "amax" not in code, code
