"""Forms that a wrong gradient may have: the derived one with a term or factor dropped, a sum over another axis,
another tensor.

Everything here is a mechanical change of an expression, and knows no op. Each change carries the words that say what
it did and the class of error that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sympy import Add, Expr, Function, Integer, Mul, Not, Pow, S
from sympy.logic.boolalg import Boolean

from derive.ir.algebra import opened, sigma
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.ir.terms.reductions import Sigma

_TWO = Integer(2)


@dataclass(frozen=True)
class Change:
    """One changed expression: what was done to it, and which class of error that is."""

    text: str
    error: str
    value: Expr


Tensors = Mapping[str, tuple[Axis, ...]]


def less(value: Expr, axes: Sequence[Axis]) -> Iterator[Change]:
    """What is missing, doubled or summed over another axis: the likely errors."""
    yield from _terms(value)
    yield from _factors_of_all(value)
    yield from _axes(value, axes)
    yield from _factors_of_one(value)


def other(value: Expr, axes: Sequence[Axis], tensors: Tensors) -> Iterator[Change]:
    """Another tensor, scale, factor, length or mask, or a sum inside a root or a function changed."""
    yield from _degrees_of_freedom(value)
    yield from masks(value, axes, ())
    yield from _tensors(value, tensors)
    yield from _scales(value, axes)
    yield from _extra(value, axes, tensors)
    yield from _inside(value)


def changes(value: Expr, axes: Sequence[Axis], tensors: Tensors) -> Iterator[Change]:
    """Every changed form of a definition over `axes`, likely ones first. `tensors` may stand in for those it reads."""
    yield from less(value, axes)
    yield from other(value, axes, tensors)
    yield from alone(value)


def moved(value: Expr, others: Sequence[tuple[str, tuple[Axis, ...]]]) -> Iterator[tuple[At, str]]:
    """The terms that are one tensor alone, each with a tensor of the same axes that it may have been added to."""
    parts = Add.make_args(value)
    for term in parts:
        if isinstance(term, At) and len(parts) > 1:
            for name, dims in others:
                if name != term.name and dims == term.index:
                    yield term, name


def _terms(value: Expr) -> Iterator[Change]:
    parts = Add.make_args(value)
    if len(parts) > 1:
        for term in parts:
            yield Change(f"without the term {_signed(term)}", "missing term", value - term)
        for term in parts:
            yield Change(f"with the term {_signed(term)} twice", "term counted twice", value + term)
            yield Change(f"with the sign of {_signed(term)} reversed", "wrong sign", value - 2 * term)


def alone(value: Expr) -> Iterator[Change]:
    """Of several terms one: each was written over the one before."""
    parts = Add.make_args(value)
    for term in parts if len(parts) > 2 else ():
        yield Change(f"with the term {_signed(term)} alone", "overwritten instead of accumulated", term)


def _factors_of_all(value: Expr) -> Iterator[Change]:
    parts = Add.make_args(value)
    common = [f for f in _factors(parts[0]) if all(f in _factors(p) for p in parts[1:])]
    for factor in common:
        yield Change(f"without the factor {factor}", _scale_error(factor), Add(*(p / factor for p in parts)))
    for factor in common:
        yield Change(f"with the factor {factor} twice", "factor counted twice", Add(*(p * factor for p in parts)))


def _factors_of_one(value: Expr) -> Iterator[Change]:
    parts = Add.make_args(value)
    if len(parts) > 1:
        for term in parts:
            for factor in _factors(term):
                text = f"without the factor {factor} in {_signed(term)}"
                yield Change(text, _scale_error(factor), value - term + term / factor)
    for inner in sorted(value.atoms(Sigma), key=str):
        body, bound = opened(inner)
        for factor in _factors(body):
            if free_axes(body / factor) >= set(bound):
                less = sigma(body / factor, bound)
                text = f"without the factor {_plain(factor)} inside {inner}"
                yield Change(text, _scale_error(factor), value.xreplace({inner: less}))
        for term in Add.make_args(value):
            if inner in _factors(term):
                for axis in bound:
                    text = f"with a mean over {axis.base} in place of a sum in {_signed(term)}"
                    yield Change(text, "wrong scale", value - term + term / Size(axis))


def _axes(value: Expr, axes: Sequence[Axis]) -> Iterator[Change]:
    """A sum over another axis, and what a sum leaves read along another axis."""
    for inner in sorted(value.atoms(Sigma), key=str):
        _, bound = opened(inner)
        for axis in (a for a in bound if Axis(a.base) in axes):
            if len(bound) == 1:
                yield _one_term(value, inner, axis)
            if Axis(axis.base) not in free_axes(inner):
                for free in sorted_axes(free_axes(inner)):
                    yield _summed_over(value, inner, axis, free)
                    yield _along(value, inner, free, Axis(axis.base))
    for at in sorted(value.atoms(At), key=str):
        mine = [i for i in at.index if isinstance(i, Axis)]
        if len(mine) == 1 == len(at.index) and mine[0] in axes:
            yield from (_along(value, at, mine[0], a) for a in axes if a not in mine)


def _one_term(value: Expr, inner: Expr, axis: Axis) -> Change:
    """A sum over one axis without its other terms."""
    own, (body, _) = Axis(axis.base), opened(inner)
    text = f"with the one term {own.base}' = {own.base} of {inner}"
    return Change(text, "missing term", value.xreplace({inner: body.xreplace({axis: own})}))


def _summed_over(value: Expr, inner: Expr, axis: Axis, free: Axis) -> Change:
    """A sum over an axis that is free in it, in place of one of its own."""
    body, bound = opened(inner)
    own, summed = Axis(axis.base), free.copied(axis.copy_number)
    swapped = sigma(body.xreplace({axis: own, free: summed}), [summed if a == axis else a for a in bound])
    text = f"with the sum over {free.base} instead of {own.base} in {inner}"
    return Change(text, "wrong axis", value.xreplace({inner: swapped}))


def _along(value: Expr, part: Expr, free: Axis, axis: Axis) -> Change:
    """A tensor or a sum with one axis in place of another."""
    text = f"with {part} broadcast along {axis.base} instead of {free.base}"
    return Change(text, "wrong axis", value.xreplace({part: part.xreplace({free: axis})}))


def _tensors(value: Expr, tensors: Tensors) -> Iterator[Change]:
    reads = sorted(value.atoms(At), key=str)
    for name in dict.fromkeys(at.name for at in reads):
        mine = [at for at in reads if at.name == name]
        for other, dims in tensors.items():
            if other != name and len(dims) == len(mine[0].index) and dims == tensors.get(name):
                put = {at: At(Tensor(other), *at.index) for at in mine}
                yield Change(f"with {other} in place of {name}", "wrong saved tensor", value.xreplace(put))


def _degrees_of_freedom(value: Expr) -> Iterator[Change]:
    """One less than a length in its place, or the length where there was one less."""
    for size in sorted(value.atoms(Size), key=str):
        less = {a: a + 1 for a in value.atoms(Add) if a == size - 1}
        text = f"with {size} in place of {size - 1}" if less else f"with {size - 1} in place of {size}"
        yield Change(text, "degrees of freedom", value.xreplace(less or {size: size - 1}))


def masks(value: Expr, axes: Sequence[Axis], others: Sequence[Boolean]) -> Iterator[Change]:
    """A choice taken the other way, not made, or made by another condition; what has none under one of the others."""
    choices = sorted(value.atoms(Where), key=str)
    for choice in choices:
        condition, a, b = choice.args
        for other in (Not(condition), *(o for o in others if o != condition and free_axes(o) <= free_axes(choice))):
            put = {choice: Where(other, a, b)}
            yield Change(f"with {other} in place of {condition}", "wrong mask", value.xreplace(put))
        for branch in (a, b):
            if branch != 0:
                yield Change(f"with {branch} in place of {choice}", "missing mask", value.xreplace({choice: branch}))
    if len(choices) > 1:
        bare = value.replace(Where, lambda condition, a, b: a if b == 0 else b if a == 0 else Where(condition, a, b))
        yield Change("without its masks", "missing mask", bare)
    for other in others if not choices else ():
        if free_axes(other) <= set(axes):
            yield Change(f"where {other} alone", "wrong mask", Where(other, value, S.Zero))


def _inside(value: Expr) -> Iterator[Change]:
    """Of what a root or a function is taken of: a term less, or outside of the root; a sum in place of one of it."""
    for outer in sorted(value.atoms(Pow, Function), key=str):
        inner = outer.args[0]
        for term in inner.args if isinstance(inner, Add) else ():
            if isinstance(term, At) and not free_axes(inner) - free_axes(term):
                put = {p: p.func(inner, *p.args[1:]) for p in value.atoms(Pow) if p.base == term}
                yield Change(f"with {inner} in place of {term}", "extra term", value.xreplace(put))
            put = outer.xreplace({inner: inner - 2 * term})
            yield Change(f"with {put} in place of {outer}", "wrong sign", value.xreplace({outer: put}))
            put = outer.xreplace({inner: inner - term})
            error = "degrees of freedom" if inner.atoms(Size) and not inner.atoms(At) else "missing term"
            yield Change(f"with {put} in place of {outer}", error, value.xreplace({outer: put}))
            if isinstance(outer, Pow) and outer.exp.is_Rational and outer.exp.q == 2 and not free_axes(term):
                for outside in (term, term.base if isinstance(term, Pow) else Pow(term, S.Half)):
                    put = Pow(Pow(inner - term, S.Half) + outside, 2 * outer.exp)
                    text = f"with {put} in place of {outer}"
                    yield Change(text, "term outside of the root", value.xreplace({outer: put}))


def _scales(value: Expr, axes: Sequence[Axis]) -> Iterator[Change]:
    summed = {Size(a) for s in value.atoms(Sigma) for a in s.over}
    sizes = sorted(summed | value.atoms(Size) | set(map(Size, axes)), key=str)
    numbers = sorted(value.atoms(Scalar), key=str)
    for factor in (S.NegativeOne, _TWO, 1 / _TWO):
        error = "wrong sign" if factor == -1 else "missing scale"
        yield Change(f"times {factor}", error, factor * value)
    for factor in (*sizes, *numbers):
        yield Change(f"times {factor}", "missing scale", value * factor)
        yield Change(f"divided by {factor}", "missing scale", value / factor)
    yield Change("times 0", "missing gradient", S.Zero)


def _extra(value: Expr, axes: Sequence[Axis], tensors: Tensors) -> Iterator[Change]:
    """A factor too many on one of several terms."""
    parts = Add.make_args(value)
    for term in parts if len(parts) > 1 else ():
        for name, dims in tensors.items():
            if set(dims) <= set(axes):
                factor = At(Tensor(name), *dims)
                yield Change(f"with {factor} times {_signed(term)}", "extra factor", value - term + term * factor)


def _factors(term: Expr) -> list[Expr]:
    """The factors of a product, bare numbers but 1 and -1 among them; of a power, one factor too."""
    whole = [f for f in Mul.make_args(term) if f not in (S.One, S.NegativeOne)]
    return whole + [f.base for f in whole if f.is_Pow and f.exp.is_Integer and f.exp > 1]


def _scale_error(factor: Expr) -> str:
    """A factor without axes is a scale."""
    return "missing factor" if free_axes(factor) else "missing scale"


def _signed(term: Expr) -> str:
    return str(term)


def _plain(factor: Expr) -> str:
    """A factor of an opened sum with its own axes' plain names."""
    put = {a: Axis(a.base) for a in free_axes(factor)}
    return str(factor.xreplace(dict(put)))
