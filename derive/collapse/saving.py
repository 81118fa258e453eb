"""Policy: what the forward keeps for the backward, and what the backward computes again.

Every tensor of the forward that the closed form reads is either kept or, where it is pointwise in what is kept
anyway, computed again. Keeping an element costs `PRICE` element operations, so a cheap pointwise tensor is computed
again when that frees memory; a reduction or a matrix product only where a policy says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sympy import Expr, Mul

from derive.adjoint.chain_rule import Stepwise, adjoint_axes
from derive.decisions import CHEAP, DEAR, OUTPUT_PRICE, PRICE
from derive.facts.costs.cost import Cost, work_and_names
from derive.facts.lengths.nominal import nominal
from derive.ir.algebra import is_contraction, normal, sigma
from derive.ir.equations import Equation, Op
from derive.ir.program import Program
from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.elements import Scalar, tensor_names
from derive.ir.terms.indices import Merge, Part
from derive.ir.terms.reductions import Reduce as SpecReduce
from derive.ir.terms.windows import is_gather
from derive.ir.ties import compared, is_exact
from derive.schedule.backward import schedule
from derive.schedule.definitions import Definition


@dataclass(frozen=True)
class Kept:
    """The saved tensors (in the forward's order), the backward's program, and what the choice costs."""

    names: tuple[str, ...]
    program: Program
    cost: Cost

    @property
    def total(self) -> float:
        return self.cost.work + PRICE * self.cost.kept


_CHEAP_WORK: frozenset[str | None] = frozenset({None, "count"})
"""Pointwise work, and what the forward would count for the backward's sake alone."""


@dataclass(frozen=True)
class Policy:
    """What an element costs to keep, by what holds it, in element operations; and what may be computed again."""

    name: str
    inner: float = PRICE  # a tensor that exists for the backward's sake
    operand: float = PRICE
    output: float = OUTPUT_PRICE
    batch: float | None = None  # a tensor as large as what a batch of products makes, if that is larger than all else
    again: frozenset[str | None] = _CHEAP_WORK  # and "gather", which reads at random places, "batch", "product", sums
    conditional: bool = False  # whether eliminations that hold only under a condition are tried
    local: bool = False  # whether the forward makes local derivatives
    functions: bool = False  # whether a function of a kept tensor may be kept instead of it
    dear: bool = False  # whether such a function may beside it, where PyTorch takes long to compute it again
    masks: bool = False  # whether a comparison may: bytes, for which a loop over floats would wait
    fused: bool = False  # whether loops are fused, so that to weigh each element with its place costs nothing


_LARGE: frozenset[str | None] = _CHEAP_WORK | {"gather", "batch", "product"}
"""What makes large tensors: all but the statistics of rows, which are small and take a pass each."""
_SMALL: frozenset[str | None] = _CHEAP_WORK | {"batch"}
"""What kernels make again, a tile at a time: what each product of a batch makes that is larger than all else."""
_EVERYTHING: frozenset[str | None] = _LARGE | {"sum", "mean", "amax", "amin"}

POLICIES = {
    "cost": Policy("cost", inner=PRICE + 1, local=True, functions=True, dear=True, masks=True),
    "least": Policy("least", inner=DEAR, operand=DEAR, output=DEAR, again=_LARGE, functions=True, masks=True),
    "input": Policy("input", inner=DEAR, operand=CHEAP, output=DEAR, again=_EVERYTHING),
    "output": Policy("output", inner=100 * PRICE, operand=PRICE, output=CHEAP, conditional=True),
    "fused": Policy("fused", inner=PRICE + 4, functions=True, fused=True),
    "kernel": Policy(
        "kernel", inner=PRICE + 4, output=PRICE, batch=DEAR, again=_SMALL, local=True, functions=True, fused=True
    ),
}
"""How `save=` chooses: by cost, where an inner tensor that is kept is one that no later result is written over; the
fewest bytes, statistics of rows apart; from the inputs alone; from the outputs; by what costs where loops are fused,
which a compiler of PyTorch programs does; by what costs a kernel.

To a fused loop an inner tensor is one more to write and to read, and the few operations that make it again from
an input, which is read in any case, are free. Elementary functions are not: a kernel keeps the local derivative made
of them. It reads an output from memory as anything else, and makes the products of a batch again, a tile at a time. A
compiler's code waits for memory longer, mostly for pages that were not there before, and makes the derivatives again.
"""


def recompute(
    steps: Stepwise, definitions: list[Definition], candidates: frozenset[str], held: frozenset[str], policy: Policy
) -> list[Definition]:
    """The tensors among `candidates` that are better computed again, decided one at a time, latest first."""
    op = steps.op
    returns = tuple(d.name for d in definitions)
    best = with_kept(steps, definitions, returns, held, policy)
    again: list[Definition] = []
    # from the inputs alone, what it is compared with is computed again as well
    as_it_is = frozenset() if policy.name == "input" else compared(op)

    def may_go(equation: Equation) -> bool:
        wanted = equation.name in best.names and equation.name in candidates
        wanted = wanted and (equation.name not in as_it_is or is_exact(equation.body))
        return wanted and _recomputable(equation, op, policy)

    def without(gone: Sequence[Equation]) -> tuple[Kept, list[Definition]]:
        known = (frozenset(best.names) | held | {d.name for d in again}) - {e.name for e in gone}
        made = {d.name: d for e in gone for d in _from_kept(e, op, known, policy)}
        trial = [*made.values(), *again]
        return with_kept(steps, [*trial, *definitions], returns, held, policy), trial

    for equation in reversed(op.equations):
        if may_go(equation):
            candidate, trial = without([equation])
            for_us = _work_of(equation, op) == "count" and set(candidate.names) < set(best.names)
            if candidate.total < best.total or policy.name == "input" or for_us:
                best, again = candidate, trial
    for together in _of_one_size([e for e in op.equations if may_go(e)], op):
        candidate, trial = without(together)
        if candidate.total < best.total:
            best, again = candidate, trial
    return again


def _of_one_size(equations: list[Equation], op: Op) -> list[list[Equation]]:
    """Those over the same axes, where they are several: none pays for a tensor that gives all of them."""
    found: dict[frozenset[str], list[Equation]] = {}
    for e in equations:
        found.setdefault(frozenset(op.dims(e.name)), []).append(e)
    return [some for some in found.values() if len(some) > 1]


def _from_kept(equation: Equation, op: Op, known: frozenset[str], policy: Policy) -> list[Definition]:
    """The equation as a definition, with those of what it reads that is not at hand either."""
    out: dict[str, Definition] = {}
    pending = [equation]
    while pending:
        e = pending.pop()
        out[e.name] = _definition(e, op)
        for at in e.reads:
            inner = op.equation(at.name)
            if inner is not None and at.name not in known and at.name not in out and _recomputable(inner, op, policy):
                pending.append(inner)
    return list(out.values())


def _recomputable(equation: Equation, op: Op, policy: Policy) -> bool:
    own = equation.name not in op.outputs or policy.name == "input"
    return _work_of(equation, op) in policy.again and own and (equation.is_plain or equation.kind is None)


def _work_of(equation: Equation, op: Op) -> str | None:
    if equation.left in _counted(op):
        return "count"  # which the forward would make for the backward's sake alone
    if equation.kind is None and any(is_gather(i) for at in equation.reads for i in at.index):
        return "gather"
    if equation.kind != "sum" or not is_contraction(equation.body):
        return equation.kind
    return "batch" if frozenset(a.base for a in equation.axes) in _made_by_batches(op) else "product"


@lru_cache(maxsize=64)
def _counted(op: Op) -> frozenset[Expr]:
    """The elements that are counted for the sake of ties."""
    return frozenset(e.ties for e in op.equations if e.ties is not None)


@lru_cache(maxsize=64)
def _made_by_batches(op: Op) -> frozenset[frozenset[str]]:
    """The axes of what a batch of matrix products makes, where no operand or output has all of them.

    The products of a batch are small, and a tile of what each makes never leaves the cache of a kernel. What a single
    product makes (a layer of a network) would take as much again of a large one. Nothing counts that would take more
    than a fifth of all products again, each of which has two in the backward.
    """
    products = [e for e in op.equations if e.kind == "sum" and is_contraction(e.body)]
    found = []
    for equation in products:
        axes = frozenset(a.base for a in equation.axes)
        factors = [free_axes(f) for f in Mul.make_args(equation.body) if free_axes(f)]
        if set(equation.axes).intersection(*factors) and not any(axes <= c for c in nominal(op).carriers):
            found.append(axes)
    return frozenset(found) if 5 * len(found) <= 3 * len(products) else frozenset()


def _definition(equation: Equation, op: Op) -> Definition:
    """An equation over plain axes; where its left side merges some, the right side takes them apart again."""
    axes = adjoint_axes(equation, op)
    parts = {
        a: Part(axis, k, *(Size(m) for m in i.args))
        for axis, i in zip(axes, equation.index, strict=True)
        if isinstance(i, Merge)
        for k, a in enumerate(i.args)
    }
    return Definition(equation.name, axes, value_of(equation).xreplace(parts))


def value_of(equation: Equation) -> Expr:
    """An equation's right side as a definition: a sum in normal form, anything else as it was written."""
    if equation.kind is None:
        return equation.body
    if equation.kind in ("amax", "amin"):
        return SpecReduce(equation.kind, equation.body, *equation.over)
    return normal(equation.weight * sigma(equation.body, equation.over))


def _needed(definitions: list[Definition]) -> set[str]:
    return {name for d in definitions for name in tensor_names(d.value)}


def reached(definitions: Iterable[Definition], returns: Collection[str]) -> list[Definition]:
    """The definitions of what is wanted, and of what these read: a law may leave one that nothing reads any more."""
    definitions = list(definitions)
    while True:
        wanted = _needed(definitions) | set(returns)
        if all(d.name in wanted for d in definitions):
            return definitions
        definitions = [d for d in definitions if d.name in wanted]


def with_kept(
    steps: Stepwise,
    definitions: list[Definition],
    returns: tuple[str, ...] | None = None,
    held: frozenset[str] = frozenset(),
    policy: Policy = POLICIES["cost"],
) -> Kept:
    """The program of these definitions and what it reads of the forward; what is `held` anyway costs nothing more.

    `returns` are the definitions wanted (default: the gradients). Adjoints defined elsewhere are given.
    """
    op = steps.op
    gradients = {a.of: a.target.name for a in steps.adjoints}
    if returns is None:
        returns = tuple(gradients[o.name] for o in op.differentiable)
    definitions = reached(definitions, returns)
    own = {d.name for d in definitions}
    cotangents = {c.target.name: c.axes for c in steps.cotangents}
    adjoints = {a.target.name: a.axes for a in steps.adjoints}
    needed = _needed(definitions) - own
    names = tuple(n for n in forward_names(op) if n in needed)
    outside = {n: a for n, a in (cotangents | adjoints).items() if n in cotangents or (n in needed and n not in own)}
    given = tuple((n, tuple(a.name for a in axes)) for n, axes in outside.items())
    given += tuple((n, op.dims(n)) for n in names)
    used = {s.name for d in definitions for s in d.value.atoms(Scalar)}
    scalars = tuple(o.name for o in op.operands if not o.is_tensor and o.name in used)
    program = schedule(op.name, definitions, given, scalars, returns, frozenset(forward_names(op)))
    kept = priced(op, [n for n in names if n not in held], policy)
    return Kept(names, program, Cost(work_and_names(program, nominal(op)), kept))


def priced(op: Op, names: Iterable[str], policy: Policy) -> float:
    """The elements of these tensors, each weighed by what it costs to keep."""
    return sum(nominal(op).elements(op.dims(n)) * _price(op, n, policy) / PRICE for n in names)


def _price(op: Op, name: str, policy: Policy) -> float:
    if name in op.outputs:
        return policy.output
    if op.operand(name) is not None:
        return policy.operand
    return policy.batch if policy.batch and frozenset(op.dims(name)) in _made_by_batches(op) else policy.inner


@lru_cache(maxsize=64)
def forward_names(op: Op) -> tuple[str, ...]:
    """Equations first, then operands: the order of a saved tuple."""
    return (*(e.name for e in op.equations), *(o.name for o in op.operands if o.is_tensor))


