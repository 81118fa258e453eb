"""A sum over a product of the forward reads that product: `sum(do * o)` of `y = g * o` is `sum(dy * y)`."""

import pytest
import torch

from derive import amax, axes, exp, op, sigmoid, size, sqrt, sum, tensor
from derive.equations import Op
from tests.derive.live import assert_derived
from tests.derive.test_torch_backend import code_of

n, t, s, d, e = axes("n t s d e")


def weights(f, q, k):
    f.a[n, t, s] = sum(q[n, t, d] * k[n, s, d], over=d) / sqrt(size(d))
    f.m[n, t] = amax(f.a[n, t, s], over=s)
    f.u[n, t, s] = exp(f.a[n, t, s] - f.m[n, t])
    f.p[n, t, s] = f.u[n, t, s] / sum(f.u[n, t, s], over=s)
    return f.p


@op
def gated(f, q: tensor[n, t, d], k: tensor[n, s, d], v: tensor[n, s, e], g: tensor[n, t, e]):
    """Attention whose output passes a gate (Qiu et al., 2025)."""
    p = weights(f, q, k)
    f.y[n, t, e] = sigmoid(g[n, t, e]) * sum(p[n, t, s] * v[n, s, e], over=s)
    return f.y


@op
def gated_twice(f, q: tensor[n, t, d], k: tensor[n, s, d], v: tensor[n, s, e], g: tensor[n, t, e]):
    """The gate stands beside a number, and what it passes has a name."""
    p = weights(f, q, k)
    f.o[n, t, e] = sum(p[n, t, s] * v[n, s, e], over=s)
    f.y[n, t, e] = 2 * sigmoid(g[n, t, e]) * f.o[n, t, e]
    return f.y


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


SHAPES = {"q": (2, 3, 4), "k": (2, 5, 4), "v": (2, 5, 6)}
CASES = [
    (gated.op, lambda q, k, v, g: g.sigmoid() * attention(q, k, v), SHAPES | {"g": (2, 3, 6)}),
    (gated_twice.op, lambda q, k, v, g: 2 * g.sigmoid() * attention(q, k, v), SHAPES | {"g": (2, 3, 6)}),
]


@pytest.mark.parametrize(("made", "reference", "shapes"), CASES)
def test_values_and_gradients(made: Op, reference, shapes) -> None:
    assert_derived(made, reference, shapes)


@pytest.mark.parametrize("made", [gated.op, gated_twice.op])
def test_the_output_is_read_and_no_sum_runs_over_the_weights(made: Op) -> None:
    backward = code_of(made).partition("_backward(")[2]
    assert "sum_dy_y" in backward and "dp * p" not in backward
