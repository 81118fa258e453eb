"""Rows by matrices that an index chooses: `sum(x[e, d] * w[kind[e], d, o], over=d)`, and what a gradient adds to these.

`w[kind]` is a matrix for every row, however few there are to choose from. A call multiplies matrix by matrix instead,
and the products of columns and rows that `dw` is the sum of are added up by one product a matrix, `x.T @ dy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.backends.code import Code, call
from derive.backends.values import Value, is_pack, permute
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.products import divided_factors, fraction, product_factors
from derive.ir.nodes.walking import by_axes_once, node_axes
from derive.ir.program import Call, Node, Read, Reduce, Scatter

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


@dataclass(frozen=True)
class Chosen:
    """What is multiplied: rows, and matrices of which an index chooses one for each; the axes of a matrix."""

    rows: Node
    matrices: Read
    which: Read
    summed: str
    free: str


def by_chosen(node: Reduce) -> Chosen | None:
    """What a sum multiplies, where a row meets a matrix that an index chooses at each of its places; else None."""
    factors = product_factors(node.body) if node.kind == "sum" else []
    stacks = [f for f in factors if isinstance(f, Read) and len(f.index) == 3]
    found = [(f, which) for f in stacks if (which := _index_of(f)) is not None]
    if len(found) != 1 or len(factors) < 2 or any(map(is_pack, node_axes(node.body))):
        return None
    (matrices, which), own = found[0], node_axes(found[0][1])
    summed = [a for a in node.axes if a not in own]
    free = [a for a in node_axes(matrices) if a not in (*own, *summed)]
    rows = multiplied([f for f in factors if f is not matrices])
    if len(summed) != 1 or len(free) != 1 or summed[0] not in matrices.index:
        return None
    whole = summed[0] in node_axes(rows) and set(node_axes(rows)) <= {*own, *summed}
    return Chosen(rows, matrices, which, summed[0], free[0]) if whole else None


def _index_of(node: Read) -> Read | None:
    """The one index by which a tensor is read, where the others are axes that the index has not."""
    found = [i for i in node.index if isinstance(i, Read)]
    plain = [i for i in node.index if isinstance(i, str)]
    if len(found) != 1 or len(plain) != len(node.index) - 1 or len(set(plain)) != len(plain):
        return None
    apart = node_axes(found[0]) and by_axes_once(found[0]) and not set(node_axes(found[0])) & set(plain)
    return found[0] if apart else None


def chosen_product(printer: Printer, node: Reduce) -> Value | None:
    """The call for such a sum, else None."""
    found = by_chosen(node) if printer.fuse else None
    if found is None or None in printer.layouts[found.matrices.name]:
        return None
    own = node_axes(found.which)
    rows = _rows(printer, found.rows, (*own, found.summed))
    places = tuple("" if isinstance(i, Read) else str(i) for i in found.matrices.index)
    stored = permute(Value(printer.named(found.matrices.name), places), ("", found.summed, found.free))
    matrices = printer.as_real(found.matrices, stored)
    which = printer.value(found.which, own)
    made = Value(call("rows_by_matrices", rows, matrices, which), (*own, found.free))
    also = [a for a in own if a in node.axes]
    if not also:
        return made
    at = ", ".join(str(own.index(a)) for a in also)
    where = at if len(also) == 1 else f"({at})"
    return made.method("sum", where, dims=tuple(d for d in made.dims if d not in also))


def outer_products_added(printer: Printer, s: Scatter) -> Code | None:
    """What a scatter adds up, as one call, where that is a column times a row at each place of its index; else None."""
    slots = [i for i in s.slots if isinstance(i, Read)]
    plain = [i for i in s.slots if isinstance(i, str)]
    own = node_axes(slots[0]) if len(slots) == 1 and by_axes_once(slots[0]) else ()
    alone = own and len(plain) == len(set(plain) - set(own)) == 2 == len(s.slots) - 1
    if not alone or not printer.fuse or any(map(is_pack, (*own, *plain))):
        return None
    sides = _sides(s.value, *plain)
    if sides is None:
        return None
    left, right = (_rows(printer, side, (*own, axis)) for side, axis in zip(sides, plain, strict=True))
    at = next(k for k, i in enumerate(s.slots) if i is slots[0])
    made = call("sums_of_outer", left, right, printer.value(slots[0], own), printer.size(s.axes[at]))
    return permute(Value(made, ("", *plain)), tuple("" if k == at else str(i) for k, i in enumerate(s.slots))).code


def _sides(value: Node, first: str, second: str) -> tuple[Node, Node] | None:
    """A product or quotient as one of what runs over the first axis and of what runs over the second; else None."""
    sign = isinstance(value, Call) and value.fn == "neg"
    up, below = fraction(value.args[0] if isinstance(value, Call) and sign else value)
    right, over = ([f for f in part if second in node_axes(f)] for part in (up, below))
    left, under = ([f for f in part if second not in node_axes(f)] for part in (up, below))
    if any(first in node_axes(f) for f in (*right, *over)) or not any(first in node_axes(f) for f in left) or not right:
        return None
    column = divided_factors(left, under)
    return (Call("neg", (column,)) if sign else column), divided_factors(right, over)


def _rows(printer: Printer, node: Node, dims: tuple[str, ...]) -> Value:
    """Rows, with a dimension of length 1 for an axis of the index that they have not."""
    return printer.as_real(node, printer.value(node, dims))
