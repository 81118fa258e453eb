"""Formulas of shares in one equation are as finite as in several: a sum of shares reads their sum, and has no other."""

import pytest
import torch
from torch import Tensor

from derive.emit import render
from derive.notation import axes, exp, log, oo, op, sum, tensor, where
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

n, c, m, j, k = axes("n c m j k")


@op
def weighted(f, z: tensor[n, c], v: tensor[n, c]):
    f.o[n] = sum(exp(z[n, c]) / sum(exp(z[n, m]), over=m) * v[n, c], over=c)
    return f.o


@op
def entropy(f, z: tensor[n, c]):
    f.o[n] = -sum(exp(z[n, c]) / sum(exp(z[n, m]), over=m) * log(exp(z[n, c]) / sum(exp(z[n, m]), over=m)), over=c)
    return f.o


@op
def entropy_by_logsumexp(f, z: tensor[n, c]):
    f.o[n] = log(sum(exp(z[n, c]), over=c)) - sum(exp(z[n, c]) * z[n, c], over=c) / sum(exp(z[n, c]), over=c)
    return f.o


@op
def variance(f, z: tensor[n, c], v: tensor[n, c]):
    f.o[n] = (
        sum(exp(z[n, c]) * v[n, c] ** 2, over=c) / sum(exp(z[n, c]), over=c)
        - (sum(exp(z[n, c]) * v[n, c], over=c) / sum(exp(z[n, c]), over=c)) ** 2
    )
    return f.o


@op
def divergence(f, z: tensor[n, c], v: tensor[n, c]):
    f.o[n] = sum(
        exp(z[n, c])
        / sum(exp(z[n, m]), over=m)
        * (log(exp(z[n, c]) / sum(exp(z[n, m]), over=m)) - log(exp(v[n, c]) / sum(exp(v[n, m]), over=m))),
        over=c,
    )
    return f.o


@op
def along_two(f, z: tensor[n, j, k], v: tensor[n, j, k]):
    f.o[n] = sum(exp(z[n, j, k]) / sum(exp(z[n, j, k]), over=(j, k)) * v[n, j, k], over=(j, k))
    return f.o


def _variance(z: Tensor, v: Tensor) -> Tensor:
    p = z.softmax(1)
    return (p * (v - (p * v).sum(1, keepdim=True)) ** 2).sum(1)


PLAIN = {
    "weighted": lambda z, v: (z.softmax(1) * v).sum(1),
    "entropy": lambda z: -(z.softmax(1) * z.log_softmax(1)).sum(1),
    "entropy_by_logsumexp": lambda z: -(z.softmax(1) * z.log_softmax(1)).sum(1),
    "variance": _variance,
    "divergence": lambda z, v: (z.softmax(1) * (z.log_softmax(1) - v.log_softmax(1))).sum(1),
    "along_two": lambda z, v: (z.flatten(1).softmax(1) * v.flatten(1)).sum(1),
}
OPS = [weighted, entropy, entropy_by_logsumexp, variance, divergence, along_two]


@pytest.mark.parametrize("made", OPS, ids=lambda m: m.op.name)
@pytest.mark.parametrize("size", [1.0, 800.0])
def test_they_are_finite(made, size: float) -> None:
    """Also where exponentials would overflow, of scores that leave some shares at exactly 0."""
    shape = (2, 2, 2) if made is along_two else (2, 4)
    torch.manual_seed(0)
    z = (size * torch.randn(shape, dtype=torch.float64)).requires_grad_()
    args = [z, torch.randn(shape, dtype=torch.float64, requires_grad=True)][: len(made.op.operands)]
    o, want = getattr(module(made.op), made.op.name)(*args), PLAIN[made.op.name](*args)
    torch.testing.assert_close(o, want, rtol=1e-10, atol=1e-12)
    found, wanted = (torch.autograd.grad(y.sum(), args, retain_graph=True) for y in (o, want))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("made", OPS, ids=lambda m: m.op.name)
def test_they_are_derived(made) -> None:
    shape = (2, 3, 4) if made is along_two else (3, 4)
    assert_derived(made.op, PLAIN[made.op.name], {o.name: shape for o in made.op.operands})


def test_a_variance_under_weights_stays_one_of_deviations() -> None:
    assert any("minus_mean" in e.name for e in derivation_of(variance.op).named.equations)


@op
def masked(f, z: tensor[j, k]):
    f.p[j, k] = exp(where(k <= j, z[j, k], -oo)) / sum(exp(where(k <= j, z[j, k], -oo)), over=k)
    return f.p


@op
def masked_by_name(f, z: tensor[j, k]):
    f.w[j, k] = where(k <= j, z[j, k], -oo)
    f.p[j, k] = exp(f.w[j, k]) / sum(exp(f.w[j, k]), over=k)
    return f.p


def test_a_mask_inside_is_one_tensor() -> None:
    """As if it had a name: the exponentials are not made twice, and the shares alone are kept."""
    assert derivation_of(masked.op).kept == derivation_of(masked_by_name.op).kept == ("p",)
    assert render(derivation_of(masked.op)).count("exp(") == render(derivation_of(masked_by_name.op)).count("exp(")
    assert_derived(
        masked.op, lambda z: z.masked_fill(torch.ones_like(z).triu(1) > 0, -torch.inf).softmax(1), {"z": (4, 4)}
    )
