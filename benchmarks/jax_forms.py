"""The composite ops as a person writes them in JAX: the column `JAX jit`. Needs the extra `bench`.

`JAX` maps an op to a function of the op's inputs. Convolutions and the rest that is missing here have no such column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

try:
    import jax
    import jax.numpy as jnp
    from jax import nn
except ImportError:  # without the extra, the column is empty
    jax = None


def _mean_label(logp: Any, y: Any) -> Any:
    return -jnp.take_along_axis(logp, y[..., None], -1).mean()


def _attention(q: Any, k: Any, v: Any, bias: Any = 0.0, causal: bool = False) -> Any:
    s = jnp.einsum("...id,...jd->...ij", q, k) / math.sqrt(q.shape[-1]) + bias
    if causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    return jnp.einsum("...ij,...je->...ie", nn.softmax(s, -1), v)


def _grouped(q: Any, k: Any, v: Any) -> Any:
    s = jnp.einsum("...ghid,...gjd->...ghij", q, k) / math.sqrt(q.shape[-1])
    return jnp.einsum("...ghij,...gje->...ghie", nn.softmax(s, -1), v)


def _batchnorm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5, correction: float = 1) -> Any:
    return gamma * (x - x.mean(0)) / jnp.sqrt(x.var(0, ddof=correction) + eps) + beta


def _layernorm(x: Any, gamma: Any, beta: Any) -> Any:
    return gamma * (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) + beta


def _groupnorm(x: Any, gamma: Any, beta: Any, groups: int) -> Any:
    z = x.reshape(x.shape[0], groups, -1)
    z = (z - z.mean(-1, keepdims=True)) / jnp.sqrt(z.var(-1, keepdims=True) + 1e-5)
    return gamma[:, None] * z.reshape(x.shape) + beta[:, None]


def _ignoring(z: Any, y: Any) -> Any:
    kept = y != -100
    logp = jnp.take_along_axis(nn.log_softmax(z, -1), jnp.where(kept, y, 0)[:, None], -1)[:, 0]
    return -jnp.where(kept, logp, 0).sum() / kept.sum()


def _smoothed(z: Any, y: Any) -> Any:
    logp = nn.log_softmax(z, -1)
    return 0.9 * _mean_label(logp, y) - 0.1 * logp.mean()


def _weighted(z: Any, y: Any, weight: Any) -> Any:
    logp = jnp.take_along_axis(nn.log_softmax(z, -1), y[:, None], -1)[:, 0]
    return -(weight * logp).sum() / weight.sum()


def _rotary(x: Any, cos: Any, sin: Any) -> Any:
    first, second = jnp.split(x, 2, -1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def _rotary_interleaved(x: Any, cos: Any, sin: Any) -> Any:
    even, odd = x[..., ::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, odd * cos + even * sin], -1).reshape(x.shape)


def names_loss(C: Any, W1: Any, b1: Any, gain: Any, bias: Any, W2: Any, b2: Any, ix: Any, y: Any) -> Any:
    """The loss of the names network."""
    h = jnp.tanh(_batchnorm(C[ix].reshape(len(ix), -1) @ W1 + b1, gain, bias))
    return _mean_label(nn.log_softmax(h @ W2 + b2, -1), y)


JAX: dict[str, Callable[..., Any]] = {
    "attention": _attention,
    "attention_with_bias": _attention,
    "batchnorm": _batchnorm,
    "bce_with_logits": lambda x, t: ((1 - t) * x + nn.softplus(-x)).mean(),
    "bilinear": lambda x, z, w, b: jnp.einsum("...i,oij,...j->...o", x, w, z) + b,
    "causal_attention": lambda q, k, v: _attention(q, k, v, causal=True),
    "cross_entropy_ignore_index": _ignoring,
    "cross_entropy_label_smoothing": _smoothed,
    "cross_entropy_probabilities": lambda z, t: -(t * nn.log_softmax(z, -1)).sum() / len(z),
    "cross_entropy_weighted": _weighted,
    "dropout": lambda x, mask: x * mask / 0.5,
    "elu": lambda x: nn.elu(x),
    "bias_gelu": lambda x, b: nn.gelu(x + b, approximate=False),
    "gelu": lambda x: nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: nn.gelu(x, approximate=True),
    "groupnorm": _groupnorm,
    "grouped_query_attention": _grouped,
    "huber": lambda x, t: jnp.where(abs(x - t) <= 1, (x - t) ** 2 / 2, abs(x - t) - 0.5).mean(),
    "kl_div": lambda logp, t: (jnp.where(t > 0, t * jnp.log(t), 0) - t * logp).sum() / len(t),
    "kl_div_log_target": lambda logp, logt: (jnp.exp(logt) * (logt - logp)).sum() / len(logt),
    "l1": lambda x, t: abs(x - t).mean(),
    "l2_normalize": lambda x: x / jnp.maximum(jnp.sqrt((x**2).sum(-1, keepdims=True)), 1e-12),
    "layernorm": _layernorm,
    "leaky_relu": lambda x: nn.leaky_relu(x, 0.01),
    "linear": lambda x, w, b: x @ w + b,
    "log_softmax": lambda x: nn.log_softmax(x, -1),
    "logsumexp": lambda x: nn.logsumexp(x, -1),
    "mse": lambda x, t: ((x - t) ** 2).mean(),
    "names_step": names_loss,
    "nll": _mean_label,
    "rmsnorm": lambda x, gamma: gamma * x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6),
    "rotary": _rotary,
    "rotary_interleaved": _rotary_interleaved,
    "sequence_cross_entropy": lambda z, y: _mean_label(nn.log_softmax(z, -1), y),
    "silu": lambda x: nn.silu(x),
    "softmax": lambda x: nn.softmax(x, -1),
    "softmax_cross_entropy": lambda z, y: _mean_label(nn.log_softmax(z, -1), y),
    "swiglu": lambda gate, up: nn.silu(gate) * up,
    "var": lambda x: x.var(-1, ddof=1),
}


def jitted(name: str) -> Callable[..., Any] | None:
    """Inputs, cotangents and numbers to outputs and gradients, to be jitted as one; None where there is no form."""
    if jax is None or name not in JAX:
        return None
    forward = JAX[name]

    def both(wanted: dict[int, Any], rest: dict[int, Any], dys: Any, numbers: dict[str, Any]) -> Any:
        def of_wanted(w: dict[int, Any]) -> Any:
            everything = w | rest
            return forward(*(everything[k] for k in sorted(everything)), **numbers)

        out, pull = jax.vjp(of_wanted, wanted)
        return out, pull(dys)[0]

    return both
