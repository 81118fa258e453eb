"""Inputs of several dtypes: half-precision weights of a norm whose activations are float32, and the other way round."""

import pytest
import torch

from generated import layernorm, rmsnorm


@pytest.mark.parametrize(("op", "count"), [(layernorm, 2), (rmsnorm, 1)])
@pytest.mark.parametrize(
    ("activations", "weights"), [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)]
)
def test_weights_of_another_dtype(op, count, activations, weights):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=generator).to(activations).requires_grad_()
    parameters = [torch.randn(8, generator=generator).to(weights).requires_grad_() for _ in range(count)]
    y = op(x, *parameters)
    assert y.dtype == activations
    dy = torch.randn(6, 8, generator=generator).to(activations)
    gradients = torch.autograd.grad(y, (x, *parameters), dy)
    assert [g.dtype for g in gradients] == [activations, *[weights] * count]
    wide = [t.detach().double().requires_grad_() for t in (x, *parameters)]
    exact = torch.autograd.grad(op(*wide), wide, dy.double())
    for g, e in zip(gradients, exact, strict=True):
        rounding = 2**-8 if g.dtype == torch.bfloat16 else 1e-6  # once, to the operand's dtype
        torch.testing.assert_close(g.double(), e, rtol=0, atol=rounding * e.abs().max().item())
