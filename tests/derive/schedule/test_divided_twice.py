"""What is divided by a square is divided twice: the square of a sum of exponentials is soon no number."""

import pytest
import torch

from derive import axes, exp, log, op, sum, tensor
from tests.derive.live import module

n, c = axes("n c")


@op
def cross_entropy_of_two(f, a: tensor[n, c], b: tensor[n, c]):
    f.lp[n, c] = a[n, c] - log(sum(exp(a[n, c]), over=c))
    f.lq[n, c] = b[n, c] - log(sum(exp(b[n, c]), over=c))
    f.loss[()] = -sum(exp(f.lp[n, c]) * f.lq[n, c], over=(n, c))
    return f.loss


def in_pytorch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return -(a.softmax(1) * b.log_softmax(1)).sum()


@pytest.mark.parametrize("shift", [-60, 0, 45, 80])
def test_far_from_zero_in_float32(shift: float) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(4, 50, generator=generator) + shift for _ in range(2))
    wide = [t.double().requires_grad_() for t in (a, b)]
    right = torch.autograd.grad(in_pytorch(*wide), wide)
    own = [t.requires_grad_() for t in (a, b)]
    found = torch.autograd.grad(module(cross_entropy_of_two.op).cross_entropy_of_two(*own), own)
    for mine, wanted in zip(found, right, strict=True):
        assert (mine - wanted).abs().max() < 3e-5 * wanted.abs().max()
