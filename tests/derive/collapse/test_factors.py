"""A sum over a product of the forward reads that product: `sum(do * o)` of `y = g * o` is `sum(dy * y)`."""

import pytest
import torch
from torch import Tensor

from derive import amax, axes, exp, log, mean, op, sigmoid, size, sqrt, sum, tensor, where
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

n, t, s, d, e, h = axes("n t s d e h")


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


@op
def projected(f, q: tensor[n, t, d], k: tensor[n, s, d], v: tensor[n, s, e], w: tensor[e, h]):
    """What attention gives goes through a layer: a sum over `e` waits for no gradient of the weights."""
    p = weights(f, q, k)
    f.y[n, t, e] = sum(p[n, t, s] * v[n, s, e], over=s)
    f.z[n, t, h] = sum(f.y[n, t, e] * w[e, h], over=e)
    return f.z


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


SHAPES = {"q": (2, 3, 4), "k": (2, 5, 4), "v": (2, 5, 6)}
CASES = [
    (gated.op, lambda q, k, v, g: g.sigmoid() * attention(q, k, v), SHAPES | {"g": (2, 3, 6)}),
    (gated_twice.op, lambda q, k, v, g: 2 * g.sigmoid() * attention(q, k, v), SHAPES | {"g": (2, 3, 6)}),
    (projected.op, lambda q, k, v, w: attention(q, k, v) @ w, SHAPES | {"w": (6, 7)}),
]


@pytest.mark.parametrize(("made", "reference", "shapes"), CASES)
def test_values_and_gradients(made: Op, reference, shapes) -> None:
    assert_derived(made, reference, shapes)


@pytest.mark.parametrize("made", [gated.op, gated_twice.op, projected.op])
def test_the_output_is_read_and_no_sum_runs_over_the_weights(made: Op) -> None:
    backward = code_of(made).partition("_backward(")[2]
    assert "sum_dy_y" in backward and "dp * p" not in backward


m, b = axes("m b")


@op
def contrastive(f, a: tensor[n, d], b: tensor[m, d], temperature: tensor[()]):
    """The loss of paired rows, with a temperature that is learned (Radford et al., 2021)."""
    f.s[n, m] = sum(a[n, d] * b[m, d], over=d) / temperature[()]
    f.top[n] = amax(f.s[n, m], over=m)
    f.u[n, m] = exp(f.s[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    f.loss[()] = -mean(log(f.p[n, n]), over=n)
    return f.loss


@op
def contrastive_heads(f, a: tensor[n, h, d], b: tensor[m, h, d], temperature: tensor[h]):
    """A temperature for every head."""
    f.s[h, n, m] = sum(a[n, h, d] * b[m, h, d], over=d) / temperature[h]
    f.top[h, n] = amax(f.s[h, n, m], over=m)
    f.u[h, n, m] = exp(f.s[h, n, m] - f.top[h, n])
    f.p[h, n, m] = f.u[h, n, m] / sum(f.u[h, n, m], over=m)
    f.loss[()] = -mean(log(f.p[h, n, n]), over=(h, n))
    return f.loss


def contrastive_reference(a: torch.Tensor, b: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    return -(a @ b.T / temperature).log_softmax(1).diagonal().mean()


def heads_reference(a: torch.Tensor, b: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    s = (a.transpose(0, 1) @ b.permute(1, 2, 0)) / temperature[:, None, None]
    return -s.log_softmax(2).diagonal(dim1=1, dim2=2).mean()


@op
def scaled_heads(f, a: tensor[n, h, d], b: tensor[m, h, d], scale: tensor[h]):
    """A scale may be 0: its gradient is not read from another that is a multiple of it."""
    f.s[h, n, m] = scale[h] * sum(a[n, h, d] * b[m, h, d], over=d)
    f.top[h, n] = amax(f.s[h, n, m], over=m)
    f.u[h, n, m] = exp(f.s[h, n, m] - f.top[h, n])
    f.p[h, n, m] = f.u[h, n, m] / sum(f.u[h, n, m], over=m)
    f.loss[()] = -mean(log(f.p[h, n, n]), over=(h, n))
    return f.loss


PAIRS = {"a": (5, 4), "b": (5, 4), "temperature": ()}
HEADS = {"a": (5, 3, 4), "b": (5, 3, 4), "temperature": (3,)}
@op
def scaled(f, a: tensor[n, d], b: tensor[m, d], scale: tensor[()]):
    """So may one scale of all scores."""
    f.s[n, m] = scale[()] * sum(a[n, d] * b[m, d], over=d)
    f.top[n] = amax(f.s[n, m], over=m)
    f.u[n, m] = exp(f.s[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    f.loss[()] = -mean(log(f.p[n, n]), over=n)
    return f.loss


LEARNED = [
    (contrastive.op, contrastive_reference, PAIRS, {"p", *PAIRS}),
    (contrastive_heads.op, heads_reference, HEADS, {"p", *HEADS}),
    (scaled_heads.op, lambda a, b, scale: heads_reference(a, b, 1 / scale),
     {"a": (5, 3, 4), "b": (5, 3, 4), "scale": (3,)}, {"p", "s_sum", "a", "b", "scale"}),
    (scaled.op, lambda a, b, scale: contrastive_reference(a, b, 1 / scale),
     {"a": (5, 4), "b": (5, 4), "scale": ()}, {"p", "a", "b", "scale"}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "reference", "shapes", "kept"), LEARNED)
def test_where_a_temperature_is_learned(made: Op, reference, shapes, kept) -> None:
    """The scores are not kept: the sum of them times their gradient is that of an input times its gradient."""
    assert_derived(made, reference, shapes)
    assert set(derivation_of(made).kept) == kept


@op
def decayed(f, c: tensor[t, d], x: tensor[t, d]):
    """What has been seen, each the less the longer ago (minimal recurrences: Feng et al., 2024)."""
    f.y[t, d] = sum(where(s <= t, exp(c[t, d] - c[s, d]) * x[s, d], 0), over=s)
    return f.y


def _decayed(c: Tensor, x: Tensor) -> Tensor:
    return ((c[:, None] - c).exp() * torch.ones(5, 5, dtype=c.dtype).tril()[:, :, None] * x).sum(1)


def test_a_factor_behind_a_mask_of_places() -> None:
    """`dc` has the sum that `dx` is, times `x`, which no mask keeps in it."""
    assert_derived(decayed.op, _decayed, {"c": (5, 3), "x": (5, 3)})
    backward = code_of(decayed.op).partition("_backward(")[2].partition("class ")[0]
    assert backward.count("exp") == 1, backward


@op
def kept_finite(f, a: tensor[t], x: tensor[n, t]):
    """`1 / a` stays behind the mask that keeps it finite."""
    f.y[n, t] = sum(where(s + 1 <= t, x[n, s] / a[t], 0), over=s)
    return f.y


def test_what_a_mask_keeps_finite_stays_behind_it() -> None:
    a, x = torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    y, saved = module(kept_finite.op).kept_finite_forward(a, x)
    da, dx = module(kept_finite.op).kept_finite_backward(torch.ones_like(y), *saved)
    assert all(v.isfinite().all() for v in (y, da, dx))
