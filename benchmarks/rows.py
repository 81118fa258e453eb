"""What is measured: every composite op at three sizes, its inputs drawn from its own signature.

An op is composite where its forward runs more than one operation on tensors, so that fusing and algebra have
something to win. Lengths are the caller's, or come from a family of axes (`LENGTHS`), or, for an op that nobody
described, from defaults that fit together; so are its inputs such that the op is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from derive.emit.devices import CPU
from derive.errors import DeriveError
from derive.facts.lengths import nominal
from derive.ir.algebra import is_contraction
from derive.ir.equations import Op
from derive.ir.nodes.products import is_matrix_product, product_factors
from derive.ir.nodes.walking import children, walk
from derive.ir.program import Call, Node, Read, Reduce
from derive.ir.terms.axes import Axis
from derive.schedule.order import forward_program
from derive.verify.lengths import fitting
from derive.verify.reference import all_sizes
from derive.verify.situations import apart, domains_of
from derive.verify.values import DOMAINS

SIZES = ("small", "medium", "large")

_DEFAULT = {"...": ((64,), (512,), (4096,)), "n": (64, 512, 4096), "d": (64, 512, 1024), "c": (64, 512, 1024)}
_POINTWISE = {"...": ((64, 64), (512, 512), (4096, 1024))}
_SHORT = 4  # what is not halved any more
_OTHER = (8, 32, 64)  # of an axis that no family names
_MOST = (2**20, 2**24, 2**26)  # elements of the largest tensor of an op that nobody described

_HEADS = {"...": ((2, 2), (4, 4), (4, 8)), "i": (32, 128, 256), "j": (32, 128, 256), "d": (16, 64, 64),
          "e": (16, 64, 64), "h": (2, 4, 8), "g": (2, 4, 4)}  # fmt: skip
_HEADED = _HEADS | {"...": ((2,), (4,), (4,))}
_GROUPED = _HEADED | {"h": (2, 2, 2)}
_IMAGES = {"n": (2, 8, 16), "c": (4, 16, 32), "o": (4, 16, 32), "h": (12, 32, 64), "w": (12, 32, 64),
           "l": (32, 256, 4096), "p": (3, 3, 3), "q": (3, 3, 3), "k": (3, 3, 3)}  # fmt: skip
_MATRICES = {"...": ((64,), (512,), (1024,)), "i": (64, 512, 1024), "o": (64, 512, 1024)}
_ROTARY = {"...": ((2, 2), (4, 8), (8, 16)), "t": (16, 64, 256), "d": (16, 64, 128), "h": (8, 32, 64)}

LENGTHS: dict[str, Mapping[str, tuple[Any, Any, Any]]] = {
    "attention": _HEADS,
    "causal_attention": _HEADS,
    "attention_with_bias": _HEADED,
    "grouped_query_attention": _GROUPED,
    "bilinear": {"...": ((16,), (64,), (256,)), "i": (16, 32, 64), "j": (16, 32, 64), "o": (16, 32, 64)},
    "conv1d": _IMAGES,
    "conv1d_stride2_dilation3": _IMAGES,
    "conv2d": _IMAGES,
    "conv2d_stride2_dilation2": _IMAGES,
    "depthwise_conv2d": _IMAGES,
    "groupnorm": {"n": (8, 16, 32), "c": (16, 64, 128), "s": (32, 256, 1024), "g": (4, 8, 8)},
    "linear": _MATRICES,
    "rotary": _ROTARY,
    "rotary_interleaved": _ROTARY,
    "sequence_cross_entropy": {"...": ((8, 8), (32, 16), (64, 64)), "c": (64, 512, 1024)},
    "names_step": {"n": (32, 512, 4096), "t": (3, 3, 3), "e": (10, 10, 10), "v": (27, 27, 27), "i": (30, 30, 30),
                   "h": (200, 200, 200), "c": (27, 27, 27)},
}  # fmt: skip

NUMBERS: dict[str, dict[str, float]] = {"batchnorm": {"correction": 0}}
"""Arguments other than the defaults: those with which PyTorch's own op computes the same."""

INPUTS: dict[tuple[str, str], Callable[[Tensor], Tensor]] = {
    ("bce_with_logits", "t"): torch.sigmoid,
    ("cross_entropy_probabilities", "t"): lambda v: v.softmax(-1),
    ("cross_entropy_weighted", "weight"): torch.abs,
    ("dropout", "mask"): lambda v: (v > 0).to(v.dtype),
    ("kl_div", "logp"): lambda v: v.log_softmax(-1),
    ("kl_div", "t"): lambda v: v.softmax(-1),
    ("kl_div_log_target", "logp"): lambda v: v.log_softmax(-1),
    ("kl_div_log_target", "logt"): lambda v: v.log_softmax(-1),
    ("standardise", "var"): torch.abs,
}
"""Inputs that are not any real numbers, made from such."""


@dataclass(frozen=True)
class Row:
    """One op at one size: its inputs in order, numbers by name, and which inputs get a gradient."""

    op: Op
    size: str
    lengths: Mapping[str, Any]
    args: tuple[Tensor, ...]
    numbers: Mapping[str, Any]
    wanted: tuple[bool, ...]

    @property
    def device(self) -> torch.device:
        """Where its inputs lie."""
        return self.args[0].device

    @property
    def shapes(self) -> str:
        """The shape of the first input, for the reader."""
        return " x ".join(map(str, self.args[0].shape)) or "one number"


def operations(op: Op) -> int:
    """The operations on tensors of an op's forward, a sum of products counted as one."""
    return sum(_operations(s.value) for s in forward_program(op, ()).statements)


def composite(op: Op) -> bool:
    """Whether an op's forward runs more than one operation, and has a stepwise form, which no recurrence has yet."""
    return not op.recurrences and operations(op) > 1


def _operations(node: Node) -> int:
    if isinstance(node, Reduce) and (is_matrix_product(node) or len(product_factors(node.body)) > 1):
        return 1 + sum(_operations(f) for f in product_factors(node.body))
    own = isinstance(node, Reduce) or (isinstance(node, Call) and any(isinstance(n, Read) for n in walk(node)))
    own = own or (isinstance(node, Read) and any(isinstance(i, Read) for i in node.index))
    if isinstance(node, Read):
        return int(own)
    return int(own) + sum(_operations(c) for c in children(node))  # type: ignore[arg-type, misc]


def carried(op: Op) -> list[Axis]:
    """The axes whose lengths the inputs of an op say, in order."""
    found = (a for o in op.operands for a in (*o.declared, *o.axes, o.ranges_over) if a is not None)
    return list(dict.fromkeys(found))


def lengths_of(op: Op, size: str, given: Mapping[str, int] | None = None) -> dict[str, Any]:
    """A length for every axis that an input carries; for `...`, a tuple of them.

    The given ones are as they are, those of other axes are nothing to it; the rest is changed where the op needs
    lengths that fit together.

    Raises DeriveError where nothing near fits.
    """
    at, axes = SIZES.index(size), carried(op)
    names = [a.base for a in axes]
    given = {name: n for name, n in (given or {}).items() if name in names}
    fallback = _POINTWISE if set(names) == {"..."} else _DEFAULT
    family = LENGTHS.get(op.name, fallback)
    wish = {a.base: a.fixed if a.fixed is not None else family.get(a.base, _OTHER)[at] for a in axes}
    if op.name in LENGTHS and not given:
        return wish
    while True:
        found = _fitted(op, {name: given.get(name, wish[name]) for name in names}, given)
        longest = max((_flat(n) for name, n in wish.items() if name not in given), default=0)
        if longest <= _SHORT or _elements(op, {name: _flat(n) for name, n in found.items()}) <= _MOST[at]:
            return found
        wish = {name: n if _flat(n) < longest else _halved(n) for name, n in wish.items()}


def _elements(op: Op, lengths: Mapping[str, int]) -> int:
    """The elements of the largest tensor that primitives make: what is summed, but by a matrix product, is one."""
    every = all_sizes(op, lengths)
    axes = [{*e.axes, *(() if is_contraction(e.body) else e.over)} for e in op.equations]
    return max(prod(every[a.base] for a in own) for own in (*axes, *(o.axes for o in op.operands)))


def _flat(length: Any) -> int:
    return prod(length) if isinstance(length, tuple) else int(length)


def _halved(length: Any) -> Any:
    return tuple(max(1, n // 2) for n in length) if isinstance(length, tuple) else length // 2


def _fitted(op: Op, wish: Mapping[str, Any], given: Mapping[str, int]) -> dict[str, Any]:
    """The wish with kernels short, groups few, and merges as long as their parts."""
    flat = {name: _flat(n) for name, n in wish.items()}
    near = nominal.lengths_of(op, lambda axis: flat.get(axis, _OTHER[0]), nominal.FEW, given)
    found = fitting(op, {a: int(n) for a, n in near.items()} | dict(given), longest=max(flat.values(), default=1))
    if found is None or any(found.get(name, n) != n for name, n in given.items()):
        raise DeriveError("found no lengths near these that fit together", op=op.name, fix="give others with --length")
    return {name: n if found.get(name, flat[name]) == flat[name] else found[name] for name, n in wish.items()}


def row(
    op: Op,
    size: str,
    dtype: torch.dtype = torch.float32,
    given: Mapping[str, int] | None = None,
    device: torch.device = CPU,
) -> Row:
    """The op at one size, with inputs drawn from a fixed seed, the same on every device."""
    lengths, domains = lengths_of(op, size, given), domains_of(op)
    flat = {name: _flat(n) for name, n in lengths.items()}
    generator = torch.Generator().manual_seed(0)
    inputs = {}
    for o in op.operands:
        if not o.is_tensor:
            continue
        shape = [n for a in o.axes for n in _dimensions(lengths[a.base])]
        if o.ranges_over is not None:
            inputs[o.name] = torch.randint(0, flat[o.ranges_over.base], shape, generator=generator)
        else:
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
            inputs[o.name] = INPUTS.get((op.name, o.name), DOMAINS[domains[o.name]])(values).to(dtype)
    inputs = apart(op, inputs, domains, flat)
    numbers = {o.name: lengths[o.ranges_over.base] for o in op.operands if o.kind == "length" and o.ranges_over}
    wanted = tuple(o.kind == "tensor" for o in op.operands if o.is_tensor)
    args = tuple(t.to(device) for t in inputs.values())
    return Row(op, size, lengths, args, numbers | NUMBERS.get(op.name, {}), wanted)


def _dimensions(length: Any) -> tuple[int, ...]:
    return length if isinstance(length, tuple) else (length,)
