"""Law: a tensor is what its equation says: with `p = c*exp(-z**2/2)`, `2*c*z*exp(-z**2/2) - 2*z*p` is 0.

A name hides that terms cancel. It is opened, and others with it, where fewer terms are left, or as many although one of
those opened is a sum: so a difference is never torn apart for its own sake.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Expr, Function

from derive.decisions import OPENED_TERMS, OPENED_TOGETHER
from derive.ir.algebra import normal, substitute
from derive.ir.equations import Op
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Delta, tensor_names
from derive.ir.terms.reductions import Sigma
from derive.schedule.definitions import Definition

Bodies = dict[str, tuple[tuple[Axis, ...], Expr]]
"""What names stand for, element by element."""


def bodies(op: Op) -> Bodies:
    """The equations of an op that are arithmetic element by element."""
    plain = (e for e in op.equations if e.kind is None and e.is_plain and not e.first)
    return {e.name: (e.axes, e.body) for e in plain if not isinstance(e.body, Function | At)}


def with_definitions(known: Bodies, definitions: list[Definition]) -> Bodies:
    """The same with these adjoints, where they are such arithmetic too."""
    plain = (d for d in definitions if not d.value.atoms(Sigma, Delta))
    return known | {d.name: (d.axes, d.value) for d in plain}


def opened(value: Expr, known: Bodies) -> Iterator[tuple[Expr, str]]:
    """The value with names opened where that cancels terms, those with the fewest first, and these names."""
    count = len(Add.make_args(value))
    if count < 2:
        return
    found = []
    for new, names in _ways(value, list(reversed(known)), known, ()):
        spared = count - len(Add.make_args(new))
        sums = [n for n in names if isinstance(normal(known[n][1]), Add)]
        if spared > 0 or (spared == 0 and sums):
            found.append((-spared, len(names), new, names))
    fewest = {less: min(many for other, many, *_ in found if other == less) for less, *_ in found}
    for less, many, new, names in sorted(found, key=lambda f: f[:2]):
        if many == fewest[less]:  # what cancels nothing more stays as it is named
            yield new, "; ".join(f"{n} = {known[n][1]}" for n in names)


def _ways(value: Expr, left: list[str], known: Bodies, put: tuple[str, ...]) -> Iterator[tuple[Expr, tuple[str, ...]]]:
    """The value with some of these names opened, each after those that read it, and which ones."""
    if put:
        yield value, put
    if len(put) == OPENED_TOGETHER or len(Add.make_args(value)) > OPENED_TERMS:
        return
    inside = tensor_names(value)
    for k, name in enumerate(left):
        if name in inside:
            yield from _ways(substitute(value, {name: known[name]}), left[k + 1 :], known, (*put, name))
