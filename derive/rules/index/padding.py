"""A read that a condition keeps inside is one of a tensor with zeros around it: slices and convolutions, no gather.

`sum(where((t + k >= 1) & (t + k <= size(t)), w[k] * x[n, t + k - 1], 0), over=k)` reads `x_padded[n, t + k]`, which has
a zero in front of `x` and as many behind it as the windows reach. Where what is chosen is 0 with the zeros that are
read, a condition that only says so goes: this one is the convolution of `x_padded` with `w`. What a maximum is sought
among has -oo around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sympy import And, Basic, Expr, Integer, Max, Mul, S, expand, oo

from derive.facts.domains import bounds_of, end_of, never_negative, says_only_inside
from derive.facts.interpreter import Facts, facts_of
from derive.facts.lengths.sizes import closed, dimensions
from derive.facts.values import chosen
from derive.ir.equations import Equation, Op, Requirement, SizeRule
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import Concat, Where, conjuncts
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.indices import Prefix
from derive.ir.terms.names import new_name
from derive.ir.terms.windows import affine, is_window
from derive.rules.index.guards import guards_of_windows, window_of, without_guards

_Slots = dict[int, Expr]
"""By its position, the window that a dimension is read through."""

_LEAST = {"amax": -oo, "amin": oo}
"""What a maximum or a minimum does not see."""


@dataclass(frozen=True)
class _Padded:
    """A tensor with zeros around it: where each of its padded dimensions begins in a longer one."""

    target: Tensor
    before: Mapping[int, Expr]
    behind: Mapping[int, Expr]
    longer: Mapping[int, Axis]
    fill: Expr  # what stands around it


def padded(op: Op) -> Op:
    """The same op with every such read as one of a padded tensor, and the lengths of what is padded."""
    return _Padding(op).rewritten()


@dataclass
class _Padding:
    """The tensors of an op that are read so, and what is made of them."""

    op: Op
    sizes: list[SizeRule] = field(default_factory=list)
    needs: dict[Axis, Requirement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.guards = guards_of_windows(self.op.equations)
        self.dims = {n: tuple(d) for n, d in dimensions(self.op.operands, self.op.equations).items()}
        self.taken = self.op.names
        self.axes = {a.base for d in self.dims.values() for i in d for a in free_axes(i)}
        self.axes |= {a.base for e in self.op.equations for a in e.over}

    def rewritten(self) -> Op:
        """The op, with each padded tensor before its first reader."""
        made: dict[tuple[Tensor, Expr], _Padded] = {}
        equations: list[Equation] = []
        values = facts_of(self.op)
        for e in self.op.equations:
            fill = self.fill(e)
            for tensor in dict.fromkeys(at.tensor for at in e.reads if self.windows(at)):
                if (tensor, fill) in made or (own := self.pad(tensor, fill, e)) is None:
                    continue
                made[tensor, fill] = own
                equations += self.padding(tensor, own)
                around = chosen(values.named(tensor.name), values.of(fill))
                values = values.with_more({own.target.name: around})
            equations.append(self.reading(e, fill, {t: own for (t, f), own in made.items() if f == fill}, values))
        return without_guards(self.op, equations, self.sizes, self.needs.values()) if made else self.op

    def fill(self, e: Equation) -> Expr:
        """What may stand around the tensors that an equation reads: what it takes for those that are left out."""
        least = _LEAST.get(str(e.kind))
        if least is None or not isinstance(e.body, Where) or e.body.args[2] != least:
            return S.Zero
        at = e.body.args[1]
        return least if isinstance(at, At) and self.windows(at) else S.Zero

    def windows(self, at: At) -> _Slots:
        """The dimensions that a read goes through guarded windows of, if a padded tensor may be read in its stead."""
        if at.tensor.is_integer or not all(isinstance(d, Axis) for d in self.dims[at.name]):
            return {}
        found = {s: own[1] for s, i in enumerate(at.index) if (own := window_of(i, self.guards)) is not None}
        return found if all(_before(i) is not None for i in found.values()) else {}

    def pad(self, tensor: Tensor, fill: Expr, reader: Equation) -> _Padded | None:
        """How far a tensor must be padded for all that reads it through guarded windows."""
        dims = self.dims[tensor.name]
        readers = (e for e in self.op.equations if self.fill(e) == fill)
        found: dict[int, list[Expr]] = {}
        for at in dict.fromkeys(at for e in readers for at in e.reads if at.tensor == tensor):
            for s, i in self.windows(at).items():
                found.setdefault(s, []).append(i)
        before, behind = {}, {}
        longer: dict[int, Axis] = {}
        for s, windows in found.items():
            ends = [_ends(i, dims[s]) for i in windows]
            first, last = _largest([b for b, _ in ends]), _largest([b for _, b in ends])
            if first is None or last is None:
                return None
            before[s], behind[s] = first, last
        for s, windows in found.items():
            longer[s] = self.around(dims[s], before[s], behind[s], longer.values())
            self.ask({a for i in windows if len(affine(i).steps) > 1 for a in free_axes(i)}, reader)
        target = Tensor(new_name(f"{tensor.name}_padded", self.taken))
        return _Padded(target, before, behind, longer, fill)

    def around(self, axis: Axis, before: Expr, behind: Expr, others: Collection[Axis]) -> Axis:
        """An axis with so many places more: one for all tensors that are padded alike, but for two of one tensor's."""
        formula = before + Size(axis) + behind
        found = (r.axis for r in self.sizes if (r.around, r.formula) == (axis, formula) and r.axis not in others)
        if (known := next(found, None)) is not None:
            return known
        made = Axis(new_name(f"{axis.base}_padded", self.axes))
        self.sizes.append(SizeRule(made, formula=formula, around=axis))
        return made

    def ask(self, axes: Collection[Axis], reader: Equation) -> None:
        """That the axes of such windows have places: a window over none has no slices."""
        for axis in sorted(axes, key=lambda a: a.base):
            if not axis.fixed:
                need = Requirement(self.op.written_for(reader), f"axis {axis.base}", Size(axis), ">=", S.One)
                self.needs.setdefault(axis, need)

    def padding(self, tensor: Tensor, own: _Padded) -> list[Equation]:
        """What pads: the tensor added to zeros at the places behind those in front of it, or joined with others."""
        dims = self.dims[tensor.name]
        if own.fill != 0:
            return self.joined(tensor, own)
        index = tuple(own.longer.get(s, d) for s, d in enumerate(dims))
        at = [Delta(own.longer[s], _moved(dims[s], first)) for s, first in own.before.items()]
        over = tuple(dims[s] for s in own.before)
        return [Equation(own.target, index, Mul(*at, At(tensor, *dims)), "sum", over, given=False)]

    def joined(self, tensor: Tensor, own: _Padded) -> list[Equation]:
        """The tensor between as many places of what stands around it, along one dimension after the other."""
        out: list[Equation] = []
        index, source = list(self.dims[tensor.name]), tensor
        for s, along in own.longer.items():
            front, back = self.places(along, "before", own.before[s]), self.places(along, "behind", own.behind[s])
            pieces = [*[own.fill] * len(front), At(source, *index), *[own.fill] * len(back)]
            over = (*front, index[s], *back)
            index[s] = along
            last = len(out) + 1 == len(own.longer)
            source = own.target if last else Tensor(new_name(f"{own.target.name}_{along.base}", self.taken))
            out.append(Equation(source, tuple(index), Concat(along, *pieces), "concat", over, given=False))
        return out

    def places(self, along: Axis, side: str, count: Expr) -> list[Axis]:
        """The axes of what stands on one side: one for each place, or one for all where they are not counted yet."""
        count = expand(closed(count, {r.axis: r for r in self.op.sizes}))
        if not isinstance(count, Integer):
            axis = Axis(new_name(f"{along.base}_{side}", self.axes))
            self.sizes.append(SizeRule(axis, formula=count))
            return [axis]
        found = [Axis(f"{along.base}_{side}_{k}", fixed=1) for k in range(int(count))]
        self.sizes += [SizeRule(a, formula=S.One) for a in found]
        return found

    def reading(self, e: Equation, fill: Expr, made: Mapping[Tensor, _Padded], values: Facts) -> Equation:
        """An equation that reads padded tensors, without the conditions that say no more than that.

        What it reads of one through no window it reads of it as well: one of the two is all that it needs.
        """
        put: dict[Basic, Basic] = {}
        inside: dict[Basic, list[Expr]] = {}
        padded = {at.tensor for at in e.reads if self.windows(at)} & made.keys()
        for at in (at for at in e.reads if at.tensor in padded):
            own, windows = made[at.tensor], self.windows(at)
            slots = [(s, windows.get(s, i)) for s, i in enumerate(at.index)]
            if any(s in own.before and not _is_affine(i) for s, i in slots):
                continue
            put[at] = At(own.target, *(_moved(i, own.before[s]) if s in own.before else i for s, i in slots))
            dims = self.dims[at.name]
            inside[put[at]] = [expand(g) for s, i in windows.items() for g in (i, Size(dims[s]) - 1 - i)]
        if not put:
            return e
        body = e.body.xreplace(put)
        if fill != 0:
            return replace(e, body=_among_all(body, inside))
        choices = (lambda w: isinstance(w, Where), lambda w: _unconditional(w, inside, values))
        return replace(e, body=body.replace(*choices))


def _unconditional(choice: Where, inside: Mapping[Basic, list[Expr]], values: Facts) -> Expr:
    """A choice without the conditions where each of which fails a zero is read that makes it 0."""
    condition, value, other = choice.args
    if other != 0:
        return choice
    kept = [c for c in conjuncts(condition) if not says_only_inside(c, value, inside, values)]
    if not kept:
        return value
    zeros = [f for f in Mul.make_args(value) if all(says_only_inside(c, f, inside, values) for c in kept)]
    rest = Mul(*(f for f in Mul.make_args(value) if f not in zeros))
    if zeros and rest.atoms(At):
        return Where(And(*kept), rest, S.Zero) * Mul(*zeros)  # which alone may be infinite, or no number
    return Where(And(*kept), value, S.Zero)


def _among_all(choice: Where, inside: Mapping[Basic, list[Expr]]) -> Expr:
    """What an extremum is sought among, without the conditions where each of which fails what stands around is read."""
    condition, value, other = choice.args
    kept = [c for c in conjuncts(condition) if not set(bounds_of(c)) & set(inside[value])]
    return Where(And(*kept), value, other) if kept else value


def _is_affine(i: Expr) -> bool:
    return isinstance(i, Axis | Prefix) or is_window(i)


def _moved(i: Expr, by: Expr) -> Expr:
    """An index that many places further on; an axis alone reads the first places of what is longer."""
    return Prefix(expand((i.args[0] if isinstance(i, Prefix) else i) + by))


def _ends(i: Expr, dim: Expr) -> tuple[Expr, Expr]:
    """How many places of a window lie in front of a dimension, and how many behind it."""
    behind = expand(end_of(i, 1) + 1 - Size(dim))
    return _before(i) or S.Zero, S.Zero if never_negative(-behind) else Max(S.Zero, behind)


def _before(i: Expr) -> Expr | None:
    """How many places of a window lie in front of the first one; None where that is not known, or it runs back."""
    form = affine(i)
    if any(step < 0 for _, step in form.steps):
        return None
    if isinstance(form.offset, Integer):
        return Max(S.Zero, -form.offset)
    return next((b for b in (-form.offset, S.Zero) if never_negative(b + form.offset) and never_negative(b)), None)


def _largest(lengths: Iterable[Expr]) -> Expr | None:
    """The largest of some lengths: one of them where lengths prove it."""
    kept: list[Expr] = []
    for one in map(expand, lengths):
        if not any(never_negative(other - one) for other in kept):
            kept = [other for other in kept if not never_negative(one - other)] + [one]
    return Max(*kept) if kept else None
