"""Which samples of PyTorch's own `OpInfo` suite each op of the catalogue can take, and how its arguments map.

A mapping gives the arguments of our function, made of the sample's own tensors by views, or says why the sample is
outside our signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing._internal.opinfo.core import SampleInput


class Outside(Exception):
    """The sample asks for something that the op does not offer; the message says what."""


@dataclass(frozen=True)
class Call:
    """Arguments for our function: its tensors, in order, its numbers by name; and its output as PyTorch shapes it."""

    tensors: tuple[Tensor, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    back: Callable[[Tensor], Tensor] = lambda y: y
    constant: Tensor | None = None  # a tensor of the sample's to which ours gives no gradient


Fit = Callable[[SampleInput], Call]


@dataclass(frozen=True)
class Row:
    """The OpInfo (name and variant) whose samples an op is tried on."""

    info: str
    fit: Fit
    variant: str = ""
    alters: Callable[[Tensor], Tensor] = lambda y: y  # PyTorch's output as ours is shaped


# --- what samples say --------------------------------------------------------------------------------------------


def need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Outside(otherwise)


def options(s: SampleInput, allowed: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The sample's further arguments by name; those of `allowed` may only have that value."""
    given = dict(zip(names, s.args, strict=False)) | s.kwargs
    for name, value in allowed.items():
        need(given.get(name, value) in (value, None), f"another {name}")
    return given


def tensors_only(*values: Any) -> None:
    need(all(isinstance(v, Tensor) for v in values), "a Python number for a tensor")


def unary(s: SampleInput) -> Call:
    need(not s.args and not s.kwargs, f"another {', '.join(s.kwargs) or 'argument'}")
    return Call((s.input,))


def with_number(ours: str, theirs: str) -> Fit:
    def fit(s: SampleInput) -> Call:
        given = options(s, {"inplace": False}, theirs)
        return Call((s.input,), {ours: given[theirs]} if theirs in given else {})

    return fit


def _pair(s: SampleInput) -> tuple[Tensor, Tensor]:
    need(not s.kwargs, f"another {', '.join(s.kwargs)}")
    tensors_only(s.input, *s.args)
    return s.input, s.args[0]


def alike(s: SampleInput) -> Call:
    return Call(tuple(torch.broadcast_tensors(*_pair(s))))


def row(s: SampleInput) -> Call:
    x, y = sorted(_pair(s), key=lambda t: -t.dim())
    need(x.dim() > 1 and y.shape == x.shape[-1:], "no vector along the last axis")
    return Call((x, y))


def column(rank: int | None = None) -> Fit:
    def fit(s: SampleInput) -> Call:
        x, y = _pair(s)
        need(x.dim() >= 1 and y.shape == (*x.shape[:-1], 1), "no column")
        need(rank in (None, x.dim()), "another rank")
        return Call((x, y[..., 0]))

    return fit


def number(s: SampleInput) -> Call:
    x, y = _pair(s)
    need(y.dim() == 0, "no single number")
    return Call((x, y))


def outer_pair(s: SampleInput) -> Call:
    x, y = _pair(s)
    need(x.dim() == 2 and x.shape[1] == 1 and y.dim() in (1, 2) and (y.dim() == 1 or y.shape[0] == 1), "no outer sum")
    return Call((x[:, 0], y.reshape(-1)))


def ranks(*wanted: int, names: str = "", allowed: Mapping[str, Any] | None = None) -> Fit:
    """Tensors of these ranks, the first the sample's input."""

    def fit(s: SampleInput) -> Call:
        options(s, allowed or {}, *names.split())
        found = (s.input, *(a for a in s.args if isinstance(a, Tensor)))
        need(tuple(t.dim() for t in found) == wanted, "other ranks")
        return Call(found)

    return fit


def _dims(given: Any, of: Tensor) -> tuple[int, ...]:
    dims = tuple(given) if isinstance(given, tuple | list) else (given,)
    return tuple(d % max(of.dim(), 1) for d in dims)


def along_last(s: SampleInput) -> Call:
    """A reduction over the last axis, or over others brought there."""
    given = options(s, {"dtype": None}, "dim", "keepdim")
    dim = given.get("dim")
    need(s.input.dim() >= 1, "no axis")
    need(dim is not None and dim != (), "every axis")
    return Call((_last(s.input, _dims(dim, s.input)),))


def _last(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The tensor with these axes brought to the end, as one."""
    return x.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))


def softened(s: SampleInput) -> Call:
    """A softmax along any axis."""
    dim = options(s, {"dtype": None}, "dim").get("dim")
    need(s.input.dim() >= 1, "no axis")
    need(s.input.shape[dim] > 0, "an axis of length 0, which has no maximum")
    return Call((s.input.movedim(dim, -1),), back=lambda y: y.movedim(-1, dim))


def over_all(s: SampleInput) -> Call:
    given = options(s, {"dtype": None}, "dim", "keepdim")
    dim = given.get("dim")
    need(dim is None or set(_dims(dim, s.input)) == set(range(s.input.dim())), "not every axis")
    return Call((s.input,))


def over_leading(s: SampleInput) -> Call:
    given = options(s, {"dtype": None}, "dim", "keepdim")
    dim = given.get("dim")
    need(dim is not None and dim != () and s.input.dim() > 1, "every axis")
    dims = _dims(dim, s.input)
    rest = tuple(d for d in range(s.input.dim()) if d not in dims)
    need(len(rest) > 0, "every axis")
    return Call((_last(s.input, rest),))


def variance(s: SampleInput) -> Call:
    given = options(s, {}, "dim")
    need(s.input.dim() >= 1 and given.get("dim") not in (None, ()), "every axis")
    need(not isinstance(given["dim"], bool), "the old unbiased= in the place of dim")
    correction = given.get("correction", int(given.get("unbiased", True)))
    correction = 1 if correction is None else correction
    whole = _last(s.input, _dims(given["dim"], s.input))
    need(whole.shape[-1] > correction, "a correction not below the length, which gives no number")
    return Call((whole,), {"correction": correction})


def power_number(s: SampleInput) -> Call:
    (exponent,) = s.args
    need(exponent.dim() == 0, "an exponent for each element")
    return Call((s.input,), {"exponent": exponent.item()}, constant=exponent)


# --- layers ----------------------------------------------------------------------------------------------------


def gelu(approximate: str) -> Fit:
    def fit(s: SampleInput) -> Call:
        need(s.kwargs.get("approximate", "none") == approximate, "another approximate")
        return Call((s.input,))

    return fit


def linear(s: SampleInput) -> Call:
    need(s.args[0].dim() == 2, "a weight that is no matrix")
    weight, *bias = s.args
    return Call((s.input, weight.t(), bias[0] if bias else weight.new_zeros(len(weight))))


def bilinear(s: SampleInput) -> Call:
    other, weight, *bias = s.args
    return Call((s.input, other, weight, bias[0] if bias else weight.new_zeros(len(weight))))


def embedding(s: SampleInput) -> Call:
    options(s, {"padding_idx": None, "max_norm": None, "scale_grad_by_freq": False, "sparse": False}, "weight")
    return Call((s.args[0], s.input)) if s.args[0].is_floating_point() else Call((s.input, s.args[0]))


def convolution(rank: int, stride: int = 1, dilation: int = 1, depthwise: bool = False) -> Fit:
    def fit(s: SampleInput) -> Call:
        given = options(s, {}, "weight", "bias", "stride", "padding", "dilation", "groups")
        weight, bias = given["weight"], given.get("bias")
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        x = s.input if s.input.dim() == rank + 2 else s.input[None]
        need(_all(given.get("stride", 1), stride), "another stride")
        need(_all(given.get("dilation", 1), dilation), "another dilation")
        padding = 0 if given.get("padding", 0) == "valid" else given.get("padding", 0)
        need(padding != "same", "padding to the same length")
        sides = padding if isinstance(padding, tuple | list) else (padding,) * rank
        x = F.pad(x, [p for side in reversed(sides) for p in (side, side)])
        groups = given.get("groups", 1)
        if depthwise:
            need(groups == x.shape[1] == weight.shape[0], "groups that are not the channels")
            return Call((x, weight[:, 0], bias))
        need(groups == 1, "groups")
        return Call((x, weight, bias))

    return fit


def _all(value: Any, wanted: int) -> bool:
    return all(v == wanted for v in value) if isinstance(value, tuple | list) else value == wanted


def pooling(s: SampleInput) -> Call:
    given = options(
        s,
        {"ceil_mode": False, "count_include_pad": True, "divisor_override": None, "return_indices": False},
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override",
    )  # fmt: skip
    kernel = given["kernel_size"]
    height, width = kernel if isinstance(kernel, tuple | list) else (kernel, kernel)
    stride = given.get("stride") or kernel
    need(s.input.dim() in (3, 4), "another rank")
    need(_all(stride, 2), "another stride")
    need(_all(given.get("padding", 0), 0), "padding")
    need(_all(given.get("dilation", 1), 1), "a dilation")
    return Call((s.input if s.input.dim() == 4 else s.input[None],), {"height": height, "width": width})


def global_pooling(s: SampleInput) -> Call:
    need(_all(s.args[0], 1), "another output size")
    return Call((s.input if s.input.dim() == 4 else s.input[None],))


def never(reason: str) -> Fit:
    def fit(s: SampleInput) -> Call:
        raise Outside(reason)

    return fit


def flatten(s: SampleInput) -> Call:
    given = options(s, {"end_dim": -1}, "start_dim", "end_dim")
    need(s.input.dim() == 3 and given.get("start_dim", 0) in (1, -2), "another rank or start")
    return Call((s.input,))


# --- norms -----------------------------------------------------------------------------------------------------


def layer_norm(s: SampleInput) -> Call:
    given = options(s, {}, "normalized_shape", "weight", "bias", "eps")
    count = len(given["normalized_shape"])
    x = s.input.flatten(-count)
    return Call((x, *_affine(given, x.shape[-1:], x)), _eps(given, 1e-5))


def _affine(given: Mapping[str, Any], shape: Sequence[int], like: Tensor) -> tuple[Tensor, Tensor]:
    """The weight and the bias; ones and zeros where the sample has none."""
    weight, bias = given.get("weight"), given.get("bias")
    return (
        like.new_ones(shape) if weight is None else weight.reshape(shape),
        like.new_zeros(shape) if bias is None else bias.reshape(shape),
    )


def _eps(given: Mapping[str, Any], default: float) -> dict[str, Any]:
    eps = given.get("eps", default)
    return {} if eps is None else {"eps": eps}


def rms_norm(s: SampleInput) -> Call:
    given = options(s, {}, "normalized_shape", "weight", "eps")
    x = s.input.flatten(-len(given["normalized_shape"]))
    eps = given.get("eps")
    return Call((x, _affine(given, x.shape[-1:], x)[0]), {"eps": 2.220446049250313e-16 if eps is None else eps})


def batch_norm(s: SampleInput) -> Call:
    given = options(s, {}, "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    need(given.get("training", False), "statistics of the past")
    need(s.input.dim() >= 2, "another rank")
    x = s.input.movedim(1, -1).reshape(-1, s.input.shape[1])  # a row for every place
    return Call((x, *_affine(given, x.shape[-1:], x)), {"eps": given.get("eps", 1e-5), "correction": 0})


def group_norm(s: SampleInput) -> Call:
    given = options(s, {}, "num_groups", "weight", "bias", "eps")
    need(s.input.dim() >= 2, "another rank")
    x = s.input.flatten(2) if s.input.dim() > 2 else s.input[..., None]
    return Call((x, *_affine(given, x.shape[1:2], x)), {"groups": given["num_groups"], **_eps(given, 1e-5)})


def normalize(s: SampleInput) -> Call:
    given = options(s, {"p": 2.0, "out": None}, "p", "dim", "eps")
    need(s.input.dim() >= 1, "no axis")
    dim = given.get("dim", 1)
    return Call((s.input.movedim(dim, -1),), {"eps": given.get("eps", 1e-12)}, lambda y: y.movedim(-1, dim))


# --- losses ----------------------------------------------------------------------------------------------------


def loss(*names: str, **allowed: Any) -> Fit:
    def fit(s: SampleInput) -> Call:
        given = options(s, {"reduction": "mean", "weight": None, **allowed}, "target")
        need(s.input.shape == given["target"].shape, "shapes that broadcast")
        return Call(
            (s.input, given["target"]), {ours: given[ours_theirs] for ours, ours_theirs in _renames(names, given)}
        )

    return fit


def _renames(names: tuple[str, ...], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = [tuple(n.split("=")) for n in names]
    return [(ours, theirs) for ours, theirs in pairs if theirs in given]


def labels(kind: str) -> Fit:
    """Cross entropy and negative log-likelihood: what the target and the options must be."""

    def fit(s: SampleInput) -> Call:
        allowed = {"reduction": "mean", "weight": None, "label_smoothing": 0.0, "ignore_index": -100}
        allowed.pop(kind, None)
        given = options(s, allowed, "target")
        target = given["target"]
        whole = target.is_floating_point()
        need(whole == (kind == "probabilities"), "probabilities" if whole else "labels")
        if kind == "sequence":
            need(s.input.dim() > 2, "no further axes")
            return Call((s.input.movedim(1, -1), target))
        need(s.input.dim() >= 2, "no batch")
        z = _last(s.input.transpose(0, 1), tuple(d for d in range(s.input.dim()) if d != 0)).T
        target = target if whole else target.flatten()
        need(not whole or s.input.dim() == 2, "another rank")
        numbers = {}
        if kind in allowed or kind in ("label_smoothing", "ignore_index"):
            need(kind in given, f"no {kind}")
            numbers = {{"label_smoothing": "smoothing"}.get(kind, kind): given[kind]}
        if not whole and kind != "ignore_index":
            need(bool((target >= 0).all()), "ignored labels")
        if kind == "weight":
            need(given.get("weight") is not None, "no weight")
            return Call((z, target, given["weight"][target]))
        if kind == "ignore_index":
            inside = given["ignore_index"]
            need(bool(((target >= 0) & (target < s.input.shape[1])).all()), f"labels off the axis ({inside})")
        return Call((z, target), numbers)

    return fit


def divergence(log_target: bool) -> Fit:
    def fit(s: SampleInput) -> Call:
        given = options(s, {"reduction": "batchmean"}, "target")
        need(given.get("reduction") == "batchmean", "another reduction")
        need(bool(given.get("log_target", False)) == log_target, "another log_target")
        need(s.input.dim() == 2 and s.input.shape == given["target"].shape, "another rank")
        target = given["target"]
        return Call((s.input, target if log_target else target.detach()), constant=None if log_target else target)

    return fit


# --- attention, shapes --------------------------------------------------------------------------------------------


def attention(causal: bool = False, bias: bool = False, grouped: bool = False) -> Fit:
    def fit(s: SampleInput) -> Call:
        given = options(s, {"dropout_p": 0.0, "scale": None}, "key", "value", "attn_mask", "dropout_p", "is_causal")
        q, k, v, mask = s.input, given["key"], given["value"], given.get("attn_mask")
        need(bool(given.get("is_causal", False)) == causal, "another is_causal")
        need(bool(given.get("enable_gqa", False)) == grouped, "another enable_gqa")
        need((mask is not None) == bias, "a mask" if mask is not None else "no mask")
        need(q.shape[:-2] == k.shape[:-2] or grouped, "shapes that broadcast")
        if bias:
            need(mask.is_floating_point() and q.dim() >= 3 and mask.dim() >= 2, "a mask of truth values")
            mask = mask.expand(q.shape[-3], q.shape[-2], k.shape[-2]) if mask.dim() < 4 else mask
            need(mask.dim() == 3, "a mask for each of the batch")
            return Call((q, k, v, mask))
        if grouped:
            groups = k.shape[-3]
            return Call((q.unflatten(-3, (groups, -1)), k, v))
        return Call((q, k, v))

    return fit


def transposed(s: SampleInput) -> Call:
    dims = tuple(s.args) or tuple(s.kwargs.values())
    need(s.input.dim() >= 2, "another rank")
    need({d % s.input.dim() for d in dims} == {s.input.dim() - 2, s.input.dim() - 1}, "other axes")
    return Call((s.input,))


def diagonal(s: SampleInput) -> Call:
    given = options(s, {"offset": 0}, "offset", "dim1", "dim2")
    dims = {given.get("dim1", 0) % s.input.dim(), given.get("dim2", 1) % s.input.dim()}
    x = s.input.movedim(tuple(sorted(dims)), (-2, -1))
    need(x.shape[-1] == x.shape[-2], "no square")
    return Call((x,))


def square(s: SampleInput) -> Call:
    need(s.input.shape[0] == s.input.shape[1], "no square")
    return Call((s.input,))


def triangle(s: SampleInput) -> Call:
    options(s, {"diagonal": 0}, "diagonal")
    need(not s.args or s.args[0] == 0, "another diagonal")
    return Call((s.input,))


def gather(s: SampleInput) -> Call:
    dim, index = s.args
    need(s.input.dim() == 2 and index.dim() == 2, "another rank")
    x, index = s.input.movedim(dim, 1), index.movedim(dim, 1)
    need(index.shape[0] == x.shape[0], "fewer rows")
    return Call((x, index), back=lambda y: y.movedim(1, dim))


def concatenation(s: SampleInput) -> Call:
    given = options(s, {}, "dim")
    need(len(s.input) == 2, "not two pieces")
    x, z = s.input
    need(x.dim() == z.dim() >= 1, "other ranks")
    dim = given.get("dim", 0)
    return Call((x.movedim(dim, -1), z.movedim(dim, -1)), back=lambda y: y.movedim(-1, dim))


_F = "nn.functional."

TABLE: dict[str, Row] = {
    "abs": Row("abs", unary),
    "add": Row("add", alike),
    "add_bias": Row("add", row),
    "add_column": Row("add", column()),
    "add_number": Row("add", number),
    "add_outer": Row("add", outer_pair),
    "amax": Row("amax", along_last),
    "attention": Row(_F + "scaled_dot_product_attention", attention()),
    "attention_with_bias": Row(_F + "scaled_dot_product_attention", attention(bias=True)),
    "avg_pool2d": Row(_F + "avg_pool2d", pooling),
    "batched_matmul": Row("bmm", ranks(3, 3)),
    "batchnorm": Row(_F + "batch_norm", batch_norm, alters=lambda y: y.movedim(1, -1).reshape(-1, y.shape[1])),
    "bce_with_logits": Row(_F + "binary_cross_entropy_with_logits", loss(pos_weight=None)),
    "bilinear": Row(_F + "bilinear", bilinear),
    "causal_attention": Row(_F + "scaled_dot_product_attention", attention(causal=True)),
    "concatenate": Row("cat", concatenation),
    "conv1d": Row(_F + "conv1d", convolution(1)),
    "conv1d_stride2_dilation3": Row(_F + "conv1d", convolution(1, 2, 3)),
    "conv2d": Row(_F + "conv2d", convolution(2)),
    "conv2d_stride2_dilation2": Row(_F + "conv2d", convolution(2, 2, 2)),
    "cross_entropy_ignore_index": Row(_F + "cross_entropy", labels("ignore_index")),
    "cross_entropy_label_smoothing": Row(_F + "cross_entropy", labels("label_smoothing")),
    "cross_entropy_probabilities": Row(_F + "cross_entropy", labels("probabilities")),
    "cross_entropy_weighted": Row(_F + "cross_entropy", labels("weight")),
    "depthwise_conv2d": Row(_F + "conv2d", convolution(2, depthwise=True)),
    "diagonal": Row("diagonal", diagonal),
    "div": Row("div", alike, "no_rounding_mode"),
    "div_column": Row("div", column(), "no_rounding_mode"),
    "dot": Row("dot", alike),
    "dropout": Row(_F + "dropout", never("draws its own mask")),
    "elu": Row(_F + "elu", with_number("alpha", "alpha")),
    "embedding": Row(_F + "embedding", embedding),
    "exp": Row("exp", unary),
    "flatten": Row("flatten", flatten),
    "gather_rows": Row("gather", gather),
    "gelu": Row(_F + "gelu", gelu("none")),
    "gelu_tanh": Row(_F + "gelu", gelu("tanh")),
    "global_avg_pool": Row(_F + "adaptive_avg_pool2d", global_pooling, alters=lambda y: y[:, :, 0, 0]),
    "grouped_query_attention": Row(_F + "scaled_dot_product_attention", attention(grouped=True), alters=lambda y: y),
    "groupnorm": Row(_F + "group_norm", group_norm),
    "huber": Row(_F + "huber_loss", loss("threshold=delta")),
    "kl_div": Row(_F + "kl_div", divergence(log_target=False)),
    "kl_div_log_target": Row(_F + "kl_div", divergence(log_target=True)),
    "l1": Row(_F + "l1_loss", loss()),
    "l2_normalize": Row(_F + "normalize", normalize),
    "layernorm": Row(_F + "layer_norm", layer_norm),
    "leaky_relu": Row(_F + "leaky_relu", with_number("slope", "negative_slope")),
    "linear": Row(_F + "linear", linear),
    "log": Row("log", unary),
    "log_softmax": Row("log_softmax", softened),
    "logsumexp": Row("logsumexp", along_last),
    "matmul": Row("mm", ranks(2, 2)),
    "matvec": Row("mv", ranks(2, 1)),
    "max_pool2d": Row(_F + "max_pool2d", pooling),
    "mean": Row("mean", along_last),
    "mean_all": Row("mean", over_all),
    "mse": Row(_F + "mse_loss", loss()),
    "mul": Row("mul", alike),
    "mul_column": Row("mul", column(2)),
    "mul_row": Row("mul", row),
    "neg": Row("neg", unary),
    "nll": Row(_F + "nll_loss", labels("nll")),
    "outer": Row("outer", ranks(1, 1)),
    "pow": Row("pow", power_number),
    "pow_elementwise": Row("pow", alike),
    "reciprocal": Row("reciprocal", unary),
    "relu": Row(_F + "relu", unary),
    "rmsnorm": Row(_F + "rms_norm", rms_norm),
    "scale": Row("mul", number),
    "sequence_cross_entropy": Row(_F + "cross_entropy", labels("sequence")),
    "sigmoid": Row("sigmoid", unary),
    "silu": Row(_F + "silu", unary),
    "softmax": Row("softmax", softened),
    "softmax_cross_entropy": Row(_F + "cross_entropy", labels("labels")),
    "softplus": Row(_F + "softplus", unary),
    "sqrt": Row("sqrt", unary),
    "square": Row("square", unary),
    "sub": Row("sub", alike),
    "sub_outer": Row("sub", outer_pair),
    "sum": Row("sum", along_last),
    "sum_all": Row("sum", over_all),
    "sum_rows": Row("sum", over_leading),
    "tanh": Row("tanh", unary),
    "trace": Row("trace", square),
    "transpose": Row("transpose", transposed),
    "tril": Row("tril", triangle),
    "var": Row("var", variance),
}
"""Every op of the catalogue that PyTorch has an OpInfo for."""

WITHOUT: dict[str, str] = {
    "bias_gelu": "no op of PyTorch's",
    "embedding_with_positions": "a composition of embedding and addition",
    "gru": "a recurrence; PyTorch has layers of its own",
    "lstm": "a recurrence; PyTorch has layers of its own",
    "merge_axes": "flatten, whose samples are those of the op flatten",
    "merge_heads": "a composition of transpose and flatten",
    "names_step": "a whole network",
    "repeat_axis": "expand along one axis",
    "repeat_number": "expand of a number",
    "returns": "no op of PyTorch's",
    "rnn": "a recurrence; PyTorch has layers of its own",
    "rotary": "no op of PyTorch's",
    "rotary_interleaved": "no op of PyTorch's",
    "sequence_cross_entropy_weighted": "cross entropy, whose samples are those of the op cross_entropy_weighted",
    "split_axis": "unflatten, whose samples are those of the op split_heads",
    "split_heads": "a composition of unflatten and transpose",
    "squared_deviations": "a part of var",
    "standardise": "a part of batch norm",
    "swap_axes": "transpose, whose samples are those of the op transpose",
    "swiglu": "no op of PyTorch's",
    "take_elements": "indexing by several tensors",
}
"""The ops without one."""
