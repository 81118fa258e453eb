"""One operation an equation: a reduction nested inside something else becomes an equation of its own."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from sympy import Basic, Expr, Function, Mul, Pow, S

from derive.errors import DeriveError
from derive.facts.interpreter import signs
from derive.ir.equations import Equation, Op, Operand
from derive.ir.terms.axes import PACK, Axis, free_axes, in_all_orders, sorted_axes
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Tensor, reads_of
from derive.ir.terms.indices import Merge
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Reduce, TakenFirst
from derive.ir.terms.windows import is_window


def scaled_reduction(rhs: Expr) -> tuple[Expr, Reduce] | None:
    """`rhs` as a tensor-free scale times one reduction, where it is one."""
    if isinstance(rhs, Reduce):
        return S.One, rhs
    if isinstance(rhs, Mul):
        reduces = [a for a in rhs.args if isinstance(a, Reduce)]
        rest = [a for a in rhs.args if not isinstance(a, Reduce)]
        if len(reduces) == 1 and reduces[0].kind in ("sum", "mean"):
            scale = Mul(*rest)
            if not scale.atoms(At, Reduce, Axis):
                return scale, reduces[0]
    return None


def _nested(expr: Basic) -> list[Reduce | TakenFirst]:
    """Innermost reductions and sums that are taken first, in a fixed order."""
    found = (r for r in expr.atoms(Reduce, TakenFirst) if not r.body.atoms(Reduce, TakenFirst))
    return sorted(found, key=lambda r: r.sort_key())


def split_name(target: str, reduce: Reduce | TakenFirst, taken: set[str]) -> str:
    """A name for what is split off: after what it reduces, else after the equation it comes from."""
    body = reduce.body
    if isinstance(reduce, TakenFirst):
        return free_name(_name_of_sum(reduce.body) or f"{target}_sum", taken)
    stem = body.name if isinstance(body, At) else target
    return free_name(f"{stem}_{reduce.kind.removeprefix('a')}", taken)


def _name_of_sum(total: Expr) -> str | None:
    """`one_minus_p`, `u_minus_v`; nothing for a sum of more, or of another number."""
    plus, minus = sorted(total.args[:2], key=lambda t: t.could_extract_minus_sign())
    if len(total.args) == 2 and isinstance(plus, At) and isinstance(-minus, At):
        return f"{plus.name}_minus_{(-minus).name}"
    if len(total.args) != 2 or S.One not in total.args:
        return None
    sign, term = next(t for t in total.args if t != 1).as_coeff_Mul()
    words = {S.One: "plus", S.NegativeOne: "minus"}
    square = isinstance(term, Pow) and term.exp == 2
    of = term.args[0] if square or isinstance(term, Function) else term
    if sign not in words or not isinstance(of, At):
        return None
    inner = f"{of.name}_squared" if square else of.name if of == term else f"{term.func.__name__}_{of.name}"
    return f"one_{words[sign]}_{inner}"


def order_axes(axes: Set[Axis], like: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Axes in the order they stand on the left, the others after them by name; `...` in front where it is another.

    Each once: on a diagonal, `s[n, n]`, one stands twice.
    """
    ordered = ([PACK] if PACK in axes and PACK not in like else []) + [a for a in dict.fromkeys(like) if a in axes]
    return tuple(ordered + sorted_axes(axes - set(ordered)))


def axes_of_part(part: Expr, equation: Equation) -> tuple[Axis, ...]:
    """The axes of what is named inside an equation: as a tensor that has them all, else as the equation has its own.

    What that sums stands so that no tensor is transposed, where it may: `b[k, d] - x[n, d]` inside of `y[n, d]` is
    `n k d`. `...` broadcasts in front.
    """
    free = free_axes(part)
    orders = [tuple(dict.fromkeys(a for i in at.index if (a := _along(i)) is not None)) for at in reads_of(part)]
    whole = next((order for order in orders if set(order) == free), None)
    if whole is not None:
        return order_axes(free, whole)
    own = in_all_orders([a for a in equation.axes if a in free], orders) or (*equation.axes, *equation.over)
    return order_axes(free, tuple(dict.fromkeys(sorted(own, key=lambda a: not a.is_pack))))


def _along(index: Expr) -> Axis | None:
    """The axis that a dimension is read by, place after place: itself, or a window of it alone."""
    if isinstance(index, Axis):
        return index
    axes = free_axes(index) if is_window(index) else frozenset()
    return next(iter(axes)) if len(axes) == 1 else None


def _axes_of_reduction(
    reduce: Reduce | TakenFirst, left: tuple[Axis, ...], beside: Expr, written: Sequence[At]
) -> tuple[Axis, ...]:
    """The axes of what is split off, as they stand on the left where that has them all, or in a tensor that it meets.

    Else as a product of matrices has them, without a transpose: an operand that is summed along its first axis
    stands on the right, and of two that are not, the one that is `written` first on the left.
    """
    axes = free_axes(reduce.body) - set(reduce.over)
    if axes <= set(left):
        return order_axes(axes, left)
    met = [at.index for at in _as_written(beside, written) if axes <= set(at.index)]
    if met:
        return order_axes(axes, tuple(a for a in met[0] if isinstance(a, Axis)))
    operands = _as_written(reduce.body, written)
    operands.sort(key=lambda at: bool(at.index) and at.index[0] in reduce.over)
    natural = dict.fromkeys(a for at in operands for i in at.index for a in (i.args if isinstance(i, Merge) else (i,)))
    return order_axes(axes, tuple(sorted((a for a in natural if a in axes), key=lambda a: a != PACK)))


def _as_written(expr: Expr, written: Sequence[At]) -> list[At]:
    """The reads of an expression in the order in which the author wrote them; others behind, in a fixed order."""
    places = {str(at): k for k, at in reversed(list(enumerate(written)))}
    found = reads_of(expr)
    return sorted(found, key=lambda at: places.get(str(at), len(written)))


def split(
    target: Tensor, index: tuple[Expr, ...], rhs: Expr, taken: set[str], written: Sequence[At] = ()
) -> list[Equation]:
    """The equations that `target[index] = rhs` stands for: nested reductions first, each under a name of its own.

    `written` are the reads in the order of the spec, which SymPy's products and sums have lost.
    """
    left = tuple(a for i in index for a in (i.args if isinstance(i, Merge) else (i,)))
    out: list[Equation] = []
    taken = set(taken) | {target.name}
    plain = all(isinstance(i, Axis) for i in index)
    if joined := next((r for r in _nested(rhs) if r.body.atoms(Concat)), None):
        raise DeriveError(
            f"{joined} joins pieces inside of a reduction", equation=target.name,
            fix="give what is joined an equation of its own: f.a[…, k] = concat(…, along=k)",
        )  # fmt: skip
    while isinstance(rhs, Concat) and (inner := _nested(rhs)):
        rhs = _split_off(target, left, rhs, inner[0], taken, out, written)
    if isinstance(rhs, Concat) and plain:
        return [*out, _concatenation(target, index, rhs, left)]
    if isinstance(rhs, Concat):
        whole = Tensor(free_name(f"{target.name}_apart", taken), **signs(rhs))
        apart = _concatenation(whole, left, rhs, left)
        return [*out, replace(apart, given=False), Equation(target, index, At(whole, *left))]
    while True:
        top = scaled_reduction(rhs) if plain else None
        inner = [r for r in _nested(rhs) if top is None or r != top[1]]
        if not inner:
            break
        rhs = _split_off(target, left, rhs, inner[0], taken, out, written)
    top = scaled_reduction(rhs) if plain else None
    if top is not None:
        scale, reduce = top
        out.append(Equation(target, index, reduce.body, reduce.kind, reduce.over, scale))
    else:
        out.append(Equation(target, index, rhs))
    return out


def _split_off(
    target: Tensor,
    left: tuple[Axis, ...],
    rhs: Expr,
    reduce: Reduce | TakenFirst,
    taken: set[str],
    out: list[Equation],
    written: Sequence[At],
) -> Expr:
    """The right side with one reduction, or sum, read by name; its equation is added to `out`.

    A number that scales it as a branch of a choice is part of it: the adjoint is scaled where it is small, and not
    under the mask.
    """
    axes = _axes_of_reduction(reduce, left, rhs.xreplace({reduce: S.One}), written)
    value = reduce.body if isinstance(reduce, TakenFirst) else reduce
    made = own_equation(split_name(target.name, reduce, taken), axes, value, taken)
    out.append(replace(made, first=isinstance(reduce, TakenFirst)))
    chosen = {b: found for w in rhs.atoms(Where) for b in w.args[1:] if (found := scaled_reduction(b)) is not None}
    for branch, (scale, inner) in chosen.items():
        if inner == reduce and scale != 1 and not rhs.xreplace({branch: S.One}).has(reduce):
            out[-1] = replace(made, scale=scale)
            return rhs.xreplace({branch: made.left})
    return rhs.xreplace({reduce: out[-1].left})


def own_equation(name: str, axes: tuple[Axis, ...], value: Expr, taken: set[str]) -> Equation:
    """An equation that nobody wrote, for a part of another's right side, under a name that is taken from now on."""
    taken.add(name)
    target = Tensor(name, **signs(value))
    if isinstance(value, Reduce):
        return Equation(target, axes, value.body, value.kind, value.over, given=False)
    return Equation(target, axes, value, given=False)


def conditions_split(
    target: Tensor, left: tuple[Axis, ...], rhs: Expr, taken: set[str], written: Sequence[At]
) -> tuple[Expr, list[Equation]]:
    """The right side with the reductions inside conditions read by name, and their equations."""
    out: list[Equation] = []
    taken = set(taken) | {target.name}
    while inner := [r for w in sorted(rhs.atoms(Where), key=lambda w: w.sort_key()) for r in _nested(w.condition)]:
        rhs = _split_off(target, left, rhs, inner[0], taken, out, written)
    return rhs, out


def taken_apart(rhs: Expr, known: list[Equation], taken: set[str]) -> tuple[Expr, list[Equation]]:
    """Reads that take a dimension apart inside an expression become equations of their own, which are views.

    Its adjoint is then computed over the parts, and merged as a whole.
    """
    made: list[Equation] = []
    put: dict[Basic, Basic] = {}
    for at in reads_of(rhs):
        axes = tuple(a for i in at.index for a in (i.args if isinstance(i, Merge) else (i,)))
        if axes == at.index or not all(isinstance(a, Axis) for a in axes) or len(set(axes)) != len(axes):
            continue
        same = next((e for e in (*known, *made) if e.body == at and e.index == axes), None)
        if same is None:
            name = free_name(f"{at.name}_apart", taken | {e.name for e in made})
            same = Equation(Tensor(name, **signs(at)), axes, at)
            made.append(replace(same, given=False))
        put[at] = At(same.target, *axes)
    return rhs.xreplace(put), made


def places_apart(equations: Sequence[Equation], operands: Sequence[Operand]) -> list[Equation]:
    """The equations with axes of their own for joined pieces of one place: none has the name of an axis of the op."""
    invented = {e.name: _single_places(e) for e in equations}
    known = {a.base for o in operands for a in (*o.axes, *((o.ranges_over,) if o.ranges_over is not None else ()))}
    for e in equations:
        found = {*e.body.atoms(Axis), *e.axes, *(a for a in e.over if a not in invented[e.name])}
        known |= {a.base for a in found}
    out = []
    for e in equations:
        names = {a: a.renamed(free_name(a.base, known, "_")) for a in invented[e.name]}
        out.append(replace(e, over=tuple(names.get(a, a) for a in e.over)) if names else e)
    return out


def _single_places(e: Equation) -> list[Axis]:
    """The axes of joined pieces that are one place, which nobody wrote."""
    if not isinstance(e.body, Concat):
        return []
    return [a for a, piece in zip(e.over, e.body.pieces, strict=True) if a.fixed == 1 and a not in free_axes(piece)]


def _concatenation(target: Tensor, index: tuple[Expr, ...], rhs: Concat, left: tuple[Axis, ...]) -> Equation:
    own: list[Axis] = []
    for piece in rhs.pieces:
        axis = rhs.own_axis(piece, left)
        if axis is None and free_axes(piece) <= set(left) - {rhs.along}:
            axis = Axis(f"{rhs.along.base}_{len(own)}", fixed=1)  # one place
        if axis is None or piece.atoms(Reduce, Concat) or rhs.along not in left:
            raise DeriveError(
                f"{piece} is no piece along {rhs.along.base}",
                equation=target.name,
                fix=f"give each piece one axis that does not stand on the left, in place of {rhs.along.base}",
            )
        if axis == rhs.along:
            raise DeriveError(
                f"{piece} runs over {axis.base}, the axis that the pieces are joined along",
                equation=target.name,
                fix=f"join along an axis of another name: f.{target.name}[…, k] = concat(…, along=k)",
            )
        own.append(axis)
    return Equation(target, index, rhs, "concat", tuple(own))


def without_unread(op: Op, before: Op) -> Op:
    """The op without what nothing reads any more, as exponentials that are too large."""
    while True:
        read, was = ({at.name for e in o.equations for at in e.reads} for o in (op, before))
        rest = tuple(e for e in op.equations if e.name in {*read, *op.outputs} or e.name not in was)
        if len(rest) == len(op.equations):
            return op
        op = replace(op, equations=rest)
