"""Where two products are one number, kernels see that their difference is 0, though compilers fuse what they can."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from tests.derive.live import assert_alike

SPECS = """
from derive import *

n = axes("n")


@op
def smaller_product(f, a: tensor[n], x: tensor[n], b: tensor[n], z: tensor[n]):
    f.y[n] = minimum(a[n] * x[n], b[n] * z[n])
    return f.y


@op
def hinge(f, a: tensor[n], x: tensor[n], b: tensor[n], z: tensor[n]):
    f.y[n] = relu(a[n] * x[n] - b[n] * z[n])
    return f.y


@op
def named(f, a: tensor[n], x: tensor[n], b: tensor[n], z: tensor[n]):
    f.u[n] = a[n] * x[n]
    f.v[n] = b[n] * z[n]
    f.y[n] = abs(f.u[n] - f.v[n]) * x[n]
    return f.y


@op
def chosen(f, a: tensor[n], x: tensor[n], b: tensor[n], z: tensor[n]):
    f.y[n] = where(a[n] * x[n] - b[n] * z[n] > 0, a[n] * x[n], b[n] + z[n])
    return f.y


@op
def apart(f, a: tensor[n], x: tensor[n], b: tensor[n], z: tensor[n]):
    f.y[n] = a[n] * x[n] - b[n] * z[n]
    return f.y


@op
def of_numbers(f, x: tensor[n], a: scalar, b: scalar, c: scalar, d: scalar):
    f.y[n] = x[n] * sign(a * b - c * d) + relu(a * b - c * d)
    return f.y
"""

PLAIN = {
    "smaller_product": lambda a, x, b, z: torch.minimum(a * x, b * z),
    "hinge": lambda a, x, b, z: torch.relu(a * x - b * z),
    "named": lambda a, x, b, z: (a * x - b * z).abs() * x,
    "chosen": lambda a, x, b, z: torch.where(a * x - b * z > 0, a * x, b + z),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", PLAIN)
def test_ties_of_products(native: ModuleType, name: str, dtype: torch.dtype) -> None:
    a, x = (torch.randn(400, dtype=dtype, generator=torch.Generator().manual_seed(k)) for k in range(2))
    leaves = [t.clone().requires_grad_() for t in (a, x, a, x)]
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    assert_alike(getattr(native, name)(*leaves), PLAIN[name](*leaves), leaves, tolerance)


def test_what_is_no_number_stays_none(native: ModuleType) -> None:
    inf, one = torch.tensor([torch.inf, torch.nan, 3e38]), torch.ones(3)
    y, *_ = native.hinge_forward(inf, one, inf, one)
    torch.testing.assert_close(y, torch.tensor([torch.nan, torch.nan, 0]), equal_nan=True)


def test_a_difference_whose_sign_nothing_asks_is_fused(native: ModuleType) -> None:
    with open(f"{native.__path__[0]}/apart.c") as file:
        assert "difference(" not in file.read()


def test_products_of_numbers_tie_as_well(native: ModuleType) -> None:
    x = torch.ones(3)
    y, *_ = native.of_numbers_forward(x, 0.1, 0.3, 0.3, 0.1)
    assert torch.equal(y, torch.zeros(3))
    y, *_ = native.of_numbers_forward(x, 0.5, 3.0, 0.5, 1.0)
    assert torch.equal(y, torch.full((3,), 2.0))
