"""Lengths for the axes of an op's inputs that fit together: merges divide, windows have room, places exist.

A wish is repaired, one axis at a time, until the op's own rules hold: `size(i) == size(t)*size(e)` where `(t, e)` is
read as `i`, `size(h) - size(k) + 1 >= 1` for a window.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import floor, prod

from sympy import Add, Basic, Expr, Ge, Integer, Max, Min, Mul, Pow, Rational, S, nan, zoo
from sympy import Eq as Equal
from sympy import floor as Floor
from sympy.core.relational import Relational

from derive.facts.lengths.sizes import size_of
from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.indices import Merge, Part, Prefix
from derive.ir.terms.windows import affine
from derive.verify.leading import named_dims
from derive.verify.reference import all_sizes

_LONGEST = 48
_ROUNDS = 24
_FARTHEST = 160  # of an offset, for which there is to be room


@dataclass(frozen=True)
class _Rules:
    """What must hold of the lengths of the inputs' axes. Each rule is a relation, or a formula that must be whole."""

    axes: tuple[str, ...]
    whole: tuple[Expr, ...]
    relations: tuple[Basic, ...]

    @cached_property
    def lengths(self) -> tuple[tuple[Expr, _Formula], ...]:
        """What must be whole, each beside its value at given lengths."""
        return tuple((w, _formula(w)) for w in self.whole)

    @cached_property
    def held(self) -> tuple[tuple[Basic, Callable[[_Number, _Number], bool], _Formula, _Formula], ...]:
        """The relations, each beside what compares its sides, and these."""
        never = (operator.eq, lambda at: 0, lambda at: 1)
        compared = {Equal: operator.eq, Ge: operator.ge}
        return tuple(
            (r, *(never if r == S.false else (compared[r.func], *map(_formula, r.args)))) for r in self.relations
        )


_Number = int | Fraction
_Formula = Callable[[Mapping[str, int]], _Number]


def _formula(e: Basic) -> _Formula:
    """A formula of lengths as a function of them, which may divide by zero: SymPy takes a hundred times as long."""
    if isinstance(e, Size):
        name = e.axis.base
        return lambda at: at[name]
    if isinstance(e, Rational):
        value: _Number = int(e) if e.is_Integer else Fraction(int(e.p), int(e.q))
        return lambda at: value
    parts = [_formula(a) for a in e.args]
    if isinstance(e, Pow) and e.exp.is_Integer:
        base, exponent = parts[0], int(e.exp)
        return lambda at: Fraction(base(at)) ** exponent
    joined = _JOINED.get(e.func) or _joined_by_sympy(e)
    return lambda at: joined([p(at) for p in parts])


def _joined_by_sympy(e: Basic) -> Callable[[list[_Number]], _Number]:
    def joined(numbers: list[_Number]) -> _Number:
        found = e.func(*(Rational(n.numerator, n.denominator) for n in numbers))
        return Fraction(int(found.p), int(found.q))

    return joined


_JOINED: dict[type[Basic], Callable[[list[_Number]], _Number]] = {
    Add: sum,
    Floor: lambda one: floor(one[0]),
    Max: max,
    Min: min,
    Mul: prod,
}


def fitting(op: Op, wish: Mapping[str, int], least: int = 1, longest: int = _LONGEST) -> dict[str, int] | None:
    """Lengths near the wish that the op accepts, or None where there are none nearby.

    `least` is the shortest that an axis which follows from others may be: 2 makes several windows of each tensor.
    What is changed is at most `longest`, and by no more than 48 at once.
    """
    rules = _rules_of(op)
    sizes = {a: wish[a] for a in rules.axes}
    for _ in range(_ROUNDS):
        broken = _broken(rules, sizes, least)
        if not broken:
            return sizes
        better = _repaired(rules, sizes, broken[0], least, longest)
        if better is None:
            return None
        sizes = better
    return None


def emptied(op: Op, sizes: Mapping[str, int], axis: str) -> dict[str, int] | None:
    """The lengths with one axis 0, and with it those that must be as long; None where another would not fit it."""
    rules = _rules_of(op)
    out = {**sizes, axis: 0}
    for _ in rules.axes:
        at = {Size(Axis(a)): Integer(n) for a, n in out.items()}
        broken = [r for r in rules.relations if isinstance(r, Equal) and (_fails(r, at) or r.xreplace(at) != S.true)]
        out |= {s.axis.base: 0 for r in broken for s in r.atoms(Size)}
    at = {Size(Axis(a)): Integer(n) for a, n in out.items()}
    return None if any(_fails(r, at) for r in rules.relations) else out


def _fails(relation: Basic, lengths: Mapping[Size, Integer]) -> bool:
    """Whether these lengths break a relation, or leave it without a meaning: no length is a multiple of 0."""
    at = dict(lengths)
    divisors = (p.base for p in relation.atoms(Pow) if p.exp.is_negative)
    if any(base.xreplace(at) == 0 for base in sorted(divisors, key=lambda b: b.count_ops())):
        return True  # where what is divided stands in a minimum, SymPy has no value to compare
    left, right = (side.xreplace(at) for side in relation.args)
    return left.has(zoo, nan) or right.has(zoo, nan) or relation.func(left, right) == S.false


def filled(op: Op, sizes: Mapping[str, int], long: str, goal: int, room: int) -> dict[str, int]:
    """Lengths that fit, as long as so many places of the op allow: one axis first, up to a goal, then all in turn."""
    rules, out = _rules_of(op), dict(sizes)

    def grow(axis: str) -> bool:
        nonlocal out
        found = next((m for m in _grown(rules, out, axis) if places(op, m) <= room), out)
        grew = _places(op, found) != _places(op, out)  # an axis that only says what an index may be has none
        out = found if grew else out
        return grew

    while out[long] < goal and grow(long):
        pass
    while any([grow(axis) for axis in rules.axes if axis != long or len(rules.axes) == 1]):
        pass
    return out


def _grown(rules: _Rules, sizes: Mapping[str, int], axis: str) -> Iterator[dict[str, int]]:
    """The lengths with one axis twice as long, odd where that fits, or another with it that must grow with it."""
    twice = {a: 2 * sizes[a] for a in rules.axes}
    trials = [{axis: twice[axis] + 1}, {axis: twice[axis]}]
    trials += [{axis: twice[axis], other: twice[other]} for other in rules.axes if other != axis]
    for trial in trials:
        if not _broken(rules, {**sizes, **trial}, 1):
            yield {**sizes, **trial}


def places(op: Op, sizes: Mapping[str, int]) -> int:
    """How many places the largest equation has, those that it sums over included, or the largest input."""
    return max(_places(op, sizes))


def _places(op: Op, sizes: Mapping[str, int]) -> list[int]:
    every = all_sizes(op, sizes)
    axes = [*({*e.axes, *e.over} for e in op.equations), *(o.axes for o in op.operands)]
    return [prod(every[a.base] for a in own) for own in axes]


@lru_cache(maxsize=512)
def room_for_offsets(op: Op) -> dict[str, int]:
    """How long an axis must at least be for what reads or asks `t - 20` to have a place on either side of it.

    Of an axis that follows from others it is those that hold it.
    """
    found: dict[str, int] = {}
    formulas = {rule.axis.base: rule.formula for rule in op.sizes if rule.formula is not None}
    numbers = {o.name: o.default for o in op.operands if o.kind == "scalar" and o.has_default}
    for e in op.equations:
        asked = [r.lhs - r.rhs for r in e.right.atoms(Relational) if not r.atoms(At)]
        for part in (*asked, *(i for at in e.reads for i in at.index if not i.atoms(At))):
            offsets = [abs(int(n)) for n in part.atoms(Integer)]
            offsets += [abs(int(numbers.get(s.name, 0))) for s in part.atoms(Scalar)]
            for axis in free_axes(part) if offsets else ():
                own = formulas.get(axis.base, Size(axis)).atoms(Size)
                names = {s.axis.base for s in own} & {axis.base, *containers(op)}
                found |= {n: max(found.get(n, 0), min(max(offsets), _FARTHEST)) for n in names}
    return found


def free_axes_of(op: Op) -> tuple[str, ...]:
    """The axes whose lengths the caller chooses, by the inputs or by an argument, in order of appearance."""
    return _rules_of(op).axes


def _repaired(rules: _Rules, sizes: dict[str, int], rule: Expr, least: int, longest: int) -> dict[str, int] | None:
    """Change one axis of a broken rule so that fewer are broken: nearest lengths first, the last named axis first."""
    mine = [a for a in rules.axes if Size(Axis(a)) in rule.atoms(Size)]
    before = _worth(_broken(rules, sizes, least))
    fallback = None
    for length_change in sorted(range(-_LONGEST, _LONGEST + 1), key=lambda c: (abs(c), c)):
        for axis in reversed(mine):
            length = sizes[axis] + length_change
            if not 1 <= length <= longest:
                continue
            changed = {**sizes, axis: length}
            broken = _broken(rules, changed, least)
            if _worth(broken) < before:
                return changed
            if rule not in broken and fallback is None:
                fallback = changed
    return fallback


def _worth(broken: list[Expr]) -> tuple[bool, int]:
    """How bad broken rules are: a length that is none at all is worse than any number of relations."""
    return bool(broken) and not isinstance(broken[0], Relational), len(broken)


def _broken(rules: _Rules, sizes: Mapping[str, int], least: int) -> list[Expr]:
    values = [(w, _value(formula, sizes)) for w, formula in rules.lengths]
    broken = [w for w, value in values if value is None or value.denominator != 1]
    broken += [w for w, value in values if value is not None and value.denominator == 1 and value < least]
    return broken or [r for r, compare, *sides in rules.held if not _holds(compare, sides, sizes)]


def _holds(compare: Callable[[_Number, _Number], bool], sides: list[_Formula], sizes: Mapping[str, int]) -> bool:
    left, right = (_value(side, sizes) for side in sides)
    return left is not None and right is not None and compare(left, right)


def _value(formula: _Formula, sizes: Mapping[str, int]) -> _Number | None:
    """None where it divides by a length of 0."""
    try:
        return formula(sizes)
    except ZeroDivisionError:
        return None


@lru_cache(maxsize=512)
def _rules_of(op: Op) -> _Rules:
    known: dict[Basic, Basic] = {}
    axes, whole, relations = [], [], []
    for rule in op.sizes:
        if rule.formula is None:
            axes.append(rule.axis.base)
            continue
        formula = rule.formula.xreplace(known)
        known[Size(rule.axis)] = formula
        whole.append(formula)
    for relation in _read_rules(op):
        inner = relation.xreplace(known)
        if inner != S.true:
            relations.append(inner)
    return _Rules(tuple(axes), tuple(whole), tuple(dict.fromkeys(relations)))


def _read_rules(op: Op) -> Iterator[Basic]:
    """One relation for every index that could miss its dimension, and for every axis declared twice."""
    for operand in op.operands:
        for axis, declared in zip(operand.axes, operand.declared, strict=False):
            if axis != declared:
                yield Equal(Size(axis), Size(declared), evaluate=False)
    for r in op.requirements:
        if r.relation == "==":
            yield Equal(r.left, r.right, evaluate=False)
        elif r.relation == ">=":  # what must divide is a formula that must be whole already
            yield Ge(r.left, r.right, evaluate=False)
    for equation in op.equations:
        if isinstance(equation.body, Concat):
            yield Equal(Size(equation.body.along), Add(*(Size(a) for a in equation.over)), evaluate=False)
        for at in equation.reads:
            dims = named_dims(op, at.name)
            for index, dim in zip(at.index, dims, strict=True):
                yield from _index_rules(index, size_of(dim))


def _index_rules(index: Expr, length: Expr) -> Iterator[Basic]:
    if isinstance(index, Prefix):
        yield Ge(length, Size(index.args[0]), evaluate=False)
    elif isinstance(index, Axis | Merge):
        if size_of(index) != length:
            yield Equal(size_of(index), length, evaluate=False)
    elif not index.atoms(At, Part, Merge):
        form = affine(index)
        last = form.offset + Add(*(step * (Size(a) - 1) for a, step in form.steps if step > 0))
        first = form.offset + Add(*(step * (Size(a) - 1) for a, step in form.steps if step < 0))
        yield Ge(length, last + 1, evaluate=False)
        if first.is_nonnegative is not True:
            yield Ge(first, 0, evaluate=False)


def containers(op: Op) -> tuple[str, ...]:
    """The axes that hold windows or merges: longer ones leave more room, where another axis takes room away."""
    rules = _rules_of(op)
    out = []
    for formula in rules.whole:
        here = {s: Integer(24) for s in formula.atoms(Size)}
        base = formula.xreplace(here)
        grown = {s: formula.xreplace({**here, s: Integer(48)}) for s in here}
        if any(value < base for value in grown.values()):
            out += [s.axis.base for s, value in grown.items() if value > base]
    return tuple(a for a in rules.axes if a in out)
