"""Rows of laws on SymPy's expressions: sums and products without order, with a rest, and under names on demand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import sympy
from sympy import Add, Basic, Dummy, Eq, Expr, Function, Mul, Ne, Rational, S, cos, cosh, exp
from sympy.core.relational import Relational

from derive.ir.algebra import normal
from derive.ir.equations import Equation, Op
from derive.ir.terms import functions, kinks
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, at_index, tensor_names
from derive.rules.engine import COFACTOR, Move, Row, fold, moves

_Z = Dummy(real=True)
_WORDS: dict[str, Callable[..., Basic]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "neg": lambda a: -a, "pow": lambda a, b: a**b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "eq": Eq, "ne": Ne, "where": Where,
    "slope_of_maximum": lambda u: kinks.maximum(_Z, S.Zero).diff(_Z).xreplace({_Z: u}),
    "slope_of_minimum": lambda u: kinks.minimum(_Z, S.Zero).diff(_Z).xreplace({_Z: u}),
}  # fmt: skip
_EVEN = (kinks.absolute, cos, cosh)



def _grows(exponent: Expr, of: Expr) -> bool:
    """Whether a sum has a multiple of something above 0 among its terms."""
    number, rest = of.as_coeff_Mul()
    terms = {rest: times for times, rest in (t.as_coeff_Mul() for t in Add.make_args(exponent))}
    return bool(number * terms.get(rest, S.Zero) > 0)


def _asks_of_places(condition: Basic, value: Expr) -> bool:
    """Whether a condition asks if two axes are at the same place, and a tensor runs over both."""
    asked = isinstance(condition, Eq | Ne) and all(isinstance(i, Axis) for i in condition.args)
    return asked and free_axes(condition) <= free_axes(value) and bool(value.atoms(At))


FACTS: Mapping[str, Callable[..., bool | None]] = {
    "number": lambda e: e.is_number, "varies": lambda e: not e.is_number,
    "negative": lambda e: e.is_negative, "positive": lambda e: e.is_positive,
    "nonzero": lambda e: e.is_nonzero, "whole": lambda e: e.is_Integer,
    "unsigned": lambda e: not e.could_extract_minus_sign(), "grows": _grows, "places": _asks_of_places,
    "constant": lambda e: not e.atoms(At) and not free_axes(e),
    "real": lambda e: bool(e.atoms(At)) and not any(at.tensor.is_integer for at in e.atoms(At)),  # no place
}  # fmt: skip


def as_it_is(value: Expr) -> Expr:
    return value


Names = Mapping[str, Equation]
"""Equations that a name may be opened to, and that close what a law brings in."""

NONE: Names = MappingProxyType({})

_Bound = dict[Basic, Basic]
"""What each variable is, and by which name each body goes that was opened."""


def expression(side: ast.expr, variables: Mapping[str, Expr]) -> Expr:
    """A side of a law with these for its variables."""

    def word(name: str, args: list[Expr]) -> Expr:
        made = _WORDS.get(name) or getattr(functions, name, None) or getattr(kinks, name, None)
        return (made or getattr(sympy, name))(*args)

    return fold(side, word, variables.__getitem__, lambda n: Rational(n))


@dataclass(frozen=True)
class _Pattern:
    """A row with SymPy's expressions for its sides; of a sum, one term tells what the variables are."""

    left: Expr
    right: Expr
    variables: Mapping[str, Dummy]
    anchor: Expr
    functions: frozenset[type]  # that the left side has

    @property
    def cofactor(self) -> Basic:
        return self.variables.get(COFACTOR, S.One)


@cache
def _pattern(row: Row) -> _Pattern:
    """The row as SymPy's expressions. Raises ValueError for a sum of which no term holds all variables."""
    variables = {name: Dummy(name, real=True) for name in row.variables}
    left, right = (expression(s, variables) for s in row.sides)
    anchors = [t for t in Add.make_args(left) if t.free_symbols >= set(variables.values())]
    if not anchors:
        raise ValueError(f"{row}: no term holds all variables")
    functions = frozenset(map(type, left.atoms(Function, Where)))
    return _Pattern(left, right, variables, max(anchors, key=sympy.count_ops), functions)


def names_of(op: Op) -> Names:
    """The equations of an op that are a sum or a function, element by element."""
    return {e.name: e for e in op.equations if e.kind is None and e.is_plain and isinstance(e.body, Add | Function)}


def rewritten(
    value: Expr, rows: Sequence[Row], names: Names = NONE, tidy: Callable[[Expr], Expr] = normal, new: bool = False
) -> tuple[Expr, str]:
    """A value with these laws wherever they hold, and why; the very value where none does."""
    move = next(rewritings(value, rows, names, tidy, new), None)
    return (value, "") if move is None else (move.value, move.reason)


def by_rows(op: Op, rows: Sequence[Row], kinds: Sequence[str] = ()) -> Op:
    """The same op with these laws wherever they hold in an equation, be it of some `kinds` alone, as it is written."""
    changed = (replace(e, body=rewritten(e.body, rows, NONE, as_it_is)[0]) if not kinds or e.kind in kinds else e
               for e in op.equations)  # fmt: skip
    return replace(op, equations=tuple(changed))


def rewritings(
    value: Expr, rows: Sequence[Row], names: Names = NONE, tidy: Callable[[Expr], Expr] = as_it_is, new: bool = False
) -> Iterator[Move[Basic]]:
    """A value with these laws wherever they hold, as one move; then with each at one place alone.

    Names are opened where the law holds of what they stand for, and brings in no function but by name, or any if `new`.
    """
    return moves(value, lambda v: _once(v, rows, names, tidy, new))


def _once(
    value: Basic, rows: Sequence[Row], names: Names, tidy: Callable[[Expr], Expr], new: bool
) -> Iterator[Move[Basic]]:
    """The value with one of the laws at one place."""
    at_hand = None if names else set(map(type, value.atoms(Function, Where)))  # a name may stand for others
    for row in rows:
        p = _pattern(row)
        if at_hand is not None and not p.functions <= at_hand:
            continue
        for part in _parts(value):
            for bound, before in _found(p, part, names):
                variables = {name: bound[v] for name, v in p.variables.items()}
                if not row.holds(FACTS, variables | {"alone": before == part}):
                    continue
                said = ((body, *at.as_coeff_Mul()) for body, at in bound.items() if not isinstance(body, Dummy))
                opened = {at: body / number for body, number, at in said}
                after = _by_name(_instance(p.right, bound), opened, names)
                is_sum = isinstance(p.left, Add)
                changed = tidy(part - before + normal(after) if is_sum else _less(part, before) * after)
                longer = is_sum and len(Add.make_args(changed)) >= len(Add.make_args(part))
                if not longer and (new or not opened or changed.atoms(Function) <= value.atoms(Function)):
                    yield Move(tidy(value.xreplace({part: changed})), row, variables, opened)


def _less(product: Expr, factors: Expr) -> Expr:
    """A product without these factors; SymPy does not cancel the exponentials of two sums."""
    left, own = list(Mul.make_args(product)), Mul.make_args(factors)
    return Mul(*(f for f in left if f not in own)) if set(own) <= set(left) else product / factors


def _parts(value: Basic) -> Iterator[Expr]:
    """What stands in a value, but for indices, and what a comparison asks, which is told by its very digits."""
    if isinstance(value, Expr) and not isinstance(value, At) and value.args:
        yield value
        for a in value.args:
            yield from _parts(a)


def _found(p: _Pattern, part: Expr, names: Names) -> Iterator[tuple[_Bound, Expr]]:
    """What the variables are where the left side is in a part, and what of the part that is."""
    if isinstance(p.left, Mul) and isinstance(part, Mul):
        yield from ((b, _instance(p.left, b)) for b, _ in _in_product(_factors(p.left), part, {}, names))
    elif not isinstance(p.left, Add | Mul) and not isinstance(part, Add | Mul):
        yield from ((b, part) for b in _matches(p.left, part, {}, names))
    if not isinstance(p.left, Add) or not isinstance(part, Add):
        return
    telling = [f for f in _factors(p.anchor) if not isinstance(f, Dummy)]
    terms = set(part.args)
    for term in part.args:
        for bound, _ in _in_product(telling, term, {}, names):
            if isinstance(p.cofactor, Dummy):
                bound[p.cofactor] = S.One
                bound[p.cofactor] = term / _instance(p.anchor, bound)
            before = normal(_instance(p.left, bound))
            if len(own := Add.make_args(before)) > 1 and terms.issuperset(own):
                yield bound, before


def _instance(side: Expr, bound: _Bound) -> Expr:
    """A side with what its variables are; what was opened goes by its name, inner names first."""
    value = side.xreplace(bound)
    for body, at in bound.items():
        value = value if isinstance(body, Dummy) else value.xreplace({body: at})
    return value


def _factors(product: Expr) -> list[Expr]:
    """The factors of a pattern without its number, those that tell most first."""
    return sorted(Mul.make_args(product.as_coeff_Mul()[1]), key=lambda f: (isinstance(f, Dummy), -sympy.count_ops(f)))


def _in_product(factors: Sequence[Expr], term: Expr, bound: _Bound, names: Names) -> Iterator[tuple[_Bound, Expr]]:
    """The variables where a product has these factors, and its other factors; a last variable is all of these."""
    if not factors:
        yield bound, term
        return
    first, *others = factors
    if first in bound and bound[first].is_number:
        yield from _in_product(others, term / bound[first], bound, names)
        return
    if isinstance(first, Dummy) and first not in bound and not others:
        yield {**bound, first: term}, S.One
        return
    if first in bound:
        others, first = [*Mul.make_args(bound[first])[1:], *others], Mul.make_args(bound[first])[0]
    base, power = _as_power(first)
    for f in Mul.make_args(term):
        of, times = _as_power(f)
        for own, taken in _powers(base, power, times, bound):
            for b in _matches(base, of, own, names):
                yield from _in_product(others, term / of**taken, b, names)


def _as_power(f: Expr) -> tuple[Expr, Expr]:
    return (f, S.One) if isinstance(f, exp) else f.as_base_exp()


def _powers(base: Expr, power: Expr, times: Expr, bound: _Bound) -> Iterator[tuple[_Bound, Expr]]:
    """How a power is in another, `u` in `u**3` and `1/u` in `u**-3`, or all of it."""
    if power.is_number:
        within = times.is_number and (times / power - 1).is_nonnegative and (times - power).is_Integer
        if times == power or (within and not isinstance(base, Add)):
            yield bound, power
    elif times.is_Rational:
        yield from ((b, times) for b in _matches(power, times, bound, {}))


def _matches(p: Basic, e: Basic, bound: _Bound, names: Names) -> Iterator[_Bound]:
    """What the variables of a pattern are where it is this expression."""
    if isinstance(p, Dummy) and p not in bound:
        yield {**bound, p: e}
        return
    if p.atoms(Dummy) <= bound.keys():
        if p == e or _instance(p, bound) == e:
            yield bound
            return
        if names.keys().isdisjoint(tensor_names(e)):
            return
    number, rest = p.as_coeff_Mul() if isinstance(p, Mul) else p.as_coeff_Add() if isinstance(p, Add) else (None, p)
    if isinstance(p, Mul) and isinstance(rest, Dummy):
        yield from _matches(rest, e / number, bound, names)
    elif isinstance(p, Add) and isinstance(rest, Dummy) and e.is_number:
        yield from _matches(rest, e - number, bound, names)
    elif isinstance(p, Mul) and not isinstance(e, At):
        yield from (b for b, left in _in_product(_factors(p), e / number, bound, names) if left == 1)
    elif isinstance(e, At) and e.name in names:
        of = names[e.name]
        body = at_index(of.body, of.axes, e.index)
        times, inner = (S.One, body) if isinstance(p, Mul | Add) else body.as_coeff_Mul()
        yield from ({**b, inner: e / times} for b in _matches(p, inner, bound, names))
    elif isinstance(p, Add) and isinstance(e, Add) and len(p.args) == 2:
        first, second = p.args
        for t in e.args:
            for b in _matches(first, t, bound, names):
                yield from _matches(second, e - t, b, names)
    elif len(p.args) == len(e.args) and (type(e) is p.func or (isinstance(p, Relational) and isinstance(e, p.func))):
        found = [bound]
        for a, of in zip(p.args, e.args, strict=True):
            found = [b for f in found for b in _matches(a, of, f, names)]
        yield from found
        if isinstance(p, _EVEN):
            yield from _matches(p.args[0], -e.args[0], bound, names)


def _by_name(value: Expr, opened: Mapping[At, Expr], names: Names) -> Expr:
    """A value with the functions in it by their names, at the places where others were opened."""
    for index in dict.fromkeys(at.index for at in opened):
        found = {f: e for f in value.atoms(Function) for e in names.values() if len(e.axes) == len(index)
                 and isinstance(e.body, f.func) and at_index(e.body, e.axes, index) == f}  # fmt: skip
        value = value.xreplace({f: At(e.target, *index) for f, e in found.items()})
    return value
