"""What each op of the catalogue should compute, said in plain PyTorch, and inputs that break hand-written code.

A reference is written independently of the spec: PyTorch's own op where it has one. Inputs are made from the
signature of the op, an axis at a time, so that an op without special needs has one line here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import torch
import torch.nn.functional as F
from torch import Tensor

from derive.ir.equations import Op, Operand
from derive.ir.terms.axes import Axis

Sizes = dict[str, Any]


@dataclass(frozen=True)
class Reference:
    """A forward in plain PyTorch, and what its inputs must be."""

    forward: Callable[..., Any]
    domains: Mapping[str, str] = field(default_factory=dict)  # of operands whose values are not any real number
    scalars: tuple[Mapping[str, float], ...] = ()  # further settings of the op's numbers, each a variant
    odd: Mapping[str, Any] = field(
        default_factory=dict
    )  # sizes for the ordinary variant, where the usual ones do not do
    fit: Callable[[Sizes], Mapping[str, Any]] = lambda sizes: {}  # sizes that follow from others
    without: frozenset[str] = frozenset()  # variants that mean nothing for this op


# --- forwards that PyTorch has no single call for --------------------------------------------------------------------


def _rnn(x: Tensor, w: Tensor, b: Tensor, u: Tensor, h0: Tensor) -> Tensor:
    h, states = h0, [h0[:, None, :][:, :0]]
    for x_t in x.unbind(1):
        h = torch.tanh(x_t @ w + b + h @ u)
        states.append(h[:, None])
    return torch.cat(states, 1)


def _gru(x: Tensor, w: Tensor, b: Tensor, u: Tensor, c: Tensor, h0: Tensor) -> Tensor:
    h, states = h0, [h0[:, None, :][:, :0]]
    for x_t in x.unbind(1):
        (z_r, z_u, z_n), (v_r, v_u, v_n) = (
            (torch.tensordot(a, m, 1) + bias).unbind(1) for a, m, bias in ((x_t, w, b), (h, u, c))
        )
        update = torch.sigmoid(z_u + v_u)
        h = (1 - update) * torch.tanh(z_n + torch.sigmoid(z_r + v_r) * v_n) + update * h
        states.append(h[:, None])
    return torch.cat(states, 1)


def _lstm(x: Tensor, w: Tensor, b: Tensor, u: Tensor, h0: Tensor, c0: Tensor) -> tuple[Tensor, Tensor]:
    h, c, states = h0, c0, [torch.stack([h0, c0])[:, :, None][:, :, :0]]
    for x_t in x.unbind(1):
        i, f, g, o = (torch.tensordot(x_t, w, 1) + b + torch.tensordot(h, u, 1)).unbind(1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(torch.stack([h, c])[:, :, None])
    hidden, memory = torch.cat(states, 2)
    return hidden, memory


def _returns(r: Tensor, v: Tensor, gamma: float = 0.99) -> Tensor:
    g, sums = v, [v[..., None][..., :0]]
    for r_t in reversed(r.unbind(-1)):
        g = r_t + gamma * g
        sums.append(g[..., None])
    return torch.cat(sums[::-1], -1)


def _batchnorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5, correction: float = 1) -> Tensor:
    if correction == 0 and len(x) > 1:
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=eps)
    var, mean = torch.var_mean(x, 0, correction=correction)
    return (x - mean) / torch.sqrt(var + eps) * gamma + beta


def _cross_entropy_weighted(z: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    return (F.cross_entropy(z, y, reduction="none") * weight).sum() / weight.sum()


def _grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads = q.shape[-3]
    wide = [t.unsqueeze(-3).expand(*t.shape[:-2], heads, *t.shape[-2:]) for t in (k, v)]
    return F.scaled_dot_product_attention(q, *wide)


def _groupnorm(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float = 1e-5) -> Tensor:
    if x.numel() == 1:  # which PyTorch refuses
        return beta[:, None] + 0 * x + 0 * gamma[:, None]
    return F.group_norm(x, groups, gamma, beta, eps)


def _max_pool2d(x: Tensor, height: int, width: int) -> Tensor:
    return x.unfold(2, height, 2).unfold(3, width, 2).amax((-2, -1))  # F.max_pool2d gives a tie's gradient to the first


def _names_step(
    C: Tensor,
    W1: Tensor,
    b1: Tensor,
    gain: Tensor,
    bias: Tensor,
    W2: Tensor,
    b2: Tensor,
    ix: Tensor,
    y: Tensor,
    eps: float = 1e-5,
) -> Tensor:
    h = _batchnorm(F.embedding(ix, C).flatten(1) @ W1 + b1, gain, bias, eps).tanh()
    return F.cross_entropy(h @ W2 + b2, y)


def _rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def _rotary_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


def _sequence_cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(z.reshape(-1, z.shape[-1]), y.reshape(-1))


def _conv_fit(length: str, kernel: str, dilation: int = 1) -> Callable[[Sizes], Mapping[str, Any]]:
    return lambda s: {length: max(s[length], dilation * (s[kernel] - 1) + 1)}


def _conv2d_fit(dilation: int = 1) -> Callable[[Sizes], Mapping[str, Any]]:
    rows, columns = _conv_fit("h", "p", dilation), _conv_fit("w", "q", dilation)
    return lambda s: {**rows(s), **columns(s)}


_CONV1D = {"n": 2, "c": 3, "l": 17, "o": 5, "k": 4}
_CONV2D = {"n": 2, "c": 3, "o": 5, "h": 11, "w": 13, "p": 4, "q": 6}
_CLASSES = {"n": 7, "c": 5}
_REDUCED = frozenset({"empty"})  # the mean of nothing, and the maximum of nothing, are refused or not a number

REFERENCES: dict[str, Reference] = {
    # recurrent
    "rnn": Reference(_rnn, fit=lambda s: {"e": s["d"]}),
    "gru": Reference(_gru, fit=lambda s: {"e": s["d"], "g": 3}),
    "lstm": Reference(_lstm, fit=lambda s: {"e": s["d"], "g": 4}),
    "returns": Reference(_returns, scalars=({"gamma": 1.0}, {"gamma": 0.0})),
    # arithmetic
    "abs": Reference(torch.abs),
    "add": Reference(torch.add),
    "add_bias": Reference(torch.add),
    "add_column": Reference(lambda x, c: x + c.unsqueeze(-1)),
    "add_number": Reference(torch.add),
    "add_outer": Reference(lambda a, b: a[:, None] + b),
    "amax": Reference(lambda x: x.amax(-1)),
    "batched_matmul": Reference(torch.matmul),
    "div": Reference(torch.div, {"y": "away"}),
    "div_column": Reference(lambda x, c: x / c.unsqueeze(-1), {"c": "away"}),
    "dot": Reference(torch.dot),
    "exp": Reference(torch.exp),
    "log": Reference(torch.log, {"x": "positive"}),
    "matmul": Reference(torch.mm),
    "matvec": Reference(torch.mv),
    "mean": Reference(lambda x: x.mean(-1)),
    "mean_all": Reference(torch.mean),
    "mul": Reference(torch.mul),
    "mul_column": Reference(lambda x, c: x * c[:, None]),
    "mul_row": Reference(torch.mul),
    "neg": Reference(torch.neg),
    "outer": Reference(torch.outer),
    "pow": Reference(
        lambda x, exponent=2.0: torch.pow(x, exponent),
        {"x": "positive"},
        tuple({"exponent": e} for e in (3.0, 1.0, 0.0, 0.5, -1.0, -2.5)),
    ),
    "pow_elementwise": Reference(torch.pow, {"x": "positive"}),
    "reciprocal": Reference(torch.reciprocal, {"x": "away"}),
    "scale": Reference(torch.mul),
    "sqrt": Reference(torch.sqrt, {"x": "positive"}),
    "square": Reference(torch.square),
    "sub": Reference(torch.sub),
    "sub_outer": Reference(lambda a, b: a[:, None] - b),
    "sum": Reference(lambda x: x.sum(-1)),
    "sum_all": Reference(torch.sum),
    "sum_rows": Reference(lambda x: x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).sum(0)),
    "var": Reference(
        lambda x, correction=1: x.var(-1, correction=correction), scalars=({"correction": 0}, {"correction": 2})
    ),
    # activations
    "bias_gelu": Reference(lambda x, b: F.gelu(x + b)),
    "elu": Reference(lambda x, alpha=1.0: F.elu(x, alpha), scalars=({"alpha": 0.7},)),
    "gelu": Reference(F.gelu),
    "gelu_tanh": Reference(lambda x: F.gelu(x, approximate="tanh")),
    "leaky_relu": Reference(lambda x, slope=0.01: F.leaky_relu(x, slope), scalars=({"slope": 0.3}, {"slope": 0.0})),
    "log_softmax": Reference(lambda x: F.log_softmax(x, -1)),
    "logsumexp": Reference(lambda x: torch.logsumexp(x, -1)),
    "relu": Reference(F.relu),
    "sigmoid": Reference(torch.sigmoid),
    "silu": Reference(F.silu),
    "softmax": Reference(lambda x: F.softmax(x, -1)),
    "softplus": Reference(lambda x: torch.logaddexp(x, torch.zeros_like(x))),  # F.softplus is x itself above 20
    "swiglu": Reference(lambda gate, up: F.silu(gate) * up),
    "tanh": Reference(torch.tanh),
    # normalisation
    "batchnorm": Reference(_batchnorm, scalars=({"correction": 0}, {"eps": 0.1}), without=_REDUCED),
    "groupnorm": Reference(_groupnorm, scalars=({"eps": 0.1},), fit=lambda s: {"c": 2 * s["g"] if s["c"] > 1 else 1}),
    "l2_normalize": Reference(lambda x, eps=1e-12: F.normalize(x, dim=-1, eps=eps), scalars=({"eps": 3.0},)),
    "layernorm": Reference(
        lambda x, gamma, beta, eps=1e-5: F.layer_norm(x, gamma.shape, gamma, beta, eps), scalars=({"eps": 0.1},)
    ),
    "rmsnorm": Reference(lambda x, gamma, eps=1e-6: F.rms_norm(x, gamma.shape, gamma, eps), scalars=({"eps": 0.1},)),
    # losses
    "bce_with_logits": Reference(F.binary_cross_entropy_with_logits, {"t": "unit"}),
    "cross_entropy_ignore_index": Reference(
        lambda z, y, ignore_index=-100: F.cross_entropy(z, y, ignore_index=int(ignore_index)),
        scalars=({"ignore_index": 2}, {"ignore_index": -100}),
        odd=_CLASSES,
    ),
    "cross_entropy_label_smoothing": Reference(
        lambda z, y, smoothing=0.1: F.cross_entropy(z, y, label_smoothing=smoothing),
        scalars=({"smoothing": 0.0}, {"smoothing": 1.0}),
        odd=_CLASSES,
    ),
    "cross_entropy_probabilities": Reference(F.cross_entropy, {"t": "probabilities"}, odd=_CLASSES),
    "cross_entropy_weighted": Reference(_cross_entropy_weighted, {"weight": "mask"}, odd=_CLASSES),
    "huber": Reference(lambda x, t, threshold=1.0: F.huber_loss(x, t, delta=threshold), scalars=({"threshold": 0.3},)),
    "kl_div": Reference(
        lambda logp, t: F.kl_div(logp, t, reduction="batchmean"),
        {"logp": "log_probabilities", "t": "probabilities"},
    ),
    "kl_div_log_target": Reference(
        lambda logp, logt: F.kl_div(logp, logt, reduction="batchmean", log_target=True),
        {"logp": "log_probabilities", "logt": "log_probabilities"},
    ),
    "l1": Reference(F.l1_loss),
    "mse": Reference(F.mse_loss),
    "nll": Reference(F.nll_loss, {"logp": "log_probabilities"}, odd=_CLASSES),
    "sequence_cross_entropy": Reference(_sequence_cross_entropy),
    "softmax_cross_entropy": Reference(F.cross_entropy, odd=_CLASSES),
    # layers
    "avg_pool2d": Reference(
        lambda x, height, width: F.avg_pool2d(x, (height, width), 2),
        odd={"n": 2, "c": 3, "h": 11, "w": 13, "p": 4, "q": 5},
        fit=_conv2d_fit(),
    ),
    "bilinear": Reference(F.bilinear),
    "conv1d": Reference(F.conv1d, odd=_CONV1D, fit=_conv_fit("l", "k")),
    "conv1d_stride2_dilation3": Reference(
        lambda x, w, b: F.conv1d(x, w, b, stride=2, dilation=3), odd=_CONV1D, fit=_conv_fit("l", "k", 3)
    ),
    "conv2d": Reference(F.conv2d, odd=_CONV2D, fit=_conv2d_fit()),
    "conv2d_stride2_dilation2": Reference(
        lambda x, k, b: F.conv2d(x, k, b, stride=2, dilation=2), odd=_CONV2D, fit=_conv2d_fit(2)
    ),
    "depthwise_conv2d": Reference(
        lambda x, k, b: F.conv2d(x, k[:, None], b, groups=len(k)),
        odd={"n": 2, "c": 3, "h": 11, "w": 13, "p": 4, "q": 5},
        fit=_conv2d_fit(),
    ),
    "dropout": Reference(lambda x, mask, rate=0.5: x * (mask / (1 - rate)), {"mask": "mask"}, ({"rate": 0.1},)),
    "embedding": Reference(lambda C, ix: F.embedding(ix, C)),
    "flatten": Reference(lambda x: x.flatten(1)),
    "global_avg_pool": Reference(lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1)),
    "linear": Reference(lambda x, w, b: F.linear(x, w.t(), b)),
    "max_pool2d": Reference(_max_pool2d, odd={"n": 2, "c": 3, "h": 11, "w": 13, "p": 4, "q": 5}, fit=_conv2d_fit()),
    # shape
    "concatenate": Reference(lambda x, z: torch.cat([x, z], -1)),
    "diagonal": Reference(lambda x: x.diagonal(dim1=-2, dim2=-1)),
    "gather_rows": Reference(lambda x, ix: torch.gather(x, 1, ix)),
    "merge_heads": Reference(lambda x: x.transpose(-3, -2).flatten(-2)),
    "split_heads": Reference(
        lambda x, heads: x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(-3, -2),
        fit=lambda s: {"d": 2 * s["h"]},
    ),
    "trace": Reference(torch.trace),
    "transpose": Reference(lambda x: x.mT),
    "tril": Reference(torch.tril),
    # attention
    "attention": Reference(F.scaled_dot_product_attention),
    "attention_with_bias": Reference(lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias)),
    "causal_attention": Reference(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "grouped_query_attention": Reference(
        _grouped_query_attention, odd={"g": 2, "h": 3, "i": 5, "d": 4, "j": 7, "e": 6}
    ),
    # rotary
    "rotary": Reference(_rotary, fit=lambda s: {"d": 2 * s["h"]}),
    "rotary_interleaved": Reference(_rotary_interleaved, fit=lambda s: {"d": 2 * s["h"]}),
    # rearranging
    "merge_axes": Reference(lambda x: x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])),
    "repeat_axis": Reference(lambda x, times: torch.stack([x] * times, 1)),
    # Its input has no axis that could be empty.
    "repeat_number": Reference(lambda a, times: torch.stack([a] * times), without=frozenset({"empty"})),
    "split_axis": Reference(
        lambda x, inner: x.reshape(*x.shape[:-1], x.shape[-1] // inner, inner), fit=lambda s: {"k": 2 * s["j"]}
    ),
    "swap_axes": Reference(lambda x: x.transpose(1, 3)),
    "take_elements": Reference(torch.take),
    # batch normalisation in shards
    "squared_deviations": Reference(lambda x, mu: torch.einsum("nd,nd->d", x - mu, x - mu)),
    "standardise": Reference(
        lambda x, mu, var, gamma, beta, eps=1e-5: (x - mu) / torch.sqrt(var + eps) * gamma + beta,
        {"var": "positive"},
        ({"eps": 0.1},),
    ),
    # transformers
    "embedding_with_positions": Reference(lambda C, P, ix: F.embedding(ix, C) + P),
    "sequence_cross_entropy_weighted": Reference(
        lambda z, y, weight: _cross_entropy_weighted(z.reshape(-1, z.shape[-1]), y.reshape(-1), weight.reshape(-1)),
        {"weight": "mask"},
    ),
    # the network of names
    "names_step": Reference(
        _names_step,
        odd={"v": 11, "e": 3, "h": 5, "c": 13, "n": 9, "t": 2},
        fit=lambda s: {"i": s["t"] * s["e"]},
    ),
}


# --- inputs ----------------------------------------------------------------------------------------------------------

_PACKS: dict[str, tuple[int, ...]] = {
    "rank0": (),
    "rank1": (4,),
    "rank3": (2, 1, 4),
    "rank4": (2, 3, 1, 2),
}
_ODD = (3, 5, 7, 9, 11, 13)

LARGER = {"larger": 4, "largest": 11}
"""The ordinary variant with a longer batch: how much longer."""


def variants(op: Op) -> list[str]:
    """The kinds of input that mean something for the op."""
    tensors = [o for o in op.operands if o.kind == "tensor"]
    names = ["odd", "strided", "coincident", "ones", "zeros", "ties", "extreme", "saturated", "empty"]
    if any(a.is_pack for o in op.operands for a in o.axes):
        names += _PACKS
    if any(o.kind == "index" for o in op.operands):
        names += ["repeated", "last"]
    if len(tensors) > 1:
        names += ["gain0"]
    reference = REFERENCES.get(op.name)
    if reference is None:
        return names
    names += [f"scalars{k}" for k in range(len(reference.scalars))]
    return [name for name in names if name not in reference.without]


def takes_one_tensor_twice(op: Op) -> bool:
    """Whether two real inputs have the same axes, so that one tensor may be passed for both."""
    axes = [o.axes for o in op.operands if o.kind == "tensor"]
    return len(set(axes)) < len(axes)


def sizes_of(op: Op, variant: str) -> Sizes:
    """A length for every axis that an input carries; for `...`, a tuple of them."""
    reference = REFERENCES[op.name]
    axes = list(dict.fromkeys(a.base for o in op.operands for a in (*_axes(o), o.ranges_over) if a is not None))
    plain = [a for a in axes if a != "..."]
    if variant == "ones":
        sizes: Sizes = {a: 1 for a in plain} | {"...": (1, 1)}
    elif variant == "coincident":
        sizes = {a: 3 for a in plain} | {"...": (3, 3)}
    elif variant == "tiny":
        sizes = {a: 2 + k % 2 for k, a in enumerate(plain)} | {"...": (2,)}
    else:
        sizes = dict(zip(plain, _ODD, strict=False)) | {"...": (2, 4)} | dict(reference.odd)
        sizes["..."] = _PACKS.get(variant, sizes["..."])
    if variant in LARGER:
        (first, *rest), batch = sizes["..."], _batch(op)
        more = LARGER[variant]
        sizes |= {"...": (first + more, *rest)} if "..." in axes else {batch: sizes[batch] + more}
    if variant == "empty":
        sizes |= {"...": (2, 0)} if "..." in axes else {_batch(op): 0}
    return sizes | dict(reference.fit(sizes))


def _axes(operand: Operand) -> tuple[Axis, ...]:
    """The axes of an operand as its annotation has them: one that stands twice is one length."""
    return operand.declared or operand.axes


def _batch(op: Op) -> str:
    """The axis that may be empty: the first one of the inputs that is no length of a table of parameters.

    Where no input has one, it is the first axis that an argument gives.
    """
    ranged = {o.ranges_over.base for o in op.operands if o.ranges_over is not None}
    first = next((o for o in op.operands if o.kind == "index"), op.operands[0])
    return next((a.base for a in _axes(first) if a.base not in ranged), next(iter(ranged), ""))


def sample(op: Op, seed: int, dtype: torch.dtype, variant: str) -> tuple[tuple[Tensor, ...], dict[str, float]]:
    """The tensors of one call, in order, and its numbers where they are not the defaults."""
    reference = REFERENCES[op.name]
    generator = torch.Generator().manual_seed(seed + crc32(f"{op.name} {variant}".encode()))
    sizes = sizes_of(op, variant)
    tensors = tuple(_tensor(o, sizes, variant, generator, op) for o in op.operands if o.is_tensor)
    tensors = tuple(t.to(dtype) if t.is_floating_point() else t for t in tensors)
    if variant == "strided":
        tensors = tuple(_strided(t) for t in tensors)
    numbers = {o.name: sizes[o.ranges_over.base] for o in op.operands if o.kind == "length"}
    if variant.startswith("scalars"):
        numbers |= reference.scalars[int(variant.removeprefix("scalars"))]
    return tensors, numbers


def _tensor(operand: Operand, sizes: Sizes, variant: str, generator: torch.Generator, op: Op) -> Tensor:
    shape = [n for a in _axes(operand) for n in (sizes[a.base] if a.is_pack else (sizes[a.base],))]
    if operand.ranges_over is not None:
        length = sizes[operand.ranges_over.base]
        drawn = torch.randint(0, length, shape, generator=generator)
        if variant == "tiny":
            return torch.arange(drawn.numel()).reshape(shape) % length  # every value, where there are few
        return {"repeated": drawn % min(2, length), "last": torch.full_like(drawn, length - 1)}.get(variant, drawn)
    domain = REFERENCES[op.name].domains.get(operand.name, "real")
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    first = operand.name == next(o.name for o in op.operands if o.kind == "tensor")
    if operand.kind == "tensor" and domain in ("real", "positive"):
        values = _varied(values, variant, first)
    return _DOMAINS[domain](values)


def _varied(values: Tensor, variant: str, first: bool) -> Tensor:
    if variant == "zeros" or (variant == "gain0" and not first):
        return torch.zeros_like(values)
    if variant == "ties":
        return values.round().clamp(-1, 1)
    if variant == "extreme" and first:
        return values * 1e4
    if variant == "saturated" and first:
        return values.sign() * 100
    return values


def _distribution(values: Tensor) -> Tensor:
    """Probabilities along the last axis, some of them exactly 0."""
    kept = torch.where(values > 1, 0.0, values.exp())
    return kept / kept.sum(-1, keepdim=True).clamp_min(1e-300)


_DOMAINS: dict[str, Callable[[Tensor], Tensor]] = {
    "real": lambda v: v,
    "positive": torch.abs,
    "away": lambda v: v + v.sign() + (v == 0),  # nowhere near 0
    "unit": lambda v: torch.where(v.abs() > 1.5, (v > 0).to(v.dtype), torch.sigmoid(v)),  # 0 and 1 included
    "mask": lambda v: (v > -0.7).to(v.dtype),
    "probabilities": _distribution,
    "log_probabilities": lambda v: v.log_softmax(-1),
}


def _strided(t: Tensor) -> Tensor:
    """The same values, laid out in memory with the axes reversed and a gap after each element."""
    reversed_axes = tuple(reversed(range(t.dim())))
    back = t.permute(reversed_axes).contiguous()
    return torch.stack([back, back], -1)[..., 0].permute(reversed_axes)


def cotangents(outputs: tuple[Tensor, ...], seed: int) -> dict[str, tuple[Tensor, ...]]:
    """Incoming gradients of every kind of layout: contiguous, transposed in memory, and one number expanded."""
    generator = torch.Generator().manual_seed(seed)
    plain = tuple(torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.dtype) for o in outputs)
    strided = tuple(
        _strided(torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.dtype)) for o in outputs
    )
    expanded = tuple(torch.tensor(1.7, dtype=o.dtype).expand(o.shape) for o in outputs)
    return {"contiguous": plain, "transposed": strided, "stride 0": expanded}
