"""What the page of an op shows, all of it read from one derivation. The template holds its shape."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

from derive.collapse import (
    carried,
    chain,
    drawn_out,
    inversions,
    openings,
    raised,
    reassociate,
    relations,
    sides_taken,
    supports,
    symmetries,
)
from derive.collapse.autograd.saved import (
    elements_formula,
    example_sizes,
    saved_by_autograd,
    saved_by_forward,
    total_bytes,
)
from derive.collapse.chain import Step
from derive.collapse.known import by_products, cancelled, use_gathers
from derive.collapse.relations import Relation
from derive.collapse.sums_of_multiples import sums_of_multiples
from derive.collapse.typeset import (
    Adjoints,
    Printer,
    adjoint_latex,
    adjoint_names,
    definition_latex,
    equation_latex,
    local_equation_latex,
    name_latex,
    relation_latex,
)
from derive.emit import render
from derive.emit.header import summary
from derive.errors import DeriveError
from derive.ir.lowering.reading import factored
from derive.ir.terms.elements import At, Tensor
from derive.ir.words import text
from derive.orders import double_backward, forward_mode
from derive.pipeline import Derivation, stepwise_program
from derive.rules.tables.algebra import GRADIENTS
from derive.schedule.definitions import Definition
from derive.show.book.changes import step_rows
from derive.show.book.drawing import Drawing, drawing
from derive.show.book.formulas import display, inline
from derive.show.book.listing import BACKWARD, FORWARD, Listing, highlighted, in_code, key, listings
from derive.show.report import Comparison, compare
from derive.verify.measured import Measured

_LAWS = {
    "chain": chain,
    "factor": drawn_out,
    "eliminate": inversions,
    "relation": relations,
    "power": raised,
    "gather": use_gathers,
    "known": cancelled,
    "side": sides_taken,
    "support": supports,
    "symmetry": symmetries,
    "reassociate": reassociate,
    "carried": carried,
    "multiple": sums_of_multiples,
    "product": by_products,
    "open": openings,
}


@dataclass(frozen=True)
class Formula:
    """One equation: the key that pairs it with code, the tensor's name, MathML, the same in words, a remark."""

    key: str
    name: str
    math: str
    words: str
    note: str = ""


@dataclass(frozen=True)
class Because:
    """An identity as MathML, or plain words where it is none, and the forward equations that it comes from."""

    math: str
    words: str
    equations: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownStep:
    """A step of the collapse: its law, why it holds, and both of its sides."""

    law: str
    reasons: tuple[Because, ...]
    before: str
    after: str


@dataclass(frozen=True)
class Collapsed:
    """The steps of one adjoint."""

    subject: str
    steps: tuple[ShownStep, ...]

    @property
    def laws(self) -> str:
        return ", then ".join(s.law for s in self.steps)


@dataclass(frozen=True)
class Saving:
    """What one way keeps alive: the names, the number of elements, bytes, and their share of the most."""

    who: str
    names: tuple[str, ...]
    elements: str
    bytes: int
    share: float


@dataclass(frozen=True)
class Run:
    """A command that makes numbers, and the one that puts them into the book."""

    make: str
    show: str


@dataclass(frozen=True)
class Further:
    """A derivative of a higher order: its closed form and steps, and what the forward keeps for it.

    Where the steps are too long for a page, a command shows them.
    """

    title: str
    closed: tuple[Formula, ...]
    collapse: tuple[Collapsed, ...]
    kept: tuple[str, ...]
    command: str = ""


@dataclass(frozen=True)
class OpPage:
    """Everything on the page of an op, in its order."""

    name: str
    family: str
    summary: str
    doc: str
    signature: str
    source: str
    inputs: tuple[str, ...]
    forward: tuple[Formula, ...]
    closed: tuple[Formula, ...]
    code: tuple[Listing, Listing]
    cotangents: tuple[tuple[str, str], ...]
    adjoints: tuple[Formula, ...]
    collapse: tuple[Collapsed, ...]
    laws: tuple[tuple[str, str], ...]
    identities: tuple[Because, ...]
    drawing: Drawing
    further: tuple[Further, ...]
    saving: tuple[Saving, ...]
    local: tuple[str, ...]
    example: str
    counted: Comparison
    measured: Measured
    verify: Run
    bench: Run
    spec: str
    module: str

    @property
    def gradient(self) -> Formula:
        """The formula that stands for the op in the index: the first gradient that is returned."""
        return self.closed[0]


def op_page(
    d: Derivation, family: str, spec: str = "", measured: Measured | None = None, file: str | None = None
) -> OpPage:
    """The page of an op. `spec` is the source of its spec, `measured` what runs have found, `file` where the spec
    is from, unless it is the catalogue's."""
    op, names = d.op, adjoint_names(d.steps)
    verify, bench = _runs(file)
    saving, example = _saving(d)
    return OpPage(
        name=op.name,
        family=family,
        summary=summary(op),
        doc=op.doc.strip().partition("\n")[2].strip(),
        signature=f"{op.name}({', '.join(map(str, op.operands))})",
        source=op.source,
        inputs=tuple(map(str, op.operands)),
        forward=tuple(_forward(d, names)),
        closed=tuple(
            Formula(key(BACKWARD, name), x.name, display(definition_latex(x, names)), _words(x))
            for x, name in in_code(d)
        ),
        code=listings(d),
        cotangents=tuple((inline(Printer(names).doprint(At(c.target, *c.axes))), c.of) for c in d.steps.cotangents),
        adjoints=tuple(_adjoints(d, names)),
        collapse=tuple(_collapse(d, names)),
        laws=tuple((law, law_says(law)) for law in dict.fromkeys(s.law for s in d.closed.steps)),
        identities=tuple(_identities(d)),
        drawing=drawing(d),
        further=tuple(_further(d)),
        saving=saving,
        local=tuple(display(local_equation_latex(e)) for e in d.local),
        example=example,
        counted=compare(d),
        measured=measured or Measured(),
        verify=verify,
        bench=bench,
        spec=highlighted(spec) if spec else "",
        module=highlighted(render(d)),
    )


LONGEST_STEPS = 70_000
"""Characters of the formulas of an op's further steps that a page has."""


def _further(d: Derivation) -> Iterable[Further]:
    """The double backward and the tangents; nothing of what is no op, and so has no second derivative."""
    with suppress(DeriveError):
        made = {"Double backward": (double_backward(d), "--order 2"), "Tangents": (forward_mode(d), "--jvp")}
        given = {c.target.name for c in d.steps.cotangents}
        found = []
        for title, (own, option) in made.items():
            names, where = adjoint_names(d.steps) | adjoint_names(own.steps), title.lower().replace(" ", "-")
            closed = tuple(
                Formula(key(where, name), x.name, display(definition_latex(x, names)), _words(x))
                for x, name in in_code(own)
            )
            kept = tuple(name_math(n) for n in own.kept if n not in given)
            command = f"derive explain {d.op.name} {option}"
            steps = _of_this_page(_collapse(own, names), {e.name for e in d.named.equations})
            found.append(Further(title, closed, tuple(steps), kept, command))
        length = sum(len(s.before) + len(s.after) for f in found for c in f.collapse for s in c.steps)
        yield from (replace(f, collapse=()) if length > LONGEST_STEPS else replace(f, command="") for f in found)


def _of_this_page(collapse: Iterable[Collapsed], forward: Collection[str]) -> Iterable[Collapsed]:
    """Steps whose reasons name the equations that the page has: a gradient is an equation of its own map alone."""
    for c in collapse:
        steps = []
        for s in c.steps:
            own = (replace(b, equations=tuple(e for e in b.equations if e in forward)) for b in s.reasons)
            steps.append(replace(s, reasons=tuple(own)))
        yield replace(c, steps=tuple(steps))


def _words(d: Definition) -> str:
    return f"{text(At(Tensor(d.name), *d.axes))} = {text(factored(d.value))}"


def _forward(d: Derivation, names: Adjoints) -> Iterable[Formula]:
    for e in d.named.equations:
        written = e.given and d.op.equation(e.name) is not None
        note = "" if written else "named on the way"
        words = f"{text(e.left)} = {text(e.right)}"
        yield Formula(key(FORWARD, e.name), e.name, display(equation_latex(e, names)), words, note)


def _adjoints(d: Derivation, names: Adjoints) -> Iterable[Formula]:
    for a in d.steps.adjoints:
        rules = "; ".join(dict.fromkeys(rule for c in a.contributions for rule in c.rules))
        words = f"{text(a.left)} = {text(a.value)}"
        yield Formula(key("adjoint", a.of), a.of, display(adjoint_latex(a, names)), words, rules)


# --- the collapse -----------------------------------------------------------------------------------------


def _collapse(d: Derivation, names: Adjoints) -> Iterable[Collapsed]:
    known = {str(r): _because(r) for r in d.closed.relations}
    for i in d.closed.inversions:
        left = At(Tensor(i.of), *i.axes)
        latex = f"{Printer().doprint(left)} = {Printer().doprint(i.value)}"
        known[f"{left} = {i.value}"] = Because(inline(latex), f"{text(left)} = {text(i.value)}", (i.through,))
    for subject, steps in groupby(d.closed.steps, key=lambda s: s.subject):
        shown = tuple(_step(s, known, names) for s in steps)
        yield Collapsed(inline(Printer(names).doprint(subject)), shown)


def _step(step: Step, known: Mapping[str, Because], names: Adjoints) -> ShownStep:
    reasons = tuple(known.get(r, Because("", r)) for r in step.reason.split("; "))
    before, after = (display(latex) for latex in step_rows(step, names))
    return ShownStep(step.law, reasons, before, after)


def law_says(law: str) -> str:
    """The rows of a law, or the first paragraph of what applies it; empty for one that is not known here."""
    rows = dict.fromkeys(row.law.replace("=>", "=") for table in GRADIENTS for row in table if row.name == law)
    if rows:
        return "; ".join(rows)
    doc = (_LAWS[law].__doc__ or "") if law in _LAWS else ""
    paragraph = " ".join(doc.partition("\n\n")[0].split()).removeprefix("Law: ")
    return paragraph[:1].upper() + paragraph[1:]


def _because(relation: Relation) -> Because:
    words = f"{text(relation.pattern)} = {text(relation.value)}"
    return Because(inline(relation_latex(relation)), words, relation.because)


def _identities(d: Derivation) -> Iterable[Because]:
    """The identities that the closed form rests on, each once, in the order of their use."""
    known = {str(r): r for r in d.closed.relations}
    used = (r for s in d.closed.steps for r in s.reason.split("; ") if r in known)
    for name in dict.fromkeys(used):
        yield _because(known[name])


# --- costs ------------------------------------------------------------------------------------------------


def _saving(d: Derivation) -> tuple[tuple[Saving, ...], str]:
    """What each way keeps, and the example of lengths that its bytes are counted at."""
    lengths = example_sizes(d.op)
    kept = {
        "closed form": d.saved,
        "stepwise": saved_by_forward(d.named, stepwise_program(d.steps.cut)[1]),
        "autograd": saved_by_autograd(d.written),
    }
    most = max(1, *(total_bytes(saved, lengths) for saved in kept.values()))
    rows = []
    for who, saved in kept.items():
        size = total_bytes(saved, lengths)
        names = tuple(dict.fromkeys(s.label for s in saved))
        rows.append(Saving(who, names, elements_formula(saved), size, size / most))
    example = ", ".join(f"{'|…|' if a == '...' else a} = {n}" for a, n in lengths.items())
    return tuple(rows), example


def _runs(file: str | None) -> tuple[Run, Run]:
    """How errors and how times are measured."""
    if file is None:
        verify = Run("derive verify --all --json runs/measured/verify.json", "make book")
        return verify, Run("make bench", "make book")
    source = shlex.quote(file)
    show = f"derive book --from {source} --measured"
    verify = Run(f"derive verify --from {source} --json verify.json", f"{show} verify.json")
    return verify, Run(f"python -m benchmarks --from {source}", f"{show} runs/benchmarks.json")


def name_math(name: str) -> str:
    """The name of a tensor as MathML."""
    return inline(name_latex(name))
