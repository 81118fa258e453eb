"""What is computed into merged axes has the derivative, and keeps what it would, with a name over the axes apart."""

import pytest
import torch
from torch import Tensor

from derive import axes, length, mean, op, relu, rsqrt, sqrt, sum, tensor
from derive.ir.equations import Op
from derive.ops.activations import softmax
from derive.pipeline import derivation_of
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

n, c, l, g, k, h, t, u, d, e = axes("n c l g k h t u d e")


@op
def group_relu(f, x: tensor[n, c, l], w: tensor[c], b: tensor[c], groups: length(g) = 2):
    """A group norm that is written into its channels at once, and what follows it."""
    f.z[n, g, k, l] = x[n, (g, k), l]
    f.mu[n, g] = mean(f.z[n, g, k, l], over=(k, l))
    f.rstd[n, g] = rsqrt(mean((f.z[n, g, k, l] - f.mu[n, g]) ** 2, over=(k, l)) + 1e-5)
    f.xhat[n, (g, k), l] = (f.z[n, g, k, l] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, c, l] = relu(f.xhat[n, c, l] * w[c] + b[c])
    return f.y


@op
def heads(f, q: tensor[n, t, h, d], kk: tensor[n, u, h, d], v: tensor[n, u, h, e]):
    """Attention whose heads are one axis of its output."""
    f.s[n, h, t, u] = sum(q[n, t, h, d] * kk[n, u, h, d], over=d) / sqrt(4)
    f.p = softmax(f.s)
    f.y[n, t, (h, e)] = sum(f.p[n, h, t, u] * v[n, u, h, e], over=u)
    return f.y


def _group_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.group_norm(x, 2, w, b).relu()


def _heads(q: Tensor, kk: Tensor, v: Tensor) -> Tensor:
    s = torch.einsum("nthd, nuhd -> nhtu", q, kk) / 2
    return torch.einsum("nhtu, nuhe -> nthe", s.softmax(-1), v).flatten(2)


CASES = [
    (group_relu.op, _group_relu, {"x": (3, 4, 5), "w": (4,), "b": (4,)}),
    (heads.op, _heads, {"q": (2, 3, 2, 4), "kk": (2, 5, 2, 4), "v": (2, 5, 2, 3)}),
]


@pytest.mark.parametrize(("made", "reference", "shapes"), CASES)
def test_values_and_gradients(made: Op, reference, shapes) -> None:
    assert_derived(made, reference, shapes)


def test_what_is_normalised_is_kept_not_what_it_is_made_of() -> None:
    assert "xhat" in derivation_of(group_relu.op).kept
    assert "z_minus_mu" not in derivation_of(group_relu.op).kept


def test_the_output_of_heads_is_read_in_their_place() -> None:
    backward = code_of(heads.op).partition("_backward(")[2].partition("class ")[0]
    assert "sum_dy_y" in backward, backward
