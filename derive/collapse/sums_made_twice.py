"""A small sum that both passes take of the same tensors is handed on: of `r @ K @ r` the forward has the `K @ r`.

It costs few bytes, and to take it again a pass over all that it sums.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import permutations

from derive.collapse.autograd.saved import BYTES
from derive.collapse.conditions import Handed
from derive.decisions import AXES_IN_ALL_ORDERS, SMALL_SUM
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import renamed
from derive.ir.nodes.walking import node_axes, reads
from derive.ir.program import Assign, AxisValue, Call, Node, Num, Read, Reduce, Scal, SizeOf, base


def with_sums_made_twice(known: Handed, cotangents: Collection[str], most: float, nominal: Nominal) -> Handed:
    """The same, with each such sum of the forward handed on, as far as `most` bytes go."""
    out = known
    for name in [s.name for s in known.backward.statements]:
        s = out.backward.assigned.get(name)
        twin = None if s is None else _twin(s, out, cotangents, nominal)
        if s is None or twin is None:
            continue
        trial = _handed(twin, s, out)
        held = [axes for n, axes in trial.backward.given if n not in cotangents]
        if BYTES["real"] * sum(nominal.elements(axes) for axes in held) <= most:
            out = trial
    return replace(out, forward=check(out.forward), backward=check(out.backward))


def _twin(s: Assign, known: Handed, cotangents: Collection[str], nominal: Nominal) -> Assign | None:
    """The forward's statement of such a sum, which nothing of the backward has the name of."""
    own, theirs = known.forward.assigned, known.backward.assigned
    made = {x.name for x in known.backward.statements}
    again = {n for n in made if n in own and n in theirs and own[n].value == theirs[n].value}
    if not isinstance(s.value, Reduce) or reads(s.value) & ({*cotangents, *made} - again):
        return None
    if nominal.weighted(node_axes(s.value)) * SMALL_SUM > nominal.elements((*node_axes(s.value), *s.value.axes)):
        return None
    alike = (t for t in own.values() if t.name == s.name or t.name not in known.backward.names)
    return next((t for t in alike if _is_same(t, s)), None)


def _is_same(t: Assign, s: Assign) -> bool:
    """Whether two statements take one sum, whatever their axes are called."""
    if not (isinstance(t.value, Reduce) and isinstance(s.value, Reduce)) or t.value.kind != s.value.kind:
        return False
    if len(t.axes) != len(s.axes) or len(t.value.axes) != len(s.value.axes) or not _are_plain(t) or not _are_plain(s):
        return False
    places = {str(a): k for k, a in enumerate((*t.axes, *t.value.axes))}
    mine = _key(t.value.body, places)
    orders = permutations(s.value.axes) if len(s.value.axes) <= AXES_IN_ALL_ORDERS else (s.value.axes,)
    return mine is not None and any(
        mine == _key(s.value.body, {str(a): k for k, a in enumerate((*s.axes, *order))}) for order in orders
    )


def _are_plain(s: Assign) -> bool:
    return all(isinstance(a, str) for a in s.axes)


def _key(node: Node, places: Mapping[str, int]) -> tuple[object, ...] | None:
    """What two nodes have in common that are the same but for their axes and the order of factors and terms."""
    if isinstance(node, Read):
        index = [places.get(i) if isinstance(i, str) else None for i in node.index]
        return None if None in index else ("read", node.name, *index)
    if isinstance(node, AxisValue):
        return ("place", places[node.axis]) if node.axis in places else None
    if isinstance(node, SizeOf):
        return ("size", base(node.axis))
    if isinstance(node, Num | Scal):
        return ("number", str(node))
    if not isinstance(node, Call):
        return None
    parts = [_key(a, places) for a in _operands(node, node.fn)]
    if node.fn == "absolute" and isinstance(node.args[0], Call) and node.args[0].fn == "sub":  # either way round
        parts = [_key(a, places) for a in node.args[0].args]
        return None if None in parts else ("distance", *sorted(parts, key=repr))
    return None if None in parts else (node.fn, *(sorted(parts, key=repr) if node.fn in ("add", "mul") else parts))


def _operands(node: Node, fn: str) -> list[Node]:
    """The terms of a sum or the factors of a product; the arguments of another call."""
    if not isinstance(node, Call) or node.fn != fn:
        return [node]
    if fn not in ("add", "mul"):
        return list(node.args)
    return [part for a in node.args for part in _operands(a, fn)]


def _handed(twin: Assign, s: Assign, known: Handed) -> Handed:
    """The forward's sum as what the backward is given, in place of its own statement for it."""
    statements = tuple(renamed(x, {s.name: twin.name}) for x in known.backward.statements if x.name != s.name)
    slots = [i for x in statements for i in x.slots]
    wanted = {n for part in (*(x.value for x in statements), *slots) for n in reads(part)}
    gone = {n for n in dict(known.backward.given) if n in reads(s.value) and n not in wanted}
    given = [(n, a) for n, a in known.backward.given if n not in gone]
    if twin.name not in dict(given):
        given.append((twin.name, tuple(map(str, twin.axes))))
    returns = known.forward.returns
    kept = [n for n in returns[known.outputs :] if n not in gone]
    forward = replace(known.forward, returns=(*returns[: known.outputs], *dict.fromkeys((*kept, twin.name))))
    backward = replace(known.backward, given=tuple(given), statements=statements)
    return replace(known, forward=forward, backward=backward, functions=tuple(dict.fromkeys((*known.functions, twin))))
