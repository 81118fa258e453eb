"""Conditions on numbers alone: Python chooses the branch. And the power 0, which is flat at 0 as well."""

import pytest
import torch

from derive.notation import axes, exp, op, scalar, size, tensor, where
from tests.derive.against_loops import code_of, compare
from tests.derive.live import module

n, d = axes("n d")


@op
def to_a_power(f, x: tensor[n], e: scalar):
    f.y[n] = x[n] ** e
    return f.y


@op
def either(f, x: tensor[n, d], k: scalar, s: scalar):
    f.y[n, d] = where((k > 0) & ~(s < 1), x[n, d] ** 2, exp(x[n, d])) + where(k > s, x[n, d], 1) * where(k > 0, s, k)
    return f.y


@op
def unless_alone(f, x: tensor[n, d]):
    f.y[n, d] = where(size(d) > 1, x[n, d], 0)
    return f.y


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0])
def test_a_power_is_as_flat_at_zero_as_torchs(exponent) -> None:
    live, x, dy = module(to_a_power.op), torch.tensor([0.0, -1.5, 2.0], requires_grad=True), torch.tensor([3.0, 5, 7])
    live.to_a_power(x, exponent).backward(dy)
    (expected,) = torch.autograd.grad(x**exponent, x, dy)
    torch.testing.assert_close(x.grad, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k, s", [(1.0, 2.0), (1.0, 0.5), (-1.0, 2.0), (-1.0, -2.0)])
def test_a_number_chooses_between_tensors(k, s) -> None:
    x, dy = (torch.randn(3, 4, dtype=torch.float64, requires_grad=r) for r in (True, False))
    module(either.op).either(x, k, s).backward(dy)
    y = (x**2 if k > 0 and not s < 1 else x.exp()) + (x if k > s else torch.ones_like(x)) * (s if k > 0 else k)
    torch.testing.assert_close(x.grad, torch.autograd.grad(y, x, dy)[0], rtol=1e-12, atol=1e-12)


def test_only_the_branch_that_is_chosen_is_computed() -> None:
    assert "x.square() if (s >= 1) & (k > 0) else torch.exp(x)" in code_of(either.op)


@pytest.mark.parametrize("length", [4, 1])
def test_a_length_chooses(length) -> None:
    compare(unless_alone.op, {"n": 3, "d": length})
