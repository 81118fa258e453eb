"""One-hot targets with a name are no tensors: the sums that read them select."""

import torch

from derive import axes, constant, index, log, maximum, mean, op, scalar, size, sum, tensor, where
from derive.emit import render
from derive.ir.equations import Op
from derive.notation import delta, eq, exp
from derive.pipeline import derivation_of
from tests.derive.live import module

n, c, d, k = axes("n c d k")


@op
def one_hot(f, z: tensor[n, c], y: index(c)[n]):
    f.hot[n, c] = where(eq(c, y[n]), 1, 0)
    f.logp[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    f.loss[()] = -sum(f.hot[n, c] * f.logp[n, c], over=(n, c)) / size(n)
    return f.loss


@op
def smoothed(f, z: tensor[n, c], y: index(c)[n], a: scalar = 0.1):
    f.hot[n, c] = delta(c, y[n])
    f.q[n, c] = (1 - a) * f.hot[n, c] + a / size(c)
    f.logp[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    f.loss[()] = -mean(sum(f.q[n, c] * f.logp[n, c], over=c), over=n)
    return f.loss


@op
def weighted(f, z: tensor[n, c], y: index(c)[n], w: constant[c]):
    f.hot[n, c] = where(eq(c, y[n]), w[c], 0)
    f.logp[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    f.loss[()] = -sum(f.hot[n, c] * f.logp[n, c], over=(n, c)) / sum(f.hot[n, c], over=(n, c))
    return f.loss


@op
def centres(f, x: tensor[n, d], y: index(k)[n], other: tensor[k]):
    f.hot[n, k] = where(eq(y[n], k), 1, 0)
    f.count[k] = sum(f.hot[n, k], over=n)
    f.mu[k, d] = sum(f.hot[n, k] * x[n, d], over=n) / maximum(f.count[k], 1)
    f.apart[n, d] = x[n, d] - sum(f.hot[n, k] * f.mu[k, d], over=k)
    return f.apart


@op
def brier(f, z: tensor[n, c], y: index(c)[n]):
    """What reads a table otherwise has it made."""
    f.hot[n, c] = where(eq(c, y[n]), 1, 0)
    f.loss[()] = sum((z[n, c] - f.hot[n, c]) ** 2, over=(n, c)) + sum(f.hot[n, c] * z[n, c], over=(n, c))
    return f.loss


@op
def of_two_numbers(f, z: tensor[n, c], y: index(c)[n], a: scalar = 0.1):
    f.q[n, c] = where(eq(c, y[n]), 1 - a + a / size(c), a / size(c))
    f.logp[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    f.loss[()] = -sum(f.q[n, c] * f.logp[n, c], over=(n, c)) / size(n)
    return f.loss


@op
def of_two_numbers_inside(f, z: tensor[n, c], y: index(c)[n], a: scalar = 0.1):
    f.logp[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    f.loss[()] = -mean(sum(where(eq(c, y[n]), 1 - a + a / size(c), a / size(c)) * f.logp[n, c], over=c), over=n)
    return f.loss


def of_targets(q: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return -(q * z.log_softmax(1)).sum() / len(z)


def assert_right(made: Op, found: torch.Tensor, right: torch.Tensor, leaf: torch.Tensor) -> None:
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)
    cotangent = torch.randn(right.shape, generator=torch.Generator().manual_seed(1), dtype=right.dtype)
    mine, wanted = (torch.autograd.grad(v, leaf, cotangent) for v in (found, right))
    torch.testing.assert_close(mine, wanted, rtol=1e-11, atol=1e-14)


def test_losses_of_targets_gather() -> None:
    z = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    y, w = torch.tensor([2, 0, 0, 1, 2]), torch.tensor([0.5, 2.0, 0.0], dtype=torch.float64)
    hot = torch.nn.functional.one_hot(y, 3).double()
    assert_right(one_hot.op, module(one_hot.op).one_hot(z, y), of_targets(hot, z), z)
    assert_right(smoothed.op, module(smoothed.op).smoothed(z, y, 0.2), of_targets(0.8 * hot + 0.2 / 3, z), z)
    right = of_targets(hot * w, z) * 5 / (hot * w).sum()
    assert_right(weighted.op, module(weighted.op).weighted(z, y, w), right, z)
    for made in (of_two_numbers, of_two_numbers_inside):
        found = getattr(module(made.op), made.op.name)(z, y, 0.2)
        assert_right(made.op, found, of_targets(0.8 * hot + 0.2 / 3, z), z)
    for made in (one_hot, smoothed, weighted, of_two_numbers, of_two_numbers_inside):
        code = render(derivation_of(made.op))
        assert "hot" not in derivation_of(made.op).forward.names, code
        assert ".gather(" in code and "torch.arange" not in code, code


def test_sums_by_cluster_are_added_up_by_index() -> None:
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    y, other = torch.tensor([0, 3, 3, 1, 0, 3]), torch.zeros(4, dtype=torch.float64)
    hot = torch.nn.functional.one_hot(y, 4).double()
    mu = hot.T @ x / hot.sum(0).clamp(min=1)[:, None]
    assert_right(centres.op, module(centres.op).centres(x, y, other), x - hot @ mu, x)
    code = render(derivation_of(centres.op))
    assert "torch.arange" not in code and " @ " not in code, code


def test_a_table_that_something_else_reads_is_made() -> None:
    z = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([2, 0, 0, 1, 2])
    hot = torch.nn.functional.one_hot(y, 3).double()
    assert_right(brier.op, module(brier.op).brier(z, y), ((z - hot) ** 2).sum() + (hot * z).sum(), z)
    assert "hot" in derivation_of(brier.op).forward.names


@op
def added_up(f, z: tensor[n, c], y: index(c)[n], a: scalar = 0.1):
    f.q[n, c] = (1 - a) * delta(c, y[n]) + a / size(c)
    f.loss[()] = mean(sum(f.q[n, c], over=c) * sum(f.q[n, c] * z[n, c], over=c), over=n)
    return f.loss


def test_what_is_the_same_everywhere_is_counted() -> None:
    z = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([2, 0, 0, 1, 2])
    hot = torch.nn.functional.one_hot(y, 3).double()
    assert_right(added_up.op, module(added_up.op).added_up(z, y, 0.3), ((0.7 * hot + 0.1) * z).sum(1).mean(), z)
    assert not any("sum(1" in str(s) for s in derivation_of(added_up.op).forward.statements)


@op
def with_large_terms(f, z: tensor[n, c], y: index(c)[n], w: constant[n, c]):
    """What is computed for all places is computed once, however many sums read it."""
    f.q[n, c] = delta(c, y[n]) + exp(z[n, c])
    f.loss[()] = sum(f.q[n, c] * w[n, c], over=(n, c)) + sum(f.q[n, c] * z[n, c], over=(n, c))
    return f.loss


def test_a_table_of_large_terms_is_made() -> None:
    z, w = (torch.randn(5, 3, dtype=torch.float64) for _ in range(2))
    z.requires_grad, y = True, torch.tensor([2, 0, 0, 1, 2])
    q = torch.nn.functional.one_hot(y, 3) + z.exp()
    assert_right(with_large_terms.op, module(with_large_terms.op).with_large_terms(z, y, w), (q * w + q * z).sum(), z)
    assert "q" in derivation_of(with_large_terms.op).forward.names
