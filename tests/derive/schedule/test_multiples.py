"""A multiple of a tensor that there is anyway is not made where only gradients that are products read it."""

import math

import torch

from derive import axes, exp, op, size, sqrt, sum, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

i, j, d = axes("i j d")


@op
def biased(f, q: tensor[i, d], k: tensor[j, d], b: tensor[i, j]):
    """Scores with a learned bias, whose gradient is that of the scores."""
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d) / sqrt(size(d)) + b[i, j]
    f.y[i] = sum(exp(f.s[i, j]), over=j)
    return f.y


@op
def read_twice(f, q: tensor[i, d], k: tensor[j, d], b: tensor[i, j]):
    """The multiple is a gradient itself."""
    f.s[i, j] = (sum(q[i, d] * k[j, d], over=d) + b[i, j]) / sqrt(size(d))
    f.y[i] = sum(exp(f.s[i, j]), over=j)
    return f.y


def test_the_gradients_are_divided_and_not_the_table() -> None:
    backward = code_of(biased.op).split("def biased_backward")[1]
    assert "db @ k).div_(math.sqrt(d))" in backward and "db.T @ q).div_(math.sqrt(d))" in backward


def test_a_multiple_that_is_returned_is_made() -> None:
    assert code_of(read_twice.op).split("def read_twice_backward")[1].count("math.sqrt(d)") == 1


def test_both_are_right() -> None:
    q, k, b = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((5, 3), (4, 3), (5, 4)))
    root = math.sqrt(3)
    assert_alike(module(biased.op).biased(q, k, b), (q @ k.T / root + b).exp().sum(1), (q, k, b))
    assert_alike(module(read_twice.op).read_twice(q, k, b), ((q @ k.T + b) / root).exp().sum(1), (q, k, b))
