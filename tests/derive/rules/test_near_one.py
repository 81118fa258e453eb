"""Beside 1 small numbers keep their digits: float32 is as close as float64 of the same equations says."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, exp, log, maximum, minimum, op, relu, sum, tensor, where
from derive.pipeline import derive_op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, d = axes("n d")


@op
def exponential_unit(f, x: tensor[n]):
    f.y[n] = where(x[n] > 0, x[n], 2 * (exp(x[n]) - 1))
    return f.y


@op
def by_two_halves(f, x: tensor[n]):
    f.y[n] = maximum(x[n], 0) + minimum(3 * exp(x[n]) - 3, 0)
    return f.y


@op
def opacity(f, x: tensor[n]):
    f.e[n] = exp(-relu(x[n]))
    f.y[n] = 1 - f.e[n]
    return f.y


@op
def heavy_tailed(f, x: tensor[n]):
    f.q[n] = 1 + x[n] ** 2
    f.y[n] = log(f.q[n]) / 2 + log(1 + abs(x[n]))
    return f.y


@op
def divergence(f, x: tensor[n]):
    f.y[n] = exp(x[n]) - 1 - x[n]
    return f.y


@op
def rare_event(f, x: tensor[n], t: tensor[n]):
    """The complementary log-log link."""
    f.p[n] = 1 - exp(-exp(x[n]))
    f.loss[()] = -sum(t[n] * log(f.p[n]) + (1 - t[n]) * log(1 - f.p[n]), over=n)
    return f.loss


@op
def read_twice(f, x: tensor[n], z: tensor[n]):
    f.q[n] = 1 + x[n] * z[n]
    f.y[n] = log(f.q[n]) / f.q[n]
    return f.y


Function = Callable[[Tensor], Tensor]
POINTWISE: dict[str, tuple[object, Function, Function]] = {  # the value and the slope
    "unit": (
        exponential_unit,
        lambda x: torch.where(x > 0, x, 2 * x.expm1()),
        lambda x: torch.where(x > 0, 1, 2 * x.exp()),
    ),
    "halves": (
        by_two_halves,
        lambda x: x.clamp(min=0) + (3 * x.expm1()).clamp(max=0),
        lambda x: torch.where(x > 0, 1, 3 * x.exp()),
    ),
    "opacity": (opacity, lambda x: -(-x.relu()).expm1(), lambda x: torch.where(x > 0, (-x).exp(), 0)),
    "heavy": (
        heavy_tailed,
        lambda x: (x**2).log1p() / 2 + x.abs().log1p(),
        lambda x: x / (1 + x**2) + x.sign() / (1 + x.abs()),
    ),
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 20.0])
def test_every_element_has_its_digits(name: str, size: float) -> None:
    made, value, slope = POINTWISE[name]
    x = size * torch.randn(200, generator=torch.Generator().manual_seed(0))
    forward, backward = (getattr(module(made.op), f"{made.op.name}_{way}") for way in ("forward", "backward"))
    y, saved = forward(x)
    dx = backward(torch.ones_like(x), *saved)
    torch.testing.assert_close(y.double(), value(x.double()), rtol=5e-7, atol=0)
    torch.testing.assert_close(dx.double(), slope(x.double()), rtol=6e-7, atol=1e-38)


def test_in_float64_they_are_what_is_written() -> None:
    g = torch.Generator().manual_seed(0)
    x, z = (torch.randn(50, dtype=torch.float64, generator=g).requires_grad_() for _ in "xz")
    assert_alike(module(divergence.op).divergence(x), x.exp() - 1 - x, (x,))
    with torch.no_grad():
        z.copy_(0.3 * x)
    assert_alike(module(read_twice.op).read_twice(x, z), (1 + x * z).log() / (1 + x * z), (x, z))


def test_a_name_for_what_is_left_of_1() -> None:
    """`log(1 - exp(-u))` of small u, and `log(1 - p)` of large: neither is read off a rounded probability."""
    x = torch.tensor([-30.0, -8.0, 0.0, 2.0, 4.0])
    t = torch.tensor([1.0, 1.0, 0.5, 0.0, 0.0])
    loss, saved = module(rare_event.op).rare_event_forward(x, t)
    exact = x.double().requires_grad_()
    u = exact.exp()
    wanted = -(t * (-(-u).expm1()).log() - (1 - t) * u).sum()
    (slope,) = torch.autograd.grad(wanted, exact)
    torch.testing.assert_close(loss.double(), wanted.detach(), rtol=3e-7, atol=0)
    dx = module(rare_event.op).rare_event_backward(torch.tensor(1.0), *saved).dx
    torch.testing.assert_close(dx.double(), slope, rtol=1e-6, atol=0)


def test_the_backward_says_so_too() -> None:
    code = code_of(divergence.op)
    assert "expm1" in code and "torch.exp(" not in code
    assert "x_z[n] + 1" in str(derive_op(read_twice.op).forward)  # nothing is multiplied twice
