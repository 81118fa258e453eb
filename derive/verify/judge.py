"""A backward that someone else wrote, held against the derived one: right, wrong, or right only where.

The battery finds what is wrong, `conditions` where it is right, `shrink` the smallest counterexample, `explain` which
changed form of the derived gradient it is. What remains is to say which class of error that makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.ir.terms.axes import PACK_NAME
from derive.notation.running import FailedError, Someones
from derive.pipeline import derivation_of
from derive.verify.battery import BATTERY
from derive.verify.cases import Case
from derive.verify.compare import Answer, Disagreement, Subject, disagreements
from derive.verify.conditions import Condition, separating, tested
from derive.verify.explain import Evidence, Explanation, explained
from derive.verify.opaque import Opaque
from derive.verify.precision import WIDEST_FIRST, Finding, computes_in, grave, is_rounding, less_exact, named
from derive.verify.shrink import smallest
from derive.verify.situations import Situation

_RANKS: tuple[tuple[int, ...], ...] = ((2, 3), (4,), (), (2, 4, 3))
_LENGTHS = ("distinct", "whole blocks")  # odd ones, and else those that a kernel for powers of two takes
_SOME = 0.1  # relative; an error of more is of no arithmetic where inputs have the widest dtype
_NEXT_TO_NOTHING = 1e-3  # of what a wrong gradient is


@dataclass(frozen=True, eq=False)
class Verdict:
    """What judge says of a candidate.

    `word` is "right", "wrong" or "right only where"; `where` says where. `error` is the class of error. `findings` are
    of the precision of what is right. `gradients` are the wrong ones by name, `refused` the situations in which the
    candidate raised though it need not accept them. `dtype` is what it is judged in.
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
    findings: tuple[Finding, ...] = ()
    dtype: torch.dtype = torch.float64
    notes: tuple[str, ...] = ()  # on what it is judged in, and by

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


@dataclass(frozen=True, eq=False)
class _Start:
    """The ordinary situation as a candidate accepts it: leading axes, lengths, the widest dtype.

    `dtype` is what it computes in there, `refused` are the wider dtypes, each with what was raised.
    """

    ordinary: Situation
    dtype: torch.dtype
    judged_in: str = ""
    refused: tuple[Disagreement, ...] = ()
    findings: tuple[Finding, ...] = ()

    def may_refuse(self, situation: Situation) -> bool:
        """Whether raising there is no wrong gradient: a candidate may be for some ranks, sizes, numbers and dtypes."""
        usual = replace(self.ordinary, dtype=self.dtype)
        claimed = [(s.leading, s.lengths, s.numbers, s.dtype) for s in (situation, usual)]
        return claimed[0] != claimed[1]


def judge(op: Op, subject: Subject, seed: int = 0, dtype: torch.dtype | None = None) -> Verdict:
    """Hold a candidate against an op's derived backward, in one dtype or in the widest that it accepts and those below.

    Raises DeriveError where the op cannot be derived, or the candidate could not be run in any situation.
    """
    start = _start(op, subject, seed, dtype)
    trials = _trials(op, subject, seed, start, dtype is None)
    _could_run(op, trials)
    refusing = [t for t in trials if t.raised and start.may_refuse(t.situation)]
    judged, findings = _apart([t for t in trials if t not in refusing], subject)
    tried = Verdict(
        op,
        "right",
        situations=tuple(t.situation.name for t in trials),
        refused=(*start.refused, *(d for t in refusing for d in t.found)),
        findings=(*start.findings, *findings),
        dtype=start.dtype,
        notes=(start.judged_in,) if start.judged_in else (),
    )
    failed = tuple(d for t in judged for d in t.found)
    if not failed:
        return tried
    exact = [t for t in judged if t.case.call.dtype == start.dtype]
    is_exact = any(t.found for t in exact)
    if is_exact:  # what is wrong in the widest dtype is wrong below it too, and says more
        judged = exact
    wrong = [t for t in judged if t.found]
    gradients = tuple(dict.fromkeys(d.tensor for t in wrong for d in t.found if d.tensor))
    first = _telling(wrong, start.dtype)
    rounds = _only_rounds(wrong, first, subject, is_exact)
    where = _where(judged, gradients, subject, start)
    ordinary_holds = not judged[0].found
    says_why = where is not None and (where.tells or (ordinary_holds and where.error == "leading axes"))
    evidence = _evidence(first, subject) if not rounds and _asks_why(first, says_why) else []
    explanations = _explained(op, wrong, evidence, where is None)
    conditional = where is not None and (says_why or ordinary_holds or not (explanations or where.everywhere))
    only = where if conditional else None
    return replace(
        tried,
        word="right only where" if conditional else "wrong",
        where="" if only is None else only.text,
        error="precision" if rounds else _error(wrong, where, explanations),
        gradients=gradients,
        counterexample=smallest(
            _example(first, only, subject), first.situation, subject, _shows(only, explanations)
        ),
        explanations=explanations,
        failed=failed,
    )


# --- running the battery ----------------------------------------------------------------------------------


def _start(op: Op, subject: Subject, seed: int, dtype: torch.dtype | None) -> _Start:
    """The widest dtype that a candidate accepts, at leading axes and lengths at which it is right, or else runs.

    Where it accepts nothing, the ordinary situation as it stands.
    """
    refused: list[Disagreement] = []
    widest = op.takes if isinstance(op, Opaque) else torch.float64
    narrow = f"judged in {named(widest)}, which its forward computes in" if widest != torch.float64 else ""
    for accepted in WIDEST_FIRST[WIDEST_FIRST.index(widest) :] if dtype is None else (dtype,):
        for lengths in _LENGTHS:
            ordinary = replace(BATTERY[0], dtype=accepted, lengths=lengths)
            trial = _at_some_rank(ordinary, op, subject, seed)
            if trial is None or trial.raised:
                refused += [] if trial is None or lengths != _LENGTHS[0] else trial.found
                continue
            wide = computes_in(trial.case, trial.situation, subject)
            name, own = named(accepted), named(wide)
            if wide != accepted:
                detail = f"judged in {own}: so are its results where it is given {name}"
                return _Start(trial.situation, wide, "", _of_dtypes(refused), (Finding(f"computing in {own}", detail),))
            why = f"judged in {name}, as asked" if dtype is not None else narrow
            if refused and accepted != refused[0].case.call.dtype:
                why = f"judged in {name}, the widest dtype that it accepts"
            return _Start(trial.situation, accepted, why, _of_dtypes(refused, accepted))
    return _Start(replace(BATTERY[0], dtype=dtype or torch.float64), dtype or torch.float64)


def _of_dtypes(refused: Sequence[Disagreement], accepted: torch.dtype | None = None) -> tuple[Disagreement, ...]:
    """What was raised of each dtype wider than the one accepted, its case under the name of the dtype."""
    wider = [d for d in refused if d.case.call.dtype != accepted]
    return tuple(replace(d, case=replace(d.case, situation=named(d.case.call.dtype))) for d in wider)


def _at_some_rank(ordinary: Situation, op: Op, subject: Subject, seed: int) -> _Trial | None:
    """The trial at the first number of leading axes at which the candidate is right, else runs, else two."""
    ranks = _RANKS if any(a.is_pack for o in op.operands for a in o.axes) else _RANKS[:1]
    some: list[_Trial] = []
    for rank in ranks:
        trial = _tried(replace(ordinary, leading=rank), op, subject, seed)
        if trial is not None and not trial.found and len(rank) in (1, 2):
            return trial
        some += [] if trial is None else [trial]
    return next((t for t in some if not t.raised), next(iter(some), None))


def _trials(op: Op, subject: Subject, seed: int, start: _Start, below: bool) -> list[_Trial]:
    """The battery as the candidate accepts it, in the dtype that it is judged in and, where asked, those `below`."""
    usual, ordinary, out = BATTERY[0], start.ordinary, []
    for situation in BATTERY:
        if situation.dtype == torch.float64:
            situation = replace(situation, dtype=start.dtype)
        elif situation.dtype == start.dtype:
            if situation.lengths == usual.lengths:  # which then is the ordinary one
                continue
        elif not below or situation.dtype.itemsize >= start.dtype.itemsize:
            continue
        if situation.leading == usual.leading:
            situation = replace(situation, leading=ordinary.leading)
        if situation.lengths == usual.lengths:
            situation = replace(situation, lengths=ordinary.lengths)
        trial = _tried(situation, op, subject, seed)
        if trial is not None:
            out.append(trial)
    if ordinary.leading != usual.leading:  # which then is a situation of its own
        two = replace(ordinary, name="two leading axes", leading=usual.leading, dtype=start.dtype)
        trial = _tried(two, op, subject, seed)
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


# --- precision --------------------------------------------------------------------------------------------


def _apart(trials: Sequence[_Trial], subject: Subject) -> tuple[list[_Trial], tuple[Finding, ...]]:
    """The trials without what is a matter of precision alone, and what is to be said of that."""
    out, said = [], list[tuple[float, Finding]]()
    for trial in trials:
        wrong = []
        for d in trial.found:
            if d.kind == "dtype":
                detail = f'{d.message}, in the situation "{d.case.situation}"'
                said.append((0.0, Finding("returning another dtype", detail)))
            elif _is_a_matter_of_rounding(d, subject):
                found = less_exact(d)
                said += [] if found is None else [(d.error, found)]
            else:
                wrong.append(d)
        out.append(replace(trial, found=tuple(wrong)))
    worst_first = [f for _, f in sorted(said, key=lambda s: -s[0])]
    return out, tuple({f.text: f for f in reversed(worst_first)}.values())


def _is_a_matter_of_rounding(d: Disagreement, subject: Subject) -> bool:
    """Whether a value is right but for arithmetic that leaves more than half of its digits."""
    close = d.kind in ("value", "output") and d.error <= grave(d.case.call.dtype)
    return close and is_rounding(d.case, d.tensor, subject)


def _only_rounds(wrong: Sequence[_Trial], first: _Trial, subject: Subject, is_exact: bool) -> bool:
    """Whether all that is wrong is of the arithmetic: in low precisions alone, or moving as rounding does."""
    found = [d for t in wrong for d in t.found]
    if any(d.kind != "value" for d in found):
        return False
    return not is_exact or (first.found[0].error < _SOME and is_rounding(first.case, first.found[0].tensor, subject))


# --- where it is right ------------------------------------------------------------------------------------


def _telling(wrong: Sequence[_Trial], dtype: torch.dtype) -> _Trial:
    """The trial to show: a value or a gradient rather than an exception, in the widest dtype rather than below."""
    return min(wrong, key=lambda t: (t.raised, t.case.call.dtype != dtype))


def _where(
    judged: Sequence[_Trial], gradients: Sequence[str], subject: Subject, start: _Start
) -> Condition | None:
    """What the right cases have in common, or at least which situations are wrong while the ordinary one is right."""
    op, asked = judged[0].case.op, _of_inputs(judged[0], gradients)

    def again(situation: Situation, case: Case) -> bool | None:
        trial = _Trial(situation, case, disagreements(case, subject))
        return None if trial.raised and start.may_refuse(situation) else _apart([trial], subject)[0][0].wrong

    where = separating(op, judged, asked, again, judged[0].case.seed)
    if where is None and not judged[0].found:
        wrong = [t.situation for t in judged if t.found]
        errors, names = {_special(s, start.dtype) for s in wrong}, {s.name for s in wrong}
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


def _special(situation: Situation, dtype: torch.dtype) -> str:
    """The class of error of what is wrong in this situation and right in the ordinary one, of that dtype."""
    if situation.dtype != dtype:
        return "precision"
    if (situation.inputs, situation.cotangents) != ("contiguous", "contiguous"):
        return "strides"
    if situation.change is not BATTERY[0].change:
        return "singular point"
    if situation.indices in ("repeated", "last"):
        return "overwritten instead of accumulated"
    return "aliasing" if situation.shared else "unexplained"


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
    if isinstance(op, Opaque) or not evidence:
        return ()
    if evidence[0].case.call.dtype.itemsize < 4:  # in half precision many forms look alike
        return ()
    values = {d.tensor for t in wrong for d in t.found if d.kind in ("value", "shape")}
    names = [o.name for o in op.differentiable if f"d{o.name}" in values]
    return explained(derivation_of(op), names, evidence, deep)


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
    if "again" in kinds and (where is None or where.error != "strides"):  # what is read beside a tensor varies
        return "state kept between calls"
    if explanations:  # of two gradients, one lacks a mask because the other has it
        errors = [e.error for e in explanations]
        return next((e for e in errors if e == "mask on the wrong gradient"), errors[0])
    vague = where is None or not where.tells
    if vague and all(_stretched(d) for t in wrong for d in t.found if d.kind == "shape") and "shape" in kinds:
        return "wrong axis"
    if where is not None and not where.everywhere:
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
    return d.kind == "shape" and len(d.shape) == d.case.gradients[d.tensor.removeprefix("d")].dim()
