"""Axes of the places that conditions leave between the ends of others, and what is read at these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from sympy import And, Basic, Expr, S, expand

from derive.facts.lengths.ends import Ends
from derive.facts.lengths.sizes import dimensions
from derive.ir.equations import Op, SizeRule
from derive.ir.terms.axes import Axis, Rest, free_axes
from derive.ir.terms.choices import Where, conjuncts
from derive.ir.terms.elements import At, at_index
from derive.ir.terms.indices import Prefix
from derive.ir.terms.names import free_name
from derive.rules.index.guards import guards_of_places


@dataclass
class InnerAxes:
    """The axes that are made, each with what it leaves out."""

    op: Op
    length: Callable[[Expr], Expr]  # of the places that are left, by how many these are
    made: dict[Expr, Axis] = field(default_factory=dict)  # by how many places it has

    def __post_init__(self) -> None:
        self.guards = guards_of_places(self.op.equations)
        dims = dimensions(self.op.operands, self.op.equations)
        self.taken = {a.base for own in dims.values() for i in own for a in free_axes(i)}
        self.taken |= {a.base for e in self.op.equations for a in e.over}

    @property
    def sizes(self) -> list[SizeRule]:
        known = {r.axis for r in self.op.sizes}
        return [SizeRule(a, formula=self.length(between)) for between, a in self.made.items() if a not in known]

    def axis(self, ends: Ends) -> Axis:
        """The axis of the places that are left."""
        between, name = ends.between, f"{ends.axis.base}_inner"
        if between not in self.made:
            known = (r.axis for r in self.op.sizes if r.formula in (between, Rest(between)) and r.axis.base == name)
            self.made[between] = next(known, None) or Axis(free_name(name, self.taken))
            self.taken.add(self.made[between].base)
        return self.made[between]

    def moved(self, expr: Expr, places: Mapping[Basic, Expr], held: Collection[Basic]) -> Expr:
        """An expression at the places of the axes that are made, without the conditions that hold throughout."""
        put = {at: self.element(at, places, held) for at in expr.atoms(At)}
        return expr.xreplace(put).xreplace(places)

    def element(self, at: At, places: Mapping[Basic, Expr], held: Collection[Basic]) -> At:
        """An element at the places of the axes that are made, read by what guards have where that holds throughout."""
        return At(at.tensor, *(self._index(i, places, held) for i in at.index))

    def window(self, i: Expr) -> tuple[Basic, Expr] | None:
        """The condition under which a guarded place is inside, and the axis arithmetic that it stands for."""
        if not isinstance(i, At) or i.name not in self.guards:
            return None
        guard = self.guards[i.name]
        condition, window = (at_index(part, guard.axes, i.index) for part in guard.body.args[:2])
        return condition, window

    def _index(self, i: Expr, places: Mapping[Basic, Expr], held: Collection[Basic]) -> Expr:
        found = self.window(i)
        if found is not None and set(conjuncts(found[0])) <= set(held):
            i = found[1]
        if isinstance(i, At):
            return self.element(i, places, held)
        plain = i.args[0] if isinstance(i, Prefix) else i
        there = expand(plain.xreplace(places)) if free_axes(i) & places.keys() else i
        return Prefix(there) if isinstance(there, Axis) and there != i else there


def asked_of(choice: Where) -> list[Basic]:
    return list(conjuncts(choice.condition))


def without(factor: Expr, gone: Collection[Basic]) -> Expr:
    """A factor without the conditions that hold wherever it is taken."""
    if not isinstance(factor, Where) or factor.args[2] != 0:
        return factor
    kept = [c for c in asked_of(factor) if c not in gone]
    return Where(And(*kept), factor.args[1], S.Zero) if kept else factor.args[1]
