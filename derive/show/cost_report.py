"""What a derived op costs, counted and measured, statement by statement: where the time goes, and where it need not.

Counted are a statement's bytes (each tensor it reads, what it writes), its multiply-adds and its element operations.
The floor is what these take at the rates that this machine copies and multiplies at (`rates.py`). Measured is the
generated code itself, its lines run one after another. A view costs nothing.
"""

from __future__ import annotations

import ast
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from derive.collapse.autograd.saved import DEFAULT_SIZE, Saved, example_sizes, saved_by_forward
from derive.emit.live import Live, live_of
from derive.emit.module import module_of
from derive.errors import DeriveError
from derive.facts.costs.cost import node_work, work
from derive.facts.lengths.nominal import Nominal
from derive.ir.equations import Op
from derive.ir.nodes.products import is_matrix_product
from derive.ir.nodes.walking import axes_along, node_axes, walk
from derive.ir.program import Program, Read, Reduce, Scatter, Statement, base
from derive.pipeline import Derivation
from derive.show.rates import Rates, measured
from derive.show.report import largest

_REAL, _INTEGER = 4, 8  # bytes of an element: float32 and int64
_LARGEST = 2**22  # elements: the lengths that nobody gave are chosen so that no tensor is larger
_ROUNDS, _SECONDS = 5, 0.5


@dataclass(frozen=True)
class Part:
    """One line of a generated function: what it must do, and how long it took (seconds)."""

    code: str
    bytes: float
    multiply_adds: float
    operations: float
    floor: float
    taken: float


@dataclass(frozen=True)
class CostReport:
    """Forward and backward line by line, and the least that the op as a whole must move and multiply."""

    name: str
    sizes: Mapping[str, int]
    threads: int
    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    passes: tuple[float, float]
    least_bytes: float
    floor: float
    saved: tuple[tuple[str, tuple[Saved, ...]], ...]  # who keeps what: the pair, and the differentiable op


# --- counting ---------------------------------------------------------------------------------------------


def least_bytes(d: Derivation, sizes: Mapping[str, int]) -> float:
    """The bytes of inputs, outputs, cotangents, what is kept, and gradients, each moved once a pass that needs it."""
    lengths, integers = Nominal(sizes), _integers(d.op)
    made = [(s.name, _written(s)) for s in d.forward.statements if s.name in d.op.outputs]
    made += [(s.name, _written(s)) for s in d.backward.statements if s.name in d.backward.returns]
    moved = [*d.forward.given, *d.backward.given, *made]
    return sum(lengths.elements(axes) * _size(name, integers) for name, axes in moved)


def multiply_adds(program: Program, sizes: Mapping[str, int]) -> float:
    """The multiply-adds of a program's matrix products."""
    return sum(_multiply_adds(s, Nominal(sizes)) for s in program.statements)


def _multiply_adds(s: Statement, lengths: Nominal) -> float:
    products = (n for n in walk(s.value) if isinstance(n, Reduce) and is_matrix_product(n))
    return sum(lengths.elements(node_axes(n.body)) for n in products)


def _is_view(s: Statement, code: str) -> bool:
    """Whether a statement only looks at a tensor, which its code does not copy."""
    if isinstance(s, Scatter) or not isinstance(s.value, Read) or ".clone()" in code or ".contiguous()" in code:
        return False
    return not any(isinstance(n, Read) for i in s.value.index for n in walk(i))


def _moved(s: Statement, program: Program, lengths: Nominal, integers: frozenset[str]) -> float:
    """The bytes that a statement reads and writes; a gather reads what it takes."""
    own = dict(program.given) | {x.name: _written(x) for x in program.statements}
    slots = [n for i in s.slots for n in walk(i)]
    found: dict[str, float] = {}
    for n in (*walk(s.value), *slots):
        if isinstance(n, Read):
            whole, taken = lengths.elements(own[n.name]), lengths.elements(node_axes(n))
            found[n.name] = max(found.get(n.name, 0.0), min(whole, taken) * _size(n.name, integers))
    is_there = isinstance(s, Scatter) and s.onto is not None
    written = 0.0 if is_there else lengths.elements(_written(s)) * _REAL
    if isinstance(s, Scatter):
        written += 2 * lengths.elements(set(axes_along(s.slots))) * _REAL
    return sum(found.values()) + written


def _size(name: str, integers: frozenset[str]) -> int:
    return _INTEGER if name in integers else _REAL


def _integers(op: Op) -> frozenset[str]:
    return frozenset(o.name for o in op.operands if o.kind == "index")


def _written(s: Statement) -> tuple[str, ...]:
    return tuple(base(a) for a in axes_along(s.axes))


# --- measuring --------------------------------------------------------------------------------------------


def cost_report(d: Derivation, given: Mapping[str, int], threads: int, twice: bool = True) -> CostReport:
    """Count and time the forward and the backward of an op at the given lengths, in float32 on so many threads.

    Also counted is what the op keeps that is differentiable `twice`.
    Lengths that are not given are powers of 2 for which no tensor has more than four million elements. Raises
    DeriveError for an axis that the op does not have, and for lengths that this machine has no memory for.
    """
    sizes = _lengths(d, given)
    _check_room(d, sizes)
    rates, live = measured(threads), live_of(d.op)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        args = _arguments(d.op, sizes)
        *outputs, saved = live.forward(*args)
        dys = [torch.rand_like(o) for o in outputs]
        forward = _parts(d, d.forward, live, f"{d.op.name}_forward", args, sizes, rates)
        backward = _parts(d, d.backward, live, f"{d.op.name}_backward", [*dys, *saved], sizes, rates)
    finally:
        torch.set_num_threads(before)
    moved = least_bytes(d, sizes)
    products = multiply_adds(d.forward, sizes) + multiply_adds(d.backward, sizes)
    lengths = Nominal(sizes)
    unit = largest(d.forward, lengths)
    passes = (work(d.forward, lengths) / unit, work(d.backward, lengths) / unit)
    floor = rates.floor(moved, products)
    return CostReport(d.op.name, sizes, threads, forward, backward, passes, moved, floor, tuple(_saved(d, twice)))


def _saved(d: Derivation, twice: bool) -> Iterator[tuple[str, tuple[Saved, ...]]]:
    """What `NAME_forward` hands on, and what `NAME` holds: tensors that only the graph goes on to have no values."""
    yield f"{d.op.name}_forward", d.saved
    further = module_of(d, order=2).higher if twice else None
    if further is not None:
        known = {s.label: s for s in d.saved}
        every = (known.get(n) or saved_by_forward(d.named, (n,))[0] for n in further.keeps)
        yield f"{d.op.name}, differentiable twice,", tuple(every)


def _lengths(d: Derivation, given: Mapping[str, int]) -> dict[str, int]:
    carried = {a.base for o in d.op.operands for a in o.axes if a.fixed is None}
    side = 4096
    while True:
        free = {a: side for a in carried if not _follows(d.op, a)}
        sizes = example_sizes(d.op, {**free, **given})
        if side <= 16 or largest(d.forward, Nominal(sizes)) <= _LARGEST:
            return sizes
        side //= 2


def _check_room(d: Derivation, sizes: Mapping[str, int]) -> None:
    """The tensors fit into this machine's memory. Raises DeriveError."""
    lengths, integers = Nominal(sizes), _integers(d.op)
    names = dict([*d.forward.given, *d.backward.given, *((s.name, _written(s)) for s in d.forward.statements)])
    needed = sum(lengths.elements(axes) * _size(name, integers) for name, axes in names.items())
    there = _memory()
    if needed > there:
        given = ", ".join(f"{axis} = {length}" for axis, length in sizes.items())
        raise DeriveError(
            f"needs {_gigabytes(needed)} of memory where {given}, and there are {_gigabytes(there)}",
            op=d.op.name, fix="give shorter lengths with --size",
        )  # fmt: skip


def _memory() -> float:
    """The bytes of this machine's memory; infinitely many where the system does not tell."""
    names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
    return math.prod(map(os.sysconf, names)) if all(n in getattr(os, "sysconf_names", {}) for n in names) else math.inf


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"


def _follows(op: Op, axis: str) -> bool:
    """Whether an axis' length is better left to `example_sizes`: kernels, parts of a merge, what an argument gives."""
    base_sizes = example_sizes(op)
    rule = next((r for r in op.sizes if r.axis.base == axis), None)
    return rule is None or rule.operand is None or base_sizes[axis] != DEFAULT_SIZE


def _arguments(op: Op, sizes: Mapping[str, int]) -> list[Any]:
    """Inputs within the domain of any function: numbers between 0.1 and 0.9, integers on their axis."""
    out: list[Any] = []
    for o in op.operands:
        shape = [sizes[a.base] for a in o.axes]
        if o.kind == "length" and o.ranges_over is not None:
            out.append(sizes[o.ranges_over.base])
        elif not o.is_tensor:
            out.append(o.default if o.has_default else 0.5)
        elif o.ranges_over is not None:
            out.append(torch.randint(0, sizes[o.ranges_over.base], shape))
        else:
            out.append(0.1 + 0.8 * torch.rand(shape))
    return out


def _parts(
    d: Derivation, program: Program, live: Live, function: str, args: list[Any], sizes: Mapping[str, int], rates: Rates
) -> tuple[Part, ...]:  # fmt: skip
    """Each line of a function of the generated module: counted by the statement it computes, timed on its own."""
    lines = list(_lines(live.source, function))
    taken = _times([compile(line, "<line>", "exec") for _, line in lines], _scope(live, function, args))
    lengths, integers = Nominal(sizes), _integers(d.op)
    waiting = list(program.statements)
    out = []
    for (code, node), seconds in zip(lines, taken, strict=True):
        target = _target(node)
        s = next((s for s in waiting if s.name == target.rstrip("_")), None)
        if s is not None:
            waiting.remove(s)  # a tensor may be assigned first and scattered onto next
        else:
            out.append(Part(code, 0.0, 0.0, 0.0, 0.0, seconds))
            continue
        moved = 0.0 if _is_view(s, code) else _moved(s, program, lengths, integers)
        products = _multiply_adds(s, lengths)
        out.append(Part(code, moved, products, node_work(s.value, lengths), rates.floor(moved, products), seconds))
    return tuple(out)


def _lines(source: str, function: str) -> Iterator[tuple[str, ast.Module]]:
    """The statements of a function but its docstring and its return, as text and as something to run."""
    tree = ast.parse(source)
    found = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function)
    asking = [n.arg for n in found.args.kwonlyargs]
    for node in found.body[1:-1]:
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Constant) or any(isinstance(n, ast.Name) and n.id in asking for n in ast.walk(node)):
            continue  # which gradients are asked for
        for line in node.body if isinstance(node, ast.If) else [node]:  # every gradient is asked for
            yield ast.unparse(line), ast.Module([line], [])


def _target(module: ast.Module) -> str:
    """The name that a line assigns, or whose method it calls to change it."""
    node = module.body[0]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    inner: Any = getattr(node, "value", None)
    while isinstance(inner, ast.Call | ast.Attribute):
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return inner.id if isinstance(inner, ast.Name) else ""


def _scope(live: Live, function: str, args: list[Any]) -> Callable[[], dict[str, Any]]:
    """A fresh scope for one run: the module's names and the function's arguments."""
    code = live.function.__globals__[function].__wrapped__
    code = getattr(code, "__wrapped__", code)
    names = code.__code__.co_varnames[: code.__code__.co_argcount]
    given = (code.__kwdefaults__ or {}) | dict(zip(names, args, strict=False))
    module = dict(live.function.__globals__)
    return lambda: module | given


@torch.no_grad()
def _times(lines: list[CodeType], scope: Callable[[], dict[str, Any]]) -> list[float]:
    """Seconds a line, the best of several runs of all of them in order."""
    best = [float("inf")] * len(lines)
    end = time.perf_counter() + _SECONDS
    done = 0
    while done < _ROUNDS or (time.perf_counter() < end and done < 50 * _ROUNDS):
        names = scope()
        for k, line in enumerate(lines):
            start = time.perf_counter()
            exec(line, names)
            best[k] = min(best[k], time.perf_counter() - start)
        done += 1
    return best
