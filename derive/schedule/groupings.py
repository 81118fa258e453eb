"""Sums in the author's grouping: in the written order, left to right, and what stood in brackets by itself.

SymPy's sums have neither. Of two terms both orders are one; a sum that a law has changed is added as that says.
"""

from __future__ import annotations

from sympy import Expr

from derive.ir.equations import Grouping
from derive.ir.lowering import lower
from derive.ir.nodes.arithmetic import number_apart, signed_terms, summed
from derive.ir.nodes.walking import reads, rebuilt
from derive.ir.program import Call, Node, Read
from derive.ir.terms.elements import At, tensor_names
from derive.ir.terms.reductions import Reduce, TakenFirst

_Term = tuple[Node, bool]
"""A term, and whether it is subtracted."""


def as_written(node: Node, sums: tuple[Grouping, ...]) -> Node:
    """The node with its sums of three terms and more added as they were written."""
    if not sums:
        return node
    if not isinstance(node, Call) or node.fn not in ("add", "sub"):
        return rebuilt(node, lambda n: as_written(n, sums))
    terms = signed_terms(node)
    found = next((own for g in sums if (own := _matched(g, terms)) is not None), None)
    if found is None:
        return rebuilt(node, lambda n: as_written(n, sums))
    return summed([(as_written(t, sums), minus) for t, minus in found])


def _matched(grouping: Grouping, terms: list[_Term]) -> list[_Term] | None:
    """The terms of a sum in this grouping; None where they are others."""
    return _placed(grouping, grouping.leaves, terms) or _placed(grouping, grouping.terms, terms)


def _placed(grouping: Grouping, parts: tuple[Expr | Grouping, ...], terms: list[_Term]) -> list[_Term] | None:
    """The same, a term for each of these parts: what stood in brackets may be one term, with a number before it."""
    if len(parts) != len(terms) or len(terms) < 3:
        return None
    placed: dict[Expr | Grouping, _Term] = {}
    left = list(terms)
    for same in (_is_it, _reads_alike, _is_left):
        for part in (p for p in parts if p not in placed):
            found = [t for t in left if same(part, t[0], len(left))]
            if len(found) == 1:
                placed[part] = found[0]
                left.remove(found[0])
    return _grouped(grouping, placed) if len(placed) == len(terms) else None


def _is_it(part: Expr | Grouping, term: Node, _: int) -> bool:
    if isinstance(part, Grouping) or part.atoms(Reduce, TakenFirst):
        return False
    return number_apart(lower.node(part))[1] == number_apart(term)[1]


def _reads_alike(part: Expr | Grouping, term: Node, _: int) -> bool:
    """Whether both read the same tensors: under other axes, or written otherwise by then."""
    leaves = part.leaves if isinstance(part, Grouping) else (part,)
    return bool(reads(term)) and reads(term) == {name for leaf in leaves for name in tensor_names(leaf)}


def _is_left(part: Expr | Grouping, term: Node, count: int) -> bool:
    """Whether it is the last one, which has a name by then."""
    return count == 1 and isinstance(term, Read) and not isinstance(part, At)


def _grouped(grouping: Grouping, placed: dict[Expr | Grouping, _Term]) -> list[_Term]:
    out: list[_Term] = []
    for part in grouping.terms:
        if part in placed:
            out.append(placed[part])
        elif isinstance(part, Grouping):
            (_, minus), *_ = inner = _grouped(part, placed)
            out.append((summed((t, own != minus) for t, own in inner), minus))
    return out
