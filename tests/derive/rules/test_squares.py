"""Squares that are written out are squares again."""

import torch

from derive import axes, mean, op, sum, tensor
from derive.emit import render
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

i, j, d = axes("i j d")


@op
def distances(f, x: tensor[i, d], z: tensor[j, d]):
    f.y[i, j] = sum(x[i, d] ** 2 - 2 * x[i, d] * z[j, d] + z[j, d] ** 2, over=d)
    return f.y


@op
def variance(f, x: tensor[i, d]):
    f.m[i] = mean(x[i, d], over=d)
    f.v[i] = mean(x[i, d] ** 2 + f.m[i] ** 2 - 2 * x[i, d] * f.m[i], over=d)
    return f.v


@op
def others(f, x: tensor[i, d], z: tensor[i, d]):
    """Twice one and once the other, below 0, beside another term; and what is no square."""
    f.y[i, d] = -4 * x[i, d] ** 2 - 4 * x[i, d] * z[i, d] - z[i, d] ** 2 + 3 * x[i, d]
    f.no[i, d] = x[i, d] ** 2 - x[i, d] * z[i, d] + z[i, d] ** 2
    f.nor[i, d] = x[i, d] ** 2 - 2 * x[i, d] * z[i, d] - z[i, d] ** 2
    return f.y, f.no, f.nor


def test_distances_of_pairs_are_known_as_such() -> None:
    assert "pair_distances(x, z, p=2)" in render(derivation_of(distances.op))
    reference = lambda x, z: ((x[:, None] - z) ** 2).sum(2)  # noqa: E731
    assert_derived(distances.op, reference, {"x": (4, 3), "z": (5, 3)})


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    x = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)) + 1000
    right = x.double().var(1, correction=0).float()
    torch.testing.assert_close(module(variance.op).variance(x), right, rtol=2e-6, atol=0)
    assert_derived(variance.op, lambda x: x.var(1, correction=0), {"x": (4, 6)})


def test_what_is_a_square_and_what_is_none() -> None:
    x, z = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    right = (3 * x - (2 * x + z) ** 2, x**2 - x * z + z**2, x**2 - 2 * x * z - z**2)
    found = module(others.op).others(x, z)
    cotangents = [torch.randn(3, 4, dtype=torch.float64) for _ in right]
    torch.testing.assert_close(tuple(found), right)
    gradients = (torch.autograd.grad(y, (x, z), cotangents) for y in (found, right))
    torch.testing.assert_close(*gradients)
    lines = [str(s) for s in derivation_of(others.op).forward.statements]
    assert any("(two_x[i, d] + z[i, d])**2" in line for line in lines), lines
