"""A sum with a multiple of a tensor is a multiple of the sum with that tensor, which then need not be kept twice."""

import torch

from derive import axes, maximum, op, scalar, sqrt, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_alike, module

n, d = axes("n d")


@op
def scaled_rows(f, x: tensor[n, d], g: tensor[()]):
    f.r[n] = sqrt(sum(x[n, d] ** 2, over=d))
    f.y[n, d] = g[()] * x[n, d] / f.r[n]
    return f.y


@op
def scaled_bounded(f, x: tensor[n, d], g: tensor[()], eps: scalar = 1e-5):
    """A learned length for every row (Nguyen and Salazar, 2019)."""
    f.norm[n] = maximum(sqrt(sum(x[n, d] ** 2, over=d)), eps)
    f.y[n, d] = g[()] * x[n, d] / f.norm[n]
    return f.y


def test_what_a_kept_tensor_is_a_multiple_of_is_enough() -> None:
    assert set(derivation_of(scaled_rows.op).kept) == {"r", "x", "g"}
    assert set(derivation_of(scaled_bounded.op).kept) == {"norm_sum", "x", "g"}


def test_the_gradient_of_the_gain_starts_from_the_sum_that_is_there() -> None:
    for op_ in (scaled_rows.op, scaled_bounded.op):
        lines = [str(s) for s in derivation_of(op_).backward.statements]
        assert len([line for line in lines if "dy[n, d]" in line and "sum(" in line]) == 1, lines
        assert lines[-1].startswith("dg[()] = sum(sum_dy_x"), lines


def test_a_step_says_why() -> None:
    (step,) = (s for s in derivation_of(scaled_rows.op).closed.steps if s.law == "multiple")
    assert step.reason == "y[n, d] = g[]*x[n, d]/r[n]"


def test_it_is_right_with_a_gain_of_0_too() -> None:
    for gain in (0.7, 0.0):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        leaves = x.requires_grad_(), torch.tensor(gain, dtype=torch.float64, requires_grad=True)
        norm = x.norm(dim=1, keepdim=True)
        assert_alike(module(scaled_rows.op).scaled_rows(*leaves), leaves[1] * x / norm, leaves)
        bounded = module(scaled_bounded.op).scaled_bounded(*leaves, 1.5)
        assert_alike(bounded, leaves[1] * x / norm.clamp(min=1.5), leaves)


def test_rows_of_small_numbers_in_float32() -> None:
    """The cube of a length is soon 0, where none of its factors is."""
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)) * 1e-15
    own, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    gain = torch.tensor(0.7)
    (found,) = torch.autograd.grad(module(scaled_rows.op).scaled_rows(own, gain)[:, 0].sum(), own)
    (right,) = torch.autograd.grad((0.7 * wide / wide.norm(dim=1, keepdim=True))[:, 0].sum(), wide)
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5 * right.abs().max().item())
