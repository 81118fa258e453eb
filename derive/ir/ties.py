"""The tensors that a tie is told by: none of their elements is computed again in another way."""

from __future__ import annotations

from functools import lru_cache

from sympy import Expr, Mul, S

from derive.ir.equations import Op
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, tensor_names
from derive.ir.terms.kinks import KINKS

_EXTREMA = ("amax", "amin")


@lru_cache(maxsize=64)
def compared(op: Op) -> frozenset[str]:
    """The tensors whose very elements a tie is told by: those under a maximum, and those that are chosen from."""
    exact = {e.name: e for e in op.equations if e.kind is None and is_exact(e.body)}
    found: set[str] = set()
    pending = [name for e in op.equations if e.kind in _EXTREMA for name in tensor_names(e.body)]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += tensor_names(exact[name].body) if name in exact else ()
    return frozenset(found)


def is_exact(expr: Expr) -> bool:
    """Whether an expression only chooses among elements, so that it has the same bits whenever it is computed."""
    if isinstance(expr, At) or not expr.atoms(At):
        return True
    if isinstance(expr, Where):
        return all(is_exact(a) for a in expr.args[1:])
    if isinstance(expr, Mul):
        return len(expr.args) == 2 and expr.args[0] is S.NegativeOne and is_exact(expr.args[1])
    return isinstance(expr, KINKS) and all(is_exact(a) for a in expr.args)
