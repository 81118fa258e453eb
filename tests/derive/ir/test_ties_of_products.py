"""Where two products are one number, their difference is 0: nobody asks the sign of what was not rounded."""

import pytest
import torch

from derive.notation import axes, maximum, minimum, op, relu, tensor, where
from derive.notation.spec import OpCall
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, d = axes("n d")


@op
def smaller_product(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = minimum(a[n, d] * x[n, d], b[n, d] * z[n, d])
    return f.y


@op
def larger_loss(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    """Both are losses: the products of what is to be large, with a minus sign."""
    f.y[n, d] = maximum(-a[n, d] * x[n, d], -b[n, d] * z[n, d])
    return f.y


@op
def hinge(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    f.u[n, d] = a[n, d] * x[n, d] - b[n, d] * z[n, d]
    f.y[n, d] = relu(f.u[n, d]) + 2 * f.u[n, d]
    return f.y


@op
def distance(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = abs(3 * (a[n, d] * x[n, d] - b[n, d] * z[n, d]))
    return f.y


@op
def chosen(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = where(a[n, d] * x[n, d] - b[n, d] * z[n, d] > 0, a[n, d] * x[n, d], b[n, d] + z[n, d])
    return f.y


@op
def third_of_it(f, a: tensor[n, d], x: tensor[n, d], b: tensor[n, d], z: tensor[n, d]):
    """Two names stand between the difference and what asks its sign, and another tensor."""
    f.u[n, d] = a[n, d] * x[n, d] - b[n, d] * z[n, d]
    f.v[n, d] = f.u[n, d] / 3
    f.w[n, d] = f.v[n, d] * a[n, d]
    f.y[n, d] = relu(f.w[n, d]) + abs(f.v[n, d]) + f.u[n, d] * f.v[n, d] * f.w[n, d]
    return f.y


def plain_third(a: torch.Tensor, x: torch.Tensor, b: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    u = a * x - b * z
    return torch.relu(u / 3 * a) + (u / 3).abs() + u * (u / 3) * (u / 3 * a)


PLAIN = [
    (smaller_product, lambda a, x, b, z: torch.minimum(a * x, b * z)),
    (larger_loss, lambda a, x, b, z: torch.maximum(-a * x, -b * z)),
    (hinge, lambda a, x, b, z: torch.relu(a * x - b * z) + 2 * (a * x - b * z)),
    (distance, lambda a, x, b, z: (3 * (a * x - b * z)).abs()),
    (third_of_it, plain_third),
    (chosen, lambda a, x, b, z: torch.where(a * x - b * z > 0, a * x, b + z)),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("made", "plain"), PLAIN, ids=[made.op.name for made, _ in PLAIN])
def test_ties(made: OpCall, plain, dtype: torch.dtype) -> None:
    a, x = (torch.randn(8, 40, dtype=dtype, generator=torch.Generator().manual_seed(k)) for k in range(2))
    leaves = [t.clone().requires_grad_() for t in (a, x, a, x)]
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    assert_alike(getattr(module(made.op), made.op.name)(*leaves), plain(*leaves), leaves, tolerance)


@op
def apart(f, a: tensor[n, d], x: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = z[n, d] - a[n, d] * x[n, d]
    return f.y


def test_a_difference_whose_sign_nothing_asks_is_one_pass() -> None:
    assert "torch.addcmul(z, a, x, value=-1)" in code_of(apart.op)
