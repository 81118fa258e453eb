"""What a gradient makes of saved tensors alone is made by the forward, where that spares work or memory.

`dx = dy * (s + x * s * (1 - s))` with `s = sigmoid(x)` computes `s` again where the forward keeps `x`. The forward has
it at hand: it keeps `dy_dx = s + x * s * (1 - s)` instead, as large as `x`, and the backward is one product. In
`ds = da * w * exp(s) - db * w * exp(-s)` it keeps both `w * exp(s)` and `w * exp(-s)`, instead of `s` and `w`; for
`da = dy * a * b`, of two matrix products, it keeps one tensor instead of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sympy import Add, Expr, Function, Mul, Pow

from derive.adjoint.chain_rule import Stepwise
from derive.collapse.saving import Kept, Policy, priced, recompute, with_kept
from derive.collapse.search import Closed
from derive.decisions import MOST_TRIED, NAMED
from derive.facts.costs.cost import elementary_work, work_and_names
from derive.facts.lengths.nominal import nominal
from derive.ir.equations import Equation, Op
from derive.ir.lowering import lower
from derive.ir.lowering.reading import factored
from derive.ir.nodes.naming import UNNAMED, name_of
from derive.ir.terms.axes import free_axes
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Tensor, tensor_names
from derive.ir.terms.names import free_name
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Sigma
from derive.schedule.definitions import Definition
from derive.schedule.order import forward_program

_MEMORY = Policy("memory")
"""What is kept by its elements, whatever holds them."""

_WORDS = 2
"""The most tensors that a name lists."""


@dataclass(frozen=True)
class _Part:
    """A tensor of the forward's, to be, times what the cotangents make."""

    factor: Expr  # with the cotangents
    derivative: Expr  # without


@dataclass(frozen=True)
class _Local:
    """A gradient that is a sum of such parts, and of a rest that stays."""

    definition: Definition
    parts: tuple[_Part, ...]
    rest: Expr

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(name for part in self.parts for name in tensor_names(part.derivative))


@dataclass(frozen=True)
class Handing:
    """What the forward hands to the backward: its op, with the equations made for that, and what is kept of them."""

    op: Op
    kept: Kept
    made: tuple[Equation, ...] = ()


def by_local_derivatives(steps: Stepwise, closed: Closed, policy: Policy) -> Handing:
    """The closed form by way of such factors, each where that is cheaper, and the forward's equations for them."""
    definitions = list(closed.definitions)
    best = Handing(steps.op, closed.kept)
    bound = {c.target.name for c in steps.cotangents} | {d.name for d in definitions}
    bound |= {a.target.name for a in steps.adjoints}
    groups = _groups([l for d in definitions if (l := _local(d, bound)) is not None])
    if len(groups) * len(steps.op.equations) ** 2 > MOST_TRIED:
        return best
    for group in (g for g in groups if _spares_functions(g, steps.op) or _spares_memory(g, steps.op)):
        for some in dict.fromkeys((group, *((one,) for one in group))):
            changed, trial = _handed(replace(steps, op=best.op), definitions, some, best, policy)
            if _is_cheaper(trial, best):
                best, definitions = trial, changed
                break
    return _shortened(best)


def _local(definition: Definition, bound: set[str]) -> _Local | None:
    """The definition by way of tensors that no cotangent has a part in, where it is one."""
    if definition.value.has(Sigma, Delta) or _is_branched(definition.value):
        return None
    terms = [_parted(t, bound) for t in Add.make_args(definition.value)]
    parts, rest = [], []
    for factor in dict.fromkeys(f for f, _ in terms):
        part = _part(factor, [derivative for f, derivative in terms if f == factor], definition)
        more = not isinstance(part.derivative.as_coeff_Mul()[1], At)  # than a tensor that the forward has
        whole = more and free_axes(part.derivative) == set(definition.axes)
        parts += [part] if whole else []
        rest += [] if whole else [part.factor * part.derivative]
    return _Local(definition, tuple(parts), Add(*rest)) if parts else None


def _spares_functions(group: tuple[_Local, ...], op: Op) -> bool:
    """Whether there may be an elementary function to spare, in a derivative or in what makes a tensor it reads."""
    of = set[str]()  # what is made of functions
    for e in op.equations:
        of |= {e.name} if _has_function(e.body) or tensor_names(e.body) & of else set()
    return any(_has_function(p.derivative) or tensor_names(p.derivative) & of for one in group for p in one.parts)


def _spares_memory(group: tuple[_Local, ...], op: Op) -> bool:
    """Whether a derivative is made of several tensors that are as large as it is."""
    known = {*(e.name for e in op.equations), *(o.name for o in op.operands)}
    sizes = [(len(one.definition.axes), tensor_names(part.derivative) & known) for one in group for part in one.parts]
    return any(sum(len(op.dims(name)) == count for name in names) > 1 for count, names in sizes)


def _has_function(value: Expr) -> bool:
    return bool(value.atoms(Function)) or any(not p.exp.is_Integer for p in value.atoms(Pow))


def _part(factor: Expr, derivatives: list[Expr], definition: Definition) -> _Part:
    """The terms behind one factor; what they share over fewer axes goes to it, numbers where it is small itself."""
    whole, common = set(definition.axes), set.intersection(*(set(Mul.make_args(d)) for d in derivatives))
    small = free_axes(factor) != whole
    outside = {f for f in common if free_axes(f) != whole and (small or not f.is_number)}
    inside = (Mul(*(f for f in Mul.make_args(d) if f not in outside)) for d in derivatives)
    return _Part(Mul(factor, *outside), Add(*inside))


def _is_branched(value: Expr) -> bool:
    """Whether numbers alone choose between values: only the chosen one is computed, so none is shared."""
    conditions = [w.condition for w in value.atoms(Where)]
    return any(not tensor_names(c) and not free_axes(c) for c in conditions)


def _parted(term: Expr, bound: set[str]) -> tuple[Expr, Expr]:
    with_cotangents = [f for f in Mul.make_args(term) if tensor_names(f) & bound]
    return Mul(*with_cotangents), Mul(*(f for f in Mul.make_args(term) if f not in with_cotangents))


def _groups(found: list[_Local]) -> list[tuple[_Local, ...]]:
    """Those that read the same tensors, which are spared only if all of them go."""
    groups: list[tuple[_Local, ...]] = []
    for local in found:
        near = [g for g in groups if any(other.reads & local.reads for other in g)]
        groups = [*(g for g in groups if g not in near), (*(other for g in near for other in g), local)]
    return groups


def _handed(
    steps: Stepwise, definitions: list[Definition], some: tuple[_Local, ...], known: Handing, policy: Policy
) -> tuple[list[Definition], Handing]:
    """The definitions with these factors read from the forward, and what the forward hands on then."""
    op, changed, made = known.op, list(definitions), known.made
    of = {c.target.name: c.of for c in steps.cotangents} | {a.target.name: a.of for a in steps.adjoints}
    for local in some:
        own, value = local.definition, local.rest
        for part in local.parts:
            if (known_one := _signed(part.derivative, own, made)) is not None:  # as those of `f(a - b)`
                value += part.factor * known_one
                continue
            taken = op.names | {d.name for d in definitions} | {c.target.name for c in steps.cotangents}
            name = _name(part, own.name, of, taken)
            equation = Equation(Tensor(name), own.axes, part.derivative, normal=True)
            value += part.factor * equation.left
            op, made = replace(op, equations=(*op.equations, equation)), (*made, equation)
        changed[changed.index(own)] = replace(own, value=value)
    steps = replace(steps, op=op)
    elsewhere = frozenset(e.name for e in op.equations) - {e.name for e in made}
    again = recompute(steps, changed, elsewhere, frozenset(), policy)
    return changed, Handing(op, with_kept(steps, [*again, *changed], policy=policy), made)


def _signed(derivative: Expr, own: Definition, made: tuple[Equation, ...]) -> Expr | None:
    """What the forward makes already of which a derivative is that, or minus that."""
    alike = (e for e in made if e.axes == own.axes)
    return next((sign * e.left for e in alike for sign in (1, -1) if e.body == sign * derivative), None)


def _shortened(handing: Handing) -> Handing:
    """The same, its new equations by way of the forward's own products where that is less work: `s + y * (1 - s)`."""
    best, least = handing, _work(handing) if handing.made else (0.0, 0.0)
    for made in handing.made:
        for own in reversed([e for e in handing.op.equations if e not in handing.made]):
            current = next(e for e in best.made if e.name == made.name)
            changed = replace(current, body=_by_way_of(current.body, own))
            equations = tuple(changed if e == current else e for e in best.op.equations)
            trial = replace(
                best,
                op=replace(best.op, equations=equations),
                made=tuple(changed if e == current else e for e in best.made),
            )
            if changed != current and (found := _work(trial)) < least:
                best, least = trial, found
    return best


def _by_way_of(value: Expr, equation: Equation) -> Expr:
    """A sum in which a product that an equation defines is read from it.

    It is the factored sum whose terms are looked at, and its inner ones stay whole: `s * (1 + x * (1 - s))` becomes
    `s + y * (1 - s)` and not `y + s * (1 - y)`, which subtracts nearly equal numbers where x is large.
    """
    if equation.kind is not None or not equation.is_plain or not equation.body.is_Mul:
        return value
    number, factors = equation.body.as_coeff_Mul()
    wanted = factors.as_powers_dict()
    terms = []
    for term in _terms(factored(value)):
        have = term.as_powers_dict()
        found = all(have.get(b, 0) != 0 and (have[b] - e).is_nonnegative and e.is_positive for b, e in wanted.items())
        terms.append(term / factors / number * equation.left if found else term)
    return Add(*terms)


def _terms(value: Expr) -> list[Expr]:
    """The terms of a factored sum, what is common to them multiplied into each, none of them opened."""
    sums = factors_of(value, Add)
    if len(sums) != 1:
        return list(Add.make_args(value))
    common = [f for f in Mul.make_args(value) if f != sums[0]]
    return [Mul(*common, part) for part in sums[0].args]


def _name(part: _Part, gradient: str, of: Mapping[str, str], taken: set[str]) -> str:
    """`dy_dx` for the factor of `dx = dy * ...`; any other is called by what it is, as is that of an adjoint which is
    named with a factor (`ds_s`), the gradient of no tensor.
    """
    if isinstance(part.factor, At) and part.factor.name in of and gradient in of:
        name = f"d{of[part.factor.name]}_d{of[gradient]}"
        return name if name not in taken else free_name(f"{name}_local", taken, "_")
    words = name_of(lower.node(part.derivative), taken)
    unsaid = words.startswith(UNNAMED) or len(tensor_names(part.derivative)) > _WORDS
    return free_name(f"{gradient}_local", taken, "_") if unsaid else words


def _is_cheaper(new: Handing, old: Handing) -> bool:
    """Whether both passes together keep fewer tensors of ours and do as much, or spare a function for each that the
    forward makes, do less and keep no more.
    """
    (new_work, new_functions), (old_work, old_functions) = _work(new), _work(old)
    made = (e.name for e in new.made if e not in old.made)
    more = priced(new.op, made, _MEMORY)
    if priced(new.op, _made(new), _MEMORY) < priced(old.op, _made(old), _MEMORY):
        return new_work < old_work + 2 * NAMED * more  # as much, but for their names
    no_more = priced(new.op, new.kept.names, _MEMORY) <= priced(old.op, old.kept.names, _MEMORY)
    return no_more and new_work < old_work and old_functions - new_functions >= more


def _made(handing: Handing) -> tuple[str, ...]:
    """What is kept and no input, which may be held elsewhere as well."""
    return tuple(name for name in handing.kept.names if handing.op.operand(name) is None)


def _work(handing: Handing) -> tuple[float, float]:
    """The element operations of both passes, all and those of elementary functions."""
    lengths = nominal(handing.op)
    programs = (forward_program(handing.op, handing.kept.names), handing.kept.program)
    functions = sum(elementary_work(s.value, lengths) for p in programs for s in p.statements)
    return sum(work_and_names(p, lengths) for p in programs), functions
