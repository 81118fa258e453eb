"""`python -m tests.mutation.judged [--trials FILE] [--out FILE] [OP…]`: judge of wrong candidates, as a table.

Each trial is a line of the first file; what stands there already is not tried again. Three things are asked, the last
two on calls that judge has not seen: whether the candidate is condemned, whether it is wrong at all, and whether the
reason is true: that a form which is named gives its values, and that it is right where a condition holds, and wrong
elsewhere.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from derive.ir.equations import Op
from derive.verify.battery import BATTERY, cases
from derive.verify.cases import Case
from derive.verify.compare import Subject, disagreements
from derive.verify.conditions import conditions
from derive.verify.judge import Verdict, judge
from tests.corpus import corpus
from tests.mutation.wrong import Wrong, right_of, wrong

OPS = (
    *("tanh", "gelu", "swiglu", "softmax", "log_softmax", "logsumexp", "add_bias", "attention", "linear", "embedding"),
    *("conv1d", "mse", "huber", "softmax_cross_entropy", "kl_div", "batchnorm", "layernorm", "rmsnorm", "l2_normalize"),
    *("rotary", "total_variation", "film", "graph_mean", "sigmoid_attention", "additive_scores", "falling_pairs"),
    *("clipped_mean_of_rows", "log_mean_exp", "capped_scores", "neighbour_scores", "segment_attention", "kernel_mean"),
    *("divergence_at_a_temperature", "gated_recurrent_step", "attentive_statistics", "masked_batchnorm"),
    *("group_norm_in_one_line", "coulomb_energy", "leapfrog", "three_factors", "low_rank_update", "weighted_variance"),
    *("student_density", "same_size_filter", "causal_filter", "padded_maximum", "differences_ahead"),
)
"""Half of them from the catalogue."""

HEAD = """# Wrong candidates, judged

`python -m tests.mutation.judged --trials FILE --out docs/judged.md` makes wrong candidates of right backwards, of ops
of the catalogue and of others, and asks `derive judge` of each. Half of them have a mistake that judge has a class of
error for. A reason is true *as made*, where the class is one that the mistake was made to be; *verified*, where it is
another, or a condition, that calls which judge has not seen confirm; or *unexplained*, of a mistake that has no name,
with a counterexample. `make test` tries a sample.
"""

NAMED, OTHERS = 4, 4
"""How many candidates of an op have a mistake that judge has a name for, and how many have another."""

_SEEN = 5  # seeds that judge does not use begin here


@dataclass(frozen=True)
class Trial:
    """What judge said of a candidate, and what is so.

    `reason` is "as made" (a class that is true of how it was made), "verified" (another, that unseen calls confirm),
    "unexplained", or "false".
    """

    op: str
    mistake: str
    named: bool
    differs: bool
    word: str
    error: str
    said: str
    reason: str

    @property
    def condemned(self) -> bool:
        return self.word != "right"

    @property
    def true(self) -> bool:
        """Whether the reason is true: of a mistake that has no name, that it is unexplained."""
        known = self.reason in ("as made", "verified") or (not self.named and self.reason == "unexplained")
        return self.condemned and known


def trial(op: Op, candidate: Wrong) -> Trial:
    verdict = judge(op, candidate.subject)
    said = "; ".join([verdict.where, *(f"{', '.join(e.gradients)} {e.text}" for e in verdict.explanations)])
    differs = _differs(op, candidate.subject)
    so = reason(op, candidate, verdict)
    return Trial(op.name, candidate.name, bool(candidate.classes), differs, verdict.word, verdict.error, said, so)


def _differs(op: Op, subject: Subject) -> bool:
    """Whether it is wrong of any call that has not been tried, in float64; raising is no wrong gradient."""
    return any(
        any(d.kind != "raised" for d in disagreements(case, subject))
        for seed in (_SEEN, _SEEN + 1)
        for case in cases(op, seed, tuple(s for s in BATTERY if s.dtype == torch.float64))
    )


def reason(op: Op, candidate: Wrong, verdict: Verdict) -> str:
    """What is so of a verdict's reason: as `Trial` has it."""
    if verdict.counterexample is None or not _shows(verdict, candidate.subject):
        return "false"
    if not _is_so(op, verdict, candidate.subject):
        return "false"
    if verdict.error in candidate.classes:
        return "as made"
    if verdict.error == "unexplained":
        return "unexplained"
    of_shapes = verdict.error == "wrong axis" and verdict.counterexample.kind == "shape"
    return "verified" if verdict.explanations or verdict.where or of_shapes else "false"


def _shows(verdict: Verdict, subject: Subject) -> bool:
    """Whether the counterexample is one."""
    example = verdict.counterexample
    found = () if example is None else disagreements(example.case, subject)
    return any((d.kind, d.tensor) == (example.kind, example.tensor) for d in found if example is not None)


def _is_so(op: Op, verdict: Verdict, subject: Subject) -> bool:
    """Whether unseen calls confirm the forms and the condition."""
    for explanation in verdict.explanations:
        operand = explanation.gradient.removeprefix("d")
        alike = []
        for case in _unseen(op, verdict):
            if not any(d.kind == "raised" for d in disagreements(case, subject)):
                given = subject(case.call).gradients[operand]
                if explanation.form is None:  # it is said not to depend on what comes in
                    other = replace(case.call, cotangents=tuple(c + 1 for c in case.call.cotangents))
                    alike.append(_alike(given, subject(other).gradients[operand]))
                else:
                    alike.append(_alike(given, explanation.form.value(case)))
        if not alike or not all(alike):
            return False
    return not verdict.where or _holds_only_there(op, verdict, subject)


def _alike(given: Tensor | None, form: Tensor | None) -> bool:
    if given is None or form is None or given.shape != form.shape:
        return False
    return torch.allclose(given, form, rtol=1e-6, atol=1e-8)


def _unseen(op: Op, verdict: Verdict) -> Iterator[Case]:
    """Calls of the situation that is shown, with as many leading axes, at seeds that judge does not use."""
    shown = verdict.counterexample
    name = "ordinary" if shown is None else shown.case.situation
    failed = [d.case.call.leading for d in verdict.failed if d.case.situation == name]
    situation = next((s for s in BATTERY if s.name == name), BATTERY[0])
    for seed in range(_SEEN, _SEEN + 3):
        case = situation.make(op, seed, None, *failed[:1])
        if case is not None:
            yield case


def _holds_only_there(op: Op, verdict: Verdict, subject: Subject) -> bool:
    text = verdict.where.removesuffix(", or by chance")
    known = {c.text: c for c in conditions(op)}
    parts = [known[p] for p in ([text] if text in known else text.split(" and ")) if p in known]
    if not parts:
        return text.startswith("none of these is the case")
    there = elsewhere = 0
    for seed in (_SEEN, _SEEN + 1, _SEEN + 2):
        for case in cases(op, seed, tuple(s for s in BATTERY if s.dtype == torch.float64)):
            found = [d for d in disagreements(case, subject) if d.kind != "raised"]
            holds = all(p.holds(case) for p in parts)
            there += bool(found) and holds
            elsewhere += bool(found) and not holds
    return not there and elsewhere > 0


# --- all of them -----------------------------------------------------------------------------------------------------


def candidates(names: Sequence[str] = OPS, named: int = NAMED, others: int = OTHERS) -> Iterator[tuple[Op, Wrong]]:
    """The wrong candidates of these ops. An op whose own backward is judged wrong raises AssertionError."""
    ops = {spec.name: spec.op for spec in corpus()}
    for name in names:
        op = ops[name]
        assert judge(op, right_of(op)).right, f"{name} is wrong as it is"
        for candidate in wrong(op, named, others):
            yield op, candidate


def run(file: Path | None, names: Sequence[str]) -> list[Trial]:
    """Every trial, those in the file as they stand there and the others added to it."""
    lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
    found = [Trial(**json.loads(line)) for line in lines]
    known = Counter(t.op for t in found)
    for name in names:
        if known[name]:
            continue
        mine = []
        for op, candidate in candidates([name]):
            mine.append(trial(op, candidate))
        found += mine
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(asdict(t)) + "\n" for t in mine)
        print(f"{name}: {len(mine)}", flush=True)
    return [t for t in found if t.op in names]


def table(found: Sequence[Trial]) -> str:
    """How many are condemned, and of how many the reason is true, by kind of mistake, in Markdown."""
    made = [t for t in found if t.differs]
    head = "| mistake | made | condemned | reason true | as made | verified | unexplained | false |"
    rows = [head, "|---|" + "--:|" * 7]
    kinds = sorted({(not t.named, t.mistake.split(":")[0]) for t in made})
    groups = [(kind, [t for t in made if t.mistake.split(":")[0] == kind]) for _, kind in kinds]
    groups += [("**with a name**", [t for t in made if t.named]), ("**without**", [t for t in made if not t.named])]
    for kind, mine in (*groups, ("**all**", made)):
        reasons = Counter(t.reason for t in mine)
        counts = [len(mine), sum(t.condemned for t in mine), sum(t.true for t in mine)]
        cells = [*counts, *(reasons[r] for r in ("as made", "verified", "unexplained", "false"))]
        rows.append(f"| {kind} | {' | '.join(map(str, cells))} |")
    condemned, true = (_share(sum(getattr(t, what) for t in made), len(made)) for what in ("condemned", "true"))
    same = f"{len(found) - len(made)} that change nothing are not counted"
    rows += ["", f"{len({t.op for t in made})} ops. {condemned} condemned, {true} with the true reason; {same}."]
    rows += [f"- not condemned: {t.op}, `{_line(t)}`" for t in made if not t.condemned]
    rows += [f"- {t.reason}: {t.op}, `{_line(t)}`: {t.error} {t.said}" for t in made if t.condemned and not t.true]
    alike = [t for t in found if t.condemned and not t.differs]
    rows += [f"- condemned, though no unseen call is wrong: {t.op}, `{_line(t)}`" for t in alike]
    return "\n".join(rows) + "\n"


def _line(t: Trial) -> str:
    return " ".join(t.mistake.split())


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.judged", description=__doc__)
    parser.add_argument("ops", nargs="*", help="which ops (default: those of OPS)")
    parser.add_argument("--trials", type=Path, help="a line a trial; it goes on where that file ends")
    parser.add_argument("--out", type=Path, help="write the table here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    text = f"{HEAD}\n{table(run(arguments.trials, arguments.ops or OPS))}"
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
