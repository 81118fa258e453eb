"""A normal form as program nodes, in the shape that factoring gives it.

Small factors are multiplied together before they meet a large one, small summands of an adjoint added before theirs
(`dp - s - t` is `dp - (s + t)` where rows have one `s` and one `t`), and masks are taken last. A factor that is one of
two numbers, `where(c, 1, 2)`, chooses between the rest and its double.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from sympy import Expr, Mul, Rational, S
from sympy.logic.boolalg import Boolean

from derive.decisions import FAR
from derive.ir.lowering.factoring import Product, Sum, factor
from derive.ir.lowering.lower import Hoist, node, quotient, signed_sum
from derive.ir.lowering.masking import masked
from derive.ir.lowering.ordering import divides, factor_order, weight
from derive.ir.nodes.arithmetic import ZERO, negated
from derive.ir.program import Call, Node
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.ir.terms.functions import having
from derive.ir.terms.reductions import has_sums


def factored(expr: Expr, hoist: Hoist, as_written: bool = False) -> Node:
    """A normal form with few operations on large tensors; sums stay `as_written` where digits depend on their order."""
    if not has_sums(expr):
        return _without_sums(expr, as_written)
    return _product_node(_ordered(expr, as_written), hoist)


@lru_cache(maxsize=20_000)  # a search prices many forms, which have most of their definitions in common
def _without_sums(expr: Expr, as_written: bool) -> Node:
    return _product_node(_ordered(expr, as_written), None)


def _ordered(expr: Expr, as_written: bool) -> Product:
    product = _numbers_out(factor(expr))
    return product if as_written else _small_first(product)


def _numbers_out(p: Product) -> Product:
    """The product with the summands that one number multiplies, in each of its sums, as that number times theirs."""
    return replace(p, sums=tuple(Sum(_by_number(tuple(map(_numbers_out, s.parts)))) for s in p.sums))


def _by_number(parts: tuple[Product, ...]) -> tuple[Product, ...]:
    """The summands; several of one number other than 1 in one, as in `lower` where a sum stands as it was written."""
    far = tuple(p for p in parts if abs(p.number) >= FAR)
    if len({abs(p.number) for p in far}) > 1 and len(far) < len(parts):
        return (*_by_number(tuple(p for p in parts if p not in far)), _in_one(_by_number(far)))
    found: dict[Expr, list[Product]] = {}
    for p in parts:
        found.setdefault(abs(p.number), []).append(p)
    out: list[Product] = []
    for number, same in found.items():
        if number == 1 or not 1 < len(same) < len(parts):
            out += same
        else:
            inner = _in_one(tuple(replace(p, number=p.number / number) for p in same))
            out.append(replace(inner, number=number * inner.number))
    return tuple(out) if len(out) < len(parts) else parts


def _small_first(p: Product) -> Product:
    """The product with the small summands of each of its sums as one sum."""
    return replace(p, sums=tuple(Sum(_grouped(tuple(map(_small_first, s.parts)))) for s in p.sums))


def _grouped(parts: tuple[Product, ...]) -> tuple[Product, ...]:
    """The summands, those over fewer axes than all together as one for each set of axes that several have."""
    whole, last = _axes(Sum(parts)), _numbers_after_others(parts)
    left = {p: own for p in parts if p not in last and (own := frozenset(_axes(Sum((p,))))) < whole}
    out = list(parts)
    for own in sorted(dict.fromkeys(left.values()), key=len, reverse=True):
        inside = tuple(p for p, axes in left.items() if axes <= own)
        if len(inside) > 1 and own:
            left = {p: axes for p, axes in left.items() if p not in inside}
            out = [*(p for p in out if p not in inside), _in_one(inside)]
    return tuple(out)


def _in_one(parts: tuple[Product, ...]) -> Product:
    """A sum of summands as one summand."""
    sign = -1 if all(p.number.is_negative for p in parts) else 1
    return Product(S(sign), (), (Sum(tuple(replace(p, number=sign * p.number) for p in parts)),))


def _product_node(p: Product, hoist: Hoist | None, also: Node | None = None, size: int = 0) -> Node:
    """The product as a node; `also` is one more factor, over `size` axes."""
    if p.number == 0:
        return ZERO
    found = masked(list(p.powers), set().union(*(_axes(s) for s in p.sums)) if also is None else None)
    others = list(found.factors)
    if not set(others) <= set(p.powers):  # a choice gave way, and what it chose may be a choice
        out = _product_node(replace(p, powers=found.factors), hoist, also, size)
        return _masked(out, found.conditions, hoist)
    choice = next((f for f in others if isinstance(f, Where) and not any(v.atoms(At) for v in _cases(f))), None)
    if choice is not None and also is None:
        return _chosen(choice, p, hoist)
    up = [(weight(f), node(f, hoist)) for f in sorted((f for f in others if not divides(f)), key=factor_order)]
    below = (d for f in sorted((f for f in others if divides(f)), key=factor_order) for d in _one_by_one(1 / f))
    down = [(weight(d), node(d, hoist)) for d in below]
    up += [(len(_axes(s)), _sum_node(s, hoist)) for s in p.sums]
    up = [(size, also), *up] if also is not None else up
    return _masked(quotient(p.number, up, down), found.conditions, hoist)


def _one_by_one(divisor: Expr) -> tuple[Expr, ...]:
    """A square or a cube that is divided by, as its factors: that of a sum of exponentials is soon no number."""
    base, exponent = divisor.as_base_exp()
    return (base,) * int(exponent) if exponent in (2, 3) and isinstance(base, At) else (divisor,)


def _masked(out: Node, conditions: tuple[Boolean, ...], hoist: Hoist | None) -> Node:
    for condition in conditions:
        out = Call("where", (node(condition, hoist), out, ZERO))
    return out


def _cases(choice: Expr) -> list[Expr]:
    """The values that a choice, and those inside it, may take."""
    if not isinstance(choice, Where):
        return [choice]
    return [v for branch in choice.args[1:] for v in _cases(branch)]


def _chosen(choice: Where, p: Product, hoist: Hoist | None) -> Node:
    """`rest * where(c, a, b)` with numbers `a`, `b`: the rest, scaled by one or the other.

    What is larger than the choice is multiplied after it.
    """
    own = free_axes(choice)
    small = tuple(f for f in p.powers if f != choice and free_axes(f) <= own)
    large = tuple(f for f in p.powers if f != choice and f not in small)
    inside, outside = (tuple(s for s in p.sums if (_axes(s) <= own) is fits) for fits in (True, False))
    chosen = _of_cases(choice, Product(p.number, small, inside), hoist)
    return _product_node(Product(S.One, large, outside), hoist, chosen, len(own)) if large or outside else chosen


def _of_cases(choice: Where, rest: Product, hoist: Hoist | None) -> Node:
    """The rest times the number of each case. A number that all cases but those of 0 have is multiplied once."""
    bare = not any(f.atoms(At) for f in rest.powers) and not rest.sums  # all numbers: each case is one
    numbers = {v for v in _cases(choice) if v != 0}
    (common,) = numbers if len(numbers) == 1 else (S.One,)
    common = common if common.is_Rational else S.One
    whole = None if bare else _product_node(Product(rest.number * common, rest.powers, rest.sums), hoist)

    def scaled(value: Expr) -> Node:
        if isinstance(value, Where):
            return Call("where", (node(value.condition, hoist), scaled(value.args[1]), scaled(value.args[2])))
        if value == 0:
            return ZERO
        if whole is None:
            number, others = (rest.number * value).as_coeff_Mul()
            return _product_node(Product(number, (*rest.powers, *_factors(others)), ()), hoist)
        return _times(value / common, whole, hoist)

    return scaled(choice)


def _factors(expr: Expr) -> tuple[Expr, ...]:
    return tuple(f for f in Mul.make_args(expr) if f != 1)


def _times(number: Expr, whole: Node, hoist: Hoist | None) -> Node:
    if number in (1, -1):
        return whole if number == 1 else negated(whole)
    if isinstance(number, Rational) and number.p == 1:
        return Call("div", (whole, node(S(number.q), hoist)))
    return Call("mul", (node(number, hoist), whole))


def _sum_node(s: Sum, hoist: Hoist | None) -> Node:
    last = _numbers_after_others(s.parts)
    parts = _with_its_limit(sorted(s.parts, key=lambda p: (p in last, bool(p.number.is_negative))))
    values = (_product_node(Product(abs(p.number), p.powers, p.sums), hoist) for p in parts)
    return signed_sum([(value, bool(p.number.is_negative)) for value, p in zip(values, parts, strict=True)])


def _numbers_after_others(parts: tuple[Product, ...]) -> tuple[Product, ...]:
    """The numbers of a sum where an element and a mean may cancel: in `(z - mean) + 1` no large `z` loses the 1."""
    numbers = tuple(p for p in parts if not p.sums and not any(f.atoms(At) or free_axes(f) for f in p.powers))
    others = [p for p in parts if p not in numbers]
    over = {frozenset(_axes(Sum((p,)))) for p in others}
    return numbers if len(over) > 1 and _may_cancel(others) else ()


def _may_cancel(parts: list[Product]) -> bool:
    """Whether summands are not all of one sign, for all that is known."""
    signs = {_sign(p) for p in parts}
    return None in signs or len(signs) > 1


def _sign(p: Product) -> bool | None:
    """Whether a product is negative, where it is known never to be of the other sign."""
    known = not p.sums and all(f.is_nonnegative for f in p.powers)
    return bool(p.number.is_negative) if known else None


_LIMITED = having(lambda r: r.is_within_one and r.at_minus_infinity == -1)


def _with_its_limit(parts: list[Product]) -> list[Product]:
    """The summands, a number and the function that it may be the limit of before others: `(1 + erf(x)) + x*exp(-x**2)`.

    What little these leave of one another is not rounded by what it is added to, nor that by the function.
    """
    number = next((p for p in parts if not p.powers and not p.sums), None)
    limited = next((p for p in parts if not p.sums and len(p.powers) == 1 and isinstance(p.powers[0], _LIMITED)), None)
    if number is None or limited is None or abs(number.number) != abs(limited.number):
        return parts
    first = [number, limited] if limited.number.is_negative else [limited, number]
    return [*first, *(p for p in parts if p not in first)]


def _axes(s: Sum) -> set[Axis]:
    return set().union(*(free_axes(f) for p in s.parts for f in p.powers), *(_axes(i) for p in s.parts for i in p.sums))
