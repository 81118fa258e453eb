"""A quotient that several products have in common is divided first in all of them: it is one and the same node then.

`dy * x / u` and `dy * z / u` become `dy / u * x` and `dy / u * z`, of which `dy / u` can be shared: one division, not
two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from derive.ir.nodes.arithmetic import quotient
from derive.ir.nodes.products import fraction, is_matrix_product, is_tensor
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import children, node_axes, rebuilt
from derive.ir.program import Call, Index, Node, Program, Reduce


@dataclass(frozen=True)
class _Quotient:
    """A factor, and what it is divided by."""

    above: Node
    below: Node

    @property
    def node(self) -> Call:
        return Call("div", (self.above, self.below))


def common_quotients(program: Program) -> Program:
    """The same program with what two quotients divide alike, and that spans them, divided first in both."""
    statements, done = list(program.statements), set[_Quotient]()
    while (common := _most_common([q for s in statements for q in _chains(s.value)], done)) is not None:
        done.add(common)
        statements = [replace(s, value=_divided_first(s.value, common)) for s in statements]
    return check(replace(program, statements=tuple(statements))) if done else program


def _chains(node: Node | Index) -> Iterator[Call]:
    """Every product or quotient that is not itself part of one, matrix products left out."""
    if isinstance(node, Reduce) and is_matrix_product(node):
        return
    if _is_chain(node):
        yield node  # type: ignore[misc]
        above, below = fraction(node)  # type: ignore[arg-type]
        parts: tuple[Node | Index, ...] = (*above, *below)
    else:
        parts = tuple(children(node))
    for part in parts:
        yield from _chains(part)


def _is_chain(node: Node | Index) -> bool:
    return isinstance(node, Call) and node.fn in ("mul", "div")


def _most_common(chains: list[Call], done: set[_Quotient]) -> _Quotient | None:
    """The quotient that most chains have, which is more than one, of several the first."""
    found = Counter(q for chain in dict.fromkeys(chains) for q in _quotients(chain))
    often = [(count, q) for q, count in found.items() if count > 1 and q not in done]
    return max(often, key=lambda pair: pair[0])[1] if often else None


def _quotients(chain: Call) -> list[_Quotient]:
    """What a chain divides by what, where both run over all its axes: by anything less, a smaller factor is divided."""
    axes = set(node_axes(chain))
    sides = ([f for f in side if is_tensor(f) and axes and set(node_axes(f)) == axes] for side in fraction(chain))
    return list(dict.fromkeys(_Quotient(f, d) for f, d in product(*sides)))  # in one order, whatever their hashes are


def _divided_first(node: Node, common: _Quotient) -> Node:
    if isinstance(node, Reduce) and is_matrix_product(node):
        return node
    if not _is_chain(node) or common not in _quotients(node):  # type: ignore[arg-type]
        return rebuilt(node, lambda n: _divided_first(n, common))
    above, below = fraction(node)
    above[above.index(common.above)] = common.node
    below.remove(common.below)
    above, below = ([f if f == common.node else _divided_first(f, common) for f in side] for side in (above, below))
    return quotient(above, below)
