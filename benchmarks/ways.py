"""The columns: every way to run one op's forward and backward, as a call without arguments.

Each call gives the outputs and the gradients; `agree` compares them before anything is timed. In every way but JAX's
the forward and the backward are two calls, as in a training loop; JAX compiles both into one program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.jax_forms import jax, jitted
from benchmarks.kernels import NativePackage, Pair
from benchmarks.native import NATIVE
from benchmarks.rows import Row
from derive.emit.devices import CPU
from derive.emit.live import Live
from derive.ir.equations import Op
from derive.output.live import build
from derive.verify.subjects import cotangent_of

Result = tuple[tuple[Any, ...], tuple[Any, ...]]
Way = Callable[[], Result]

AUTOGRAD = "autograd"
COLUMNS = {
    AUTOGRAD: "autograd of the primitives: the op's equations, one PyTorch call an operation",
    "compiled autograd": "torch.compile of these",
    "native op": "PyTorch's own op",
    "JAX jit": "the op in JAX, forward and backward in one jitted program",
    "generated": "the generated forward and backward, eager",
    "generated out=": "the same over the memory of an earlier call (derive generate --workspace)",
    "generated compiled": "torch.compile of the forward and backward of derive generate --save fused",
    "native": "the generated CPU kernels (derive generate --backend cpu)",
    "native out=": "the same over the memory of an earlier call",
    "native, one call": "a loss with its gradients in one kernel, over the memory of an earlier call",
}


@dataclass(frozen=True)
class Forms:
    """What one op is run with."""

    live: Live  # the generated functions
    fused: Live  # those meant for torch.compile
    primitives: Callable[..., Any]  # the forward's equations as they were written, with no operation fused

    @property
    def pair_out(self) -> Pair:
        """The generated forward and backward that write over what an earlier call returned."""
        found, name = self.live.function.__globals__, self.live.derivation.op.name
        return found[f"{name}_forward_out"], found[f"{name}_backward_out"]


@dataclass(frozen=True)
class Whole:
    """A row that is more than one op: its ways, and the bytes that some of them keep for the backward."""

    title: str
    shapes: str
    ways: dict[str, Way]
    saved: dict[str, int]


@cache
def _forms(key: _Keyed) -> Forms:
    # An op's stepwise form is printed without fusing two operations into one call.
    plain = build(replace(key.op, stepwise=True), proven=False).function.__globals__
    forward = plain[f"{key.op.name}_stepwise_forward"].__wrapped__

    def primitives(*args: Any, **numbers: Any) -> Any:
        outputs = forward(*args, **numbers)[:-1]
        return outputs if len(outputs) > 1 else outputs[0]

    plain["check_shapes"] = lambda *_: None  # nobody checks shapes by hand
    return Forms(build(key.op, workspace=True, proven=False), build(key.op, save="fused", proven=False), primitives)


@dataclass(frozen=True, eq=False)
class _Keyed:
    """An op as a key, by its name: ops hold what cannot be hashed."""

    op: Op

    def __hash__(self) -> int:
        return hash(self.op.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.op == other.op


def forms(op: Op) -> Forms:
    """The generated functions of an op and its primitives, made once."""
    return _forms(_Keyed(op))


def cotangents(row: Row) -> tuple[Tensor, ...]:
    """A gradient for every output, drawn from a fixed seed."""
    with torch.no_grad():
        outputs = _tuple(forms(row.op).primitives(*row.args, **row.numbers))
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o) for o in outputs)


def ways(row: Row, compiled: bool = True, native: NativePackage | None = None) -> dict[str, Way]:
    """The ways that exist for this op, in the order of `COLUMNS`."""
    own, dys = forms(row.op), cotangents(row)
    out: dict[str, Way] = {AUTOGRAD: by_autograd(own.primitives, row, dys)}
    if compiled:
        out["compiled autograd"] = by_autograd(one_graph(own.primitives), row, dys)
    if row.op.name in NATIVE:
        out["native op"] = by_autograd(NATIVE[row.op.name], row, dys)
    jax_way = by_jax(row, dys)
    if jax_way is not None:
        out["JAX jit"] = jax_way
    out["generated"] = by_pair(own.live.forward, own.live.backward, row, dys)
    out["generated out="] = by_pair_out((own.live.forward, own.live.backward), own.pair_out, row, dys)
    if compiled:
        out["generated compiled"] = by_pair(one_graph(own.fused.forward), one_graph(own.fused.backward), row, dys)
    return out | ({} if native is None else _native_ways(native, row, dys))


def _native_ways(native: NativePackage, row: Row, dys: tuple[Tensor, ...]) -> dict[str, Way]:
    found = native.functions(row.op.name)
    if found is None:
        return {}
    out = {"native": by_pair(*found.pair, row, dys), "native out=": by_pair_out(found.pair, found.pair_out, row, dys)}
    if found.with_gradients is not None:
        out["native, one call"] = by_one_call(*found.with_gradients, row, float(dys[0]))
    return out


def one_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as torch.compile has it: one graph, for the shapes of its first call."""
    return torch.compile(function, fullgraph=True, dynamic=False)


def by_autograd(forward: Callable[..., Any], row: Row, dys: tuple[Tensor, ...]) -> Way:
    """A forward under autograd, then its gradients."""
    args = [a.clone().requires_grad_(w) for a, w in zip(row.args, row.wanted, strict=True)]
    leaves = [a for a, w in zip(args, row.wanted, strict=True) if w]

    def run() -> Result:
        outputs = _tuple(forward(*args, **row.numbers))
        return outputs, torch.autograd.grad(outputs, leaves, dys)

    return run


def by_pair(forward: Callable[..., Any], backward: Callable[..., Any], row: Row, dys: tuple[Tensor, ...]) -> Way:
    """A generated forward and backward, as a hand-written loop calls them: no tensor of it asks for a gradient."""

    def run() -> Result:
        *outputs, saved = forward(*row.args, **row.numbers)
        return tuple(outputs), _tuple(backward(*dys, *saved))

    return run


def by_pair_out(pair: Pair, pair_out: Pair, row: Row, dys: tuple[Tensor, ...]) -> Way:
    """The same, over memory that is allocated once, here."""
    (forward, backward), (forward_out, backward_out) = pair, pair_out
    with torch.no_grad():
        results = forward(*row.args, **row.numbers)
        gradients = backward(*dys, *results[-1])
    if isinstance(gradients, tuple):
        gradients = type(gradients)(*map(torch.empty_like, gradients))
    else:
        gradients = torch.empty_like(gradients)

    def run() -> Result:
        *outputs, saved = forward_out(*row.args, **row.numbers, out=results)
        return tuple(outputs), _tuple(backward_out(*dys, *saved, out=gradients))

    return run


def by_one_call(with_gradients: Callable[..., Any], over: Callable[..., Any], row: Row, dy: float) -> Way:
    """A loss and its gradients in one call, over memory that is allocated once, here."""
    cotangent = cotangent_of(with_gradients)
    numbers = {**row.numbers, cotangent: dy}
    out = with_gradients(*row.args, **numbers)

    def run() -> Result:
        loss, gradients = over(*row.args, **numbers, out=out)
        return (loss,), _tuple(gradients)

    return run


def by_jax(row: Row, dys: tuple[Tensor, ...]) -> Way | None:
    """The op's form in JAX, jitted; None without JAX or without a form, or elsewhere than on the CPU."""
    both = jitted(row.op.name) if row.device == CPU else None
    if both is None:
        return None
    arrays = [jax.numpy.asarray(a.numpy()) for a in row.args]
    wanted = {k: a for k, a in enumerate(arrays) if row.wanted[k]}
    rest = {k: a for k, a in enumerate(arrays) if not row.wanted[k]}
    given = tuple(jax.numpy.asarray(d.numpy()) for d in dys)
    call = jax.jit(lambda w, r, d: both(w, r, d[0] if len(d) == 1 else d, dict(row.numbers)))

    def run() -> Result:
        outputs, gradients = jax.block_until_ready(call(wanted, rest, given))
        return _tuple(outputs), tuple(gradients[k] for k in sorted(gradients))

    return run


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)


# --- agreement ------------------------------------------------------------------------------------------------


def agree(found: dict[str, Result], tolerance: float = 2e-3) -> None:
    """Every way computes what autograd of the primitives does, where that is a number. Raises ValueError naming the way
    and the tensor.
    """
    want = _flat(found[AUTOGRAD])
    # A gradient that is 0 but for rounding is judged by the others' size.
    least = 1e-3 * max((_size(w) for w in want if w.numel()), default=1.0)
    for way, result in found.items():
        got = _flat(result)
        if len(got) != len(want):
            raise ValueError(f"{way}: {len(got)} outputs and gradients, expected {len(want)}")
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            if g.shape != w.shape:
                raise ValueError(f"{way}: output or gradient {k} has shape {list(g.shape)}, expected {list(w.shape)}")
            off = float(torch.where(w.isnan() | (g == w), 0, (g - w).abs()).max()) if g.numel() else 0.0
            if not off <= tolerance * max(least, _size(w)):
                raise ValueError(f"{way}: output or gradient {k} differs by {off:.1e} from autograd's")


def _size(t: Tensor) -> float:
    """The largest magnitude among the finite elements."""
    return float(torch.where(t.isfinite(), t.abs(), 0).max()) if t.numel() else 0.0


def _flat(result: Result) -> list[Tensor]:
    return [torch.as_tensor(t if isinstance(t, Tensor) else np.array(t)).detach().double() for r in result for t in r]


def use_threads(threads: int) -> None:
    """PyTorch and JAX on so many threads. JAX takes the cores that it may run on when it starts."""
    torch.set_num_threads(threads)
    if jax is not None and hasattr(os, "sched_setaffinity"):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(cores)[:threads])
        jax.numpy.zeros(1).block_until_ready()
        os.sched_setaffinity(0, cores)
