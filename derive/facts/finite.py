"""What is finite where some tensors are: sums and products of them, and what is bounded whatever it is of.

The forward says so of its own tensors, a program of the gradients it makes of cotangents. A number that is not 0
divides what is finite; of tensors, only a maximum with a number above 0, what is never below 0 and such a number, and a
count of what is as large as a maximum, which counts one element at least.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from derive.facts.bounded import SMALLEST, floored, polynomials
from derive.ir.equations import Op
from derive.ir.lowering.lower import node as lowered
from derive.ir.lowering.raising import is_finite_number
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.products import is_matrix_product, is_weighted
from derive.ir.nodes.walking import reads
from derive.ir.program import Assign, AxisValue, Call, Index, Node, Num, Read, Reduce, Scal, SizeOf, Statement
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.primitives import FINITE, names

_KEEPS = frozenset({"add", "sub", "mul", "neg", "where"}) | names(lambda r: r.finite == FINITE)


@dataclass(frozen=True)
class Finite:
    """The names of finite tensors, of those whose reciprocal is, and of those that are never below 0."""

    tensors: frozenset[str]
    reciprocals: frozenset[str] = frozenset()
    nonnegative: frozenset[str] = frozenset()

    def with_more(self, names: Collection[str]) -> Finite:
        """The same where these tensors are finite as well."""
        return replace(self, tensors=self.tensors.union(names))

    def after(self, s: Statement, is_count: bool) -> Finite:
        """The same after a statement, which makes a count that is never 0 or something else."""
        reciprocals = self.reciprocals - {s.name} | ({s.name} if is_count else set())
        adds = isinstance(s, Assign) or (s.kind == "sum" and (s.onto is None or s.onto in self.tensors))
        is_finite = adds and self.includes(s.value)
        tensors = self.tensors - {s.name} | ({s.name} if is_finite else set())
        return Finite(tensors, reciprocals, self.nonnegative - {s.name})

    def includes(self, node: Node) -> bool:
        """Whether a node is finite where these tensors are."""
        if isinstance(node, Read):
            return node.name in self.tensors
        if isinstance(node, Reduce):
            return self._includes_reduction(node)
        if isinstance(node, Call):
            return self._includes_call(node)
        return isinstance(node, Scal | SizeOf | AxisValue) or is_finite_number(node)

    def _includes_reduction(self, node: Reduce) -> bool:
        if node.kind == "sum" and (is_matrix_product(node) or is_weighted(node)):
            # were the other factor not finite, no sum over it would be
            return bool(reads(node.body) & self.tensors) and self.with_more(reads(node.body)).includes(node.body)
        return node.kind in ("sum", "mean") and self.includes(node.body)

    def _includes_call(self, node: Call) -> bool:
        if node.fn == "div":
            value, by = node.args
            known = isinstance(by, Read) and by.name in self.reciprocals
            return self.includes(value) and (known or _never_zero(by) or self._is_above_zero(by))
        if node.fn == "pow":
            exponent = node.args[1]
            whole = isinstance(exponent, Num) and exponent.value > 0 and exponent.value == int(exponent.value)
            return whole and self.includes(node.args[0])
        if (ends := _ends(node)) is not None:
            return all(map(self.includes, ends))
        parts = node.args[1:] if node.fn == "where" else node.args
        return node.fn in _KEEPS and all(map(self.includes, parts))

    def _is_above_zero(self, node: Node) -> bool:
        """Whether a node is no smaller than a number above 0: `maximum(x, 1)`, what is never below 0 and `1e-6`."""
        ends = node.args if isinstance(node, Call) and node.fn in ("maximum", "add") else ()
        floors = [n for n in ends if is_finite_number(n) and n.value >= SMALLEST]  # type: ignore[union-attr]
        if not floors or not isinstance(node, Call) or node.fn == "maximum":
            return bool(floors)
        return all(isinstance(n, Read) and n.name in self.nonnegative for n in ends if n not in floors)


def _never_zero(node: Node) -> bool:
    """Whether nothing is 0 that is divided by: no element, no place, no length less another; a scalar is not."""
    if isinstance(node, Call):
        return node.fn in ("mul", "div", "neg", "pow") and all(map(_never_zero, node.args))
    return isinstance(node, Num | Scal | SizeOf)


def _ends(node: Call) -> tuple[Node, Node] | None:
    """What a clamp keeps its value between: `minimum(maximum(x, low), high)`, either way round."""
    inner = {"minimum": "maximum", "maximum": "minimum"}.get(node.fn)
    if inner is None or not isinstance(node.args[0], Call) or node.args[0].fn != inner:
        return None
    return node.args[0].args[1], node.args[1]


def finite_of(op: Op, cotangents: Collection[str]) -> tuple[Finite, Finite]:
    """What is finite where the cotangents are, and where the inputs are as well."""
    positive = frozenset(e.name for e in op.equations if e.kind in (None, "sum", "mean") and e.body.is_nonnegative)
    both = (frozenset(cotangents), polynomials(op) | frozenset(cotangents))
    return Finite(both[0], floored(op), positive), Finite(both[1], floored(op), positive)


def chooses(op: Op) -> bool:
    """Whether the op itself chooses by values, so that what is not chosen may be anything."""
    return any(w.condition.atoms(At) for e in op.equations for w in e.body.atoms(Where))


def finite_unchosen(op: Op, cotangents: Collection[str]) -> Finite:
    """What is finite where it is not chosen: only gradients, where the op itself leaves out values by values."""
    gradients, values = finite_of(op, cotangents)
    return gradients if chooses(op) else values


# --- counts of ties ---------------------------------------------------------------------------------------------------

Extremum = tuple[Node, frozenset[str], tuple[Index, ...]]
"""What a maximum or minimum is of, over which axes, and its own axes."""


def extrema(op: Op) -> dict[str, Extremum]:
    """The maxima and minima by name, but those over what an index puts at each place."""
    found = (e for e in op.equations if e.kind in ("amax", "amin") and e.is_plain and e.ties is None and e.scale == 1)
    return {e.name: (lowered(e.body), frozenset(a.name for a in e.over), tuple(a.name for a in e.axes)) for e in found}


def counts_ties(node: Node, extrema: Mapping[str, Extremum]) -> bool:
    """Whether a node counts what is as large as a maximum of it: one at least, where that is a number."""
    if not isinstance(node, Reduce) or node.kind != "sum" or not isinstance(node.body, Call):
        return False
    if node.body.fn != "where" or node.body.args[1:] != (ONE, ZERO):
        return False
    tie = node.body.args[0]
    sides = (tie.args, tie.args[::-1]) if isinstance(tie, Call) and tie.fn == "eq" else ()
    tops = ((top, (value, frozenset(node.axes), top.index)) for value, top in sides if isinstance(top, Read))
    return any(extrema.get(top.name) == counted for top, counted in tops)
