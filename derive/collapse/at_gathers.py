"""Law: what is only read at gathered places is made there: `log(q)[n, y[n]]` is `log(q[n, y[n]])`.

`pr[n, i] = cdf[n, i + 1] - cdf[n, i]`, read as `pr[n, y[n]]` alone, is a tensor over `n`; what only it reads, as `cdf`,
goes with it. The adjoints of what is not there would be zeros, added up and multiplied. A tensor that is read at
another place of the gathered axis, `cut[i + 1]`, is read through a view, `cut_at[i] = cut[i + 1]`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sympy import Expr

from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Concat, Placed
from derive.ir.terms.elements import At, Delta, Tensor, reads_of
from derive.ir.terms.indices import Merge
from derive.ir.terms.names import new_name


def at_gathers(op: Op) -> Op:
    """The same op with such equations at the places where they are read."""
    if op.stepwise:  # every tensor that the spec names has a gradient then
        return op
    for equation in reversed(op.equations):
        op = _at_its_place(op, equation.name)
    return op


def _at_its_place(op: Op, name: str) -> Op:
    """The op with an equation at the one gathered place where it is read; as it is, where there is none such."""
    equation, place = op.equation(name), _only_place(op, name)
    if equation is None or place is None or not _may_move(op, equation) or equation.kind not in (None, "sum", "mean"):
        return op
    put = {a: i for a, i in zip(equation.axes, place.index, strict=True) if a != i}
    if free_axes(place) & set(equation.over):
        return op
    body, inner = _with_inner(op, equation, {a for a, i in put.items() if not isinstance(i, Axis)})
    body, views = _with_views(op, body, set(put))
    if free_axes(body.xreplace({at: Tensor(at.name) for at in body.atoms(At)})) & set(put):
        return op  # its places count as numbers
    axes = tuple(dict.fromkeys(a for i in place.index for a in _axes(i)))
    moved = replace(equation, index=axes, body=body.xreplace(put))
    read = At(equation.target, *axes)
    known = {e.name for e in op.equations[: op.equations.index(equation)]} | {o.name for o in op.operands}
    wanted = {at.name for at in place.atoms(At)} - {name} - known  # an index may be defined later
    out: list[Equation] = []
    for e in op.equations:
        if moved not in out and (place in e.body.atoms(At) or (e == equation and not wanted)):
            out += [*views, moved]
        if e.name not in {name, *inner}:
            out.append(replace(e, body=e.body.xreplace({place: read})))
    return replace(op, equations=tuple(out))


def _only_place(op: Op, name: str) -> At | None:
    """The one place, gathered and with fewer axes than the tensor, where a tensor is read."""
    places = {at for e in op.equations for at in e.reads if at.name == name}
    if len(places) != 1:
        return None
    (place,) = places
    gathers = [i for i in place.index if isinstance(i, At) and all(isinstance(a, Axis) for a in i.index)]
    plain = [i for i in place.index if isinstance(i, Axis)]
    fewer = len(free_axes(place)) < len(place.index) == len(gathers) + len(plain)
    return place if gathers and fewer and len(set(plain)) == len(plain) else None


def _may_move(op: Op, equation: Equation) -> bool:
    """Whether every element is made of elements in its own place, and nobody asks for the whole."""
    whole = equation.body.atoms(Concat, Placed, Delta) or equation.name in op.outputs or equation.ties is not None
    return equation.is_plain and not whole and not equation.target.is_integer


def _with_inner(op: Op, equation: Equation, gathered: set[Axis]) -> tuple[Expr, set[str]]:
    """The body with what it alone reads along the gathered axes in its place, and the names of that."""
    body, inner = equation.body, set[str]()
    readers = Counter(n for e in op.equations for n in {at.name for at in e.reads})
    while True:
        own = [at for at in reads_of(body) if free_axes(at) & gathered]
        names = {at.name for at in body.atoms(At) if at not in own}  # read at other places as well
        single = (at for at in own if readers[at.name] == 1 and at.name not in names and _is_pointwise(op, at.name))
        one = next((at for at in single if _may_be_put(op, own, at.name)), None)
        if one is None:
            return body, inner
        source = op.equation(one.name)
        assert source is not None
        for at in (at for at in own if at.name == one.name):
            body = body.xreplace({at: source.at(at.index)})
        readers.update(n for n in {at.name for at in source.reads} if n not in {a.name for a in equation.reads})
        readers.subtract({at.name for at in source.reads})
        inner.add(one.name)


def _may_be_put(op: Op, read: list[At], name: str) -> bool:
    """Whether the equation may be taken where the tensor is read: no merged axis is made of other places than axes."""
    source = op.equation(name)
    assert source is not None
    merged = {a for m in source.body.atoms(Merge) for a in free_axes(m)}
    indices = (pair for at in read if at.name == name for pair in zip(source.axes, at.index, strict=True))
    return all(a not in merged or isinstance(i, Axis) for a, i in indices)


def _is_pointwise(op: Op, name: str) -> bool:
    equation = op.equation(name)
    return equation is not None and equation.kind is None and _may_move(op, equation)


def _with_views(op: Op, body: Expr, moved: set[Axis]) -> tuple[Expr, list[Equation]]:
    """The body with plain reads along the axes that move, and the equations of the views which they are of."""
    views: list[Equation] = []
    taken = op.names
    for at in reads_of(body):
        if not any(free_axes(i) & moved and not _may_be_put_in(i) for i in at.index):
            continue
        axes = tuple(dict.fromkeys(a for i in at.index for a in _axes(i)))
        name = new_name(f"{at.name}_at", taken)
        views.append(Equation(Tensor(name), axes, at, given=False))
        body = body.xreplace({at: At(views[-1].target, *axes)})
    return body, views


def _may_be_put_in(index: Expr) -> bool:
    """Whether it is an axis, or an integer tensor at plain axes: a place may be put there."""
    return isinstance(index, Axis) or (isinstance(index, At) and all(isinstance(i, Axis) for i in index.index))


def _axes(index: Expr) -> tuple[Axis, ...]:
    """The axes of one index, in order."""
    return (index,) if isinstance(index, Axis) else tuple(sorted(free_axes(index), key=lambda a: a.sort_key()))
