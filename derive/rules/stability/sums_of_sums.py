"""A sum of sums of exponentials, `sum(sum(exp(x[n, j, k]), over=k), over=j)`, is one sum, with one largest to take off.

So it is of means. Other sums stay: what is summed first, as each row's share of a loss, is what the backward asks for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sympy import Expr, Mul, exp

from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.elements import At, at_index


def with_sums_of_sums(op: Op) -> Op:
    """The same op without what was split off as the inner sum."""
    times = Counter(at for e in op.equations for at in e.reads)
    known: dict[str, Equation] = {}
    out: list[Equation] = []
    for e in op.equations:
        inner = _inner(e, known)
        if inner is not None and not (inner.given or inner.name in op.outputs) and _reads(times, inner.name) == 1:
            e = _joined(e, inner)
            out = [x for x in out if x.name != inner.name]
        out.append(e)
        known[e.name] = e
    return replace(op, equations=tuple(out))


def _reads(times: Counter[At], name: str) -> int:
    return sum(count for at, count in times.items() if at.name == name)


def _inner(e: Equation, known: dict[str, Equation]) -> Equation | None:
    """The sum that an equation sums, by itself."""
    if e.kind not in ("sum", "mean") or not isinstance(e.body, At) or not e.is_plain:
        return None
    inner = known.get(e.body.name)
    if inner is None or inner.kind not in ("sum", "mean") or not inner.is_plain or inner.scale != 1:
        return None
    axes = all(isinstance(i, Axis) for i in e.body.index) and len(set(e.body.index)) == len(e.body.index)
    apart = set(inner.over).isdisjoint({*e.axes, *e.over, *e.body.index})
    exponential = all(isinstance(f, exp) or f.is_number for f in Mul.make_args(inner.body))
    return inner if axes and apart and exponential else None


def _joined(e: Equation, inner: Equation) -> Equation:
    """One sum over the axes of both; a mean in a sum is divided by the places that it has."""
    body: Expr = at_index(inner.body, inner.axes, e.body.index)
    if inner.kind != e.kind:
        places = Mul(*(Size(a) for a in inner.over))
        body = body / places if inner.kind == "mean" else body * places
    return replace(e, body=body, over=(*e.over, *inner.over))
