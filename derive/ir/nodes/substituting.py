"""Something else in the place of a node or a name; the axes and names of what is put there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from derive.ir.nodes.walking import axes_along, bottom_up, node_axes, reads, rebuilt, top_down, walk
from derive.ir.program import Call, Index, Merged, Node, Program, Read, Scatter, Statement, base
from derive.ir.terms.axes import in_all_orders


def numbered_in_order(statements: list[Statement], stems: Mapping[str, str]) -> list[Statement]:
    """The statements, with names that differ by a number numbered as they come. `stems` has these without it."""
    made = dict.fromkeys(s.name for s in statements if s.name in stems)
    names: dict[str, str] = {}
    for stem in dict.fromkeys(stems[name] for name in made):
        own = [name for name in made if stems[name] == stem]
        names |= dict(zip(own, sorted(own, key=lambda name: (len(name), name)), strict=True))
    names = {old: new for old, new in names.items() if old != new}
    return [under_names(s, names) for s in statements]


def under_names(s: Statement, names: dict[str, str]) -> Statement:
    """The statement with what it makes, reads and adds to under other names."""
    s = replace(renamed(s, names), name=names.get(s.name, s.name))
    return replace(s, onto=names.get(s.onto, s.onto)) if isinstance(s, Scatter) and s.onto else s


def renamed(s: Statement, names: dict[str, str]) -> Statement:
    """The statement with what it reads under other names."""
    if not names:
        return s
    if isinstance(s, Scatter):
        slots = tuple(_rename(i, names) for i in s.slots)
        return replace(s, value=_rename(s.value, names), slots=slots)  # type: ignore[arg-type]
    return replace(s, value=_rename(s.value, names))  # type: ignore[arg-type]


def _rename(n: Node | Index, names: dict[str, str]) -> Node | Index:
    if isinstance(n, Read):
        return Read(names.get(n.name, n.name), tuple(_rename(i, names) for i in n.index))  # type: ignore[misc]
    return rebuilt(n, lambda m: _rename(m, names))  # type: ignore[arg-type, return-value]


def axes_of(node: Node) -> tuple[str, ...]:
    """The node's axes in the order of the operand that has most of them, the others so that none is transposed."""
    axes = node_axes(node)
    whole = [n for n in walk(node) if isinstance(n, Read) and all(isinstance(i, str | Merged) for i in n.index)]
    orders = [tuple(dict.fromkeys(a for a in axes_along(n.index) if a in axes)) for n in whole]
    best = max(orders, key=len, default=())
    found = in_all_orders(best, orders) or best
    found = (*found, *(a for a in axes if a not in found))
    return tuple(sorted(found, key=lambda a: base(a) != "..."))  # what lacks `...` broadcasts only behind it


def put(node: Node, old: Node, new: Node) -> Node:
    """The node with every occurrence of `old` replaced; the very node where there is none."""
    return top_down(node, lambda n: new if n == old else None) if reads(old) <= reads(node) else node


def without_stops(program: Program) -> Program:
    """The same values: `stop(x)` is `x`, of which only the derivative differs, and what is no more than that is `x`."""
    statements, names, changed = list[Statement](), dict[str, str](), program.added_to
    for s in program.statements:
        value = bottom_up(s.value, lambda n: n.args[0] if isinstance(n, Call) and n.fn == "stop" else n)
        same = value.name if value != s.value and isinstance(value, Read) and value.index == s.axes else None
        if same is None or same in changed or s.name in changed or s.name in program.ends:
            statements.append(under_names(replace(s, value=value), names))
        else:
            names[s.name] = names.get(same, same)
    return replace(program, statements=tuple(statements))
