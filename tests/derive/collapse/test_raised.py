"""The slope of a power that its base multiplies is the power: no second one is made, and nothing is infinite at 0."""

import torch

from derive import amax, axes, constant, exp, index, log, mean, op, scalar, sum, tensor
from derive.pipeline import derive_op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, c = axes("n c")


@op
def of_shares(f, z: tensor[n, c], y: index(c)[n], q: scalar = 0.7):
    """Generalised cross-entropy (Zhang & Sabuncu, 2018)."""
    f.p[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=c)
    f.loss[()] = mean((1 - f.p[n, y[n]] ** q) / q, over=n)
    return f.loss


@op
def of_scales(f, scale: tensor[n], k: tensor[n], x: constant[n]):
    f.y[n] = (x[n] / scale[n]) ** k[n]
    return f.y


@op
def of_what_is_above_0(f, x: tensor[n, c].positive, p: tensor[()]):
    """Generalised-mean pooling (Radenovic, Tolias & Chum, 2018)."""
    f.y[n] = mean(x[n, c] ** p[()], over=c) ** (1 / p[()])
    return f.y


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_a_share_to_a_power() -> None:
    z, y = drawn(5, 4), torch.tensor([0, 3, 3, 1, 0])
    wanted = ((1 - z.softmax(1).gather(1, y[:, None]) ** 0.7) / 0.7).mean()
    assert_alike(module(of_shares.op).of_shares(z, y, 0.7), wanted, (z,))
    far = torch.tensor([[0.0, 900.0]], requires_grad=True)  # a share of 0, which to the power of -0.3 is infinite
    (dz,) = torch.autograd.grad(module(of_shares.op).of_shares(far, torch.tensor([0]), 0.7), far)
    assert dz.eq(0).all()
    assert "q - 1" not in code_of(of_shares.op)


def test_a_quotient_to_a_power() -> None:
    scale, k, x = drawn(5), drawn(5), torch.tensor([0.5, 1.0, 2.0, 0.1, 3.0], dtype=torch.float64)
    assert_alike(module(of_scales.op).of_scales(scale, k, x), (x / scale) ** k, (scale, k))
    nothing = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    (dscale,) = torch.autograd.grad(module(of_scales.op).of_scales(scale, nothing, x).sum(), scale)
    assert dscale.eq(0).all()
    assert "k - 1" not in code_of(of_scales.op)


def test_what_is_above_0() -> None:
    x, p = drawn(5, 4), torch.tensor(3.3, dtype=torch.float64, requires_grad=True)
    assert_alike(module(of_what_is_above_0.op).of_what_is_above_0(x, p), (x**p).mean(1) ** (1 / p), (x, p))
    backward = str(derive_op(of_what_is_above_0.op).backward)
    assert "x[n, c]**" not in backward and "== 0" not in backward


def test_what_is_no_slope_stays() -> None:
    @op
    def by_hand(f, x: tensor[n], k: tensor[n]):
        f.m[()] = amax(x[n], over=n)
        f.y[n] = x[n] ** (k[n] - 1) * x[n] + log(f.m[()])
        return f.y

    x, k = drawn(5), drawn(5)
    assert_alike(module(by_hand.op).by_hand(x, k), x ** (k - 1) * x + x.max().log(), (x, k))
