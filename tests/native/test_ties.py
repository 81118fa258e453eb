"""Where two products are one number, kernels see that their difference is 0, though compilers fuse what they can."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from tests.derive.live import assert_alike

SPECS = """
from derive import *

n, d = axes("n d")


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


@op
def shared_out(f, w: constant[n, d], x: tensor[n, d], z: tensor[d]):
    f.y[n, d] = w[n, d] * maximum(x[n, d], z[d])
    return f.y


@op
def shared_in_rows(f, w: constant[n, d], x: tensor[n], z: tensor[d]):
    f.y[n, d] = w[n, d] * maximum(x[n], z[d])
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


@pytest.mark.parametrize("name", ["shared_out", "shared_in_rows"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_nothing_is_left_where_the_other_side_has_all(native: ModuleType, name: str, dtype: torch.dtype) -> None:
    """`dy*w - dx` is 0 where `dx` is `dy*w`, rounded: what is left of a product is not taken from it unrounded."""
    rows = (300, 40) if name == "shared_out" else (300,)
    generator = torch.Generator().manual_seed(0)
    shapes = ((300, 40), (300, 40), rows, (40,))
    dy, w, x, z = (torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes)
    for above in (20, -20):
        _, saved = getattr(native, f"{name}_forward")(w, x + above, z)
        dx, dz = getattr(native, f"{name}_backward")(dy, *saved)
        nothing, something = (dz, dx) if above > 0 else (dx, dz)
        assert bool(nothing.eq(0).all()) and bool(something.ne(0).all())


def test_what_is_no_number_stays_none(native: ModuleType) -> None:
    inf, one = torch.tensor([torch.inf, torch.nan, 3e38]), torch.ones(3)
    y, *_ = native.hinge_forward(inf, one, inf, one)
    torch.testing.assert_close(y, torch.tensor([torch.nan, torch.nan, 0]), equal_nan=True)


def test_a_difference_whose_sign_nothing_asks_is_fused(native: ModuleType) -> None:
    with open(f"{native.__path__[0]}/apart.c") as file:
        assert "rounded(" not in file.read()


def test_products_of_numbers_tie_as_well(native: ModuleType) -> None:
    x = torch.ones(3)
    y, *_ = native.of_numbers_forward(x, 0.1, 0.3, 0.3, 0.1)
    assert torch.equal(y, torch.zeros(3))
    y, *_ = native.of_numbers_forward(x, 0.5, 3.0, 0.5, 1.0)
    assert torch.equal(y, torch.full((3,), 2.0))
