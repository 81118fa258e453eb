"""A name is opened where terms cancel, and a difference is never torn apart for its own sake."""

import math

import torch
from sympy import Expr, erf, exp

from derive import axes, constant, mean, op, tensor
from derive.collapse.openings import opened
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Tensor
from derive.notation import erf as erf_of
from derive.notation import exp as exp_of
from derive.notation import pi
from derive.notation import sqrt as sqrt_of
from derive.pipeline import derivation_of
from tests.derive.live import module

n = axes("n")
N = Axis("n")
X, MU, W, V, GAP, Z, C, P, H = (At(Tensor(name), N) for name in ("x", "mu", "w", "v", "gap", "z", "c", "p", "h"))
KNOWN = {"gap": ((N,), X - MU), "c": ((N,), (1 + erf(Z)) / 2), "p": ((N,), exp(-(Z**2))), "h": ((N,), V * Z)}


def first(value: Expr) -> object:
    return next((new for new, _ in opened(value, KNOWN)), None)


def test_terms_that_cancel() -> None:
    assert first(W * GAP + W * MU) == W * X
    assert first(2 * C * W - W) == W * erf(Z)
    assert first(V * C * 2 - V + W * P - W * exp(-(Z**2))) == V * erf(Z)


def test_what_cancels_nothing_stays_as_it_is_named() -> None:
    assert [new for new, _ in opened(GAP / H + MU / H, KNOWN)] == [X / H]


def test_nothing_cancels() -> None:
    assert first(W * GAP + V * MU) is None
    assert first(W * GAP**2 + V) is None
    assert first(W * GAP) is None


@op
def score(f, mu: tensor[n], s: tensor[n], x: constant[n]):
    """The derivative of the distribution and that of the density are one function, which cancels."""
    f.z[n] = (x[n] - mu[n]) / s[n]
    f.cdf[n] = (1 + erf_of(f.z[n] / sqrt_of(2))) / 2
    f.pdf[n] = exp_of(-(f.z[n] ** 2) / 2) / sqrt_of(2 * pi)
    f.e[n] = f.z[n] * (2 * f.cdf[n] - 1) + 2 * f.pdf[n]
    f.loss[()] = mean(f.e[n], over=n)
    return f.loss


def test_a_density_cancels() -> None:
    lines = [str(s) for s in derivation_of(score.op).backward.statements]
    assert not any("exp(" in line or "pdf" in line for line in lines), lines
    assert any(step.law == "open" for step in derivation_of(score.op).closed.steps)


def test_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    mu, s, x = (torch.randn(7, generator=generator, dtype=torch.float64) for _ in range(3))
    leaves = mu.requires_grad_(), (s.abs() + 0.5).requires_grad_()
    z = (x - leaves[0]) / leaves[1]
    density = (-z.square() / 2).exp() / math.sqrt(2 * math.pi)
    right = torch.autograd.grad((z * torch.erf(z / math.sqrt(2)) + 2 * density).mean(), leaves)
    found = torch.autograd.grad(module(score.op).score(*leaves, x), leaves)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
