"""A longer product with what is read through windows is a convolution first, which another sum may start from too."""

from __future__ import annotations

import torch
from torch.nn import functional

from derive import axes, op, rsqrt, scalar, sum, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

b, c, e, s, t, u = axes("b c e s t u")


@op
def demodulated(f, x: tensor[b, c, t], style: tensor[b, c], k: tensor[e, c, s], eps: scalar = 1e-8):
    """A filter of each sample, of length 1 (Karras et al., 2020)."""
    f.w[b, e, c, s] = k[e, c, s] * style[b, c]
    f.r[b, e] = rsqrt(sum(f.w[b, e, c, s] ** 2, over=(c, s)) + eps)
    f.y[b, e, u] = sum(x[b, c, u + s] * f.w[b, e, c, s] * f.r[b, e], over=(c, s))
    return f.y


@op
def two_filters(f, x: tensor[b, c, t], v: tensor[e, c, s], w: tensor[e, c, s], a: tensor[b, e]):
    f.y[b, e, u] = sum(x[b, c, u + s] * (v[e, c, s] + a[b, e] * w[e, c, s]), over=(c, s))
    return f.y


def test_no_windows_are_laid_out() -> None:
    for spec in (demodulated, two_filters):
        assert "unfold" not in code_of(spec.op)
    backward = code_of(demodulated.op).split("def demodulated_backward")[1]
    assert backward.count("convolve(") == 2  # the gradient of the input, and one that both others start from
    assert "functional.conv1d(x, w)" in code_of(two_filters.op).split("def two_filters_backward")[1]


def test_both_are_right() -> None:
    shapes = ((2, 3, 9), (2, 3), (4, 3, 2))
    x, style, k = inputs = [torch.randn(n, dtype=torch.float64, requires_grad=True) for n in shapes]
    w = k * style[:, None, :, None]
    w = w * (w.square().sum((2, 3), keepdim=True) + 1e-8).rsqrt()
    wanted = torch.stack([functional.conv1d(one, own) for one, own in zip(x, w, strict=True)])
    assert_alike(module(demodulated.op).demodulated(*inputs), wanted, inputs)
    shapes = ((2, 3, 9), (4, 3, 2), (4, 3, 2), (2, 4))
    x, v, w, a = inputs = [torch.randn(n, dtype=torch.float64, requires_grad=True) for n in shapes]
    wanted = functional.conv1d(x, v) + a[:, :, None] * functional.conv1d(x, w)
    assert_alike(module(two_filters.op).two_filters(*inputs), wanted, inputs)
