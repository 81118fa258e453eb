"""What is finite in a program of gradients, where the cotangents are, and where what the forward has is as well."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from derive.facts.interpreter import GIVEN, Facts, facts_of
from derive.facts.values import LENGTH, May, Value
from derive.ir.equations import Op
from derive.ir.lowering.lower import node as lowered
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.program import Call, Index, Node, Read, Reduce, Statement
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At


def finite_of(op: Op, cotangents: Collection[str]) -> tuple[Facts, Facts]:
    """What is known where the cotangents are finite, and where the inputs are as well."""
    values, given = facts_of(op), dict.fromkeys(cotangents, GIVEN)
    return Facts({**{name: _of_anything(v) for name, v in values.tensors.items()}, **given}), values.with_more(given)


def _of_anything(v: Value) -> Value:
    """What is known of a tensor of the forward whatever its inputs are; what is never near 0 divides what is finite."""
    return replace(v, infinite=May.ANYWHERE, nan=v.nan if v.is_away_from_0 else May.ANYWHERE)


def after(values: Facts, s: Statement, is_count: bool) -> Facts:
    """What is known after a statement, which makes a count that is never 0 or something else."""
    return values.with_more({s.name: LENGTH if is_count else values.made_by(s)})


def chooses(op: Op) -> bool:
    """Whether the op itself chooses by values, so that what is not chosen may be anything."""
    return any(w.condition.atoms(At) for e in op.equations for w in e.body.atoms(Where))


def finite_unchosen(op: Op, cotangents: Collection[str]) -> Facts:
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
