"""What a wrong gradient is instead: a changed form of the derived gradient that gives the same values.

The forms are mechanical, and none knows an op. A form counts only where it gives the candidate's values in all the
evidence and is far from what is right there: an identity is no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from derive.pipeline import Derivation
from derive.verify.cases import Case, scale, worst
from derive.verify.changed import APART, Form, Gradient
from derive.verify.families import (
    EXCHANGED,
    added_before,
    closed_alone,
    closed_less,
    closed_other,
    cotangents_ignored,
    inner_gradients,
    masked_cotangents,
    misplaced,
    one_contribution,
    other_gradients,
    two_changes,
)
from derive.verify.otherwise import (
    held_constant,
    not_held,
    other_forwards,
    other_functions,
    other_orders,
    other_slopes,
    overwriting,
    statistics_held,
)

_FAMILIES: tuple[Callable[[Gradient], Iterator[Form]], ...] = (
    other_gradients,
    inner_gradients,
    cotangents_ignored,
    added_before,
    closed_less,
    statistics_held,
    overwriting,
    not_held,
    misplaced,
    masked_cotangents,
    one_contribution,
    other_slopes,
    closed_other,
    held_constant,
    closed_alone,
    other_orders,
    other_forwards,
    other_functions,
    two_changes,
)
"""In the order in which they are tried: the likely ones first, and two changes last, which takes longest."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Which form a gradient, and those `also`, have instead of the derived one, and the class of error that this is."""

    gradient: str
    text: str
    error: str
    form: Form | None  # None: nothing that has values
    also: tuple[str, ...] = ()

    @property
    def gradients(self) -> tuple[str, ...]:
        return (self.gradient, *self.also)

    def is_seen(self, case: Case, given: Mapping[str, Tensor | None]) -> bool:
        """Whether the gradients that a candidate gave for a case show this."""
        operand = self.gradient.removeprefix("d")
        mine = given.get(operand)
        if self.form is None:
            return True
        return mine is not None and self.form.tells(mine) and self.form.equals(operand, case, mine)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A case, the gradients that the candidate gave for it, and which of them another incoming gradient left alone."""

    case: Case
    given: Mapping[str, Tensor]
    unmoved: frozenset[str] = frozenset()


def explained(
    derivation: Derivation, operands: Sequence[str], evidence: Sequence[Evidence], deep: bool = True
) -> tuple[Explanation, ...]:
    """What is found of the gradients of these operands, in order; of two that are exchanged once.

    `deep` also tries two changes at a time, which can take some seconds.
    """
    out: list[Explanation] = []
    for operand in operands:
        if f"d{operand}" not in {g for e in out for g in e.gradients}:
            found = explain(derivation, operand, evidence, deep)
            out += [found] if found is not None else []
    return tuple(out)


def explain(
    derivation: Derivation, operand: str, evidence: Sequence[Evidence], deep: bool = True
) -> Explanation | None:
    """The first form found that equals the candidate's gradient in all the evidence; None where there is none."""
    gradient, usable = Gradient(derivation, operand), _wrong(operand, evidence)
    if usable and all(operand in e.unmoved for e in usable):
        incoming = ", ".join(f"d{o}" for o in derivation.op.outputs)
        return Explanation(f"d{operand}", f"does not depend on {incoming}", "wrong use of the incoming gradient", None)
    for family in (_FAMILIES if deep else _FAMILIES[:-1]) if len(usable) > 1 else ():
        for form in family(gradient):
            if _shown(form, operand, usable):
                return _with_the_other(Explanation(f"d{operand}", form.text, form.error, form), evidence)
    return None


def _wrong(operand: str, evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence in which this gradient is wrong."""
    return [e for e in evidence if operand in e.given and _is_off(e.given[operand], e.case, operand)]


def _is_off(given: Tensor, case: Case, operand: str) -> bool:
    right = case.gradients[operand]
    return given.shape != right.shape or worst(given, right) > max(case.allowed[operand], APART * scale(right))


def _shown(form: Form, operand: str, evidence: Sequence[Evidence]) -> bool:
    return all(form.equals(operand, e.case, e.given[operand]) for e in evidence) and any(
        form.tells(e.given[operand]) for e in evidence
    )


def _with_the_other(found: Explanation, evidence: Sequence[Evidence]) -> Explanation:
    """Of two gradients each of which is the other one: that they are exchanged."""
    other, mine = found.form.of if found.form is not None else "", found.gradient.removeprefix("d")
    back = Form("", EXCHANGED, lambda case: case.gradients[mine])
    if other and _shown(back, other, _wrong(other, evidence)):
        return replace(found, text="are exchanged", also=(f"d{other}",))
    return found
