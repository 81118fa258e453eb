"""Which axes are short, as equations tell: the tap of a window beside the place where it begins, and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from sympy import Mul

from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.windows import affine, is_gather, is_window


def taps(equations: tuple[Equation, ...]) -> frozenset[str]:
    """The axes that an equation reduces while it keeps the other axis of a window."""
    found = set()
    for e in equations:
        for i in (i for at in e.reads for i in at.index if is_window(i)):
            axes = {a for a, _ in affine(i).steps}
            found |= {a.base for a in axes & set(e.over) if not axes <= set(e.over)}
    return frozenset(found)


def queries(equations: tuple[Equation, ...]) -> frozenset[str]:
    """The axes of what is compared with all that a window has around its places, `sum(q[t, d] * k[t + w, d], over=d)`.

    An equation keeps both axes of the window there, and sums over an axis that the two tensors share. Where another
    one then sums over the axis alone, it is a tap: `sum(w[o, d, e] * x[d, j + e], over=d)`, then the sum over `e`.
    """
    found = set()
    for e in equations:
        windows = [(at, {a for a, _ in affine(i).steps}) for at in e.reads for i in at.index if is_window(i)]
        for (at, axes), other in product(windows, e.reads):
            shared = _whole_axes(at) & _whole_axes(other) & set(e.over)
            own = axes & _whole_axes(other)
            if shared and len(own) == 1 and not axes & set(e.over) and not _summed(equations, own, axes - own):
                found |= {a.base for a in own}
    return frozenset(found)


def filters(equations: tuple[Equation, ...], first: Mapping[str, int]) -> frozenset[str]:
    """The axes of filters in sums of what meets at a place, `sum(x[u] * w[k], over=(u, k))` at `2*u + k`.

    An image and its filter may change places there; `first` says which operand carries an axis first, and a filter
    comes behind what it filters.
    """
    found = set()
    for e in equations:
        for i in (i for delta in e.body.atoms(Delta) for i in delta.args if is_window(i) and not is_gather(i)):
            axes = sorted((a.base for a, _ in affine(i).steps if a in e.over), key=lambda a: first.get(a, -1))
            last = first.get(axes[-1], -1) if axes else -1
            found |= {a for a in axes if first.get(a, -1) == last and last > first.get(axes[0], -1)}
    return frozenset(found)


def _summed(equations: tuple[Equation, ...], axes: set[Axis], kept: set[Axis]) -> bool:
    """Whether an equation reduces the axes and keeps the others."""
    return any(axes <= set(e.over) and kept <= set(e.axes) for e in equations)


def _whole_axes(at: At) -> set[Axis]:
    return {i for i in at.index if isinstance(i, Axis)}


def ranks(op: Op) -> Iterator[str]:
    """The axes between two products, one of which alone reads the other, that only a matrix given to each has too.

    Where only `sum(b[o, r] * h[n, r], over=r)` reads `h[n, r] = sum(a[r, i] * x[n, i], over=i)`, both are
    `x @ (b @ a).T`, which nobody gives in two matrices but for a small `r`: such a rank is short.
    """
    given = {o.name for o in op.operands if o.is_tensor}
    for inner in op.equations:
        readers = [e for e in op.equations if any(at.name == inner.name for at in e.reads)]
        if inner.name in op.outputs or len(readers) != 1:
            continue
        (outer,) = readers
        for rank in (a for a in outer.over if a in inner.axes):
            matrices = {_matrix(e, rank, given) for e in (inner, outer)}
            holding = {at.name for e in op.equations for at in e.reads if rank in at.index}
            if None not in matrices and holding == {inner.name, *matrices}:
                yield rank.base


def _matrix(equation: Equation, rank: Axis, given: set[str]) -> str | None:
    """The given matrix with this axis, of two tensors that an equation multiplies and sums; None where it does not."""
    factors = Mul.make_args(equation.body) if equation.kind == "sum" else ()
    ats = [f for f in factors if isinstance(f, At)]
    own = [at.name for at in ats if rank in at.index and at.name in given and len(at.index) == 2]
    return own[0] if len(own) == 1 and len(ats) == len(factors) == 2 else None
