"""Sums behind one factor are one, also where one of them holds a sum."""

import torch

from derive import amax, axes, exp, op, sum, tensor
from tests.derive.live import module

n, c = axes("n c")


@op
def tempered(f, z: tensor[n, c], beta: tensor[()]):
    """A softmax under a temperature that is learned (Hinton et al., 2015)."""
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(beta[()] * (z[n, c] - f.m[n]))
    f.s[n] = sum(f.u[n, c], over=c)
    f.p[n, c] = f.u[n, c] / f.s[n]
    return f.p


def test_the_gradient_of_a_temperature_is_one_sum() -> None:
    lines = [str(s) for s in tempered.op.derivation.backward.statements]
    assert len(lines) == 4, lines
    assert "s" not in tempered.op.derivation.kept


def test_it_is_right() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    beta = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    dp = torch.randn(4, 7, generator=generator, dtype=torch.float64)
    right = torch.autograd.grad((beta * z).softmax(1), (z, beta), dp)
    found = torch.autograd.grad(module(tempered.op).tempered(z, beta), (z, beta), dp)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)
