"""A variance or covariance as a difference of means is one of deviations, so that it keeps its digits far from 0."""

import pytest
import torch

from derive import amax, axes, constant, exp, index, maximum, mean, op, relu, rsqrt, size, sqrt, sum, tensor
from derive.pipeline import derive_op
from derive.rules.stability.deviations import with_deviations
from derive.verify.verify import verify
from tests.derive.live import module

n, i, j, k, d, t = axes("n i j k d t")
four, six = axes("four=4 six=6")


@op
def scaled_rows(f, x: tensor[..., d]):
    f.mu[...] = mean(x[..., d], over=d)
    f.var[...] = mean(x[..., d] ** 2, over=d) - f.mu[...] ** 2
    f.y[..., d] = (x[..., d] - f.mu[...]) * rsqrt(f.var[...] + 1e-5)
    return f.y


@op
def scaled_in_one(f, x: tensor[..., d], g: tensor[d]):
    """The sums stand under an axis that they run over."""
    var = mean(x[..., d] ** 2, over=d) - mean(x[..., d], over=d) ** 2
    f.y[..., d] = g[d] * (x[..., d] - mean(x[..., d], over=d)) / sqrt(var + 1e-5)
    return f.y


@op
def weighed_by_variance(f, x: tensor[n, d]):
    """The same in a sum along that axis."""
    f.m[n] = sum(x[n, d], over=d) / size(d)
    f.y[n] = sum((x[n, d] - f.m[n]) ** 3 / (sum(x[n, d] ** 2, over=d) / size(d) - f.m[n] ** 2), over=d)
    return f.y


@op
def variance_along(f, x: tensor[n, d]):
    """One variance a row, at every place of it."""
    f.y[n, d] = mean(x[n, d] ** 2, over=d) - mean(x[n, d], over=d) ** 2
    return f.y


@op
def divided_later(f, x: tensor[n, d]):
    f.s[d] = sum(x[n, d], over=n)
    f.square[n, d] = x[n, d] * x[n, d]
    f.q[d] = sum(f.square[n, d], over=n)
    f.var[d] = (f.q[d] - f.s[d] ** 2 / size(n)) / (size(n) - 1)
    f.y[n, d] = (x[n, d] - f.s[d] / size(n)) / sqrt(f.var[d] + 1e-5)
    return f.y


@op
def bounded(f, x: tensor[n, k, t]):
    f.count[()] = size(k) * size(t)
    f.mu[n] = sum(x[n, k, t], over=(k, t)) / f.count[()]
    f.y[n] = sqrt(maximum(sum(x[n, k, t] ** 2, over=(k, t)) / f.count[()] - f.mu[n] ** 2, 0) + 1e-5)
    return f.y


@op
def under_a_mask(f, x: tensor[n, d], m: constant[n]):
    f.count[()] = sum(m[n], over=n)
    f.mu[d] = sum(m[n] * x[n, d], over=n) / f.count[()]
    f.var[d] = relu(sum(m[n] * x[n, d] ** 2, over=n) / f.count[()] - f.mu[d] ** 2)
    f.y[n, d] = m[n] * (x[n, d] - f.mu[d]) / sqrt(f.var[d] + 1e-5)
    return f.y, f.var


@op
def covariance(f, x: tensor[n, i], z: tensor[n, j]):
    f.c[i, j] = mean(x[n, i] * z[n, j], over=n) - mean(x[n, i], over=n) * mean(z[n, j], over=n)
    return f.c


@op
def correlation(f, x: tensor[n], z: tensor[n]):
    """As textbooks have it for a calculator."""
    f.xz[()] = size(n) * sum(x[n] * z[n], over=n) - sum(x[n], over=n) * sum(z[n], over=n)
    f.xx[()] = size(n) * sum(x[n] ** 2, over=n) - sum(x[n], over=n) ** 2
    f.zz[()] = size(n) * sum(z[n] ** 2, over=n) - sum(z[n], over=n) ** 2
    f.r[()] = f.xz[()] / sqrt(f.xx[()] * f.zz[()])
    return f.r


@op
def attentive_statistics(f, w: tensor[n, k], x: tensor[n, k, d]):
    """A mean and a deviation under shares (Okabe, Koshinaka & Shinoda, 2018)."""
    f.m[n] = amax(w[n, k], over=k)
    f.a[n, k] = exp(w[n, k] - f.m[n]) / sum(exp(w[n, k] - f.m[n]), over=k)
    f.mu[n, d] = sum(f.a[n, k] * x[n, k, d], over=k)
    f.sd[n, d] = sqrt(sum(f.a[n, k] * x[n, k, d] ** 2, over=k) - f.mu[n, d] ** 2 + 1e-6)
    return f.sd, f.mu


@op
def in_shares_of_weights(f, u: constant[n, k], x: tensor[n, k]):
    f.a[n, k] = u[n, k] / sum(u[n, k], over=k)
    f.mu[n] = sum(f.a[n, k] * x[n, k], over=k)
    f.var[n] = sum(f.a[n, k] * x[n, k] ** 2, over=k) - f.mu[n] ** 2
    return f.var


@op
def of_other_weights(f, u: constant[n, k], v: constant[n, k], x: tensor[n, k]):
    """What is divided by the sum of others adds up to anything."""
    f.a[n, k] = u[n, k] / sum(v[n, k], over=k)
    f.mu[n] = sum(f.a[n, k] * x[n, k], over=k)
    f.var[n] = sum(f.a[n, k] * x[n, k] ** 2, over=k) - f.mu[n] ** 2
    return f.var


OPS = [scaled_rows, scaled_in_one, weighed_by_variance, variance_along]
OPS += [divided_later, bounded, under_a_mask, covariance, correlation, attentive_statistics,
       in_shares_of_weights]  # fmt: skip


@pytest.mark.parametrize("spec", OPS, ids=lambda o: o.op.name)
def test_battery(spec):
    found = verify(spec.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@pytest.mark.parametrize("spec", OPS, ids=lambda o: o.op.name)
def test_digits_far_from_0(spec):
    """Of numbers about 100 with a deviation of 1: as it is written, 1e-3 is left of float32's 1e-7."""
    torch.manual_seed(0)
    own = getattr(module(spec.op), spec.op.name)
    operands = [o for o in spec.op.operands if o.is_tensor]
    shape = [(40, *(5,) * (len(o.axes) - 1)) for o in operands]
    shape = [(5, 8, 5)] if spec is bounded else [(6, 40)] if spec is scaled_rows else shape
    shape = [(6, 40), (40,)] if spec is scaled_in_one else shape
    shape = (
        [(4, 7), (4, 7, 3)] if spec is attentive_statistics else [(4, 7)] * 2 if spec is in_shares_of_weights else shape
    )
    wide = [torch.randn(s, dtype=torch.float64) + 100 for s in shape]
    if spec is attentive_statistics:
        wide[0] -= 100  # the scores
    if spec is under_a_mask:
        wide[1] = (torch.rand(40, dtype=torch.float64) > 0.3).double()
    found = []
    for dtype in (torch.float64, torch.float32):
        x = [a.float().to(dtype).requires_grad_(o.differentiable) for a, o in zip(wide, operands, strict=True)]
        y = own(*x)
        first = y[0] if isinstance(y, tuple) else y
        dy = torch.linspace(-1, 1, first.numel(), dtype=torch.float64).sin().mul(7).cos().reshape(first.shape).to(dtype)
        grads = torch.autograd.grad(first, [a for a in x if a.requires_grad], dy)
        found.append([first, *grads])
    for right, ours in zip(*found, strict=True):
        assert (ours.double() - right).abs().max() < 1e-4 * right.abs().max()


def test_a_bound_on_a_variance_goes():
    assert "maximum" not in str(derive_op(bounded.op).forward)
    assert "relu" in str(derive_op(under_a_mask.op).forward)  # whose weights may be below 0


@op
def under_attention(f, p: tensor[i, j], v: tensor[j, d]):
    """Deviations would be a table of `i j d`."""
    f.total[i] = sum(p[i, j], over=j)
    f.m[i, d] = sum(p[i, j] * v[j, d], over=j) / f.total[i]
    f.y[i, d] = sum(p[i, j] * v[j, d] ** 2, over=j) / f.total[i] - f.m[i, d] ** 2
    return f.y


@op
def in_windows(f, x: tensor[n, t], w: constant[k]):
    """Here it would be one of all windows."""
    f.m[n, i] = sum(w[k] * x[n, i + k], over=k) / sum(w[k], over=k)
    f.y[n, i] = sum(w[k] * x[n, i + k] ** 2, over=k) / sum(w[k], over=k) - f.m[n, i] ** 2
    return f.y


@op
def of_windows_alone(f, x: tensor[n, t]):
    """Sums over windows are made of one another."""
    f.y[n, i] = mean(x[n, i + four] ** 2, over=four) - mean(x[n, i + four], over=four) ** 2
    return f.y


@op
def of_others(f, x: tensor[n, d], z: tensor[n, d]):
    """No variance: another mean, or another number before it."""
    f.y[d] = mean(x[n, d] ** 2, over=n) - mean(x[n, d], over=n) * mean(z[n, d], over=n)
    f.half[d] = mean(x[n, d] ** 2, over=n) - mean(x[n, d], over=n) ** 2 / 2
    return f.y, f.half


@op
def of_outer_products(f, x: tensor[n, i], z: tensor[n, j]):
    """The mean of squares is a matrix product, and deviations would be a table of `n i j`."""
    f.y[i, j] = mean((x[n, i] * z[n, j]) ** 2, over=n) - mean(x[n, i] * z[n, j], over=n) ** 2
    return f.y


NONE = [under_attention, in_windows, of_windows_alone, of_others, of_outer_products]


@pytest.mark.parametrize("spec", NONE, ids=lambda o: o.op.name)
def test_what_is_no_sum_of_deviations_stays(spec):
    assert with_deviations(spec.op) == spec.op


@op
def of_neighbours(f, x: tensor[n, d], near: index(n)[n, k]):
    """As aggregators of graphs have it (PNA: Corso et al., 2020)."""
    f.m[n, d] = mean(x[near[n, k], d], over=k)
    f.s[n, d] = sqrt(relu(mean(x[near[n, k], d] ** 2, over=k) - f.m[n, d] ** 2) + 1e-5)
    return f.m, f.s


@op
def of_first_places(f, x: tensor[n, six]):
    f.v[n] = mean(x[n, four] ** 2, over=four) - mean(x[n, four], over=four) ** 2
    return f.v


def test_deviations_of_first_places() -> None:
    assert "_minus_" in str(derive_op(of_first_places.op).forward) and verify(of_first_places.op).right


def test_deviations_of_what_an_index_chooses() -> None:
    torch.manual_seed(0)
    x, near = (torch.randn(30, 4, dtype=torch.float64) + 1000).float(), torch.randint(0, 30, (30, 7))
    dm, ds = torch.randn(2, 30, 4, dtype=torch.float64)
    wide = x.double().requires_grad_()
    m = wide[near].mean(1)
    s = (wide[near].var(1, correction=0) + 1e-5).sqrt()
    (right,) = torch.autograd.grad((m, s), wide, (dm, ds))
    made = module(of_neighbours.op)
    found_m, found_s, saved = made.of_neighbours_forward(x, near)
    found = made.of_neighbours_backward(dm.float(), ds.float(), *saved)
    assert (found_m - m).abs().max() < 1e-3 and (found_s - s).abs().max() < 1e-3
    assert (found - right).abs().max() < 1e-3 * right.abs().max()
    assert verify(of_neighbours.op).right


def test_what_a_mean_under_shares_leaves_is_0() -> None:
    """`sum(a*(x - mu)) = 0`, as `sum(a) = 1`: no gradient of the mean comes from the deviation."""
    derivation = derive_op(attentive_statistics.op)
    lines = [str(s) for s in derivation.backward.statements]
    assert len(lines) <= 4 and {"a", "x_minus_mu"} <= set(derivation.kept) and "x" not in derivation.kept, lines
    assert "amax" not in "".join(lines)


@op
def of_weights_around_1(f, u: constant[n, k], x: tensor[n, k]):
    """What is divided by its own mean adds up to how many they are."""
    f.a[n, k] = u[n, k] / mean(u[n, k], over=k)
    f.mu[n] = sum(f.a[n, k] * x[n, k], over=k)
    f.var[n] = sum(f.a[n, k] * x[n, k] ** 2, over=k) - f.mu[n] ** 2
    return f.var


@op
def of_all_rows(f, u: constant[n, k], x: tensor[n, k]):
    """Shares of each row add up to how many rows there are."""
    f.a[n, k] = u[n, k] / sum(u[n, k], over=k)
    f.mu[()] = sum(f.a[n, k] * x[n, k], over=(n, k))
    f.var[()] = sum(f.a[n, k] * x[n, k] ** 2, over=(n, k)) - f.mu[()] ** 2
    return f.var


@pytest.mark.parametrize("spec", [of_other_weights, of_weights_around_1, of_all_rows], ids=lambda o: o.op.name)
def test_weights_that_add_up_to_something_else_are_none(spec) -> None:
    assert with_deviations(spec.op) == spec.op
