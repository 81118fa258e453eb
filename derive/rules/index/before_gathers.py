"""What is summed of a gathered row, and of nothing that its place tells, is summed for each row before it is gathered.

`sum(x[nb[n, k], d] * w[d, e], over=d)` is `x_w[nb[n, k], e]` of `x_w[n, e] = sum(x[n, d] * w[d, e], over=d)`: as many
rows meet the matrix as there are, not as many as are read. That is so where the index has a value for every row that it
chooses among, and more: `nb: index(n)[n, k]`. Elsewhere, as of a word's embedding, there may be more rows than readers.
A row that nobody reads takes part, with 0 for its cotangent: it has to be finite, as one of `log(x)` may not be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sympy import Expr, Mul

from derive.facts.interpreter import Facts, facts_of
from derive.facts.lengths.sizes import dimensions
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.names import new_name
from derive.ir.terms.products import by_axes


def made_before_gathers(op: Op) -> Op:
    """The same op, with every such sum under a name of its own."""
    dims = {name: tuple(own) for name, own in dimensions(op.operands, op.equations).items()}
    taken, values = op.names, facts_of(op)
    return replace(op, equations=tuple(part for e in op.equations for part in _apart(e, dims, taken, values)))


def _apart(
    e: Equation, dims: dict[str, tuple[Expr, ...]], taken: set[str], values: Facts
) -> Iterator[Equation]:
    """The equation, what it sums of each row apart where it gathers that."""
    found = _gathered(e, dims)
    if found is None or not all(values.of(f).is_finite for f in (found[0], *found[2])):  # of rows that nobody reads
        yield e
        return
    at, slot, inside, outside = found
    row, place = dims[at.name][slot], at.index[slot]
    read = At(at.tensor, *(row if i == place else i for i in at.index))
    body = Mul(read, *inside)
    index = (row, *(a for a in e.axes if a in free_axes(body) - {row}))
    target = Tensor(new_name(f"{at.name}_{'_'.join(dict.fromkeys(f.name for f in inside))}", taken, "_"))
    yield replace(e, target=target, index=index, body=body, given=False)
    there = At(target, *(place if i == row else i for i in index))
    yield replace(e, body=Mul(there, *outside), kind=None, over=())


def _gathered(e: Equation, dims: dict[str, tuple[Expr, ...]]) -> tuple[At, int, list[Expr], list[Expr]] | None:
    """The gathered row of a sum, which dimension is gathered, and the factors that are summed with it and not."""
    if e.kind != "sum" or e.scale != 1 or not e.is_plain or e.target.is_integer:
        return None
    factors = list(Mul.make_args(e.body))
    for at in (f for f in factors if isinstance(f, At)):
        slots = [k for k, i in enumerate(at.index) if isinstance(i, At)]
        inside, outside = by_axes((f for f in factors if f != at), e.over)
        if len(slots) != 1 or not inside or not all(isinstance(f, At) for f in inside):
            continue
        row, places = dims[at.name][slots[0]], free_axes(at.index[slots[0]])
        own = {a for k, i in enumerate(at.index) if k != slots[0] for a in free_axes(i)}
        summed = set(e.over) <= own and all(isinstance(i, Axis) for k, i in enumerate(at.index) if k != slots[0])
        apart = not places & (own | {a for f in inside for a in free_axes(f)})
        if summed and apart and isinstance(row, Axis) and row in places and len(places) > 1:
            return at, slots[0], inside, outside
    return None
