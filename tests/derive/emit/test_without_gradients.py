"""Tensors that ask for a gradient are computed with as if they did not: `torch.matmul` copies beside one that does."""

import pytest
import torch

from derive import axes, op, sum, tensor
from tests.derive.live import module

b, i, j, n = axes("b i j n")


@op
def mixed(f, s: tensor[b, i, n], w: tensor[i, j]):
    f.y[b, j, n] = sum(s[b, i, n] * w[i, j], over=i)
    return f.y


def test_what_is_saved_asks_for_none() -> None:
    made, s, w = module(mixed.op), torch.randn(2, 3, 4), torch.randn(3, 5, requires_grad=True)
    with torch.no_grad():
        both = made.mixed_forward(s, w), made.mixed_forward(s, w=w)
    for _, saved in both:
        assert not saved.w.requires_grad and saved.w.data_ptr() == w.data_ptr()
    _, saved = made.mixed_forward(s, w)  # a caller who follows gradients through it is not cut off
    assert saved.w is w


def test_what_is_written_over_before_the_backward_is_noticed() -> None:
    made, s, w = module(mixed.op), torch.randn(2, 3, 4, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    y = made.mixed(s, w)
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
