"""A tie with a maximum is told by the very numbers that the maximum was taken of.

The gradient of `amax(E)` goes where `E == m`. Were `E` computed again in another order, or put together from other
tensors, its last bits might differ and no place would equal `m`: a gradient of zero. So an expression under a maximum
is a tensor with a name, and such a tensor is kept as it is: unless it is one sum of two elements in every window, or of
two inputs with more axes than either, which is rounded alike whenever it is computed. So is the number of ties, where
an index tells what a maximum is taken of: it is read at that index's places.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr

from derive.ir.equations import Equation, Op
from derive.ir.placed import ties
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Placed
from derive.ir.terms.elements import At
from derive.ir.terms.names import free_name
from derive.ir.terms.windows import is_window
from derive.ir.ties import is_exact
from derive.rules.splitting import axes_of_part, own_equation

_EXTREMA = ("amax", "amin")


def name_extrema(op: Op) -> Op:
    """The same op with what every maximum and minimum is taken of as an equation of its own, where it is computed."""
    taken = op.names
    out: list[Equation] = []
    for equation in op.equations:
        if equation.kind in _EXTREMA and not (is_exact(equation.body) or _is_of_smaller(equation, op)):
            body = equation.body.args[1] if isinstance(equation.body, Placed) else equation.body
            name = free_name(f"{equation.name}_of", taken)
            out.append(own_equation(name, axes_of_part(body, equation), body, taken))
            equation = replace(equation, body=equation.body.xreplace({body: out[-1].left}))
        count = ties(equation, free_name(f"{equation.name}_ties", taken))
        if count is not None:
            taken.add(count.name)
            equation = replace(equation, ties=count.left)
        out += [equation] if count is None else [equation, count]
    return replace(op, equations=tuple(out))


def _is_of_smaller(equation: Equation, op: Op) -> bool:
    """Whether an extremum is taken of the sum or the difference of two elements, whose table is larger than either.

    One of them is read in windows, and the other is an input's; or both are inputs', of which neither has all axes. The
    sum is rounded once, and so has the same bits whenever it is computed. What is multiplied in the loop that adds it,
    as a tensor that is made might be, some compilers do not round before.
    """
    terms = Add.make_args(equation.body)
    if len(terms) != 2 or not all(is_exact(t) and t.atoms(At) for t in terms):
        return False
    slid = [at for at in equation.reads if any(_slides(i, equation) for i in at.index)]
    given = all(at in slid or op.operand(at.name) is not None for at in equation.reads)
    return given and (bool(slid) or all(free_axes(equation.body) - free_axes(t) for t in terms))


def _slides(i: Expr, equation: Equation) -> bool:
    """Whether an index is a window of which the places are the equation's own, and the taps reduced."""
    return is_window(i) and bool(free_axes(i) & set(equation.over) and free_axes(i) - set(equation.over))
