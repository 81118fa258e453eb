"""Differences in brackets are taken before they meet: what is left of large numbers keeps its digits."""

from typing import Any

import pytest
import torch

from derive import axes, constant, maximum, mean, op, tensor
from derive.emit import render
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, module

n, d, i, j, t = axes("n d i j t")


@op
def margin(f, p: tensor[n], q: tensor[n], u: constant[n], v: constant[n]):
    """How much more one log-probability gained on its reference than the other."""
    f.y[n] = ((p[n] - u[n]) - (q[n] - v[n])) ** 2
    return f.y


@op
def second_difference(f, x: tensor[n]):
    """Of windows whose middle is the same element: three terms, not two tensors."""
    f.y[t] = (x[t + 2] - x[t + 1]) - (x[t + 1] - x[t])
    return f.y


@op
def apart_differences(f, x: tensor[n]):
    """Of windows that have no element in common, but with the next ones."""
    f.y[t] = (x[t + 3] - x[t + 2]) - (x[t + 1] - x[t])
    return f.y


@op
def same_element(f, x: tensor[n], z: tensor[n]):
    f.y[n] = (x[n] - z[n]) - (z[n] - x[n])
    return f.y


@op
def apart(f, x: tensor[n, d], y: tensor[n, d]):
    """Centred within, so that what is summed over rows is 0."""
    f.mx[d] = mean(x[n, d], over=n)
    f.my[d] = mean(y[n, d], over=n)
    f.e[d] = mean(((x[n, d] - f.mx[d]) - (y[n, d] - f.my[d])) ** 2, over=n)
    return f.e


def test_two_differences_are_taken_first() -> None:
    assert "(p - u).sub_(q - v)" in render(derive_op(margin.op))
    large = [torch.full((4,), -3000.0) + torch.rand(4) for _ in range(4)]
    y, _ = module(margin.op).margin_forward(*large)
    p, q, u, v = (x.double() for x in large)
    torch.testing.assert_close(y.double(), (p - u - q + v) ** 2, rtol=2e-7, atol=0)


@pytest.mark.parametrize("spec", [second_difference, apart_differences, same_element], ids=lambda s: s.op.name)
def test_terms_that_are_the_same_element_are_added(spec: Any) -> None:
    assert all(e.given for e in spec.op.equations)


def test_laws_see_through_them() -> None:
    """The gradients of both means are 0, which needs that both differences sum to 0."""
    assert ".mean(0)" not in render(derive_op(apart.op)).partition("def apart_backward")[2]
    x, y = (torch.randn(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert_alike(module(apart.op).apart(x, y), ((x - x.mean(0)) - (y - y.mean(0))).square().mean(0), [x, y])


@op
def larger_squared(f, x: tensor[n], z: tensor[n]):
    f.y[n] = maximum(x[n], z[n]) ** 2
    return f.y


def test_numbers_that_cancel_leave_a_tensor() -> None:
    """Half of twice an element, at a tie, is no product: nothing is left to be written over."""
    x, z = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([1.0, 2.0, 3.0], [2.0, 2.0, 1.0]))
    y = module(larger_squared.op).larger_squared(x, z)
    assert_alike(y, torch.maximum(x, z) ** 2, [x, z])
    dx, dz = torch.autograd.grad(y.sum(), (x, z))
    assert dx.tolist() == [0, 2, 6] and dz.tolist() == [4, 2, 0]
