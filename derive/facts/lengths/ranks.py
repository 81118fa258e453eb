"""Which axes two products are taken through: such a rank is short, or their matrices would have been multiplied.

Where only `sum(b[o, r] * h[n, r], over=r)` reads `h[n, r] = sum(a[r, i] * x[n, i], over=i)`, both are `x @ (b @ a).T`,
which nobody gives in two matrices but for a small `r`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Mul

from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At


def ranks(op: Op) -> Iterator[str]:
    """The axes between two products, one of which alone reads the other, that only a matrix given to each has too."""
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
