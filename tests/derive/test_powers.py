"""Powers with a number for an exponent, where SymPy's form of them or of their derivative is 0/0 or overflows."""

import math

import pytest
import torch
from sympy import Rational

from derive import axes, op, tensor
from tests.derive.live import module

n = axes("n")

POINTS = torch.tensor([0.0, -0.0, math.inf, -math.inf, -2.5, 0.3, 1e-30, -1e-30, 1e30], dtype=torch.float64)


def of_power(inner, outer):
    @op
    def power_of_power(f, x: tensor[n]):
        f.y[n] = (x[n] ** inner) ** outer
        return f.y

    return power_of_power


@op
def product_root(f, x: tensor[n], z: tensor[n]):
    f.y[n] = (x[n] * z[n]) ** Rational(3, 2)
    return f.y


@pytest.mark.parametrize(
    ("inner", "outer"),
    [(2, Rational(-7, 2)), (2, Rational(-3, 2)), (6, Rational(-1, 2)), (4, Rational(-3, 4)), (-2, Rational(3, 2)),
     (3, Rational(3, 2)), (3, Rational(4, 3)), (2, Rational(3, 2)), (2, Rational(1, 4))],
)  # fmt: skip
def test_a_power_of_a_power_is_finite_where_torchs_is(inner, outer):
    generated = module(of_power(inner, outer).op)
    x = POINTS.clone().requires_grad_()
    inside = x.pow(inner)
    expected = torch.where(inside < 0, math.nan, inside.pow(float(outer)))  # of no negative number, nor of -oo
    (dx,) = torch.autograd.grad(expected.sum(), x)
    y, saved = generated.power_of_power_forward(POINTS)
    found = generated.power_of_power_backward(torch.ones_like(POINTS), *saved)
    defined = ~expected.isnan()
    torch.testing.assert_close(y[defined], expected[defined].detach(), rtol=1e-11, atol=0)
    finite = defined & dx.isfinite()
    torch.testing.assert_close(found[finite], dx[finite], rtol=1e-11, atol=0)


def test_the_root_of_a_product_has_a_gradient_where_a_factor_is_0():
    x, z = torch.tensor([0.0, 2.0, 0.0]), torch.tensor([3.0, 0.0, 0.0])
    generated = module(product_root.op)
    _, saved = generated.product_root_forward(x, z)
    dx, dz = generated.product_root_backward(torch.ones(3), *saved)
    assert dx.tolist() == [0, 0, 0]
    assert dz.tolist() == [0, 0, 0]
