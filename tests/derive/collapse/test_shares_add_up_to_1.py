"""That shares add up to 1 is known of them also where what they are shares of has no name."""

import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, constant, exp, index, log, mean, op, scalar, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_alike, module

c, n = axes("c n")


@op
def distilled(f, z: tensor[n, c], teacher: constant[n, c], y: index(c)[n], tau: scalar = 4):
    """Beside a hard label (Hinton, Vinyals & Dean, 2015)."""
    f.p[n, c] = exp(teacher[n, c] / tau) / sum(exp(teacher[n, c] / tau), over=c)
    f.q[n, c] = exp(z[n, c] / tau) / sum(exp(z[n, c] / tau), over=c)
    f.soft[n] = -sum(f.p[n, c] * log(f.q[n, c]), over=c)
    f.hard[n] = -log(exp(z[n, y[n]]) / sum(exp(z[n, c]), over=c))
    f.loss[()] = mean(tau**2 * f.soft[n] + f.hard[n], over=n)
    return f.loss


def _distilled(z: Tensor, teacher: Tensor, y: Tensor) -> Tensor:
    soft = -((teacher / 4).softmax(1) * (z / 4).log_softmax(1)).sum(1).mean()
    return 16 * soft + functional.cross_entropy(z, y)


def test_no_shares_are_summed() -> None:
    backward = str(derivation_of(distilled.op).backward)
    assert "sum(p[" not in backward, backward
    z, teacher = torch.randn(2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 3, 3, 1, 2])
    z.requires_grad_()
    assert_alike(module(distilled.op).distilled(z, teacher, y), _distilled(z, teacher, y), [z])


@op
def of_others(f, z: tensor[n, c], u: tensor[n, c]):
    """What is divided by the sum of something else does not."""
    f.p[n, c] = exp(z[n, c]) / (1 + sum(exp(u[n, c]), over=c))
    f.y[n] = sum(f.p[n, c], over=c) ** 2
    return f.y


def test_shares_of_something_else_are() -> None:
    z, u = torch.randn(2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    leaves = [t.detach().requires_grad_() for t in (z, u)]
    plain = (leaves[0].exp() / (1 + leaves[1].exp().sum(1, keepdim=True))).sum(1) ** 2
    assert_alike(module(of_others.op).of_others(*leaves), plain, leaves)
