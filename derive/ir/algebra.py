"""Sum-normal form: every expression a sum of products, every sum over one product that it cannot shed.

The laws, each a small function below: distribute products over sums; a sum is linear; what does not depend on
the bound axis leaves the sum; a delta contracts the sum over one of its indices; an empty sum is the axis's size;
bound axes are named by their depth. Equal sums are then identical expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from sympy import Add, Basic, Expr, Mul, Pow, S, gcd
from sympy.logic.boolalg import Boolean

from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, at_index, tensor_names
from derive.ir.terms.products import by_axes, factors_of
from derive.ir.terms.reductions import Sigma

_OPEN = 1000  # copies from here on are bound axes of sums that are open for rewriting


@lru_cache(maxsize=200_000)
def normal(expr: Expr) -> Expr:
    """The sum-normal form of an expression. Arguments of functions and bases of fractional powers stay as written."""
    if isinstance(expr, Sigma):
        body, bound = opened(expr)
        return sigma(body, bound)
    if isinstance(expr, Add):
        return Add(*(normal(a) for a in expr.args))
    if isinstance(expr, Mul):
        return _product([normal(a) for a in expr.args])
    if isinstance(expr, Pow) and expr.exp.is_Integer:
        base = normal(expr.base) if expr.exp.is_positive else _divisor(expr.base)
        if isinstance(base, Add) and expr.exp.is_positive and not _is_shift(base):
            return _product([base] * int(expr.exp))
        return Pow(base, expr.exp)
    return expr


def _is_place(factor: Expr) -> bool:
    """Whether it is a sum of places and numbers, which is one number: `decay*(t - s)` is no `decay*t - decay*s`."""
    return isinstance(factor, Add) and bool(factor.atoms(Axis)) and not factor.atoms(At, Sigma, Delta, Where)


def _place(factor: Expr) -> tuple[Expr, Expr]:
    """A number and a sum of places that make this one: `2*s - 2*t` is -2 and `t - s`, `2*t - N` is 2 and `t - N/2`."""
    number, place = factor.primitive()
    steps = [t.as_coeff_Mul()[0] for t in place.args if free_axes(t)]
    if len(steps) < len(place.args) and not place.as_coeff_Add()[0]:
        number, place = number * gcd(steps), Add(*(t / gcd(steps) for t in place.args))
    return (-number, -place) if place.could_extract_minus_sign() else (number, place)


def _is_shift(base: Add) -> bool:
    """Whether it is an element and a number, the powers of which are more exact than multiplied out: `(p - 1)**2`."""
    return len([t for t in base.args if t.atoms(At)]) == 1 and not base.atoms(Sigma)


def _divisor(expr: Expr) -> Expr:
    """What is divided by, its sums in normal form: `a**2 + (b - c)**2` multiplied out would subtract large numbers."""
    if isinstance(expr, Add) and not expr.atoms(Sigma):
        return expr
    return normal(expr)


def _product(factors: list[Expr]) -> Expr:
    """Multiply sums out."""
    terms: list[Expr] = [S.One]
    whole: list[Expr] = []
    for factor in sorted(factors, key=lambda f: len(Add.make_args(f))):
        if _is_place(factor):
            whole += _place(factor)
            continue
        parts = Add.make_args(factor)
        terms = [Mul(t, p) for t in terms for p in parts]
    total = Add(*(Mul(t, *whole) for t in terms))
    if any(_is_torn(a) for t in Add.make_args(total) for a in Mul.make_args(t)):
        return _product_again(total)
    return total


def _is_torn(factor: Expr) -> bool:
    """Whether a factor is a sum that is to be multiplied out."""
    return isinstance(factor, Add) and not _is_place(factor)


def _product_again(total: Expr) -> Expr:
    """Powers met while multiplying (`(a+b)**-1 * (a+b)**2`) can leave a sum to distribute."""
    out = []
    for term in Add.make_args(total):
        args = Mul.make_args(term)
        out.append(_product(list(args)) if any(map(_is_torn, args)) and len(args) > 1 else term)
    return Add(*out)


# --- sums -------------------------------------------------------------------------------------------------


def sigma(body: Expr, over: Iterable[Axis]) -> Expr:
    """The normal form of the sum of `body` over free axes `over`."""
    axes = sorted_axes(over)
    if not axes:
        return normal(body)
    return Add(*(_sum_of_term(term, axes) for term in Add.make_args(normal(body))))


def _sum_of_term(term: Expr, axes: list[Axis]) -> Expr:
    term, axes = _contract(*_merged(term, axes))
    term = _at_places(term)
    if isinstance(term, Add):  # an axis as a number became a sum: `n * delta(n, size(n) - 1)`
        return Add(*(_sum_of_term(t, axes) for t in term.args))
    inside, outside = by_axes(_before_masks(term, axes), axes)
    used = {a for f in inside for a in free_axes(f)}
    empty = (Size(a) for a in axes if a not in used)
    return Mul(*outside, *empty, *_independent_sums(inside, [a for a in axes if a in used]))


def _before_masks(term: Expr, axes: list[Axis]) -> list[Expr]:
    """The factors of a term, elements that the axes are not of before a mask of places: `v[t] * where(s <= t, e, 0)`.

    So are choices between numbers, the slope of a `relu`. What a condition on values keeps from being infinite, and
    anything else, stays behind the mask.
    """
    out: list[Expr] = []
    for factor in Mul.make_args(term):
        masks = isinstance(factor, Where) and factor.args[2] == 0 and not factor.condition.atoms(At)
        inside = Mul.make_args(factor.args[1]) if masks else ()
        before = [f for f in inside if (isinstance(f, At) or _is_step(f)) and not free_axes(f) & set(axes)]
        out += [*before, Where(factor.args[0], factor.args[1] / Mul(*before), S.Zero)] if before else [factor]
    return out


def _is_step(factor: Expr) -> bool:
    """Whether it is one of a few numbers."""
    return isinstance(factor, Where) and all(value.is_number or _is_step(value) for value in factor.args[1:])


def _independent_sums(inside: list[Expr], bound: list[Axis]) -> list[Expr]:
    """A sum of a product of unrelated parts is the product of their sums."""
    out, left = [], list(inside)
    axes = list(bound)
    while axes:
        group, parts = {axes[0]}, []
        grew = True
        while grew:
            grew = False
            for factor in left[:]:
                mine = free_axes(factor) & set(axes)
                if mine & group:
                    parts.append(factor)
                    left.remove(factor)
                    grew = grew or bool(mine - group)
                    group |= mine
        out.append(close(Mul(*parts), sorted_axes(group)))
        axes = [a for a in axes if a not in group]
    return out + left


def _at_places(term: Expr) -> Expr:
    """Under `delta(v, ix[e])`, what is read at `ix[e]` is read at `v`, so that it leaves a sum over `e`."""
    deltas = factors_of(term, Delta)
    put = {i: a for d in deltas for a, i in (d.args, d.args[::-1]) if isinstance(a, Axis) and isinstance(i, At)}
    return Mul(*deltas, *(f.xreplace(put) for f in Mul.make_args(term) if f not in deltas)) if put else term


def _merged(term: Expr, axes: list[Axis]) -> tuple[Expr, list[Axis]]:
    """A sum over `c` of `p[c]*sum(g[k]*delta(i[k], c), over=k)` as one sum over both, whose delta then contracts."""
    for factor in factors_of(term, Sigma):
        if any(a in axes for d in factors_of(factor.body, Delta) for a in d.args):
            body, inner = opened(factor, (*axes, *free_axes(term)))
            return _merged(Mul(*(f for f in Mul.make_args(term) if f is not factor), body), [*axes, *inner])
    return term, axes


def _contract(term: Expr, axes: list[Axis]) -> tuple[Expr, list[Axis]]:
    """Use each delta with a bound axis on one side: put the other side in its place, until the term is a sum."""
    axes = list(axes)
    while not isinstance(term, Add):
        for factor in factors_of(term, Delta):
            for one, other in (factor.args, factor.args[::-1]):
                if one in axes and one not in other.free_symbols:
                    axes.remove(one)
                    term = normal((term / factor).xreplace({one: other}))
                    break
            else:
                continue
            break
        else:
            return term, axes
    return term, axes


def close(body: Expr, axes: list[Axis]) -> Expr:
    """Bind free axes: each becomes the copy one above the highest copy of its name bound inside."""
    if isinstance(body, Sigma):  # sums in a row are one sum
        body, inner = opened(body)
        axes = sorted_axes([*axes, *inner])
    depth = _depths(body)
    mapping: dict[Basic, Basic] = {}
    for axis in axes:
        depth[axis.base] = depth.get(axis.base, 0) + 1
        mapping[axis] = axis.copied(depth[axis.base])
    return Sigma(body.xreplace(mapping), *mapping.values())


def _depths(body: Expr) -> dict[str, int]:
    depth: dict[str, int] = {}
    for inner in body.atoms(Sigma):
        for axis in inner.over:
            depth[axis.base] = max(depth.get(axis.base, 0), axis.copy_number)
    return depth


def opened(expr: Sigma, beside: Iterable[Axis] = ()) -> tuple[Expr, list[Axis]]:
    """The body with its bound axes as fresh free ones, and those axes. Close it again with `sigma`.

    `beside` are axes of sums that are open already and that the body, if it reads few of them, does not tell.
    """
    taken = {a.copy_number for a in (*expr.body.atoms(Axis), *beside) if a.copy_number >= _OPEN}
    fresh = max(taken, default=_OPEN - 1) + 1
    mapping = {a: a.copied(fresh + k) for k, a in enumerate(expr.over)}
    return expr.body.xreplace(dict(mapping)), list(mapping.values())


def opened_by_name(expr: Sigma, avoid: set[Axis]) -> tuple[Expr, list[Axis]]:
    """As `opened`, but the bound axes get their plain names back wherever those are free to use."""
    mapping: dict[Axis, Axis] = {}
    used = set(avoid) | free_axes(expr)
    inner = {a for s in expr.body.atoms(Sigma) for a in s.over}
    for axis in expr.over:
        number = 0
        while axis.copied(number) in used or axis.copied(number) in inner:
            number += 1
        mapping[axis] = axis.copied(number)
        used.add(axis.copied(number))
    return expr.body.xreplace(dict(mapping)), list(mapping.values())


# --- rewriting --------------------------------------------------------------------------------------------


def rewrite(expr: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Apply a rule to every element and sum, inside open sums (so that nothing it brings in is captured)."""
    if isinstance(expr, Sigma):
        body, bound = opened(expr)
        inner = rewrite(body, rule)
        closed = sigma(inner, bound) if inner != body else expr
        changed = rule(closed) if isinstance(closed, Sigma) else None
        return closed if changed is None else changed
    changed = rule(expr)
    if changed is not None:
        return changed
    if isinstance(expr, At | Boolean) or not expr.args or not tensor_names(expr):
        return expr  # a comparison asks for the very values that the forward compared
    args = [rewrite(a, rule) if isinstance(a, Basic) else a for a in expr.args]
    return expr if all(a is b for a, b in zip(args, expr.args, strict=True)) else expr.func(*args)


def substitute(expr: Expr, replace: Mapping[str, tuple[tuple[Axis, ...], Expr]]) -> Expr:
    """Put for every element `t[index]` the expression given for tensor `t` over its own axes; then normalise."""

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, At) and e.name in replace:
            axes, value = replace[e.name]
            return at_index(value, axes, e.index)
        return None

    return normal(rewrite(expr, rule)) if replace else expr


@lru_cache(maxsize=20_000)
def is_contraction(body: Expr) -> bool:
    """Whether a product runs over more axes than any one of its factors: a matrix product, not a reduction."""
    runs = [free_axes(f) for f in Mul.make_args(body) if not f.is_Number]
    union = set().union(*runs) if runs else set()
    return len(runs) > 1 and all(r != union for r in runs)
