"""What a program costs, counted: passes over memory and multiply-adds, at a nominal length for every axis.

A pass is one reading of a tensor as large as an operand of two axes. Nothing here is measured: it ranks equal
backwards, and every count that is reported to a reader comes from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from derive.decisions import LONG, MATMUL, NAMED, NOMINAL, WIDE
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.products import (
    is_matrix_product,
    is_of_differences,
    is_outer_difference,
    is_tensor,
    is_weighted,
    product_factors,
    weighed_terms,
)
from derive.ir.nodes.walking import axes_along, children, node_axes, walk
from derive.ir.program import Arithmetic, Call, Join, Node, Num, Program, Read, Reduce, Scatter
from derive.primitives import names, row

ELEMENTARY = names(lambda r: r.work > 1)
"""The functions that take more than a pass."""


def is_dear(call: Call) -> bool:
    """Whether it is of such a function, which the power of 2 or 3 is not."""
    return row(call.fn).dear and not _is_product(call)


@dataclass(frozen=True)
class Cost:
    """Weighted element operations, and bytes (in elements) kept from the forward."""

    work: float = 0.0
    kept: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.work + other.work, self.kept + other.kept)

    @property
    def passes(self) -> float:
        return self.work / NOMINAL**2


def node_work(node: Node, nominal: Nominal) -> float:
    """The element operations of computing a node, operation by operation."""
    if isinstance(node, Call):
        inside = sum((node_work(a, nominal) for a in node.args), 0.0)
        axes = node_axes(node)
        if node.fn == "neg":  # the sign of a product goes to its smallest factor
            axes = min(map(node_axes, product_factors(node.args[0])), key=nominal.elements)
        return inside + (_weight(node) * nominal.weighted(axes) if is_tensor(node) else 0.0)
    if isinstance(node, Reduce):
        axes = node_axes(node.body)
        if is_matrix_product(node):
            inside = sum((node_work(f, nominal) for f in product_factors(node.body)), 0.0)
            return inside + nominal.elements(axes) / MATMUL
        if is_of_differences(node):
            factors = product_factors(node.body)
            inside = sum((node_work(f, nominal) for f in factors if not is_outer_difference(f)), 0.0)
            return inside + len(weighed_terms(factors)) * WIDE * nominal.elements(axes) / MATMUL
        if is_weighted(node):  # a matrix times a vector: one pass over the matrix
            inside = sum((node_work(f, nominal) for f in product_factors(node.body)), 0.0)
            return inside + nominal.weighted(axes)
        return _in_turn(node, nominal)
    if isinstance(node, Join):
        return sum((node_work(p, nominal) for p in node.parts), 0.0) + nominal.weighted(node_axes(node))
    return nominal.weighted(node_axes(node)) if _is_gather(node) else 0.0


def _in_turn(node: Reduce, nominal: Nominal) -> float:
    """The work of a sum whose small factors meet sums over axes that none of them has: `sum(g[c] * dy[n, c, s])`."""
    factors = product_factors(node.body)
    over = set(node.axes)
    whole = set(node_axes(node.body))
    small = [f for f in factors if is_tensor(f) and set(node_axes(f)) < whole and over - set(node_axes(f))]
    large = [f for f in factors if f not in small]
    first = over - {a for f in small for a in node_axes(f)}
    if node.kind not in ("sum", "mean") or not small or not large or not first:
        return node_work(node.body, nominal) + nominal.weighted(whole)
    inside = sum((node_work(f, nominal) for f in factors), 0.0)
    axes = {a for f in large for a in node_axes(f)}
    left = whole - first
    after = len(small) + bool(over - first)
    return inside + len(large) * nominal.weighted(axes) + after * nominal.weighted(left)


def _is_gather(node: object) -> bool:
    return isinstance(node, Read) and any(isinstance(i, Read | Arithmetic) for i in node.index)


def elementary_work(node: Node, nominal: Nominal) -> float:
    """The part of a node's work that is elementary functions: `exp`, `erf` and their like."""
    calls = (n for n in walk(node) if isinstance(n, Call) and n.fn in ELEMENTARY and is_tensor(n))
    return sum(_weight(n) * nominal.weighted(node_axes(n)) for n in calls if _weight(n) > 1)


def _weight(node: Call) -> float:
    if node.fn == "where" and node.args[1:] == (Num(Fraction(1)), Num(Fraction(0))):
        return 0.0  # the condition itself, as a number
    return 1.0 if _is_product(node) else row(node.fn).work


def _is_product(call: Call) -> bool:
    """Whether it is a power that is written as products."""
    return call.fn == "pow" and str(call.args[1]) in ("2", "3")


def work(program: Program, nominal: Nominal) -> float:
    """The element operations of a whole program.

    What is made of a gather counts once, as it will be made (`schedule/share.py`). Any other work that stands twice
    does not: it speaks for a name, and the names that are tried are those of adjoints, which a reader knows.
    """
    total = 0.0
    gathered: set[Node] = set()
    for s in program.statements:
        total += node_work(s.value, nominal) - _work_among(gathered, s.value, nominal)
        if any(map(_is_gather, walk(s.value))):
            gathered |= {n for n in walk(s.value) if isinstance(n, Call | Read) and any(map(_is_gather, walk(n)))}
        if isinstance(s, Scatter):
            over = set(axes_along(s.slots))
            total += nominal.weighted(over) + (nominal.elements(s.axes) if s.onto is None else 0.0)
    return total


def made_again(program: Program, nominal: Nominal) -> float:
    """The work of elementary functions that stand twice, which is done once (`schedule/share.py`)."""
    seen: set[Node] = set()
    total = 0.0
    for s in program.statements:
        total += _work_among(seen, s.value, nominal)
        seen |= {n for n in walk(s.value) if isinstance(n, Call) and _weight(n) >= LONG and is_tensor(n)}
    return total


_COMPUTED = (Call, Read, Reduce, Join)


def _work_among(known: set[Node], node: Node, nominal: Nominal) -> float:
    """The part of a node's work that is that of known nodes."""
    if not known:
        return 0.0
    if node in known:
        return node_work(node, nominal)
    return sum((_work_among(known, n, nominal) for n in children(node) if isinstance(n, _COMPUTED)), 0.0)


def work_and_names(program: Program, nominal: Nominal) -> float:
    """What equal forms are compared by: the element operations of a program, and what its names cost."""
    return work(program, nominal) + naming(program, nominal)


def cheaper(program: Program, other: Program, nominal: Nominal) -> Program:
    """The other program where it is less work, names counted; else the first."""
    return other if work_and_names(other, nominal) < work_and_names(program, nominal) else program


def naming(program: Program, nominal: Nominal) -> float:
    """What it costs that tensors have names; of two forms with the same work it prefers the one with fewer."""
    return sum(NAMED * nominal.weighted(set(axes_along(s.axes))) for s in program.statements)
