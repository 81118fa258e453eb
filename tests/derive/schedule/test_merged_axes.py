"""What is computed at the parts of an axis is computed over the parts: small factors broadcast and are not gathered."""

import torch

from derive import axes, length, mean, op, rsqrt, scalar, sigmoid, sum, tensor
from derive.emit import render
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

n, c, g, k, t, j, o, u = axes("n c g k t j o u")


@op
def gated_groups(f, x: tensor[n, c, t], gamma: tensor[c], G: length(g) = 2, eps: scalar = 1e-5):
    f.z[n, g, k, t] = x[n, (g, k), t]
    f.mu[n, g] = mean(f.z[n, g, k, t], over=(k, t))
    f.var[n, g] = mean((f.z[n, g, k, t] - f.mu[n, g]) ** 2, over=(k, t))
    f.xhat[n, (g, k), t] = (f.z[n, g, k, t] - f.mu[n, g]) * rsqrt(f.var[n, g] + eps)
    f.a[n, c, t] = gamma[c] * f.xhat[n, c, t]
    f.y[n, c, t] = f.a[n, c, t] * sigmoid(f.a[n, c, t])
    return f.y


def test_nothing_is_gathered():
    assert "arange" not in render(derivation_of(gated_groups.op))


def test_gradients():
    made = module(gated_groups.op)
    generator = torch.Generator().manual_seed(0)
    x, dy = (torch.randn(3, 6, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    gamma = torch.randn(6, generator=generator, dtype=torch.float64)
    leaves = [a.clone().requires_grad_() for a in (x, gamma)]
    y = torch.nn.functional.silu(torch.nn.functional.group_norm(leaves[0], 2, leaves[1], eps=1e-5))
    out, saved = made.gated_groups_forward(x, gamma)
    torch.testing.assert_close(out, y.detach(), rtol=1e-12, atol=1e-12)
    for found, exact in zip(made.gated_groups_backward(dy, *saved), torch.autograd.grad(y, leaves, dy), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-11, atol=1e-11)


@op
def filtered_in_groups(f, x: tensor[n, c, t], w: tensor[g, o, k, j], bias: tensor[g, o]):
    """The groups lie side by side among the channels; they too are read along with the bias of each."""
    f.y[n, (g, o), u] = bias[g, o] + sum(x[n, (g, k), u + j] * w[g, o, k, j], over=(k, j))
    return f.y


def in_groups(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv1d(x, w.flatten(0, 1), bias.flatten(), groups=w.shape[0])


def test_what_is_added_over_parts_is_merged_thereafter() -> None:
    shapes = {"x": (2, 6, 5), "w": (2, 4, 3, 2), "bias": (2, 4)}
    assert_derived(filtered_in_groups.op, in_groups, shapes)
    code = render(derivation_of(filtered_in_groups.op))
    assert "groups=g" in code and "arange" not in code, code
