"""Law: an adjoint that every reader multiplies by one and the same factor is better named with that factor.

Behind a softmax, `ds = -sum(dp*p)/s` is read as `ds*s` alone: that is `-sum(dp*p)`, which divides by nothing. So it is
of a softmax over segments, where `ds[g[e]]*s[g[e]]` is read at the same places: one gather, where there were two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sympy import Add, Expr, Mul, S

from derive.ir.algebra import normal, opened, sigma
from derive.ir.terms.elements import At, Scalar, Tensor, at_index, tensor_names
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Sigma
from derive.schedule.backward import stem_of_sum
from derive.schedule.definitions import Definition


@dataclass(frozen=True)
class Carried:
    """What changes where a definition is named with a factor: it and its readers, by the names that they had.

    A reader that is that and no more gives it its name, and is none of its own then.
    """

    of: dict[str, Definition | None]
    before: dict[str, Expr]
    reason: str

    def within(self, definitions: Iterable[Definition]) -> list[Definition]:
        """Some definitions with what changes of them."""
        return [new for d in definitions if (new := self.of.get(d.name, d)) is not None]


def carried(definitions: list[Definition], name: str, taken: Collection[str]) -> Iterator[Carried]:
    """Every way to name this definition with a factor of all its readers."""
    d = next(d for d in definitions if d.name == name)
    readers = [other for other in definitions if name in tensor_names(other.value)]
    others = {*taken, *(o.name for o in definitions)}
    for factor in next((f for r in readers for f in _beside(r.value, d)), ()) if d.axes else ():
        value = normal(d.value * factor)
        if isinstance(-value, Sigma):  # the sum is named, and taken away where it is read
            value, factor = -value, -factor
        name_of_both = stem_of_sum(value) if isinstance(value, Sigma) else _label(d.name, factor)
        new = At(Tensor(free_name(name_of_both, others)), *d.axes)
        less = value.count_ops() < d.value.count_ops()
        moved = {r.name: _moved(r.value, d, factor, new, through_sums=less) for r in readers}
        if all(v is not None for v in moved.values()):
            of = {r.name: replace(r, value=moved[r.name]) for r in readers}
            of[name] = replace(d, name=new.name, value=value)
            yield _change(of, d, factor, readers)


def _change(of: Mapping[str, Definition], d: Definition, factor: Expr, readers: list[Definition]) -> Carried:
    """The change to these definitions; a reader that is the new element alone gives both its name: `dx = dv/s`."""
    new, both = of[d.name], At(Tensor(d.name), *d.axes) * factor
    element = At(Tensor(new.name), *d.axes)
    before = {r.name: r.value for r in readers}
    same = next((r for n, r in of.items() if r.value == element and r.axes == d.axes), None)
    if same is None:
        return Carried(dict(of), before | {d.name: d.value * factor}, f"{element} = {both}")
    put, names = {element.tensor: Tensor(same.name)}, {new.name: same.name}
    renamed = {n: replace(r, name=names.get(r.name, r.name), value=r.value.xreplace(put)) for n, r in of.items()}
    return Carried(renamed | {same.name: None}, before | {d.name: both}, f"{element.xreplace(put)} = {both}")


def _label(name: str, factor: Expr) -> str:
    base, exponent = factor.as_base_exp()
    return f"{name}_over_{base.name}" if exponent.is_negative else f"{name}_{base.name}"


def _beside(value: Expr, d: Definition) -> Iterator[list[Expr]]:
    """What stands beside the definition in each product, over its own axes."""
    for term in Add.make_args(value):
        yield from _beside_in(list(Mul.make_args(term)), d)


def _beside_in(factors: list[Expr], d: Definition) -> Iterator[list[Expr]]:
    for f in factors:
        if isinstance(f, At) and f.name == d.name:
            own = dict(zip(f.index, d.axes, strict=True))
            yield [g for other in factors if other != f and (g := _at_axes(other, own)) is not None]
        elif isinstance(f, Sigma):
            yield from _beside_in([*Mul.make_args(f.body), *(o for o in factors if o != f)], d)


def _at_axes(factor: Expr, own: dict[Expr, Expr]) -> Expr | None:
    """A factor that is an element, a number, or one divided by it, read at the axes of the definition."""
    base, exponent = factor.as_base_exp()
    if exponent not in (1, -1) or not isinstance(base, At | Scalar):
        return None
    if isinstance(base, Scalar):
        return factor
    fits = all(i in own for i in base.index)
    return At(base.tensor, *(own[i] for i in base.index)) ** exponent if fits else None


def _moved(value: Expr, d: Definition, factor: Expr, new: At, through_sums: bool) -> Expr | None:
    """The value with the definition and the factor as one; none where it is read without.

    With `through_sums`, the factor may stand before the sum that reads the definition.
    """
    terms = [_moved_in(t, d, factor, new, through_sums) for t in Add.make_args(value)]
    return None if any(t is None for t in terms) else Add(*terms)


def _moved_in(term: Expr, d: Definition, factor: Expr, new: At, through_sums: bool) -> Expr | None:
    if d.name not in tensor_names(term):
        return term
    reads = [f for f in Mul.make_args(term) if d.name in tensor_names(f)]
    if len(reads) != 1:
        return None
    (read,) = reads
    others = term / read
    if isinstance(read, At):
        return _without(others, *(at_index(e, d.axes, read.index) for e in (factor, new)))
    if not isinstance(read, Sigma):
        return None
    body, bound = opened(read)
    inside = _moved_in(body, d, factor, new, through_sums)
    if inside is None and through_sums:
        inside, others = _moved_in(body * others, d, factor, new, through_sums), S.One
    return None if inside is None else others * sigma(inside, bound)


def _without(others: Expr, factor: Expr, new: Expr) -> Expr | None:
    """What stands beside an element without the factor, and the new element in the place of the old."""
    base, exponent = factor.as_coeff_Mul()[1].as_base_exp()
    have = others.as_powers_dict().get(base, 0)
    return others / factor * new if have * exponent >= 1 else None
