"""A Jacobian's entry as equations, by tangents or by cotangents: what `derivative(f.u[n], x[m, d])` stands for.

The local derivatives are those of the chain rule. A tensor's derivative is a sum of parts, each a product of deltas
between its own indices and those of the other tensor, and of a value that lacks the axes which the deltas tell: a
derivative along a diagonal is of that size, and nothing is made for pairs of places that do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Add, And, Basic, Eq, Expr, Function, Mul, Pow, S, expand

from derive.adjoint.chain_rule import local_of, pieces
from derive.errors import DeriveError
from derive.ir.algebra import is_contraction, opened_by_name
from derive.ir.equations import Equation, Operand
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.indices import Merge, Prefix
from derive.ir.terms.names import free_name, new_name
from derive.ir.terms.products import by_axes
from derive.ir.terms.reductions import Reduce, Sigma

_SUMMED = 900  # copies of an equation's own axes while they are summed over

_State = Any  # int | Expr | None, which SymPy without types cannot say
"""Of a slot of the other tensor: the own slot that it equals, a place, or None where it is any place."""

_Matches = tuple[tuple[int, int], ...]
"""Own slots, each with the slot of the other tensor that it equals wherever there is a derivative."""


@dataclass(frozen=True)
class Part:
    """A part of a tensor's derivative: 0 where an own slot differs from one it matches, else a value over the slots."""

    matches: _Matches
    value: Expr


@dataclass
class Derived:
    """What has been derived so far, so that a second derivative finds the first one's equations."""

    parts: dict[tuple[bool, str, str, tuple[_State, ...]], tuple[Part, ...]] = field(default_factory=dict)
    sums: dict[Expr, Expr] = field(default_factory=dict)  # in local derivatives, by their names

    def renamed(self, names: Mapping[str, str], swap: Mapping[Basic, Basic]) -> Derived:
        """The same under other names of tensors."""
        parts = {
            (forward, names.get(root, root), names.get(name, name), states): tuple(
                replace(p, value=p.value.xreplace(swap)) for p in own
            )
            for (forward, root, name, states), own in self.parts.items()
        }
        return Derived(parts, {s.xreplace(swap): at.xreplace(swap) for s, at in self.sums.items()})


@dataclass(frozen=True)
class Known:
    """A spec so far, and how an equation is added: its name or one like it, what stands on the left, its value."""

    equations: Sequence[Equation]
    tensors: Mapping[str, tuple[Tensor, tuple[Expr, ...]]]
    operands: Mapping[str, Operand]
    lengths: dict[Axis, Expr]  # of axes, as the body says them
    derived: Derived
    invent: Callable[[str, tuple[Expr, ...], Expr], Tensor]


@dataclass(frozen=True)
class _Term:
    """Deltas between indices and slots of the other tensor, times a value, summed over axes."""

    deltas: tuple[tuple[Expr, int], ...]
    value: Expr
    over: tuple[Axis, ...] = ()
    whole: frozenset[Expr] = frozenset()  # axes that run over all places of what they index
    asked: tuple[Basic, ...] = ()  # it is 0 where one of these does not hold

    def put(self, swap: Mapping[Basic, Basic]) -> _Term:
        deltas = tuple((a.xreplace(swap), t) for a, t in self.deltas)
        asked = tuple(c.xreplace(swap) for c in self.asked)
        return replace(self, deltas=deltas, value=self.value.xreplace(swap), asked=asked)


def derivative_of(y: At, x: At, known: Known) -> Expr:
    """The entry d y / d x, over the indices of both; its equations are added to the spec.

    By tangents where `x` brings no more axes that `y` lacks than the other way round, else by cotangents.
    Raises DeriveError where an equation has no derivative, or where `...` would stand for two runs of axes.
    """
    own, others = (len([i for i in a.index if free_axes(i) and i not in b.index]) for a, b in ((x, y), (y, x)))
    of, by = (y, x) if own <= others else (x, y)
    terms = _Jacobian(known, by.name, of.name, forward=own <= others).entry(of.name, of.index, by.index)
    return Add(*(_under([_same(a, by.index[t]) for a, t in term.deltas], term.value) for term in terms))


class _Jacobian:
    """Tangents of what is made of the tensor `root`, as far as `end`; or cotangents of what `root` is made of."""

    def __init__(self, known: Known, root: str, end: str, forward: bool):
        self.known, self.root, self.forward = known, root, forward
        first, last = (root, end) if forward else (end, root)
        after, before = {first}, {last}
        for e in known.equations:
            if e.name != first and not e.free and any(at.name in after for at in e.reads):
                after.add(e.name)
        for e in reversed(known.equations):
            if e.name != first and e.name in before:
                before |= {at.name for at in e.reads}
        self.between = after & before

    def entry(self, name: str, index: tuple[Expr, ...], other: tuple[Expr, ...]) -> list[_Term]:
        """The derivative of a tensor at an index by the root at another one; or of the root by the tensor."""
        if name == self.root:
            return [_Term(tuple((i, t) for t, i in enumerate(index)), S.One)]
        if name not in self.between:
            return []
        put = {_own(s): i for s, i in enumerate(index)} | {_other(t): i for t, i in enumerate(other)}
        states = tuple(_state(i, index) for i in other)
        found = self._known_parts(name, states)
        return [_Term(tuple((index[s], t) for s, t in p.matches), p.value.xreplace(put)) for p in found]

    def _known_parts(self, name: str, states: tuple[_State, ...]) -> tuple[Part, ...]:
        key, parts = (self.forward, self.root, name, states), self.known.derived.parts
        if key not in parts:
            made = tuple(self._parts(name, states))
            self.known.derived.parts[key] = made
        return parts[key]

    def _parts(self, name: str, states: tuple[_State, ...]) -> Iterator[Part]:
        left = self._left(name)
        e = next((e for e in self.known.equations if e.name == name), None)
        if self.forward and e is not None and isinstance(e.body, Concat):
            groups = self._joined(e, states)
        else:
            other = _others(left, states)
            terms = self._tangents(e, other) if self.forward and e is not None else self._cotangents(name, left, other)
            groups = {matches: self._total(own, left) for matches, own in _settled(terms, left, states).items()}
        groups = {matches: value for matches, value in groups.items() if value != 0}
        places = "".join(str(s) for s in states if isinstance(s, Expr) and s.is_Integer)
        stem = f"{name}_{self.root}{places}" if self.forward else f"{self.root}_{name}"
        for matches, value in groups.items():
            suffix = "" if len(groups) == 1 else "_own" if matches else "_others"
            yield Part(matches, self._named(name, stem + suffix, value, left))

    def _tangents(self, e: Equation, other: tuple[Expr, ...]) -> Iterator[_Term]:
        """What each read of an equation adds to its tangent."""
        whole = frozenset(a for a in (*e.axes, *e.over) if self._is_whole(a, e))
        for read in (r for r in e.reads if r.name in self.between):
            local = self._local(e, read)
            for term in self.entry(read.name, read.index, other) if local != 0 else ():
                yield _Term(term.deltas, _masked(local, term.value, read), e.over, whole)

    def _joined(self, e: Equation, states: tuple[_State, ...]) -> dict[_Matches, Expr]:
        """The tangent of a concatenation: that of each piece, of as many places."""
        assert isinstance(e.body, Concat)
        found: list[dict[_Matches, list[_Term]]] = []
        for piece, at in pieces(e, e.target):
            terms = self._tangents(piece, _others(at.index, states))
            found.append(_settled(terms, e.index, states, _others(at.index, states)))
        out = {}
        for matches in dict.fromkeys(m for groups in found for m in groups):
            totals = [self._total(groups.get(matches, []), e.index) for groups in found]
            both = zip(totals, e.over, e.body.pieces, strict=True)
            joined = (_along(total, a) if a in free_axes(piece) else total for total, a, piece in both)
            out[matches] = Concat(e.body.along, *joined)
        return out

    def _cotangents(self, name: str, left: tuple[Axis, ...], other: tuple[Expr, ...]) -> Iterator[_Term]:
        """What each read of a tensor adds to its cotangent, over the tensor's own axes."""
        for e in (e for e in self.known.equations if e.name in self.between):
            for piece, at in pieces(e, e.target):
                for read in (r for r in piece.reads if r.name == name):
                    yield from self._pulled_back(piece, at.index, read, left, other)

    def _pulled_back(
        self, e: Equation, index: tuple[Expr, ...], read: At, left: tuple[Axis, ...], other: tuple[Expr, ...]
    ) -> Iterator[_Term]:
        axes = {*e.axes, *e.over}
        whole = {a for a in axes if self._is_whole(a, e)}
        put: dict[Basic, Basic] = {}
        apart = []
        for own, i in zip(left, read.index, strict=True):
            if i in whole and i not in put:
                put[i] = own
            else:
                apart.append((i, own))
        over = {a: a.copied(_SUMMED + k) for k, a in enumerate(sorted_axes(axes - set(put)))}
        put |= over
        local = self._local(e, read).xreplace(put)
        asked = tuple(_same(i.xreplace(put), own) for i, own in apart)
        whole_there = frozenset(put[a] for a in whole)
        for term in self.entry(e.name, tuple(i.xreplace(put) for i in index), other) if local != 0 else ():
            yield _Term(term.deltas, _product(local, term.value), tuple(over.values()), whole_there, asked)

    def _local(self, e: Equation, read: At) -> Expr:
        """The local derivative, its sums, as of how many share a maximum, read by name."""
        local = local_of(e, read)
        for total in sorted(local.atoms(Sigma), key=lambda s: s.sort_key()):
            sums = self.known.derived.sums
            if total not in sums:
                body, over = opened_by_name(total, set())
                axes = tuple(a for a in e.axes if a in free_axes(total))
                made = self.known.invent(f"{e.name}_ties", axes, Reduce("sum", body, *over))
                self.known.derived.sums[total] = At(made, *axes)
            local = local.xreplace({total: self.known.derived.sums[total]})
        return local

    def _left(self, name: str) -> tuple[Expr, ...]:
        """What a tensor's derivative runs over: forward what its equation has, backward an axis a dimension."""
        operand = self.known.operands.get(name)
        if operand is not None:
            return operand.axes
        index, out = self.known.tensors[name][1], list[Expr]()
        if self.forward:
            return index
        for slot, i in enumerate(index):
            reads = [at.index[slot] for e in self.known.equations for at in e.reads if at.name == name]
            plain = [a for a in (i, *reads) if isinstance(a, Axis) and a not in out and (a == i or a not in index)]
            out.append(plain[0] if plain else self._fresh(i, name))
        return tuple(out)

    def _fresh(self, dim: Expr, of: str) -> Axis:
        """An axis of another name that is as long as a dimension, for the derivative of a tensor, or by it."""
        if dim.is_pack if isinstance(dim, Axis) else any(a.is_pack for a in free_axes(dim)):
            raise _two_runs(of, self.root) if self.forward else _two_runs(self.root, of)
        names = {a.base for _, index in self.known.tensors.values() for i in index for a in free_axes(i)}
        names |= {a.base for e in self.known.equations for a in (*e.body.atoms(Axis), *e.over)}
        stem = "_".join(a.base for a in (dim.args if isinstance(dim, Merge) else (dim,)))
        made = Axis(free_name(stem, names | {a.base for a in self.known.lengths}), fixed=getattr(dim, "fixed", None))
        if made.fixed is None:
            self.known.lengths[made] = Mul(*map(Size, dim.args)) if isinstance(dim, Merge) else Size(dim)
        return made

    def _named(self, of: str, stem: str, value: Expr, left: tuple[Expr, ...]) -> Expr:
        """A value over the slots of both tensors: as it is where it is one element, else read by a name.

        Its tensor lacks the axes that the value lacks.
        """
        plain = all(isinstance(i, Axis) for i in left)
        made_of = value.atoms(Reduce, Concat, Function, Pow, Add)
        if plain and len(value.atoms(At)) <= 1 and not any(e.has(At, Reduce, Concat) for e in made_of):
            return value.xreplace({i: _own(s) for s, i in enumerate(left)})
        own = {s: i for s, i in enumerate(left) if not plain or i in free_axes(value)}
        dims = self._dims(self.root)
        others: dict[int, Axis] = {}
        for t, dim in enumerate(dims):
            if _other(t) in free_axes(value):
                beside = (r for r in value.atoms(Reduce) if _other(t) in free_axes(r))
                used = {*free_axes(value), *(a for r in beside for a in r.atoms(Axis)), *others.values()}
                used |= {a for i in own.values() for a in free_axes(i)}
                others[t] = dim if isinstance(dim, Axis) and dim not in used else self._fresh(dim, of)
        value = value.xreplace({_other(t): a for t, a in others.items()})
        made = self.known.invent(stem, (*own.values(), *others.values()), value)
        return At(made, *map(_own, own), *map(_other, others))

    def _total(self, terms: Sequence[_Term], left: tuple[Expr, ...]) -> Expr:
        """The sum of terms: a sum over axes of one product each, or of all that have the same factors outside."""
        out = []
        together: dict[tuple[Expr, tuple[Axis, ...]], list[Expr]] = {}
        for term in terms:
            inside, outside = by_axes(list(Mul.make_args(term.value)), term.over)
            asked = [c for c in term.asked if free_axes(c) & set(term.over)]
            inner = _under(asked, Mul(*inside))
            over = tuple(a for a in term.over if a in free_axes(inner))
            outside += [Size(a) for a in term.over if a not in over]
            outer = _under([c for c in term.asked if c not in asked], Mul(*outside))
            if not over:
                out.append(outer * inner)
                continue
            names = _names(over, inner, left)
            inner, over = inner.xreplace(dict(names)), tuple(names.values())
            if is_contraction(inner):
                out.append(outer * Reduce("sum", inner, *over))
            else:
                together.setdefault((outer, over), []).append(inner)
        sums = ((outer, Add(*inner), over) for (outer, over), inner in together.items())
        kept = ((outer, inner, over) for outer, inner, over in sums if not self._is_of_deviations(inner, over))
        return Add(*out, *(outer * Reduce("sum", inner, *over) for outer, inner, over in kept))

    def _is_of_deviations(self, inner: Expr, over: tuple[Axis, ...]) -> bool:
        """Whether a sum is one of deviations from a mean, which is 0."""
        if len(over) != 1:
            return False
        made = {e.name: e for e in self.known.equations if e.kind is None and e.is_plain}
        axis, total = over[0], inner
        while put := {
            at: made[at.name].at(at.index)
            for at in total.atoms(At)
            if axis in at.index and at.name in made and self._mean(at, axis) is None
        }:
            total = total.xreplace(put)
        out = []
        for term in Add.make_args(expand(total)):
            inside, outside = by_axes(Mul.make_args(term), over)
            if len(inside) > 1 or (inside and (mean := self._mean(inside[0], axis)) is None):
                return False
            out.append(Mul(*outside, *([mean] if inside else [])))
        return bool(Add(*out) == 0)

    def _mean(self, value: Expr, axis: Axis) -> Expr | None:
        """The mean of an element along an axis, where an equation says it."""
        for e in self.known.equations:
            if e.kind != "mean" or not isinstance(value, At) or not isinstance(e.body, At) or e.body.name != value.name:
                continue
            put = dict(zip(e.body.index, value.index, strict=True))
            if len(e.over) == 1 and e.is_plain and put.get(e.over[0]) == axis and value == e.body.xreplace(put):
                return e.scale * e.left.xreplace(put)
        return None

    def _dims(self, name: str) -> tuple[Expr, ...]:
        operand = self.known.operands.get(name)
        return operand.axes if operand is not None else self.known.tensors[name][1]

    def _is_whole(self, axis: Axis, e: Equation) -> bool:
        """Whether an axis runs over all places of every dimension that an equation reads by it."""
        said = {*self.known.lengths, *(o.ranges_over for o in self.known.operands.values() if o.kind == "length")}
        for at in e.reads:
            for i, dim in zip(at.index, self._dims(at.name), strict=True):
                if i != axis and axis in free_axes(i) and not isinstance(i, Merge | At):
                    return False
                if i == axis and dim != axis and ({axis, dim} & said or getattr(dim, "fixed", None) != axis.fixed):
                    return False
        return True


def _two_runs(of: str, by: str) -> DeriveError:
    return DeriveError(
        f"a derivative of {of} by {by} has `...` twice, once of each",
        fix="name the axes: tensor[n, d] in the place of tensor[..., d]",
    )


def _own(slot: int) -> Axis:
    return Axis(f"<{slot}>")


def _other(slot: int) -> Axis:
    return Axis(f"<{slot}'>")


def _state(i: Expr, index: tuple[Expr, ...]) -> _State:
    if not i.atoms(Axis, At):
        return i
    return index.index(i) if i in index else None


def _others(left: tuple[Expr, ...], states: tuple[_State, ...]) -> tuple[Expr, ...]:
    """The other tensor's index: own places, given places, or any."""
    return tuple(_other(t) if s is None else left[s] if isinstance(s, int) else s for t, s in enumerate(states))


def _same(a: Expr, b: Expr) -> Basic:
    """Whether two indices are one place."""
    a, b = (i.replace(Prefix, lambda axis: axis).replace(Merge, _counted) for i in (a, b))
    return Eq(a, b) if (a - b).atoms(Axis, At) else Eq(a - b, S.Zero)  # of lengths alone: a circle of one place


def _counted(*axes: Expr) -> Expr:
    out: Expr = S.Zero
    for a in axes:
        out = out * Size(a) + a
    return out


def _under(asked: Sequence[Basic], value: Expr) -> Expr:
    """A value where conditions hold, else 0. What is asked of lengths alone is a factor: it keeps nothing inside."""
    places = [c for c in asked if c.atoms(Axis, At)]
    lengths = And(*(c for c in asked if c not in places))
    return Where(lengths, S.One, S.Zero) * (Where(And(*places), value, S.Zero) if places else value)


def _product(local: Expr, value: Expr) -> Expr:
    """A product whose number stands in front: SymPy has `2*z - 2*mu` for `2*(z - mu)`, another tensor than `z - mu`."""
    parts = [f.primitive() if f.is_Add else (S.One, f) for f in Mul.make_args(local)]
    return Mul(*(f for _, f in parts)) * Mul(*(number for number, _ in parts), value)


def _masked(local: Expr, value: Expr, read: At) -> Expr:
    """A product, its value under the mask of the local derivative where that keeps what is read inside its axis."""
    mask = next((f for f in Mul.make_args(local) if isinstance(f, Where) and S.Zero in f.args[1:]), None)
    if mask is None or all(isinstance(i, Axis) for i in read.index):
        return _product(local, value)
    return local / mask * Where(mask.condition, mask.args[1] * value, mask.args[2] * value)


def _along(total: Expr, own: Axis) -> Expr:
    """A piece that shows the axis which it runs over; another would be one place."""
    if own in free_axes(total):
        return total
    return Where(own < Size(own), total, S.One if total == 0 else S.Zero)


def _settled(
    terms: Iterator[_Term], left: tuple[Expr, ...], states: tuple[_State, ...], other: tuple[Expr, ...] | None = None
) -> dict[_Matches, list[_Term]]:
    """Terms without deltas, by the own slots that match others.

    A delta contracts the sum over its index, is a match of an own slot, or becomes a condition.
    """
    out: dict[_Matches, list[_Term]] = {}
    other = _others(left, states) if other is None else other
    for term in terms:
        matches = []
        while term.deltas and term.value != 0:
            (a, t), *rest = term.deltas
            b, term = other[t], replace(term, deltas=tuple(rest))
            if a == b:
                continue
            if a.is_Integer and b.is_Integer:
                term = replace(term, value=S.Zero)
            elif a in term.over and a in term.whole:
                term = replace(term.put({a: b}), over=tuple(o for o in term.over if o != a))
            elif a in left and a in term.whole and not isinstance(states[t], int):
                matches.append((left.index(a), t))
                term = term.put({b: a} if states[t] is None else {a: b})
            else:
                term = replace(term, asked=(*term.asked, _same(a, b)))
        if term.value != 0 and S.false not in term.asked:
            out.setdefault(tuple(sorted(matches)), []).append(term)
    return out


def _names(over: tuple[Axis, ...], inner: Expr, left: tuple[Expr, ...]) -> dict[Axis, Axis]:
    """Copies that are summed over under the names of their axes, or others where those stand beside them."""
    taken = {a.base for part in (inner, *left) for a in part.atoms(Axis) if a not in over}
    out = {}
    for a in over:
        name = a.base if a.is_pack else new_name(a.base, taken)
        out[a] = a.renamed(name)
    return out
