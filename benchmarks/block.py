"""A block of the decoder of training/gpt: causal attention and an MLP, each after a norm, forward and backward.

The block is written once, in training/gpt/network.py; each way gives it other functions for its parts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from benchmarks.jax_forms import JAX, jax
from benchmarks.kernels import NativePackage, Pair
from benchmarks.memory import distinct_bytes, saved_by_tape
from benchmarks.ways import AUTOGRAD, Way, Whole, forms, one_graph
from derive.catalogue import find
from derive.emit.devices import CPU
from training.gpt import network, twin
from training.gpt.network import MLP, Attention

NAME, TITLE = "gpt_block", "GPT block"
OPS = ("layernorm", "linear", "split_heads", "causal_attention", "merge_heads", "add", "gelu_tanh")
SHAPES = {"small": (4, 16, 64, 4), "medium": (8, 64, 128, 4), "large": (4, 256, 384, 6)}
"""Sequences, positions, features, heads."""

Functions = dict[str, Callable[..., Any]]
_copies = count()


def whole(size: str, compiled: bool, native: NativePackage | None = None, device: torch.device = CPU) -> Whole:
    """The ways that exist for a block of this size, and the bytes that each keeps for its backward."""
    n, t, d, heads = SHAPES[size]
    generator = torch.Generator().manual_seed(0)
    ((attention, mlp),) = network.initialise(1, 1, d, heads, 1, True, generator).blocks
    x, dy = (torch.randn(n, t, d, generator=generator).to(device) for _ in range(2))
    args = (x, *(p.to(device) for p in (*attention, *mlp)))
    primitives = _forward_alone({op: forms(find(op)).primitives for op in OPS}, heads)
    forwards = {AUTOGRAD: primitives, "native op": _of_leaves(lambda a, m, h: twin.block(a, m, h, heads))}
    pairs = {"generated": _pair({}, heads)}
    if native is not None and all(hasattr(native.module, f"{op}_forward") for op in OPS):
        pairs["native"] = _pair({f: getattr(native.module, f) for op in OPS for f in _names(op)}, heads)
    ways = {name: _by_autograd(forward, args, dy) for name, forward in forwards.items()}
    ways |= {name: _by_pair(pair, args, dy) for name, pair in pairs.items()}
    if compiled:
        ways["compiled autograd"] = _by_autograd(one_graph(primitives), args, dy)
        forward, backward = map(one_graph, _pair(_fused(), heads))
        ways["generated compiled"] = _by_pair((forward, backward), args, dy)
    if jax is not None and device == CPU:
        ways["JAX jit"] = _by_jax(args, dy, heads)
    leaves = [a.clone().requires_grad_() for a in args]
    saved = {name: saved_by_tape(forward, leaves) for name, forward in forwards.items()}
    saved |= {name: distinct_bytes(_flat(forward(*args)[1])) for name, (forward, _) in pairs.items()}
    return Whole(TITLE, " x ".join(map(str, (n, t, d))), ways, saved)


def _names(op: str) -> tuple[str, str]:
    return f"{op}_forward", f"{op}_backward"


def _fused() -> Functions:
    """The parts' functions as they are generated for torch.compile."""
    found: Functions = {}
    for op in OPS:
        live = forms(find(op)).fused
        found |= dict(zip(_names(op), (live.forward, live.backward), strict=True))
    return found


def _parts(functions: Functions) -> ModuleType:
    """The parts of the block over other functions than those of `generated`: the module once more, with these in it."""
    name = f"{network.__name__}_{next(_copies)}"  # torch.compile looks for a function's globals under its module's name
    spec = spec_from_file_location(name, network.__file__)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update(functions)
    return module


def _of_leaves(block: Callable[..., Any]) -> Callable[..., Any]:
    """The block over the input and the parameters one after another."""
    split = 1 + len(Attention._fields)
    return lambda x, *p: block(Attention(*p[: split - 1]), MLP(*p[split - 1 :]), x)


def _forward_alone(functions: Functions, heads: int) -> Callable[..., Any]:
    """The block's forward over functions that keep nothing."""
    parts = _parts({f"{op}_forward": _keeping_nothing(f) for op, f in functions.items()})
    return _of_leaves(lambda a, m, x: parts.mlp_forward(m, parts.attention_forward(a, x, heads)[0])[0])


def _keeping_nothing(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: (function(*args), None)


def _pair(functions: Functions, heads: int) -> Pair:
    """The block's forward and backward over forwards and backwards of its parts."""
    parts = _parts(functions)

    def forward(a: Attention, m: MLP, x: Tensor) -> tuple[Tensor, Any]:
        middle, first = parts.attention_forward(a, x, heads)
        y, second = parts.mlp_forward(m, middle)
        return y, (first, second)

    def backward(dy: Tensor, saved: Any) -> tuple[Tensor, ...]:
        first, second = saved
        dmiddle, dmlp = parts.mlp_backward(dy, second)
        dx, dattention = parts.attention_backward(dmiddle, first)
        return (dx, *dattention, *dmlp)

    return _of_leaves(forward), backward


def _by_autograd(forward: Callable[..., Any], args: tuple[Tensor, ...], dy: Tensor) -> Way:
    leaves = [a.clone().requires_grad_() for a in args]

    def run() -> Any:
        y = forward(*leaves)
        return (y,), torch.autograd.grad(y, leaves, dy)

    return run


def _by_pair(pair: Pair, args: tuple[Tensor, ...], dy: Tensor) -> Way:
    forward, backward = pair

    def run() -> Any:
        y, saved = forward(*args)
        return (y,), backward(dy, saved)

    return run


def _by_jax(args: tuple[Tensor, ...], dy: Tensor, heads: int) -> Way:
    functions = {op: JAX[op] for op in ("layernorm", "linear", "causal_attention", "gelu_tanh")}
    functions["split_heads"] = lambda x, h: x.reshape(*x.shape[:2], h, -1).swapaxes(1, 2)
    functions["merge_heads"] = lambda x: x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
    functions["add"] = lambda x, z: x + z
    forward = _forward_alone(functions, heads)

    def both(arrays: Any, cotangent: Any) -> Any:
        y, pull = jax.vjp(forward, *arrays)
        return (y,), pull(cotangent)

    fast = jax.jit(both)
    arrays, cotangent = tuple(jax.numpy.asarray(a.numpy()) for a in args), jax.numpy.asarray(dy.numpy())
    return lambda: jax.block_until_ready(fast(arrays, cotangent))


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, tuple):
        for v in value:
            yield from _flat(v)
    else:
        yield value
