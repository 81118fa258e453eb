"""SymPy ends here: an expression becomes program nodes, operation by operation, in reading order.

Positive terms before negative, small factors before large, negative powers as divisions. Normal forms go through
`lower_factored`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce

from sympy import Add, Basic, E, Expr, Function, Integer, Mul, Pow, Rational, S, oo, polygamma
from sympy.core.numbers import Number
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Not, Or

from derive.decisions import FAR, SQUARED
from derive.errors import OUR_FAULT, DeriveError
from derive.ir.lowering.masking import masked
from derive.ir.lowering.numbers import one_root
from derive.ir.lowering.ordering import abs_term, divides, factor_order, is_negative, ordered_terms, weight
from derive.ir.nodes.arithmetic import ONE, ZERO, by_small_powers, negated, summed
from derive.ir.nodes.other_axes import place
from derive.ir.program import (
    RELATIONS,
    Arithmetic,
    AxisValue,
    Call,
    Index,
    Merged,
    Node,
    Num,
    PartOf,
    Place,
    Read,
    Scal,
    SizeOf,
    Window,
)
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Scalar
from derive.ir.terms.functions import capped, power
from derive.ir.terms.indices import Merge, Part, Prefix, Slot
from derive.ir.terms.numbers import as_quotient
from derive.ir.terms.reductions import Reduce as SpecReduce
from derive.ir.terms.reductions import Sigma
from derive.ir.terms.windows import affine, strided
from derive.primitives import CAP

Hoist = Callable[[Expr], Node]


def index(i: Expr) -> Index:
    """An index of the notation as the program's."""
    if isinstance(i, Axis):
        return i.name
    if not isinstance(i, Merge | Part):  # those are views
        i = i.replace(lambda e: isinstance(e, Merge), strided)
    if isinstance(i, Merge | Part):
        view = _view(i)
        return view if free_axes(i) or i.atoms(At) else Window((), place(view))  # one place, which no axis moves
    if isinstance(i, Slot):
        return Place(index(i.index), node(i.length))
    if isinstance(i, At):
        return Read(i.name, tuple(index(k) for k in i.index))
    inner = {Axis(f"{_INNER}{k}"): p for k, p in enumerate(_outermost(i))}
    form = affine(i.xreplace({p: a for a, p in inner.items()}))
    if inner:
        return Arithmetic(tuple((index(inner.get(a, a)), step) for a, step in form.steps), node(form.offset))
    return Window(tuple((a.name, step) for a, step in form.steps), node(form.offset))


def _view(i: Merge | Part) -> Merged | PartOf:
    """Several axes as one, or one of those again."""
    if isinstance(i, Merge):
        return Merged(tuple(index(a) for a in i.args))
    return PartOf(index(i.whole), i.position, tuple(node(length) for length in i.lengths))


_INNER = "#"  # no axis of a spec has such a name


def _outermost(i: Basic) -> list[Basic]:
    """The parts, merges and elements of an index that stand in axis arithmetic, each once."""
    if isinstance(i, Part | Merge | At):
        return [i]
    return list(dict.fromkeys(p for a in i.args for p in _outermost(a)))


# --- expressions as they are written ----------------------------------------------------------------------


def node(expr: Basic, hoist: Hoist | None = None) -> Node:
    """An expression, operation by operation, operands in reading order; sums in it become what `hoist` makes of them.

    Raises DeriveError for what no program says.
    """
    if isinstance(expr, At | Axis | Scalar | Size | Number) or expr in (S.Pi, E):
        return _atom(expr)
    if isinstance(expr, Add | Mul | Pow):
        return _arithmetic(expr, hoist)
    if isinstance(expr, Where | Delta | Relational | And | Or | Not):
        return _choice(expr, hoist)
    if isinstance(expr, Prefix | Slot | Merge | Part):
        return place(index(expr))
    if isinstance(expr, Sigma | SpecReduce):
        if hoist is None:
            raise DeriveError(f"{expr} inside an expression was not given a name", fix=OUR_FAULT)
        return hoist(expr)
    if isinstance(expr, Function):
        return _function(expr, hoist)
    raise DeriveError(f"{expr}, a {type(expr).__name__}, has no form in a program", fix=OUR_FAULT)


def _atom(expr: Basic) -> Node:
    """A tensor at its indices, or a number of some kind."""
    if isinstance(expr, At):
        return Read(expr.name, tuple(index(i) for i in expr.index))
    if isinstance(expr, Axis):
        return AxisValue(expr.name)
    if isinstance(expr, Scalar):
        return Scal(expr.name)
    if isinstance(expr, Size):
        return SizeOf(expr.axis.name)
    return _number(expr) if isinstance(expr, Number) else Call("pi" if expr is S.Pi else "e", ())


def _arithmetic(expr: Add | Mul | Pow, hoist: Hoist | None) -> Node:
    if isinstance(expr, Mul):
        return product(list(Mul.make_args(expr)), hoist)
    if isinstance(expr, Pow):
        return Call("div", (ONE, node(1 / expr, hoist))) if divides(expr) else _power(expr.base, expr.exp, hoist)
    return _sum([(terms[0], _together(terms, hoist)) for terms in _by_number(expr)])


def _choice(expr: Basic, hoist: Hoist | None) -> Node:
    """A choice or what it asks."""
    if isinstance(expr, And | Or | Not):
        conditions = sorted(expr.args, key=lambda a: a.sort_key())
        name = "not" if isinstance(expr, Not) else type(expr).__name__.lower()
        return Call(name, tuple(node(a, hoist) for a in conditions))
    if isinstance(expr, Where) and isinstance(expr.condition, Not) and not expr.args[2].is_number:
        expr = Where(expr.condition.args[0], expr.args[2], expr.args[1])
    args = tuple(node(a, hoist) for a in expr.args)
    if isinstance(expr, Relational):
        return Call(RELATIONS[expr.rel_op], args)
    return Call("where", args if isinstance(expr, Where) else (Call("eq", args), ONE, ZERO))


def _function(expr: Function, hoist: Hoist | None) -> Node:
    if isinstance(expr, polygamma) and expr.args[0] == 0:
        return Call("digamma", (node(expr.args[1], hoist),))
    if isinstance(expr, capped):
        return Call("minimum", (node(expr.args[0], hoist), Num(Fraction(CAP))))
    name = "pow" if isinstance(expr, power) else type(expr).__name__
    return Call(name, tuple(node(a, hoist) for a in expr.args))


def _by_number(expr: Add) -> list[list[Expr]]:
    """The terms of a sum, those of tensors that one number multiplies together: SymPy has `s - 9*(1 - m)` as
    `s + 9*m - 9` at once, where a large number leaves nothing of `s`. Several large ones are together too."""
    found: dict[Expr, list[Expr]] = {}
    terms = {t: abs(t.as_coeff_Mul()[0]) for t in ordered_terms(expr)}
    near = any(number < FAR for number in terms.values())
    for t, number in terms.items():
        key = t if number == 1 else S(FAR) if near and number >= FAR else number
        found.setdefault(key, []).append(t)
    return [ts for group in found.values() for ts in ([group] if Add(*group).atoms(At) else [[t] for t in group])]


def _together(terms: list[Expr], hoist: Hoist | None) -> Node:
    """Terms as one number times their sum; all with the other sign where the first is read with a minus."""
    if len(terms) == 1:
        return node(abs_term(terms[0]), hoist)
    numbers = {abs(t.as_coeff_Mul()[0]) for t in terms}
    number = numbers.pop() if len(numbers) == 1 else S.One
    signed = -number if is_negative(terms[0]) else number
    rest = Add(*(t / signed for t in terms))
    return quotient(number, [(weight(rest), node(rest, hoist))], [])


def _number(value: Number) -> Node:
    if value is oo:
        return Num(float("inf"))
    if value is -oo:
        return Num(float("-inf"))
    if isinstance(value, Rational):
        return Num(Fraction(int(value.p), int(value.q)))
    return Num(float(value))


def _sum(parts: list[tuple[Expr, Node]]) -> Node:
    """Signed summands as a chain of additions and subtractions."""
    return signed_sum([(value, is_negative(term)) for term, value in parts])


def signed_sum(parts: list[tuple[Node, bool]]) -> Node:
    """The sum of summands, each with whether it is subtracted; the sign of the first goes to its leading number."""
    (first, minus), *others = parts
    return summed([(negated(first) if minus else first, False), *others])


def product(args: list[Expr], hoist: Hoist | None) -> Node:
    """Factors in order of size, small ones first; negative powers divide; a mask chooses between the rest and 0."""
    found = masked(args, set())
    if found.conditions:
        inner = product(list(found.factors), hoist) if found.factors else ONE
        for condition in found.conditions:
            inner = Call("where", (node(condition, hoist), inner, ZERO))
        return inner
    coefficient, others = S.One, []
    for a in args:
        if a.is_Number:
            coefficient *= a
        else:
            others.append(a)
    up = sorted((a for a in others if not divides(a)), key=factor_order)
    down = sorted((1 / a for a in others if divides(a)), key=factor_order)
    return quotient(coefficient, [(weight(a), node(a, hoist)) for a in up], [(weight(a), node(a, hoist)) for a in down])


def quotient(coefficient: Expr, up: list[tuple[int, Node]], down: list[tuple[int, Node]]) -> Node:
    """Multiply and divide from small to large, so that each operation touches no more than it must."""
    coefficient, up, down = one_root(coefficient, up, down)
    negative = coefficient.is_negative
    coefficient = abs(coefficient)
    divisor = _divisor(coefficient)
    if divisor is not None and up:
        down = [(0, Num(divisor)), *down]
    elif coefficient != 1:
        up = [(0, _number(coefficient)), *up]
    up = sorted(up, key=lambda w: w[0])
    counts: list[Node] = [n for w, n in down if w == 0 and isinstance(n, SizeOf)]
    if len(counts) > 1:  # the size of several axes together is one number
        whole = reduce(lambda a, b: Call("mul", (a, b)), counts[1:], counts[0])
        down = [(0, whole), *(step for step in down if step[1] not in counts)]
    out: Node = up[0][1] if up else ONE
    steps = [(w, 0, n) for w, n in up[1:]] + [(w, 1, n) for w, n in down]
    for _, below, value in sorted(steps, key=lambda s: (s[0], s[1])):
        out = Call("div" if below else "mul", (out, value))
    return negated(out) if negative else out


def _divisor(coefficient: Expr) -> Fraction | None:
    """What a person divides by where a number is one over it: 3, and 1.702 for 500/851."""
    if not isinstance(coefficient, Rational) or coefficient.q == 1:
        return None
    top, bottom = as_quotient(Fraction(int(coefficient.p), int(coefficient.q)))
    return bottom if top == 1 else None


def _power(base: Expr, exponent: Expr, hoist: Hoist | None) -> Node:
    if exponent == S.Half:
        return Call("sqrt", (node(base, hoist),))
    if exponent == -S.Half:
        return Call("rsqrt", (node(base, hoist),))
    if exponent == -1:
        return Call("div", (ONE, node(base, hoist)))
    if exponent.is_number and exponent.is_negative:
        return Call("div", (ONE, _power(base, -exponent, hoist)))
    if exponent.is_Rational and exponent.q == 2 and exponent > 1:
        whole = Integer(exponent - S.Half)
        return Call(
            "mul", (_power(base, whole, hoist) if whole != 1 else node(base, hoist), _power(base, S.Half, hoist))
        )
    if exponent.is_Integer and 1 < exponent <= SQUARED and base.atoms(At):
        return by_small_powers(node(base, hoist), int(exponent))
    if exponent.is_Rational and exponent.q == 4 and exponent <= SQUARED and base.atoms(At):
        root = Call("sqrt", (node(base, hoist),))
        fourth, whole = Call("sqrt", (root,)), Integer(2 * exponent - S.Half)
        return Call("mul", (by_small_powers(root, int(whole)), fourth)) if whole else fourth
    return Call("pow", (node(base, hoist), node(exponent, hoist)))
