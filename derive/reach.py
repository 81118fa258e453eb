"""What windows take of the tensors they are read from, and which of a window's two axes says where it is."""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Add, Expr

from derive.equations import Op
from derive.terms import Axis, Size
from derive.windows import affine, is_window


@dataclass(frozen=True)
class Reach:
    """The places that windows take along one axis of a tensor, as an equation reads it."""

    equation: str
    tensor: str
    axis: Axis
    taken: Expr

    @property
    def length(self) -> Expr:
        return Size(self.axis)


def taps(op: Op) -> frozenset[str]:
    """The axes that an equation reduces while it keeps the other axis of a window."""
    found = set()
    for e in op.equations:
        for i in (i for at in e.reads for i in at.index if is_window(i)):
            axes = {a for a, _ in affine(i).steps}
            found |= {a.base for a in axes & set(e.over) if not axes <= set(e.over)}
    return frozenset(found)


def reaches(op: Op) -> list[Reach]:
    """What the windows of an op take, at one place along each axis whose length follows from them."""
    dims = {o.name: o.axes for o in op.operands} | {e.name: e.index for e in op.equations}
    follows = {r.axis for r in op.sizes if r.formula is not None}
    found: dict[tuple[str, Axis, Expr], Reach] = {}
    for k, e in enumerate(op.equations):
        written = next((x.name for x in op.equations[k:] if x.given), e.name)
        for at in e.reads:
            for i, d in zip(at.index, dims[at.name], strict=True):
                form = affine(i) if is_window(i) and isinstance(d, Axis) else None
                if form is None or len(form.steps) < 2 or any(step < 0 for _, step in form.steps):
                    continue
                given = [(a, step) for a, step in form.steps if a not in follows]
                taken = Add(form.offset, 1, *((Size(a) - 1) * step for a, step in given)).expand()
                found.setdefault((at.name, d, taken), Reach(written, at.name, d, taken))
    return list(found.values())
