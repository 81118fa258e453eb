"""Sums of exponentials that a logistic holds down are stable as their logarithms are written."""

import pytest
import torch
from torch.nn.functional import logsigmoid, softplus

from derive.notation import axes, constant, exp, log, op, sigmoid, sum, tensor
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, module

n, k = axes("n k")


@op
def logistic_mixture(f, x: constant[n], w: tensor[k], mu: tensor[n, k], ls: tensor[n, k]):
    """The logarithm of a mixture of logistic densities (Salimans et al., 2017)."""
    f.z[n, k] = (x[n] - mu[n, k]) * exp(-ls[n, k])
    f.y[n] = log(sum(exp(w[k] + f.z[n, k] - ls[n, k] - 2 * log(1 + exp(f.z[n, k]))), over=k))
    return f.y


@op
def shut(f, u: tensor[n, k], z: tensor[n, k]):
    f.y[n] = log(sum(exp(u[n, k] - z[n, k] + log(sigmoid(z[n, k]))), over=k))
    return f.y


@op
def gated(f, u: tensor[n, k], z: tensor[n, k]):
    f.y[n] = sum(exp(u[n, k]) * sigmoid(z[n, k]), over=k)
    return f.y


@pytest.mark.parametrize("far", [1.0, 3e3])
def test_far_from_the_data(far: float) -> None:
    """As SymPy takes the exponential apart, this is infinity times 0, or the logarithm of 0."""
    g = torch.Generator().manual_seed(0)
    made = [torch.randn(*s, dtype=torch.float64, generator=g) for s in ((5,), (4,), (5, 4), (5, 4))]
    x, (w, mu, ls) = made[0] * far, [t.requires_grad_() for t in made[1:]]
    z = (x[:, None] - mu) * torch.exp(-ls)
    right = torch.logsumexp(w + z - ls - 2 * softplus(z, threshold=700), 1)
    assert_alike(module(logistic_mixture.op).logistic_mixture(x, w, mu, ls), right, (w, mu, ls))


def test_one_sigmoid() -> None:
    g = torch.Generator().manual_seed(0)
    u, z = (torch.randn(3, 4, dtype=torch.float64, generator=g).mul_(900).requires_grad_() for _ in "uz")
    assert_alike(module(shut.op).shut(u, z), torch.logsumexp(u - z + logsigmoid(z), 1), (u, z))


def test_a_gate_of_something_else_stays_one() -> None:
    assert "softplus" not in str(derive_op(gated.op).forward)
