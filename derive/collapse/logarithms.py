"""Laws: a log-sum-exp is taken off in two parts, and what is the exponential of a logarithm is a quotient.

`q = z - l` with `l = m + log(s)` is `z - m - log(s)`, in which the one difference is what `s` is made of; then `exp(q)`
is known to sum to 1. And `p = exp(z - l)` is `exp(z - m) / s`. Both keep digits where `z` is large.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Basic, Expr, Function, Mul, default_sort_key, exp, expand_mul, log
from sympy.logic.boolalg import Boolean

from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, at_index


def logarithms_apart(op: Op) -> Op:
    """The same op with `z - l` as `z - m - log(s)`, where `l = m + log(s)` and another equation has `exp(z - m)`."""
    logarithms = _logarithms(op)
    present = {f.args[0] for e in op.equations for f in e.body.atoms(exp)}

    def apart(difference: Add) -> Expr:
        read = [at for at in difference.atoms(At) if at.name in logarithms and -at in difference.args]
        whole = _opened(difference, logarithms)
        rest = Add(*(t for t in Add.make_args(whole) if not _is_log(t)))
        small = len(read) == 1 and free_axes(read[0]) < free_axes(rest)
        return whole if small and rest in present else difference

    changed = {d: new for e in op.equations for d in _differences(e.body) if (new := apart(d)) != d}
    return _put(op, changed)


def without_logarithms(op: Op) -> Op:
    """The same op with `exp(a - log(s))` as `exp(a) / s`, where another equation has `exp(a)`."""
    logarithms = _logarithms(op)
    present = {f for e in op.equations for f in e.body.atoms(exp)}
    known = {expand_mul(f.args[0]): f for f in sorted(present, key=default_sort_key)}

    def unlogged(f: Expr) -> Expr:
        whole = f.args[0]
        for _ in logarithms:  # each may read another
            whole = _opened(whole, logarithms)
        logs = [t for t in Add.make_args(whole) if _is_log(t)]
        rest = known.get(expand_mul(Add(*(t for t in Add.make_args(whole) if t not in logs))))
        if not logs or rest is None or not all(t.as_coeff_Mul()[0].is_Integer for t in logs):
            return f
        return rest * Mul(*(t.as_coeff_Mul()[1].args[0] ** t.as_coeff_Mul()[0] for t in logs))

    return _put(op, {f: new for f in present if f.atoms(At) and (new := unlogged(f)) != f})


def _logarithms(op: Op) -> dict[str, Equation]:
    """The equations, element by element, that hold a logarithm."""
    return {e.name: e for e in op.equations if e.kind is None and e.is_plain and e.body.atoms(log)}


def _opened(whole: Expr, known: dict[str, Equation]) -> Expr:
    """A sum with the elements of these equations by what they are equal to."""
    plain = (at for at in whole.atoms(At) if all(isinstance(i, Axis) for i in at.index) and at.name in known)
    values = {at: at_index(known[at.name].body, known[at.name].axes, at.index) for at in plain}
    return expand_mul(whole.xreplace(values)) if values else whole


def _is_log(term: Expr) -> bool:
    return isinstance(term.as_coeff_Mul()[1], log)


def _differences(expr: Basic) -> list[Add]:
    """The sums in an expression that no function is of and no condition asks for, which is told by the very numbers."""
    if isinstance(expr, Add):
        return [expr]
    return [] if isinstance(expr, Function | Boolean) else [d for a in expr.args for d in _differences(a)]


def _put(op: Op, changed: dict[Expr, Expr]) -> Op:
    if not changed:
        return op
    return replace(op, equations=tuple(replace(e, body=e.body.xreplace(changed)) for e in op.equations))
