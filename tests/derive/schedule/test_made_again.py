"""What the backward makes again of the forward is made by the same operations: neither factored nor reordered."""

import torch
from torch import Tensor

from derive import amax, axes, exp, log, mean, op, relu, scalar, sqrt, sum, tensor
from derive.pipeline import derive_op
from tests.derive.live import module

n, c, d = axes("n c d")


@op
def uncertainty(f, x: tensor[n, c], w: tensor[c], b: tensor[()]):
    """`x*w + b*w` again as `w*(x + b)` was off by more than an exponential may be, where it is large."""
    f.z[n, c] = x[n, c] * w[c] + b[()] * w[c]
    f.m[n] = amax(f.z[n, c], over=c)
    f.s[n] = f.m[n] + log(sum(exp(f.z[n, c] - f.m[n]), over=c))
    f.h[n] = -sum(exp(f.z[n, c] - f.s[n]) * (f.z[n, c] - f.s[n]), over=c)
    return f.h


@op
def closer(f, x: tensor[n, d], p: tensor[n, d], q: tensor[n, d], margin: scalar = 1.0):
    """`u - v + margin` again as `u + margin - v` lost the margin, and with it which side of 0 the forward was on."""
    f.u[n] = sqrt(sum((x[n, d] - p[n, d]) ** 2, over=d) + 1e-6)
    f.v[n] = sqrt(sum((x[n, d] - q[n, d]) ** 2, over=d) + 1e-6)
    f.loss[()] = mean(relu(f.u[n] - f.v[n] + margin), over=n)
    return f.loss


def test_the_same_operations() -> None:
    derivation = derive_op(uncertainty.op, "input")
    forward, backward = ({s.name: s for s in p.statements} for p in (derivation.forward, derivation.backward))
    assert forward["z"] == backward["z"]


def test_a_margin_that_large_distances_leave() -> None:
    made = module(closer.op)
    x = torch.full((3, 2), 1e9).requires_grad_()
    p, q = torch.zeros(3, 2).requires_grad_(), torch.zeros(3, 2).requires_grad_()
    loss = made.closer(x, p, q)
    assert loss == 1
    dx, dp, dq = torch.autograd.grad(loss, (x, p, q))
    assert (dx == 0).all() and dp.abs().min() > 0.2 and dq.abs().min() > 0.2


def test_large_scores() -> None:
    made = module(uncertainty.op)

    def plain(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        logs = torch.log_softmax(x * w + b * w, 1)
        return -(logs.exp() * logs).sum(1)

    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        at = [30 * torch.randn(shape, generator=generator) for shape in ((6, 5), (5,), ())]
        dh = torch.randn(6, generator=generator)
        found = []
        for forward, dtype in ((plain, torch.float64), (plain, torch.float32), (made.uncertainty, torch.float32)):
            leaves = [t.to(dtype).requires_grad_() for t in at]
            found.append(torch.autograd.grad(forward(*leaves), leaves, dh.to(dtype)))
        for truth, theirs, ours in zip(*found, strict=True):
            off = [float((t - truth).abs().max()) for t in (ours, theirs)]
            assert off[0] <= 2 * off[1] + 1e-5 * max(float(truth.abs().max()), 1.0)
