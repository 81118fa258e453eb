"""The slope of a saturating function stays one: `1 - h**2` is small where `h` is near 1, and no difference of sums."""

import pytest
import torch
from torch import Tensor

from derive import amax, axes, exp, mean, op, sum, tanh, tensor
from derive.ir.equations import Op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

n, t, d = axes("n t d")


@op
def additive_scores(f, q: tensor[n, d], k: tensor[n, t, d], v: tensor[d]):
    """The weights of additive attention (Bahdanau et al., 2015): the gradients of a row's scores sum to 0."""
    f.s[n, t] = sum(v[d] * tanh(q[n, d] + k[n, t, d]), over=d)
    f.u[n, t] = exp(f.s[n, t] - amax(f.s[n, t], over=t))
    f.p[n, t] = f.u[n, t] / sum(f.u[n, t], over=t)
    return f.p


@op
def centred(f, a: tensor[n, d], b: tensor[d]):
    """A value less its mean: it is the two together, and its square is three terms of them."""
    f.h[n, d] = tanh(a[n, d] + b[d])
    f.c[n, d] = f.h[n, d] - mean(f.h[n, d], over=n)
    f.y[n, d] = f.c[n, d] ** 3
    return f.y


def _scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q[:, None] + k).tanh() @ v).softmax(1)


def _centred(a: Tensor, b: Tensor) -> Tensor:
    h = (a + b).tanh()
    return (h - h.mean(0)) ** 3


CASES = [
    (additive_scores.op, _scores, {"q": (3, 4), "k": (3, 5, 4), "v": (4,)}),
    (centred.op, _centred, {"a": (5, 4), "b": (4,)}),
]


@pytest.mark.parametrize(("made", "reference", "shapes"), CASES)
def test_values_and_gradients(made: Op, reference, shapes) -> None:
    assert_derived(made, reference, shapes)


def test_a_sum_that_is_0_is_not_left_out_of_a_slope() -> None:
    """Where all of one feature is saturated its gradient is as small as that of each place."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(*shape, dtype=torch.float64) for shape in ((3, 4), (3, 5, 4), (4,)))
    q[:, 0] += 12
    p, saved = module(additive_scores.op).additive_scores_forward(q, k, v)
    found = module(additive_scores.op).additive_scores_backward(torch.randn_like(p), *saved)
    assert torch.allclose(found.dq, found.dk.sum(1), rtol=1e-9, atol=0)


def test_a_sum_is_not_put_into_a_square() -> None:
    backward = code_of(centred.op).partition("_backward(")[2].partition("class ")[0]
    assert "1 - h.square()" in backward and "da.sum(0)" in backward, backward
