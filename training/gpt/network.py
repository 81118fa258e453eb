"""The decoder by hand: each part's forward right above its backward, every gradient from `generated`.

Axes: n sequences, t positions, d features, f features of the MLP, c tokens. `saved` is what a backward needs of its
forward; a backward returns the gradient of the part's input, then those of its parameters in their order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from generated import (
    add_backward,
    add_forward,
    causal_attention_backward,
    causal_attention_forward,
    embedding_with_positions_backward,
    embedding_with_positions_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
    layernorm_backward,
    layernorm_forward,
    linear_backward,
    linear_forward,
    merge_heads_backward,
    merge_heads_forward,
    sequence_cross_entropy_weighted_backward,
    sequence_cross_entropy_weighted_forward,
    split_heads_backward,
    split_heads_forward,
)

Saved = tuple[Any, ...]


class Attention(NamedTuple):
    """Parameters of a norm and of the attention after it: W* [d, d], the others [d]."""

    gain: Tensor
    bias: Tensor
    Wq: Tensor
    bq: Tensor
    Wk: Tensor
    bk: Tensor
    Wv: Tensor
    bv: Tensor
    Wo: Tensor
    bo: Tensor


class MLP(NamedTuple):
    """Parameters of a norm and of the MLP after it: Wup [d, f], Wdown [f, d]."""

    gain: Tensor
    bias: Tensor
    Wup: Tensor
    bup: Tensor
    Wdown: Tensor
    bdown: Tensor


class Head(NamedTuple):
    """Parameters of the last norm and of the map to tokens: W [d, c], or none of its own where it is C's transpose."""

    gain: Tensor
    bias: Tensor
    W: Tensor | None
    b: Tensor


@dataclass(frozen=True)
class GPT:
    """All parameters: C [c, d] of tokens, P [longest, d] of positions, the blocks, the head."""

    C: Tensor
    P: Tensor
    blocks: tuple[tuple[Attention, MLP], ...]
    head: Head
    heads: int

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter with its name, in one order for all uses."""
        yield from (("C", self.C), ("P", self.P))
        for number, (attention, mlp) in enumerate(self.blocks):
            for name, part in (("attention", attention), ("mlp", mlp)):
                yield from ((f"block{number}.{name}.{field}", p) for field, p in part._asdict().items())
        yield from ((f"head.{field}", p) for field, p in self.head._asdict().items() if p is not None)

    @property
    def parameters(self) -> list[Tensor]:
        """Every parameter, in the order of `named`."""
        return [parameter for _, parameter in self.named()]

    @property
    def longest(self) -> int:
        """How many positions it knows."""
        return self.P.shape[0]


# --- attention: x + attention(norm(x)) --------------------------------------------------------------------


def attention_forward(p: Attention, x: Tensor, heads: int) -> tuple[Tensor, Saved]:
    """x [n, t, d] to y [n, t, d]."""
    normed, norm = layernorm_forward(x, p.gain, p.bias)
    q, to_q = linear_forward(normed, p.Wq, p.bq)
    k, to_k = linear_forward(normed, p.Wk, p.bk)
    v, to_v = linear_forward(normed, p.Wv, p.bv)
    qh, split_q = split_heads_forward(q, heads)
    kh, split_k = split_heads_forward(k, heads)
    vh, split_v = split_heads_forward(v, heads)
    oh, weights = causal_attention_forward(qh, kh, vh)
    o, merge = merge_heads_forward(oh)
    out, to_out = linear_forward(o, p.Wo, p.bo)
    y, residual = add_forward(x, out)
    return y, (norm, to_q, to_k, to_v, split_q, split_k, split_v, weights, merge, to_out, residual)


def attention_backward(dy: Tensor, saved: Saved) -> tuple[Tensor, Attention]:
    """dy [n, t, d] to dx [n, t, d]."""
    norm, to_q, to_k, to_v, split_q, split_k, split_v, weights, merge, to_out, residual = saved
    dx, dout = add_backward(dy, *residual)
    do, dWo, dbo = linear_backward(dout, *to_out)
    doh = merge_heads_backward(do, *merge)
    dqh, dkh, dvh = causal_attention_backward(doh, *weights)
    dv = split_heads_backward(dvh, *split_v)
    dk = split_heads_backward(dkh, *split_k)
    dq = split_heads_backward(dqh, *split_q)
    dnormed_v, dWv, dbv = linear_backward(dv, *to_v)
    dnormed_k, dWk, dbk = linear_backward(dk, *to_k)
    dnormed_q, dWq, dbq = linear_backward(dq, *to_q)
    dx_norm, dgain, dbias = layernorm_backward(dnormed_q + dnormed_k + dnormed_v, *norm)
    return dx + dx_norm, Attention(dgain, dbias, dWq, dbq, dWk, dbk, dWv, dbv, dWo, dbo)


# --- MLP: x + mlp(norm(x)) --------------------------------------------------------------------------------


def mlp_forward(p: MLP, x: Tensor) -> tuple[Tensor, Saved]:
    """x [n, t, d] to y [n, t, d]."""
    normed, norm = layernorm_forward(x, p.gain, p.bias)
    up, to_up = linear_forward(normed, p.Wup, p.bup)
    active, gelu = gelu_tanh_forward(up)
    down, to_down = linear_forward(active, p.Wdown, p.bdown)
    y, residual = add_forward(x, down)
    return y, (norm, to_up, gelu, to_down, residual)


def mlp_backward(dy: Tensor, saved: Saved) -> tuple[Tensor, MLP]:
    """dy [n, t, d] to dx [n, t, d]."""
    norm, to_up, gelu, to_down, residual = saved
    dx, ddown = add_backward(dy, *residual)
    dactive, dWdown, dbdown = linear_backward(ddown, *to_down)
    dup = gelu_tanh_backward(dactive, *gelu)
    dnormed, dWup, dbup = linear_backward(dup, *to_up)
    dx_norm, dgain, dbias = layernorm_backward(dnormed, *norm)
    return dx + dx_norm, MLP(dgain, dbias, dWup, dbup, dWdown, dbdown)


# --- the head: scores of the next token -------------------------------------------------------------------


def head_forward(p: Head, C: Tensor, x: Tensor) -> tuple[Tensor, Saved]:
    """x [n, t, d] to logits [n, t, c]."""
    normed, norm = layernorm_forward(x, p.gain, p.bias)
    logits, to_logits = linear_forward(normed, C.T if p.W is None else p.W, p.b)
    return logits, (norm, to_logits, p.W is None)


def head_backward(dlogits: Tensor, saved: Saved) -> tuple[Tensor, Tensor | None, Head]:
    """dlogits [n, t, c] to dx [n, t, d]; a tied head's share of dC stands between dx and the head's own."""
    norm, to_logits, tied = saved
    dnormed, dW, db = linear_backward(dlogits, *to_logits)
    dx, dgain, dbias = layernorm_backward(dnormed, *norm)
    return dx, dW.T if tied else None, Head(dgain, dbias, None if tied else dW, db)


# --- the whole --------------------------------------------------------------------------------------------


def logits_forward(gpt: GPT, ix: Tensor) -> tuple[Tensor, Saved]:
    """Tokens ix [n, t] to the scores [n, t, c] of each next one."""
    x, embedded = embedding_with_positions_forward(gpt.C, gpt.P[: ix.shape[1]], ix)
    passed = []
    for attention, mlp in gpt.blocks:
        x, attention_saved = attention_forward(attention, x, gpt.heads)
        x, mlp_saved = mlp_forward(mlp, x)
        passed.append((attention_saved, mlp_saved))
    logits, head_saved = head_forward(gpt.head, gpt.C, x)
    return logits, (embedded, passed, head_saved, gpt)


def logits_backward(dlogits: Tensor, saved: Saved) -> GPT:
    """dlogits [n, t, c] to the gradient of every parameter, in a `GPT` of gradients."""
    embedded, passed, head_saved, gpt = saved
    dx, dC_head, dhead = head_backward(dlogits, head_saved)
    dblocks = []
    for attention_saved, mlp_saved in reversed(passed):
        dx, dmlp = mlp_backward(dx, mlp_saved)
        dx, dattention = attention_backward(dx, attention_saved)
        dblocks.append((dattention, dmlp))
    dC, dP_used = embedding_with_positions_backward(dx, *embedded)
    dP = torch.zeros_like(gpt.P)
    dP[: len(dP_used)] = dP_used
    return GPT(dC if dC_head is None else dC + dC_head, dP, tuple(reversed(dblocks)), dhead, gpt.heads)


def loss_forward(gpt: GPT, ix: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Saved]:
    """The mean cross-entropy [] of the next tokens y [n, t], over the places whose weight [n, t] is 1."""
    logits, logits_saved = logits_forward(gpt, ix)
    loss, loss_saved = sequence_cross_entropy_weighted_forward(logits, y, weight)
    return loss, (logits_saved, loss_saved)


def loss_backward(dloss: Tensor, saved: Saved) -> GPT:
    """dloss [] to the gradient of every parameter, in a `GPT` of gradients."""
    logits_saved, loss_saved = saved
    return logits_backward(sequence_cross_entropy_weighted_backward(dloss, *loss_saved), logits_saved)


def initialise(
    tokens: int,
    longest: int,
    width: int,
    heads: int,
    blocks: int,
    tied: bool,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> GPT:
    """Weights of deviation 0.02, less by the square root of 2 * blocks where they feed a residual, as in GPT-2.

    They are drawn in float32 and then converted, so that runs in either dtype start from the same numbers.
    """

    def normal(*shape: int, scale: float = 0.02) -> Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(dtype)

    def zeros(length: int) -> Tensor:
        return torch.zeros(length, dtype=dtype)

    def ones(length: int) -> Tensor:
        return torch.ones(length, dtype=dtype)

    d, last = width, 0.02 / (2 * blocks) ** 0.5
    C, P = normal(tokens, d), normal(longest, d)
    made = []
    for _ in range(blocks):
        (Wq, bq), (Wk, bk), (Wv, bv) = ((normal(d, d), zeros(d)) for _ in range(3))
        attention = Attention(ones(d), zeros(d), Wq, bq, Wk, bk, Wv, bv, normal(d, d, scale=last), zeros(d))
        mlp = MLP(ones(d), zeros(d), normal(d, 4 * d), zeros(4 * d), normal(4 * d, d, scale=last), zeros(d))
        made.append((attention, mlp))
    head = Head(ones(d), zeros(d), None if tied else normal(d, tokens), zeros(tokens))
    return GPT(C, P, tuple(made), head, heads)
