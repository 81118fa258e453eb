"""A maximum that is subtracted for safety gets no gradient, however the softmax about it is spelled."""

import pytest
import torch

from derive.ir.equations import Op
from derive.notation import amax, amin, axes, eq, exp, index, length, log, maximum, oo, op, sum, tanh, tensor, where
from derive.pipeline import derivation_of, derive_op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, i, j, k, d, e = axes("n i j k d e")
near = axes("near=3")


@op
def weighted_over_weights(f, x: tensor[n, j, d], v: tensor[n, j, d], bias: tensor[i, j]):
    """Numerator and denominator are two matrix products (attention-free: Zhai et al., 2021)."""
    f.m[n, d] = amax(x[n, j, d], over=j)
    f.u[n, j, d] = exp(x[n, j, d] - f.m[n, d])
    f.top[i] = amax(bias[i, j], over=j)
    f.w[i, j] = exp(bias[i, j] - f.top[i])
    f.a[n, i, d] = sum(f.w[i, j] * f.u[n, j, d] * v[n, j, d], over=j)
    f.b[n, i, d] = sum(f.w[i, j] * f.u[n, j, d], over=j)
    f.y[n, i, d] = f.a[n, i, d] / f.b[n, i, d]
    return f.y


@op
def two_sources(f, s: tensor[i, j], r: tensor[i, k], v: tensor[j, e], w: tensor[k, e]):
    """One softmax over two sets of keys, which nobody joins (prefixes: Li & Liang, 2021)."""
    f.m[i] = maximum(amax(s[i, j], over=j), amax(r[i, k], over=k))
    f.u[i, j] = exp(s[i, j] - f.m[i])
    f.t[i, k] = exp(r[i, k] - f.m[i])
    f.z[i] = sum(f.u[i, j], over=j) + sum(f.t[i, k], over=k)
    f.o[i, e] = (sum(f.u[i, j] * v[j, e], over=j) + sum(f.t[i, k] * w[k, e], over=k)) / f.z[i]
    return f.o


@pytest.mark.parametrize("made", [weighted_over_weights.op, two_sources.op], ids=lambda made: made.name)
def test_no_maximum_is_asked_for_ties(made: Op) -> None:
    derivation = derivation_of(made)
    extrema = {e.name for e in derivation.named.equations if e.kind == "amax"}
    assert extrema and not extrema & set(derivation.kept)
    assert "==" not in str(derivation.backward)


@op
def farther_than_its_own(f, x: tensor[i, d], own: index(j)[i]):
    """The nearest of those that are farther than its own: a condition reads what is only another name."""
    f.far[i, j] = sum((x[i, d] - x[j, d]) ** 2, over=d)
    f.least[i] = f.far[i, own[i]]
    f.next[i] = amin(where(f.far[i, j] > f.least[i], f.far[i, j], oo), over=j)
    f.y[i] = f.least[i] - f.next[i]
    return f.y


def test_what_a_condition_reads_is_put_in_once() -> None:
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    far = (x[:, None] - x).square().sum(2)
    own = far.detach().clone().fill_diagonal_(torch.inf).argmin(1)  # so that some are farther
    least = far.gather(1, own[:, None])
    wanted = least.squeeze(1) - far.masked_fill(far <= least, torch.inf).amin(1)
    assert_alike(module(farther_than_its_own.op).farther_than_its_own(x, own), wanted, [x])


@op
def where_it_peaks(f, z: tensor[n, i, j], beta: tensor[()]):
    """Two means of one softmax under a temperature that is learned (soft-argmax: Finn et al., 2016)."""
    f.m[n] = amax(z[n, i, j], over=(i, j))
    f.u[n, i, j] = exp(beta[()] * (z[n, i, j] - f.m[n]))
    f.s[n] = sum(f.u[n, i, j], over=(i, j))
    f.row[n] = sum(f.u[n, i, j] * i, over=(i, j)) / f.s[n]
    f.column[n] = sum(f.u[n, i, j] * j, over=(i, j)) / f.s[n]
    return f.row, f.column


def test_two_means_of_one_softmax_under_a_temperature() -> None:
    assert "==" not in str(derivation_of(where_it_peaks.op).backward)
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 4, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    beta = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    p = (beta * z).flatten(1).softmax(1).view_as(z)
    means = (p.sum(2) @ torch.arange(4.0).double(), p.sum(1) @ torch.arange(5.0).double())
    cotangents = [torch.randn(3, dtype=torch.float64, generator=generator) for _ in means]
    right = torch.autograd.grad(means, (z, beta), cotangents)
    found = torch.autograd.grad(module(where_it_peaks.op).where_it_peaks(z, beta), (z, beta), cotangents)
    torch.testing.assert_close(found, right, rtol=1e-11, atol=1e-13)


@op
def tails(f, x: tensor[n, i]):
    """The logarithm of the sum of what follows: a mask of places stands in the sum."""
    f.m[n] = amax(x[n, i], over=i)
    f.y[n, i] = f.m[n] + log(sum(where(j >= i, exp(x[n, j] - f.m[n]), 0), over=j))
    return f.y


def test_a_maximum_under_running_sums() -> None:
    (line,) = [str(s) for s in derivation_of(tails.op).backward.statements if s.name == "dx"]
    assert "==" not in str(derivation_of(tails.op).backward), line
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    dy = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    (right,) = torch.autograd.grad(x.flip(1).logcumsumexp(1).flip(1), x, dy)
    (found,) = torch.autograd.grad(module(tails.op).tails(x), x, dy)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)


@op
def merged_states(f, a: tensor[n], b: tensor[n], x: tensor[n], z: tensor[n]):
    """Two partial softmaxes as one, each with the logarithm of its weight (FlashAttention: Dao et al., 2022)."""
    f.m[n] = maximum(a[n], b[n])
    f.u[n] = exp(a[n] - f.m[n])
    f.w[n] = exp(b[n] - f.m[n])
    f.y[n] = (f.u[n] * x[n] + f.w[n] * z[n]) / (f.u[n] + f.w[n])
    return f.y


def test_the_larger_of_two_that_is_only_a_shift() -> None:
    backward = code_of(merged_states.op).partition("def merged_states_backward")[2]
    assert "where" not in backward and "dm = " not in backward
    a, b, x, z = (torch.randn(6, dtype=torch.float64) for _ in range(4))
    b[:2] = a[:2]
    leaves = [t.requires_grad_() for t in (a, b, x, z)]
    weights = torch.stack([a, b]).softmax(0)
    assert_alike(module(merged_states.op).merged_states(*leaves), weights[0] * x + weights[1] * z, leaves)


@op
def shares_of_groups(f, x: tensor[e], of: index(n)[e], groups: length(n)):
    """A softmax of each group, its exponential written twice."""
    f.top[n] = amax(where(eq(of[e], n), x[e], -oo), over=e)
    f.all[n] = sum(where(eq(of[e], n), exp(x[e] - f.top[n]), 0), over=e)
    f.p[e] = exp(x[e] - f.top[of[e]]) / f.all[of[e]]
    return f.p


def test_a_maximum_of_each_group() -> None:
    derivation = derivation_of(shares_of_groups.op)
    assert set(derivation.kept) == {"p", "of"} and "==" not in str(derivation.backward)
    of = torch.tensor([2, 0, 2, 2, 4, 0, 2])
    x = torch.tensor([1.0, 3, 2, 2, 5, 3, -700], dtype=torch.float64, requires_grad=True)  # group 1 and 3 are empty
    wanted = torch.zeros(7, dtype=torch.float64)
    for group in of.unique():
        wanted = wanted.masked_scatter(of == group, x[of == group].softmax(0))
    assert_alike(module(shares_of_groups.op).shares_of_groups(x, of, 5), wanted, [x])


@op
def of_a_list(f, s: tensor[i]):
    """The likelihood of a ranking: the maximum of the whole list has no axis (ListMLE: Xia et al., 2008)."""
    f.top[()] = amax(s[i], over=i)
    f.rest[i] = sum(where(j >= i, exp(s[j] - f.top[()]), 0), over=j)
    f.loss[()] = sum(f.top[()] + log(f.rest[i]) - s[i], over=i)
    return f.loss


@op
def of_named_shares(f, s: tensor[i], w: tensor[i]):
    """The gradient of the exponential is a sum of its own, over an axis of another name than the forward's."""
    f.top[()] = amax(s[i], over=i)
    f.e[i] = exp(s[i] - f.top[()])
    f.rest[i] = sum(where(j >= i, f.e[j], 0), over=j)
    f.loss[()] = sum(w[i] * (log(f.rest[i]) + f.top[()] - s[i]), over=i)
    return f.loss


@pytest.mark.parametrize("made", [of_a_list.op, of_named_shares.op], ids=lambda made: made.name)
def test_running_sums_of_one_list(made: Op) -> None:
    """No table of all pairs is made, nor is anybody asked for the maximum."""
    x = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[2] = x[4]
    inputs = [v.clone().requires_grad_() for v in (x, x.cos())[: len(made.operands)]]
    weights = inputs[1] if len(inputs) > 1 else torch.ones(6, dtype=torch.float64)
    want = (weights * (inputs[0].flip(0).logcumsumexp(0).flip(0) - inputs[0])).sum()
    assert_alike(getattr(module(made), made.name)(*inputs), want, inputs)
    backward = code_of(made).partition("_backward(")[2].partition("class ")[0]
    assert ".cumsum(0)" in backward and "None]" not in backward and "==" not in backward, backward


@op
def forgetting(f, s: tensor[i, j], v: tensor[j, e], g: tensor[i]):
    """A decay between two places is a shift of all scores of a row, less one of each column."""
    f.c[i] = exp(g[i])
    f.w[i, j] = where(j <= i, s[i, j] + f.c[i] - f.c[j], -oo)
    f.m[i] = amax(f.w[i, j], over=j)
    f.u[i, j] = exp(f.w[i, j] - f.m[i])
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o


def test_what_shifts_a_whole_softmax_gets_nothing() -> None:
    """No pass over all scores sums them along rows: it would be 0 but for rounding."""
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((5, 5), (5, 3), (5,))]
    s, v, g = inputs
    c = g.exp()
    w = (s + c[:, None] - c).masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf)
    assert_alike(module(forgetting.op).forgetting(*inputs), w.softmax(1) @ v, inputs)
    backward = code_of(forgetting.op).partition("_backward(")[2].partition("class ")[0]
    assert "sum_ds = ds.sum(0)" in backward and backward.count(".sum(") == 2, backward


@op
def masked_at_once(f, q: tensor[i, d], k: tensor[j, d], v: tensor[j, e], a: tensor[i], c: tensor[j]):
    f.s[i, j] = where(j <= i, sum(q[i, d] * k[j, d], over=d) + a[i] - c[j], -oo)
    f.m[i] = amax(f.s[i, j], over=j)
    f.u[i, j] = exp(f.s[i, j] - f.m[i])
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o


def test_a_mask_in_the_equation_of_the_scores_hides_nothing() -> None:
    """What is summed under it is all of a row's shares, and a row's sum is taken by way of the output everywhere."""
    shapes = ((5, 2), (5, 2), (5, 3), (5,), (5,))
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    q, k, v, a, c = inputs
    s = (q @ k.T + a[:, None] - c).masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf)
    assert_alike(module(masked_at_once.op).masked_at_once(*inputs), s.softmax(1) @ v, inputs)
    backward = code_of(masked_at_once.op).partition("_backward(")[2].partition("class ")[0]
    assert "sum_do_o = (do * o).sum(1, keepdim=True)" in backward and "da = do.new_zeros((i,))" in backward, backward
    assert "dc = -ds_sum.sum(0)" in backward, backward


@op
def additive(f, a: tensor[i, d], c: tensor[j, d], w: tensor[d], v: tensor[j, e]):
    """Scores by a tanh (Bahdanau et al., 2014), whose shares are written without a name for their exponentials."""
    f.s[i, j] = sum(w[d] * tanh(a[i, d] + c[j, d]), over=d)
    f.m[i] = amax(f.s[i, j], over=j)
    f.p[i, j] = exp(f.s[i, j] - f.m[i]) / sum(exp(f.s[i, j] - f.m[i]), over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o


@pytest.mark.parametrize("save", ["cost", "kernel", "fused"])
def test_exponentials_without_a_name_hide_nothing(save: str) -> None:
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((5, 2), (4, 2), (2,), (4, 3))]
    a, c, w, v = inputs
    wanted = ((a[:, None] + c).tanh() @ w).softmax(1) @ v
    assert_alike(module(additive.op).additive(*inputs), wanted, inputs)
    derivation = derive_op(additive.op, save)
    assert "==" not in str(derivation.backward)
    if save == "cost":
        assert {"s", "m"}.isdisjoint(name for name, _ in derivation.backward.given)


@op
def energy_and_update(f, x: tensor[n, d], z: tensor[k, d], beta: tensor[()]):
    """Of a modern Hopfield network (Ramsauer et al., 2020)."""
    f.s[n, k] = exp(beta[()]) * sum(x[n, d] * z[k, d], over=d)
    f.m[n] = amax(f.s[n, k], over=k)
    f.t[n] = sum(exp(f.s[n, k] - f.m[n]), over=k)
    f.energy[n] = -exp(-beta[()]) * (f.m[n] + log(f.t[n])) + sum(x[n, d] ** 2, over=d) / 2
    f.y[n, d] = sum(exp(f.s[n, k] - f.m[n]) * z[k, d], over=k) / f.t[n]
    return f.energy, f.y


def test_a_maximum_in_two_outputs_gets_no_gradient_where_both_agree() -> None:
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((5, 3), (4, 3), ())]
    x, z, beta = inputs
    s = beta.exp() * (x @ z.T)
    wanted = (-s.logsumexp(1) / beta.exp() + x.square().sum(1) / 2, s.softmax(1) @ z)
    got = module(energy_and_update.op).energy_and_update(*inputs)
    dys = [torch.randn_like(w) for w in wanted]
    found, exact = (torch.autograd.grad(out, inputs, dys) for out in (got, wanted))
    for one, other in zip((*got, *found), (*wanted, *exact), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    assert "==" not in code_of(energy_and_update.op).split("def energy_and_update_backward")[1]


@op
def smooth_maximum(f, x: tensor[n, j]):
    """Of every three neighbours."""
    f.m[n, i] = amax(x[n, i + near], over=near)
    f.s[n, i] = sum(exp(x[n, i + near] - f.m[n, i]), over=near)
    f.y[n, i] = f.m[n, i] + log(f.s[n, i])
    return f.y


def test_a_maximum_in_windows_gets_no_gradient_either() -> None:
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    assert_alike(module(smooth_maximum.op).smooth_maximum(x), x.unfold(1, 3, 1).logsumexp(2), (x,))
    assert "==" not in code_of(smooth_maximum.op).split("def smooth_maximum_backward")[1]
