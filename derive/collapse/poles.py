"""Law: what may be infinite where a choice leaves out stands inside it: `where(c, a, 0)/r` is `where(c, a/r, 0)`.

The chain rule has a factor for every step, and 0 times infinity is no number: of `where(i != j, 1/r, 0)` with the
distance `r = sqrt(s)`, the slope of the root is infinite on the diagonal. Inside it may meet what it divides:
`where(p > 0, p, 0)/p` is `where(p > 0, 1, 0)`. What is left out reaches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sympy import Expr, Function, Mul, Not, S

from derive.adjoint.chain_rule import Adjoint, Contribution, Stepwise
from derive.collapse.supports import masked_side
from derive.facts.interpreter import POSITIVE, Facts, facts_by
from derive.facts.values import May
from derive.ir.equations import Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, at_index
from derive.ir.terms.reductions import Sigma


@dataclass(frozen=True)
class _Known:
    """An op, and what is known of the tensors of its forward, where the caller's numbers are above 0."""

    op: Op
    values: Facts

    def definition(self, at: At) -> Expr | None:
        """What an element is at its place, where an equation says it by elements alone."""
        e = self.op.equation(at.name)
        return e.at(at.index) if e is not None and e.kind is None and e.is_plain else None


@dataclass(frozen=True)
class _Masked:
    """An adjoint that is one product with choices that are 0 on one side."""

    axes: tuple[Axis, ...]
    value: Expr
    reads: int  # how often it is read: by one, it may be put in its place


def with_poles_inside(steps: Stepwise) -> Stepwise:
    """The same backward with such factors inside the choices that an adjoint they multiply is made of."""
    masked: dict[str, _Masked] = {}
    known = _Known(steps.op, facts_by(steps.op.operands, steps.op.equations, POSITIVE))
    adjoints: list[Adjoint] = []
    for adjoint in steps.adjoints:
        changed = tuple(_inside(c, masked, known) for c in adjoint.contributions)
        adjoint = adjoint if changed == adjoint.contributions else replace(adjoint, contributions=changed)
        adjoints.append(adjoint)
        value = _in_full(adjoint.value, masked)
        if any(map(masked_side, Mul.make_args(value))):
            name = adjoint.target.name
            reads = sum(name in {at.name for at in c.value.atoms(At)} for a in steps.adjoints for c in a.contributions)
            masked[name] = _Masked(adjoint.axes, value, reads)
    return replace(steps, adjoints=tuple(adjoints)) if tuple(adjoints) != steps.adjoints else steps


def _inside(c: Contribution, masked: dict[str, _Masked], known: _Known) -> Contribution:
    value = c.value.replace(lambda f: isinstance(f, Mul), lambda f: _product(f, masked, known))
    return c if value == c.value else replace(c, value=value)


def _product(f: Expr, masked: dict[str, _Masked], known: _Known) -> Expr:
    """A product with its poles inside the choices of an adjoint among its factors."""
    of = next((g for g in f.args if isinstance(g, At) and g.name in masked), None)
    if of is None:
        return f
    full = list(Mul.make_args(_in_full(of, masked)))
    rest = [g for g in f.args if g != of]
    found = [g for g in rest if _is_pole(g, known)]
    sides = {g: side for g in full if (side := masked_side(g)) is not None}
    choices = [g for g in sides if any(_keeps_from(g, pole, known) for pole in found)]
    axes = set().union(*(free_axes(g.args[0]) for g in choices))
    poles = [g for g in found if axes <= free_axes(g)]
    if not choices or not poles:
        return f
    if masked[of.name].reads > 1 and any(g.atoms(Function) for g in full):  # it has a name, and takes long
        value: Expr = of * Mul(*poles)
        full = [S.One]
    else:
        near = [g for g in full if g not in choices and axes <= free_axes(g)]  # what they may cancel
        value, full = Mul(*(sides[g].value(g) for g in choices), *near, *poles), [g for g in full if g not in near]
    for g in reversed(choices):
        value = sides[g].masked(value)
    return Mul(*(g for g in full if g not in choices), *(g for g in rest if g not in poles), value)


def _keeps_from(choice: Expr, pole: Expr, known: _Known) -> bool:
    """Whether a choice may be there because of a pole: off a diagonal, or where what the pole is of is not 0."""
    condition, kept = choice.args[0], choice.args[2] == 0
    read = condition.atoms(At)
    if not read:
        return len(free_axes(condition)) > 1 and not any(_is_guarded(at, condition, known) for at in pole.atoms(At))
    if len(read) > 1:
        return False
    at_0 = condition.xreplace(dict.fromkeys(read, S.Zero))
    return at_0 == (S.false if kept else S.true) and bool(read & _made_of(pole, known))


def _is_guarded(at: At, condition: Expr, known: _Known) -> bool:
    """Whether an element is a number where the condition fails, and so is nothing infinite there."""
    value = known.definition(at)
    if not isinstance(value, Where) or value.args[0] not in (condition, Not(condition)):
        return False
    return any(b.is_number for b in value.args[1:])


def _made_of(value: Expr, known: _Known) -> set[At]:
    """The elements that a value is made of, place by place."""
    found = set(value.atoms(At))
    for at in value.atoms(At):
        of = known.definition(at)
        found |= _made_of(of, known) if of is not None else set()
    return found


def _in_full(value: Expr, masked: dict[str, _Masked]) -> Expr:
    """A product with what such an adjoint in it is made of."""
    factors = (
        at_index(masked[g.name].value, masked[g.name].axes, g.index) if isinstance(g, At) and g.name in masked else g
        for g in Mul.make_args(value)
    )
    return Mul(*factors)


def _is_pole(value: Expr, known: _Known) -> bool:
    """Whether it may be infinite where the inputs are finite."""
    return not isinstance(value, Sigma) and bool(value.atoms(At)) and known.values.of(value).infinite >= May.SINGULAR
