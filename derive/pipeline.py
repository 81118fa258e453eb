"""The road from a spec to its programs, every stage kept and printable."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from sympy import Function, Pow

from derive.adjoint.chain_rule import Stepwise, stepwise
from derive.adjoint.recurrences import as_written, reversed_steps, start_index, written
from derive.collapse.at_gathers import at_gathers
from derive.collapse.autograd.saved import BYTES, Saved, saved_by_autograd, saved_by_forward
from derive.collapse.conditions import with_conditions, with_dear, with_elements, with_functions
from derive.collapse.extrema import name_extrema
from derive.collapse.local_derivatives import Handing, by_local_derivatives
from derive.collapse.logarithms import logarithms_apart, without_logarithms
from derive.collapse.poles import with_poles_inside
from derive.collapse.quotients import name_quotients
from derive.collapse.saving import POLICIES, Policy, with_kept
from derive.collapse.search import Closed, search
from derive.collapse.stretches import Told, silent
from derive.collapse.sums_made_twice import with_sums_made_twice
from derive.collapse.typeset import adjoint_names, definition_latex, displayed, equation_latex
from derive.collapse.vocabulary import name_functions, name_sums
from derive.decisions import MORE_KEPT, NOMINAL
from derive.errors import DeriveError
from derive.facts.costs.cost import is_dear, work
from derive.facts.lengths.nominal import nominal
from derive.ir.display import display
from derive.ir.equations import Equation, Op
from derive.ir.lowering.lower import node
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.substituting import put
from derive.ir.program import Assign, Call, Program, Read
from derive.ir.terms.elements import Tensor, tensor_names
from derive.notation.checks import check_inputs
from derive.rules.index.guards import unguarded
from derive.rules.index.selections import selected
from derive.rules.naming.factored_sums import name_inner_sums
from derive.rules.order import said_in_full
from derive.schedule.definitions import Definition
from derive.schedule.merged_axes import over_parts
from derive.schedule.order import forward_program, passed_backward
from derive.schedule.recurrences import closed as with_recurrences


@dataclass(frozen=True)
class Derivation:
    """All that was derived of one op. Every field prints itself."""

    op: Op  # the equations as they were written
    named: Op  # the same, with nested sums named
    steps: Stepwise  # the chain rule's backward
    closed: Closed  # the collapsed backward and how it was reached
    forward: Program
    backward: Program
    stepwise_forward: Program | None  # where the op asks for its stepwise form as well
    stepwise_backward: Program | None
    conditions: tuple[Assign, ...] = ()  # what the forward hands on of tensors that the backward only compares
    local: tuple[Equation, ...] = ()  # what the forward makes for the backward's sake alone
    functions: tuple[Assign, ...] = ()  # functions of tensors that it hands on, in their place or beside them

    @cached_property
    def written(self) -> Op:
        """The equations as they were written, with nested sums named: what autograd is counted by."""
        return name_sums(name_extrema(selected(self.op)))

    @cached_property
    def shown(self) -> tuple[Equation, ...]:
        """The equations as a reader wants them: those of the spec, and what is longer for their sake."""
        longer = {r.axis for r in self.op.sizes if r.around is not None}
        others = (e for e in self.named.equations if longer & set(e.axes) and self.op.equation(e.name) is None)
        return written((*unguarded(self.op.equations), *others), self.op.recurrences)

    @property
    def kept(self) -> tuple[str, ...]:
        """The tensors that the forward hands to the backward."""
        return self.forward.returns[len(self.op.outputs) :]

    @property
    def saved(self) -> tuple[Saved, ...]:
        """The same, each with its axes and the kind of its elements."""
        made = {c.name: Saved(c.name, tuple(map(str, c.axes)), "mask") for c in self.conditions}
        made |= {e.name: Saved(e.name, tuple(a.base for a in e.axes)) for e in self.local}
        made |= {s.name: Saved(s.name, tuple(map(str, s.axes))) for s in self.functions}
        return tuple(made.get(n) or saved_by_forward(self.named, (n,))[0] for n in self.kept)

    def _repr_latex_(self) -> str:
        return display(self)


@display.register
def _(derivation: Derivation) -> str:
    """The equations of a derivation and its closed backward."""
    adjoints = adjoint_names(derivation.steps)
    forward = [equation_latex(e, adjoints) for e in derivation.shown]
    backward = [definition_latex(d, adjoints) for d in derivation.closed.definitions]
    return displayed([r"\textbf{forward}", *forward, r"\textbf{backward}", *backward])


@display.register
def _(op: Op) -> str:
    return display(derivation_of(op))


def derive_op(op: Op, save: str = "cost", told: Told = silent) -> Derivation:
    """Take an op down the whole road. `save` overrides what the forward keeps: "cost", "least", "input", "output",
    "fused"; "kernel" is "cost" as C loops have it. `told` is called with what is searched next, in words.

    Raises DeriveError where the op has no derivative to give, or no form of that kind within its domain.
    """
    if save not in POLICIES:
        raise DeriveError(f"save={save!r} is no way to save", op=op.name, fix=f"choose one of {', '.join(POLICIES)}")
    try:
        with _rarely_collected():
            return _derived(op, POLICIES[save], told)
    except DeriveError as error:
        raise error.within(op.name) from None


@lru_cache(maxsize=256)
def derivation_of(op: Op) -> Derivation:
    """The op's `Derivation` as it is generated by default, made once. Raises DeriveError as `derive_op` does."""
    return derive_op(op)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Python looks for cycles rarely meanwhile: most of what a derivation makes is still in use when it looks."""
    before = gc.get_threshold()
    if before[0] == 0:  # it never looks
        yield
        return
    gc.set_threshold(max(before[0], 20_000), *(max(n, 20) for n in before[1:]))
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _derived(op: Op, policy: Policy, told: Told) -> Derivation:
    """Equations said in full, their closed form, the programs of both, and what the forward hands on instead."""
    check_inputs(op.operands)
    if op.stepwise and op.recurrences:
        raise DeriveError(
            "stepwise=True of a recurrence is not derived yet", equation=op.recurrences[0].state, fix="leave it out"
        )  # fmt: skip
    full = said_in_full(op.cut)
    form = _cheapest(full, policy, told)
    named, steps, closed, handing = form.named, form.steps, form.closed, form.handing
    if policy.conditional:
        within_domain(named, closed)
    forward = forward_program(handing.op, handing.kept.names, as_written=False)
    long_forward = long_backward = None
    if op.stepwise:
        long_backward, kept = stepwise_program(with_poles_inside(stepwise(named, powers_from_output=False)))
        long_forward = forward_program(named, kept)
    lengths = nominal(named)
    backward = passed_backward(handing.kept.program, steps, lengths)
    real = [n for n in handing.kept.names if not _is_integer(handing.op, n)]
    handed = with_conditions(forward, backward, len(named.outputs), real if policy.masks else [], lengths)
    handed = with_functions(handed, [n for n in real if n not in op.outputs] if policy.functions else [], lengths)
    handed = with_elements(handed, [n for n in real if n not in op.outputs and named.operand(n) is None], lengths)
    if policy.dear:
        theirs = saved_by_autograd(name_sums(name_extrema(full)))
        most = sum(BYTES[s.element] * lengths.elements(s.axes) for s in theirs)
        for handing_on in (with_dear, with_sums_made_twice):
            handed = handing_on(handed, [c.target.name for c in steps.cotangents], most, lengths)
    programs = over_parts(handed.forward), over_parts(handed.backward)
    if op.recurrences:
        named = replace(named, operands=op.operands, outputs=op.outputs, recurrences=op.recurrences)
        given, carried = ([c for c in steps.cotangents if (c.of in op.outputs) == own] for own in (True, False))
        steps = replace(steps, op=named, cotangents=tuple(given), carried=tuple(carried))
        programs = with_recurrences(*programs, steps)
        closed = replace(closed, definitions=_reversed(closed.definitions, steps))
    return Derivation(
        op,
        named,
        steps,
        closed,
        *programs,
        long_forward,
        long_backward,
        handed.conditions,
        handing.made,
        handed.functions,
    )


def _reversed(definitions: tuple[Definition, ...], steps: Stepwise) -> tuple[Definition, ...]:
    """The definitions of a closed form, with recurrences the other way as a spec writes them."""
    back = reversed_steps(steps)
    own = {d.name for d in definitions}
    new = [Definition(a.target.name, a.axes, a.value) for a in back.adjoints if a.target.name not in own]
    names = {Tensor(a): Tensor(b) for a, b in back.totals.items()}
    definitions = (*new, *(replace(d, value=d.value.xreplace(names)) for d in definitions))
    starts = {r.start: r for r in back.recurrences}
    out = []
    for d in definitions:
        d = replace(d, value=as_written(d.value, back.recurrences))
        if d.name in starts:
            r = starts[d.name]
            d = Definition(r.state, start_index(r), d.value)
        out.append(d)
    return tuple(out)


def _is_integer(op: Op, name: str) -> bool:
    indices = {o.name for o in op.operands if o.kind == "index"}
    return name in indices or any(e.name == name and e.target.is_integer for e in op.equations)


@dataclass(frozen=True)
class _Form:
    """Equations in one vocabulary, their closed form, and what the forward hands on for it."""

    named: Op
    steps: Stepwise
    closed: Closed
    handing: Handing


_Keeping = tuple[Op, tuple[str, ...]]
"""An op, and what its forward hands on."""


def _cheapest(op: Op, policy: Policy, told: Told) -> _Form:
    """The closed form of the equations as they stand, or with their functions named, or made where they are read."""
    found = []
    op = logarithms_apart(op)
    for words in dict.fromkeys(w for o in (op, at_gathers(op)) for w in (o, name_functions(without_logarithms(o)))):
        named = name_sums(name_inner_sums(name_quotients(name_extrema(words)), policy.fused))
        steps = with_poles_inside(stepwise(named))
        closed = search(steps, policy, told)
        handing = by_local_derivatives(steps, closed, policy) if policy.local else Handing(named, closed.kept)
        found.append(_Form(named, steps, closed, handing))
    best, *others = found
    for other in others:
        if other.closed.kept.total < best.closed.kept.total and _is_candidate(other, best, policy):
            best = other
    return best


def _is_candidate(one: _Form, other: _Form, policy: Policy) -> bool:
    """Whether a form keeps little more than another, by itself or where local derivatives stand for what it keeps."""
    mine, yours = ((f.named, f.closed.kept.names) for f in (one, other))
    if _keeps_little_more(mine, yours, policy):
        return True
    mine, yours = ((f.handing.op, f.handing.kept.names) for f in (one, other))
    return one.handing.kept.total < other.handing.kept.total and _keeps_little_more(mine, yours, policy)


def _keeps_little_more(one: _Keeping, other: _Keeping, policy: Policy) -> bool:
    """Whether a form keeps little more than another, or less but for outputs, which the caller holds in any case.

    What takes long to compute again is handed on by either form, where that may be (`conditions.py`).
    """
    dear = {e.name for e in one[0].equations if policy.dear and _takes_long(e)}
    whole, own = (
        [sum(nominal(op).elements(op.dims(n)) for n in names if n not in left_out) for op, names in (one, other)]
        for left_out in (dear, {*dear, *one[0].outputs})
    )
    return whole[0] <= MORE_KEPT * whole[1] or own[0] < own[1]


def _takes_long(e: Equation) -> bool:
    """Whether it is one call of a function that takes longer than its result takes to keep."""
    value = node(e.body, lambda _: ZERO) if isinstance(e.body, Function | Pow) else ZERO
    return isinstance(value, Call) and is_dear(value)


def within_domain(op: Op, closed: Closed) -> None:
    """Refuse a form that holds only under a condition which the spec does not declare, or that reads no output."""
    for inversion in closed.conditions:
        names = ", ".join(sorted(tensor_names(inversion.nonzero)))
        raise DeriveError(
            f"the form from the output holds only where {inversion.nonzero} != 0",
            op=op.name,
            equation=inversion.through,
            fix=f"declare that of {names} (tensor[…].nonzero), or keep something else",
        )
    if not set(closed.kept.names) & set(op.outputs):
        raise DeriveError("no gradient can be read from an output", op=op.name, fix='use save="cost" or save="input"')


@dataclass(frozen=True)
class Alternative:
    """Another closed form: what it keeps, what it costs, and where it holds (None: everywhere)."""

    description: str
    kept: tuple[str, ...]
    passes: float
    elements: float
    condition: str | None
    chosen: bool


def alternatives(derivation: Derivation) -> tuple[Alternative, ...]:
    """The forms that the ways of saving lead to, each once, the chosen one first."""
    op, lengths = derivation.named, nominal(derivation.named)
    words = {
        "cost": "by cost",
        "least": "the fewest bytes, statistics apart",
        "input": "from the inputs",
        "output": "from the output",
    }
    out: dict[tuple[str, ...], Alternative] = {}
    for name, policy in ((n, p) for n, p in POLICIES.items() if n in words):
        closed = search(derivation.steps, policy)
        if policy.conditional and not set(closed.kept.names) & set(op.outputs):
            continue
        handing = Handing(op, closed.kept)
        if name == "cost" and derivation.local:
            handing = by_local_derivatives(derivation.steps, closed, policy)
        where = [f"{i.nonzero} != 0" for i in closed.conditions]
        chosen = closed.kept.names == derivation.closed.kept.names and (name == "cost" or not derivation.local)
        held = [s.axes for s in derivation.saved] if chosen else [handing.op.dims(n) for n in handing.kept.names]
        out.setdefault(
            handing.kept.names,
            Alternative(
                words[name],
                derivation.kept if chosen else closed.kept.names,
                work(_reading(handing.kept.program, derivation.functions if chosen else ()), lengths) / NOMINAL**2,
                sum(map(lengths.elements, held)),
                " and ".join(where) or None,
                chosen,
            ),
        )
    return tuple(sorted(out.values(), key=lambda a: not a.chosen))


def _reading(program: Program, made: tuple[Assign, ...]) -> Program:
    """A program that reads these functions of kept tensors instead of computing them."""
    for m in made:
        program = program.with_values(partial(put, old=m.value, new=Read(m.name, m.axes)))
    return program


def stepwise_program(steps: Stepwise) -> tuple[Program, tuple[str, ...]]:
    """The uncollapsed backward, which returns the adjoint of every tensor the user named, and what it reads."""
    definitions = [Definition(a.target.name, a.axes, a.value) for a in steps.adjoints]
    own = [a.target.name for a in steps.adjoints if _is_named(steps.op, a.of)]
    kept = with_kept(steps, definitions, tuple(own))
    return kept.program, kept.names


def _is_named(op: Op, name: str) -> bool:
    equation = op.equation(name)
    return equation is None or equation.given
