"""A program as data for the browser, where a small evaluator runs it element by element.

Nothing is derived or rewritten here: every node of `derive.ir.program` becomes a list that begins with its kind.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from derive.ir.program import (
    Arithmetic,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    Num,
    PartOf,
    Place,
    Program,
    Read,
    Reduce,
    Scal,
    Scan,
    Scatter,
    SizeOf,
    Statement,
    Window,
)
from derive.pipeline import Derivation


def op_data(d: Derivation) -> dict[str, Any]:
    """The forward and the backward program of an op, its operands and what goes between the two."""
    defaults = {o.name: o.default for o in d.op.operands if o.has_default}
    return {
        "name": d.op.name,
        "operands": [o.name for o in d.op.operands],
        "defaults": defaults,
        "outputs": list(d.op.outputs),
        "cotangents": [c.target.name for c in d.steps.cotangents],
        "gradients": [next(a.target.name for a in d.steps.adjoints if a.of == o.name) for o in d.op.differentiable],
        "kept": list(d.kept),
        "forward": program_data(d.forward),
        "backward": program_data(d.backward),
    }


def program_data(program: Program) -> dict[str, Any]:
    """One program: what it is given with its axes, its statements, what it returns."""
    return {
        "given": [[name, list(axes)] for name, axes in program.given],
        "statements": [_statement(s) for s in program.statements],
        "returns": list(program.returns),
    }


def _statement(s: Statement) -> dict[str, Any]:
    if isinstance(s, Scatter):
        slots = [_index(i) for i in s.slots]
        start = _number(s.start.value)
        return {"name": s.name, "axes": list(s.axes), "slots": slots, "onto": s.onto, "kind": s.kind, "start": start,
                "value": _node(s.value)}  # fmt: skip
    return {"name": s.name, "axes": [_index(i) for i in s.axes], "value": _node(s.value)}


def _node(node: Node) -> list[Any]:
    if isinstance(node, Num):
        return ["num", *_number(node.value)]
    if isinstance(node, Scal):
        return ["scal", node.name]
    if isinstance(node, SizeOf):
        return ["size", node.axis]
    if isinstance(node, AxisValue):
        return ["axis", node.axis]
    if isinstance(node, Read):
        return ["read", node.name, [_index(i) for i in node.index]]
    if isinstance(node, Call):
        return ["call", node.fn, [_node(a) for a in node.args]]
    if isinstance(node, Reduce):
        return ["reduce", node.kind, list(node.axes), _node(node.body)]
    if isinstance(node, Join):
        return ["join", node.axis, [_node(p) for p in node.parts], list(node.own)]
    assert isinstance(node, Scan)
    return ["scan", node.to, node.over, node.relation, _node(node.body)]


def _index(index: Index | Node) -> Any:
    if isinstance(index, str):
        return index
    if isinstance(index, Merged):
        return ["merged", [_index(i) for i in index.axes]]
    if isinstance(index, Place):
        return ["place", _index(index.index), _node(index.length)]
    if isinstance(index, PartOf):
        return ["part", _index(index.whole), index.position, [_node(n) for n in index.lengths]]
    if isinstance(index, Arithmetic):
        return ["arithmetic", [[_index(i), step] for i, step in index.steps], _node(index.offset)]
    if isinstance(index, Window):
        return ["window", [list(step) for step in index.steps], _node(index.offset)]
    return _node(index)


def _number(value: Fraction | float) -> list[Any]:
    """A quotient as its two whole numbers, infinity as a word: JSON has neither."""
    if isinstance(value, Fraction):
        return [value.numerator, value.denominator]
    return [str(value), 1] if value in (float("inf"), float("-inf")) else [value, 1]
