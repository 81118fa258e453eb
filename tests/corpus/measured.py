"""What the code makes of a spec, as data: its text, what it costs, how it was reached, and how exact it is."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields

from derive.collapse.autograd.saved import BYTES
from derive.errors import DeriveError
from derive.facts.costs.cost import work
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.nodes.walking import walk
from derive.ir.program import Program, Read, Statement
from derive.ir.words import text
from derive.notation.running import FailedError, Someones
from derive.output.live import build
from derive.pipeline import Derivation
from derive.show.report import largest
from derive.verify.battery import BATTERY
from derive.verify.cases import Call, Case, reference, scale, worst
from derive.verify.compare import Answer, Subject
from derive.verify.situations import Situation
from derive.verify.subjects import of_live
from tests.corpus import Spec
from tests.corpus.hostile import ORDINARY

SEEDS = 3
"""Calls of each situation: the largest error of them is recorded."""


@dataclass(frozen=True)
class Counts:
    """One program at nominal lengths: statements but for views, element operations, passes over the largest tensor."""

    statements: int
    operations: int
    passes: float


@dataclass(frozen=True)
class Errors:
    """The largest relative error, of the derived functions and of autograd over the equations as they are written."""

    ours: float
    equations: float


@dataclass(frozen=True)
class Entry:
    """All that is recorded of a spec.

    `float64` is the largest relative error against autograd of the executed equations, `float32` the same for each
    situation: of outputs and gradients alike, infinite where one is not finite and should be. `code` is the emitted
    forward and backward, or their digest where `generated/` holds them.
    """

    name: str
    family: str
    forward: Counts
    backward: Counts
    saved: Mapping[str, int]  # bytes by tensor
    float64: float
    float32: Mapping[str, Errors]
    steps: tuple[str, ...]
    code: tuple[str, ...]

    @property
    def saved_bytes(self) -> int:
        return sum(self.saved.values())


def measured(spec: Spec) -> Entry:
    """The entry of a spec, derived anew. Raises DeriveError where it cannot be derived."""
    live = build(spec.op)
    d, subject = live.derivation, of_live(live)
    lines = functions_of(live.source, spec.name)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return Entry(
        spec.name,
        spec.family,
        *counted(d),
        saved_bytes(d),
        errors(spec, BATTERY[0], subject).ours,
        {s.name: errors(spec, s, subject) for s in (ORDINARY, *spec.hostile)},
        tuple(_steps(d)),
        (f"sha256 {digest}",) if spec.family.startswith("catalogue/") else lines,
    )


def functions_of(module: str, name: str) -> tuple[str, ...]:
    """The lines of the forward and the backward in the text of an emitted module."""
    lines, wanted = module.split("\n"), (f"{name}_forward", f"{name}_backward")
    found = [n for n in ast.parse(module).body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    starts = [min([f.lineno, *(d.lineno for d in f.decorator_list)]) - 1 for f in found]
    return tuple(x for f, start in zip(found, starts, strict=True) for x in lines[start : f.end_lineno])


# --- counting ---------------------------------------------------------------------------------------------


def counted(d: Derivation) -> tuple[Counts, Counts]:
    """The forward and the backward of a derivation."""
    lengths = nominal(d.named).unweighted
    unit = largest(d.forward, lengths)
    return _counted(d.forward, lengths, unit), _counted(d.backward, lengths, unit)


def _counted(program: Program, lengths: Nominal, unit: float) -> Counts:
    operations = work(program, lengths)
    statements = sum(not _is_view(s) for s in program.statements)
    return Counts(statements, round(operations), round(operations / unit, 2))


def _is_view(s: Statement) -> bool:
    """Whether a statement only names another tensor's elements, at places that no index names."""
    return isinstance(s.value, Read) and not any(isinstance(n, Read) for i in s.value.index for n in walk(i))


def saved_bytes(d: Derivation) -> dict[str, int]:
    """What the forward hands to the backward, in bytes at nominal lengths."""
    lengths = nominal(d.named).unweighted
    return {s.label: round(BYTES[s.element] * lengths.elements(s.axes)) for s in d.saved}


# --- errors -----------------------------------------------------------------------------------------------


def errors(spec: Spec, situation: Situation, subject: Subject) -> Errors:
    """The largest errors over a few calls. Raises DeriveError where the op has none of the kind."""
    cases = [c for seed in range(SEEDS) if (c := situation.make(spec.op, seed)) is not None]
    if not cases:
        raise DeriveError(f"has no inputs {situation.name!r}", op=spec.name, fix="take them off its hostile inputs")
    ours, theirs = (max(error_of(c, s) for c in cases) for s in (subject, _equations))
    return Errors(coarse(ours), coarse(theirs))


def error_of(case: Case, subject: Subject) -> float:
    """The largest relative error of one call's outputs and gradients; infinite where it raises."""
    try:
        with Someones():
            answer = subject(case.call)
    except FailedError:
        return math.inf
    pairs = [(answer.gradients[n], want) for n, want in case.gradients.items()]
    pairs += [((answer.outputs or {})[n], want) for n, want in case.outputs.items()]
    return max((math.inf if got is None else worst(got, want) / scale(want) for got, want in pairs), default=0.0)


def _equations(call: Call) -> Answer:
    outputs, gradients = reference(call)
    return Answer(gradients, outputs)


def coarse(value: float) -> float:
    """Two digits, which is more than machines agree on."""
    return float(f"{value:.1e}")


# --- steps ------------------------------------------------------------------------------------------------


def _steps(d: Derivation) -> Iterator[str]:
    """The relations that the collapse rests on, then each of its steps: the law, what it is about, and the reason."""
    reasons = {r for s in d.closed.steps for r in s.reason.split("; ")}
    for relation in d.closed.relations:
        if str(relation) in reasons:
            yield f"because {text(relation.pattern)} = {text(relation.value)} by {', '.join(relation.because)}"
    for s in d.closed.steps:
        yield f"{text(s.subject)}: {s.law}" + (f" ({s.reason})" if s.reason else "")


# --- as files ---------------------------------------------------------------------------------------------


def as_text(entry: Entry) -> str:
    """An entry as a file that is read in a diff: one fact a line."""
    data = asdict(entry)
    data["float32"] = {name: [e.ours, e.equations] for name, e in entry.float32.items()}
    content = json.dumps(data, indent=1, ensure_ascii=False)
    return re.sub(r"\[\s+([\d.e+-]+|Infinity),\s+([\d.e+-]+|Infinity)\s+\]", r"[\1, \2]", content) + "\n"


def from_text(content: str) -> Entry:
    """The entry of such a file."""
    data = json.loads(content)
    data |= {"forward": Counts(**data["forward"]), "backward": Counts(**data["backward"])}
    data["float32"] = {name: Errors(*pair) for name, pair in data["float32"].items()}
    data |= {"steps": tuple(data["steps"]), "code": tuple(data["code"])}
    return Entry(**{f.name: data[f.name] for f in fields(Entry)})
