"""What a threshold passes on: one call, in which an incoming gradient may be infinite."""

import torch

from derive import axes, op, relu, sqrt, sum, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, c = axes("n c")


@op
def rectified(f, x: tensor[n, c]):
    f.y[n, c] = relu(x[n, c])
    return f.y


@op
def rectified_product(f, x: tensor[n, c], w: tensor[c]):
    f.h[n, c] = relu(x[n, c])
    f.y[n] = sum(w[c] * f.h[n, c], over=c)
    return f.y, f.h


@op
def rooted(f, x: tensor[n, c]):
    f.y[n, c] = sqrt(relu(x[n, c]))
    return f.y


def test_an_infinite_gradient() -> None:
    """That of a root at 0, which the caller takes, is stopped as PyTorch stops it."""
    z = torch.tensor([[-1.0, 0.0, 4.0]], requires_grad=True)
    for value in (module(rectified.op).rectified(z).sqrt(), module(rooted.op).rooted(z)):
        (dz,) = torch.autograd.grad(value.sum(), z)
        assert torch.equal(dz, torch.tensor([[0.0, 0.0, 0.25]]))


def test_beside_other_factors() -> None:
    g = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*s, dtype=torch.float64, generator=g).requires_grad_() for s in ((4, 3), (3,)))
    y, h = module(rectified_product.op).rectified_product(x, w)
    wanted = x.relu()
    assert_alike((y * 2).sum() + (h**2).sum(), (wanted @ w * 2).sum() + (wanted**2).sum(), (x, w))
    assert "torch.ops.aten.threshold_backward(" in code_of(rectified_product.op)


@op
def rectified_and_moved(f, x: tensor[n, c], b: tensor[c]):
    f.y[n, c] = relu(x[n, c]) + b[c]
    return f.y


def test_where_the_rectifier_is_not_kept() -> None:
    """The step `sign(relu(x))` keeps what is above 0, as a choice does."""
    x = torch.tensor([[-1.0, 0.0, 2.0, float("nan")]], requires_grad=True)
    dy = torch.tensor([[float("inf"), float("-inf"), 3.0, 5.0]])
    y = module(rectified_and_moved.op).rectified_and_moved(x, torch.zeros(4))
    (wanted,) = torch.autograd.grad(x.relu(), x, dy)
    assert torch.equal(torch.autograd.grad(y, x, dy)[0], wanted)
    assert "torch.ops.aten.threshold_backward(dy, x, 0)" in code_of(rectified_and_moved.op)
