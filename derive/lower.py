"""SymPy ends here: expressions become program nodes, factored so that few passes touch large tensors.

A normal form is a sum of products. `factored` takes it apart again the way a person writes it: what is common to all
terms in front, small factors multiplied together before they meet a large one, a large factor that several terms
share taken out of them (Horner). Nothing here knows an op; sizes of axes are the only guide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sympy import Add, Basic, E, Expr, Function, Integer, Mul, Pow, Rational, S, gcd, oo
from sympy.core.numbers import Number
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Not, Or

from derive.functions import power
from derive.program import AxisValue, Call, Index, Merged, Node, Num, PartOf, Read, Scal, SizeOf, Window
from derive.terms import At, Axis, Delta, Merge, Part, Scalar, Sigma, Size, Where, free_axes
from derive.terms import Reduce as SpecReduce
from derive.windows import affine

ONE = Num(Fraction(1))
ZERO = Num(Fraction(0))
_RELATIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}

Hoist = Callable[[Expr], Node]


def index(i: Expr) -> Index:
    """An index of the notation as the program's."""
    if isinstance(i, Axis):
        return i.name
    if isinstance(i, Merge):
        return Merged(tuple(index(a) for a in i.args))
    if isinstance(i, Part):
        return PartOf(index(i.whole), i.position, tuple(node(length) for length in i.lengths))
    if isinstance(i, At):
        return Read(i.name, tuple(index(k) for k in i.index))
    form = affine(i)
    return Window(tuple((a.name, step) for a, step in form.steps), node(form.offset))


def weight(expr: Basic) -> int:
    """How many axes an expression runs over; `...` counts as one."""
    return len(free_axes(expr))


# --- expressions as they are written ----------------------------------------------------------------------


def node(expr: Basic, hoist: Hoist | None = None) -> Node:
    """An expression, operation by operation, operands in reading order."""
    if isinstance(expr, At):
        return Read(expr.name, tuple(index(i) for i in expr.index))
    if isinstance(expr, Axis):
        return AxisValue(expr.name)
    if isinstance(expr, Scalar):
        return Scal(expr.name)
    if isinstance(expr, Size):
        return SizeOf(expr.axis.name)
    if isinstance(expr, Number):
        return _number(expr)
    if expr is S.Pi:
        return Call("pi", ())
    if expr is E:
        return Call("e", ())
    if isinstance(expr, Add):
        return _sum([(t, node(abs_term(t), hoist)) for t in ordered_terms(expr)])
    if isinstance(expr, Mul):
        return product(list(Mul.make_args(expr)), hoist)
    if isinstance(expr, Pow):
        return Call("div", (ONE, node(1 / expr, hoist))) if _divides(expr) else _power(expr.base, expr.exp, hoist)
    if isinstance(expr, Where):
        condition, a, b = (node(x, hoist) for x in expr.args)
        return Call("where", (condition, a, b))
    if isinstance(expr, Delta):
        return Call("where", (Call("eq", (node(expr.args[0], hoist), node(expr.args[1], hoist))), ONE, ZERO))
    if isinstance(expr, Relational):
        return Call(_RELATIONS[expr.rel_op], (node(expr.lhs, hoist), node(expr.rhs, hoist)))
    if isinstance(expr, And | Or | Not):
        return Call(
            type(expr).__name__.lower(), tuple(node(a, hoist) for a in sorted(expr.args, key=lambda a: a.sort_key()))
        )
    if isinstance(expr, Sigma | SpecReduce):
        if hoist is None:
            raise AssertionError(f"a sum inside an expression was not given a name: {expr}")
        return hoist(expr)
    if isinstance(expr, power):
        return Call("pow", (node(expr.args[0], hoist), node(expr.args[1], hoist)))
    if isinstance(expr, Function):
        return Call(type(expr).__name__, tuple(node(a, hoist) for a in expr.args))
    raise AssertionError(f"no program form for {type(expr).__name__}: {expr}")


def _number(value: Number) -> Node:
    if value is oo:
        return Num(float("inf"))
    if value is -oo:
        return Num(float("-inf"))
    if isinstance(value, Rational):
        return Num(Fraction(int(value.p), int(value.q)))
    return Num(float(value))


def is_negative(term: Expr) -> bool:
    return bool(term.could_extract_minus_sign()) and term.as_coeff_Mul()[0].is_negative is True


def abs_term(term: Expr) -> Expr:
    return -term if is_negative(term) else term


def ordered_terms(expr: Expr) -> list[Expr]:
    """Summands in reading order: positive before negative, the larger before the smaller.

    A subtracted tensor comes before a subtracted function: `z - m - log(s)` cancels `z - m` exactly first, where
    `z - log(s) - m` would lose `log(s)` beside a large `z`.
    """
    return sorted(Add.make_args(expr), key=_term_order)


def _term_order(term: Expr) -> tuple[object, ...]:
    negative = is_negative(term)
    inside = any(isinstance(f, Function) for f in Mul.make_args(term))
    alone = len(Mul.make_args(abs_term(term))) == 1
    return (negative, negative and inside, -weight(term), alone, term.sort_key())


def _sum(parts: list[tuple[Expr, Node]]) -> Node:
    """Signed summands as a chain of additions and subtractions."""
    first, out = parts[0]
    if is_negative(first):
        out = negated(out)
    for term, value in parts[1:]:
        out = Call("sub" if is_negative(term) else "add", (out, value))
    return out


def negated(value: Node) -> Node:
    """Minus a node; the sign goes to a leading number where there is one."""
    if isinstance(value, Num):
        return Num(-value.value)
    if isinstance(value, Call) and value.fn in ("mul", "div") and isinstance(_first(value), Num):
        return Call(value.fn, (negated(value.args[0]), value.args[1]))
    return Call("neg", (value,))


def _first(value: Node) -> Node:
    """The leading factor of a chain of products and quotients."""
    return _first(value.args[0]) if isinstance(value, Call) and value.fn in ("mul", "div") else value


def product(args: list[Expr], hoist: Hoist | None) -> Node:
    """Factors in order of size, small ones first; negative powers divide; a mask chooses between the rest and 0."""
    masks = [a for a in args if isinstance(a, Where) and a.is_mask]
    if masks:
        rest = [a for a in args if a not in masks]
        inner = product(rest, hoist) if rest else ONE
        for mask in masks:
            inner = Call("where", (node(mask.condition, hoist), inner, ZERO))
        return inner
    coefficient, others = S.One, []
    for a in args:
        if a.is_Number:
            coefficient *= a
        else:
            others.append(a)
    up = sorted((a for a in others if not _divides(a)), key=_factor_order)
    down = sorted((1 / a for a in others if _divides(a)), key=_factor_order)
    return _quotient(
        coefficient, [(weight(a), node(a, hoist)) for a in up], [(weight(a), node(a, hoist)) for a in down]
    )


def _quotient(coefficient: Expr, up: list[tuple[int, Node]], down: list[tuple[int, Node]]) -> Node:
    """Multiply and divide from small to large, so that each operation touches no more than it must."""
    negative = coefficient.is_negative
    coefficient = abs(coefficient)
    if isinstance(coefficient, Rational) and coefficient.p == 1 and coefficient.q != 1 and up:
        down = [(0, _number(Integer(coefficient.q))), *down]
    elif coefficient != 1:
        up = [(0, _number(coefficient)), *up]
    up = sorted(up, key=lambda w: w[0])
    out: Node = up[0][1] if up else ONE
    steps = [(w, 0, n) for w, n in up[1:]] + [(w, 1, n) for w, n in down]
    for _, divides, value in sorted(steps, key=lambda s: (s[0], s[1])):
        out = Call("div" if divides else "mul", (out, value))
    return negated(out) if negative else out


def _divides(a: Expr) -> bool:
    """Whether a factor is written as a division; `x**(-1/2)` of a tensor is `rsqrt`, a multiplication."""
    if not isinstance(a, Pow) or not a.exp.is_number or not a.exp.is_negative:
        return False
    return a.exp != -S.Half or not a.atoms(At)


def _factor_order(a: Expr) -> tuple[object, ...]:
    return (weight(a), not a.is_Symbol, not isinstance(a, Size), isinstance(a, Add), a.sort_key())


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
    return Call("pow", (node(base, hoist), node(exponent, hoist)))


# --- normal forms, factored -------------------------------------------------------------------------------


def factored(expr: Expr, hoist: Hoist) -> Node:
    """A normal form with few operations on large tensors."""
    return _product_node(factor(expr), hoist)


@dataclass(frozen=True)
class Product:
    """`number * powers * sums`: one summand, its nested sums already factored."""

    number: Rational
    powers: tuple[Expr, ...]
    sums: tuple[Sum, ...] = ()


@dataclass(frozen=True)
class Sum:
    """Summands, in reading order."""

    parts: tuple[Product, ...]


def factor(expr: Expr) -> Product:
    """The shape in which a normal form is written down."""
    return _factor([_Term.of(t) for t in ordered_terms(expr)])


@dataclass(frozen=True)
class _Term:
    """One product as its number and the exponent of each base."""

    number: Expr
    powers: tuple[tuple[Expr, Expr], ...]

    @staticmethod
    def of(term: Expr) -> _Term:
        number, powers = S.One, {}
        for f in Mul.make_args(term):
            b, e = f.as_base_exp()
            if f.is_Number:
                number *= f
            elif e.is_Rational:
                powers[b] = e
            else:
                powers[f] = S.One
        return _Term(number, tuple(powers.items()))

    def over(self, number: Expr, powers: dict[Expr, Expr]) -> _Term:
        left = {b: e - powers.get(b, S.Zero) for b, e in self.powers}
        return _Term(self.number / number, tuple((b, e) for b, e in left.items() if e != 0))

    def has(self, b: Expr, e: Expr) -> bool:
        mine = dict(self.powers).get(b, S.Zero)
        return bool(mine * e > 0)

    @property
    def product(self) -> Product:
        return Product(self.number, tuple(Pow(b, e) for b, e in self.powers))


def _factor(terms: list[_Term]) -> Product:
    if len(terms) == 1:
        return terms[0].product
    number, common = common_factor(terms)
    rest = [t.over(number, common) for t in terms]
    inner = _shared_out(rest)
    if number == 1 and not common:
        return Product(S.One, (), (inner,))
    return Product(number, tuple(Pow(b, e) for b, e in common.items()), (inner,))


def _shared_out(terms: list[_Term]) -> Sum:
    """Horner's step: group the terms that share a large factor, until no grouping spares an operation."""
    shared = _best_shared(terms)
    if shared is None:
        return Sum(tuple(t.product for t in terms))
    b, e = shared
    inside = [t.over(S.One, {b: e}) for t in terms if t.has(b, e)]
    outside = [t for t in terms if not t.has(b, e)]
    grouped = _factor(inside)
    grouped = Product(grouped.number, (Pow(b, e), *grouped.powers), grouped.sums)
    if not outside:
        return Sum((grouped,))
    return Sum((*_shared_out(outside).parts, grouped))


def common_factor(terms: list[_Term]) -> tuple[Expr, dict[Expr, Expr]]:
    """What every term has: numbers by their greatest common divisor, others by their lowest power."""
    numbers = [t.number for t in terms]
    number = gcd([abs(n) for n in numbers]) if all(n.is_Rational for n in numbers) else S.One
    if all(n.is_negative for n in numbers):
        number = -number
    common: dict[Expr, Expr] = {}
    for b, _ in terms[0].powers:
        exponents = [dict(t.powers).get(b, S.Zero) for t in terms]
        if all(x.is_positive for x in exponents) or all(x.is_negative for x in exponents):
            common[b] = min(exponents, key=abs)
    return number, common


def _best_shared(terms: list[_Term]) -> tuple[Expr, Expr] | None:
    """The largest factor that more than one term has, if taking it out spares an operation on something large."""
    best, gain = None, 0
    candidates = {(b, S.One if e > 0 else S.NegativeOne) for t in terms for b, e in t.powers}
    for b, e in sorted(candidates, key=lambda c: (c[0].sort_key(), c[1])):
        count = len([t for t in terms if t.has(b, e)])
        mine = (count - 1) * 32 ** weight(b) if count > 1 and weight(b) else 0
        if mine > gain:
            best, gain = (b, e), mine
    return best


def _product_node(p: Product, hoist: Hoist) -> Node:
    if p.number == 0:
        return ZERO
    masks = [f for f in p.powers if isinstance(f, Where) and f.is_mask]
    others = [f for f in p.powers if f not in masks]
    choice = next(
        (f for f in others if isinstance(f, Where) and not f.args[1].atoms(At) and not f.args[2].atoms(At)), None
    )
    if choice is not None:
        return _chosen(choice, p, hoist)
    up = [(weight(f), node(f, hoist)) for f in sorted((f for f in others if not _divides(f)), key=_factor_order)]
    down = [(weight(f), node(1 / f, hoist)) for f in sorted((f for f in others if _divides(f)), key=_factor_order)]
    up += [(len(_axes(s)), _sum_node(s, hoist)) for s in p.sums]
    out = _quotient(p.number, up, down)
    for mask in masks:
        out = Call("where", (node(mask.condition, hoist), out, ZERO))
    return out


def _chosen(choice: Where, p: Product, hoist: Hoist) -> Node:
    """`rest * where(c, a, b)` with numbers `a`, `b`: the rest, scaled by one or the other."""
    rest = Product(p.number, tuple(f for f in p.powers if f != choice), p.sums)
    scaled = [Product(rest.number * v.as_coeff_Mul()[0], (*rest.powers, *Mul.make_args(v.as_coeff_Mul()[1])), rest.sums)
              for v in choice.args[1:]]  # fmt: skip
    branches = [_product_node(q, hoist) for q in (_without_ones(q) for q in scaled)]
    return Call("where", (node(choice.condition, hoist), *branches))


def _without_ones(p: Product) -> Product:
    return Product(p.number, tuple(f for f in p.powers if f != 1), p.sums)


def _sum_node(s: Sum, hoist: Hoist) -> Node:
    parts = sorted(s.parts, key=lambda p: bool(p.number.is_negative))
    out: Node | None = None
    for p in parts:
        value = _product_node(Product(abs(p.number), p.powers, p.sums), hoist)
        negative = p.number.is_negative
        if out is None:
            out = negated(value) if negative else value
        else:
            out = Call("sub" if negative else "add", (out, value))
    assert out is not None
    return out


def _axes(s: Sum) -> set[Axis]:
    return set().union(*(free_axes(f) for p in s.parts for f in p.powers), *(_axes(i) for p in s.parts for i in p.sums))
