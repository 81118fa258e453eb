"""A backward that someone else wrote, held against the derived one: right, wrong, or right only where.

The battery finds what is wrong, `conditions` where it is right, `shrink` the smallest counterexample, `explain` which
changed form of the derived gradient it is. What remains is to say which class of error that makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from derive.equations import Op
from derive.errors import DeriveError
from derive.running import FailedError, Someones
from derive.terms.axes import PACK_NAME
from derive.verify.battery import BATTERY
from derive.verify.cases import Case
from derive.verify.compare import Answer, Disagreement, Subject, disagreements
from derive.verify.conditions import Condition, separating, tested
from derive.verify.explain import Evidence, Explanation, explained
from derive.verify.shrink import smallest
from derive.verify.situations import Situation

_RANKS: tuple[tuple[int, ...], ...] = ((2, 3), (4,), (), (2, 4, 3))
_NEXT_TO_NOTHING = 1e-3  # of what a wrong gradient is
_ROUNDING = 1e-5  # float64 errors below this are of arithmetic in a lower precision, not of the formula

_MAY_REFUSE = (
    *("no leading axes", "one leading axis", "two leading axes", "three leading axes", "a leading axis of 1"),
    *("sizes 1", "first axis 1", "last axis 1", "empty", "other numbers", "numbers 0", "ties with a number"),
    *("bfloat16", "float16", "long sums in bfloat16", "long rows in bfloat16"),
)
"""Situations in which raising is no wrong gradient: a candidate may be for some ranks, sizes, numbers and dtypes."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """What judge says of a candidate.

    `word` is "right", "wrong" or "right only where"; `where` says where. `error` is the class of error. `gradients`
    are the wrong ones by name, `refused` the situations in which the candidate raised though it need not accept them.
    """

    op: Op
    word: str
    where: str = ""
    error: str = ""
    gradients: tuple[str, ...] = ()
    counterexample: Disagreement | None = None
    explanations: tuple[Explanation, ...] = ()
    situations: tuple[str, ...] = ()
    failed: tuple[Disagreement, ...] = ()
    refused: tuple[Disagreement, ...] = ()
    claims: tuple[str, ...] | None = None  # the gradients that a formula is about; None: all of them

    @property
    def right(self) -> bool:
        return self.word == "right"


@dataclass(frozen=True, eq=False)
class _Trial:
    """One situation with its case and what was wrong of it."""

    situation: Situation
    case: Case
    found: tuple[Disagreement, ...]

    @property
    def wrong(self) -> bool:
        return bool(self.found)

    @property
    def raised(self) -> bool:
        return any(d.kind == "raised" for d in self.found)

    @property
    def refused(self) -> bool:
        return self.raised and self.situation.name in _MAY_REFUSE


def judge(op: Op, subject: Subject, seed: int = 0) -> Verdict:
    """Hold a candidate against an op's derived backward.

    Raises DeriveError where the op cannot be derived, or the candidate could not be run in any situation.
    """
    trials = _trials(op, subject, seed)
    _could_run(op, trials)
    tried = Verdict(
        op,
        "right",
        situations=tuple(t.situation.name for t in trials),
        refused=tuple(d for t in trials if t.refused for d in t.found),
    )
    judged = [t for t in trials if not t.refused]
    failed = tuple(d for t in judged for d in t.found)
    if not failed:
        return tried
    exact = [t for t in judged if t.case.call.dtype == torch.float64]
    is_exact = any(t.found for t in exact)
    if is_exact:  # what is wrong in float64 is wrong below it too, and says more
        judged = exact
    wrong = [t for t in judged if t.found]
    gradients = tuple(dict.fromkeys(d.tensor for t in wrong for d in t.found if d.tensor))
    where = None if is_exact and _only_rounding(wrong) else _where(judged, gradients, subject)
    ordinary_holds, first = not judged[0].found, _telling(wrong)
    says_why = where is not None and (where.tells or (ordinary_holds and where.error == "leading axes"))
    evidence = _evidence(first, subject) if _asks_why(first, says_why) else []
    explanations = _explained(op, wrong, evidence, where is None)
    conditional = where is not None and (says_why or ordinary_holds or not (explanations or _everywhere(where)))
    only = where if conditional else None
    return replace(
        tried,
        word="right only where" if conditional else "wrong",
        where="" if only is None else only.text,
        error=_error(wrong, where, explanations),
        gradients=gradients,
        counterexample=smallest(
            _example(first, only, subject), first.situation, subject, _shows(only, explanations)
        ),
        explanations=explanations,
        failed=failed,
    )


# --- running the battery ----------------------------------------------------------------------------------


def _trials(op: Op, subject: Subject, seed: int) -> list[_Trial]:
    """The battery at the first number of leading axes at which the candidate is right, else runs, else two."""
    ranks = _RANKS if any(a.is_pack for o in op.operands for a in o.axes) else _RANKS[:1]
    firsts = {rank: _tried(replace(BATTERY[0], leading=rank), op, subject, seed) for rank in ranks}
    some = {rank: t for rank, t in firsts.items() if t is not None}
    right = [rank for rank, t in some.items() if not t.found and len(rank) in (1, 2)]
    runs = [rank for rank, t in some.items() if not t.raised]
    usual = BATTERY[0].leading
    rank = next(iter([*right, *runs]), usual)
    out = []
    for situation in BATTERY:
        if situation.leading == usual:
            situation = replace(situation, leading=rank)
        trial = _tried(situation, op, subject, seed)
        if trial is not None:
            out.append(trial)
    if rank != usual:  # which then is a situation of its own
        trial = _tried(replace(BATTERY[0], name="two leading axes"), op, subject, seed)
        if trial is not None:
            out.append(trial)
    return out


def _tried(situation: Situation, op: Op, subject: Subject, seed: int) -> _Trial | None:
    case = situation.make(op, seed)
    return None if case is None else _Trial(situation, case, disagreements(case, subject))


def _could_run(op: Op, trials: Sequence[_Trial]) -> None:
    """Raises DeriveError where it raised whenever it was given anything: of nothing, much runs."""
    if not trials:
        raise DeriveError("found no call to try the candidate with", op=op.name)
    asked = [t for t in trials if any(i.numel() for i in t.case.call.inputs.values())] or trials
    if not all(t.raised for t in asked):
        return
    raise DeriveError(
        f"the candidate could not be run in any of {len(asked)} situations: {asked[0].found[0].message}",
        op=op.name,
        fix=f"it is called with d{', d'.join(op.outputs)} and then {', '.join(trials[0].case.call.inputs)}",
    )


def _telling(wrong: Sequence[_Trial]) -> _Trial:
    """The trial to show: a value or a gradient rather than an exception, in float64 rather than below."""
    return min(wrong, key=lambda t: (t.raised, t.case.call.dtype != torch.float64))


def _where(judged: Sequence[_Trial], gradients: Sequence[str], subject: Subject) -> Condition | None:
    """What the right cases have in common, or at least which situations are wrong while the ordinary one is right."""
    op, asked = judged[0].case.op, _of_inputs(judged[0], gradients)

    def again(situation: Situation, case: Case) -> bool | None:
        trial = _Trial(situation, case, disagreements(case, subject))
        return None if trial.refused else trial.wrong

    where = separating(op, judged, asked, again, judged[0].case.seed)
    if where is None and not judged[0].found:
        wrong = [t.situation for t in judged if t.found]
        errors, names = {_special(s) for s in wrong}, {s.name for s in wrong}
        where = Condition(
            f"none of these is the case: {', '.join(s.name for s in wrong)}",
            errors.pop() if len(errors) == 1 else "unexplained",
            lambda case: case.situation not in names,
            tells=len(errors) == 1,
        )
        found = tested(where, op, judged, asked, again, judged[0].case.seed)
        return found if isinstance(found, Condition) else None
    return where


def _of_inputs(trial: _Trial, names: Sequence[str]) -> list[str]:
    """Those of the names that are gradients, not outputs or tensors that were written to."""
    return [n for n in names if n.removeprefix("d") in trial.case.gradients]


def _special(situation: Situation) -> str:
    """The class of error of what is wrong in this situation and right in the ordinary one."""
    if situation.dtype != torch.float64:
        return "precision"
    if (situation.inputs, situation.cotangents) != ("contiguous", "contiguous"):
        return "strides"
    if situation.change is not BATTERY[0].change:
        return "singular point"
    if situation.indices in ("repeated", "last"):
        return "overwritten instead of accumulated"
    return "aliasing" if situation.shared else "unexplained"


def _everywhere(where: Condition) -> bool:
    """Whether being right there says nothing: any formula is, where an axis has length 1."""
    return where.text.endswith("= 1")


# --- what kind of error -----------------------------------------------------------------------------------


def _asks_why(first: _Trial, says_why: bool) -> bool:
    """Whether a changed formula is looked for: where the candidate is right does not say why it is wrong elsewhere.

    What it keeps between calls, or writes to, is no formula.
    """
    return not says_why and not any(d.kind in ("again", "modified") for d in first.found)


def _evidence(first: _Trial, subject: Subject) -> list[Evidence]:
    """The candidate's gradients at the first failure, at another seed, and with other lengths.

    What looks like a length at one set of lengths may be a number.
    """
    call, out = first.case.call, []
    longer = {a: n + 2 for a, n in call.lengths.items() if a != PACK_NAME}
    for seed, lengths, leading in ((0, None, call.leading), (1, None, call.leading), (2, longer, call.leading[::-1])):
        case = first.situation.make(first.case.op, first.case.seed + seed, lengths, leading)
        given = None if case is None else _answer(case, subject)
        if case is not None and given is not None:
            found = {n: g.detach() for n, g in given.gradients.items() if isinstance(g, Tensor)}
            out.append(Evidence(case, found, _unmoved(case, found, subject)))
    return out


def _unmoved(case: Case, given: Mapping[str, Tensor], subject: Subject) -> frozenset[str]:
    """The gradients that are the same for another incoming gradient."""
    other = replace(case, call=replace(case.call, cotangents=tuple(0.3 - 2 * c for c in case.call.cotangents)))
    found = _answer(other, subject)
    again = {} if found is None else {n: g for n, g in found.gradients.items() if isinstance(g, Tensor)}
    return frozenset(n for n, g in given.items() if n in again and bool(g.any()) and torch.equal(g, again[n]))


def _answer(case: Case, subject: Subject) -> Answer | None:
    """What the subject gives for copies of a case's tensors; None where it raises."""
    call = replace(
        case.call,
        inputs={n: t.clone() for n, t in case.call.inputs.items()},
        cotangents=tuple(t.clone() for t in case.call.cotangents),
    )
    try:
        with Someones():
            return subject(call)
    except FailedError:
        return None


def _explained(
    op: Op, wrong: Sequence[_Trial], evidence: Sequence[Evidence], deep: bool
) -> tuple[Explanation, ...]:
    """Which changed form of the derived gradient each wrong one is, where one is found."""
    kinds = ("value", "shape")
    values = {d.tensor for t in wrong for d in t.found if d.kind in kinds and d.case.call.dtype == torch.float64}
    if _only_rounding(wrong):
        return ()
    names = [o.name for o in op.differentiable if f"d{o.name}" in values]
    return explained(op.derivation, names, evidence, deep)


def _shows(where: Condition | None, explanations: Sequence[Explanation]) -> Callable[[Disagreement, Subject], bool]:
    """Whether a smaller counterexample still shows the reason that is given: by its lengths, or by its values."""

    def shows(found: Disagreement, subject: Subject) -> bool:
        if where is not None and (where.holds(found.case) or not where.shows(found.case)):
            return False
        if where is None and found.kind == "value" and _degenerate(found):
            return False
        mine = [e for e in explanations if found.tensor in e.gradients]
        given = _answer(found.case, subject) if mine else None
        return not mine or (given is not None and mine[0].is_seen(found.case, given.gradients))

    return shows


def _example(first: _Trial, where: Condition | None, subject: Subject) -> Disagreement:
    """What to show: of the trial, or where its lengths are too short to see the condition, of a longer one."""
    call = first.case.call
    if where is not None and not where.shows(first.case):
        own = {a: n for a, n in call.lengths.items() if a != PACK_NAME}
        case = first.situation.make(call.op, first.case.seed, *where.example((own, call.leading)))
        found = disagreements(case, subject) if case is not None and where.shows(case) else ()
        return next(iter(found), first.found[0])
    return first.found[0]


def _degenerate(found: Disagreement) -> bool:
    """Whether what is right there is next to nothing, as along an axis of length 1 that a mean is taken over."""
    right = found.case.gradients[found.tensor.removeprefix("d")]
    return bool((right.abs() < _NEXT_TO_NOTHING * abs(found.got)).all())


def _error(wrong: Sequence[_Trial], where: Condition | None, explanations: Sequence[Explanation]) -> str:
    """The class of error, from what the experiments showed."""
    kinds = {d.kind for t in wrong for d in t.found}
    if "missing" in kinds:
        return "missing gradient"
    if "output" in kinds:
        return "another forward"
    if "modified" in kinds and kinds <= {"modified", "raised"}:
        return "inputs modified"
    if "again" in kinds:
        return "state kept between calls"
    if _only_rounding(wrong) or kinds <= {"dtype"}:
        return "precision"
    if explanations:  # of two gradients, one lacks a mask because the other has it
        errors = [e.error for e in explanations]
        return next((e for e in errors if e == "mask on the wrong gradient"), errors[0])
    vague = where is None or not where.tells
    if vague and all(_stretched(d) for t in wrong for d in t.found if d.kind == "shape") and "shape" in kinds:
        return "wrong axis"
    if where is not None and not _everywhere(where):
        return where.error
    if "shape" in kinds:
        return "wrong axis"
    if all(d.got != d.got for t in wrong for d in t.found if d.kind == "value"):
        return "not a number"
    if kinds == {"raised"}:
        return "raises"
    return "unexplained"


def _stretched(d: Disagreement) -> bool:
    """Whether a gradient has the right number of axes but not their lengths: something was broadcast against it."""
    ranks = {len(re.findall(r"\d+", shape)) for shape in re.findall(r"\[[^]]*\]", d.message)}
    return d.kind == "shape" and len(ranks) == 1


def _only_rounding(wrong: Sequence[_Trial]) -> bool:
    """Whether all is well in float64 but for small errors, and off in the lower precisions."""
    found = [d for t in wrong for d in t.found]
    return all(
        d.kind in ("value", "dtype") and (d.case.call.dtype != torch.float64 or d.error < _ROUNDING) for d in found
    )
