"""The table of backward passes: how long each is, how often it reads memory, what it makes and what it keeps.

Nothing is measured. Statements are those of a program, views left out. Passes are element operations, weighted as by
`derive.facts.costs.cost`, over the elements of the forward's largest tensor. The largest temporary is the largest
tensor that a statement names and that is no gradient of an input, nor what one is a view of. Saved are all elements
kept from the forward.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from derive.collapse.autograd.kernels import kernels_of_autograd
from derive.collapse.autograd.saved import Saved, elements_formula, saved_by_autograd, saved_by_forward
from derive.collapse.vocabulary import name_sums
from derive.errors import DeriveError
from derive.facts.costs.cost import work
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.equations import Op
from derive.ir.nodes.walking import axes_along, reads, walk
from derive.ir.program import Program, Read
from derive.pipeline import Derivation, stepwise_program
from derive.schedule.order import forward_program

Axes = tuple[str, ...]

BETWEEN = "__"
"""What stands between the name of an op and that of a source, in a file of hand-derived forms."""

_TOLERANCE = 0.05  # of a pass, and of what is saved: what one number for each row or column comes to


@dataclass(frozen=True)
class Form:
    """One backward of an op, counted. `temporary` is None where it makes none; `saved` lists what it keeps."""

    title: str
    statements: int
    passes: float
    temporary: Axes | None
    saved: tuple[Saved, ...]
    nominal: Nominal

    @property
    def saved_elements(self) -> float:
        """At the nominal lengths of the axes."""
        return sum(self.nominal.elements(s.axes) for s in self.saved)

    @property
    def extent(self) -> float:
        """The elements of the largest temporary."""
        return 0.0 if self.temporary is None else self.nominal.elements(self.temporary)

    def better_than(self, other: Form) -> tuple[str, ...]:
        """The columns in which this form is better: of `statements`, `passes`, `temporary`, `saved`."""
        found = {
            "statements": self.statements < other.statements,
            "passes": self.passes < other.passes - _TOLERANCE,
            "temporary": self.extent < other.extent,
            "saved": self.saved_elements < other.saved_elements * (1 - _TOLERANCE),
        }
        return tuple(column for column, better in found.items() if better)


@dataclass(frozen=True)
class Comparison:
    """The forms of one op's backward: ours first, then the chain rule's, autograd's, and those of people."""

    op: Op
    closed: Form
    stepwise: Form
    autograd: Form
    hand: tuple[Form, ...]

    @property
    def forms(self) -> tuple[Form, ...]:
        return (self.closed, self.stepwise, self.autograd, *self.hand)


# --- counting ---------------------------------------------------------------------------------------------


def compare(d: Derivation, hand: Iterable[Op] = ()) -> Comparison:
    """The backward of an op, counted beside the others, and beside those of `hand` that are for this op.

    Raises DeriveError where a hand-derived form lacks a gradient.
    """
    lengths = nominal(d.named).unweighted
    unit = largest(d.forward, lengths)
    long, long_kept = stepwise_program(d.steps.cut)
    closed = _counted("closed form", d, d.backward, d.saved, lengths, unit)
    stepwise = _counted("stepwise", d, long, saved_by_forward(d.named, long_kept), lengths, unit)
    kernels = kernels_of_autograd(d.written)
    autograd = Form(
        "autograd",
        len(kernels),
        sum(k.work for k in kernels) / unit,
        _widest((k.axes for k in kernels if not k.final), lengths),
        saved_by_autograd(d.written),
        lengths,
    )
    own = tuple(_by_hand(d, form, unit) for form in hand if form.name.rpartition(BETWEEN)[0] == d.op.name)
    return Comparison(d.op, closed, stepwise, autograd, own)


def _counted(
    title: str, d: Derivation, program: Program, saved: tuple[Saved, ...], lengths: Nominal, unit: float
) -> Form:
    gradients = {*_gradients(d), *program.returns}  # a gradient may be returned under an equal tensor's name
    gradients |= {n for s in program.statements if s.name in gradients and _is_view(s.value) for n in reads(s.value)}
    made = [s for s in program.statements if not _is_view(s.value)]
    statements = len(made)
    own = (axes_along(s.axes) for s in made if s.name not in gradients)
    return Form(title, statements, work(program, lengths) / unit, _widest(own, lengths), saved, lengths)


def _by_hand(d: Derivation, form: Op, unit: float) -> Form:
    """A published backward, which is an op itself: cotangents and what is kept in, gradients out."""
    missing = _gradients(d) - set(form.outputs)
    if missing:
        raise DeriveError(f"does not return {min(missing)}", op=form.name, fix=f"return f.{min(missing)} as well")
    program = forward_program(name_sums(form), ())
    cotangents = {c.target.name for c in d.steps.cotangents}
    kept = [o.name for o in form.operands if o.is_tensor and o.name not in cotangents]
    source = form.doc.partition("\n")[0]
    lengths = Nominal({**nominal(form).lengths, **nominal(d.named).lengths})
    return _counted(source, d, replace(program, name=d.op.name), saved_by_forward(form, kept), lengths, unit)


def _gradients(d: Derivation) -> set[str]:
    wanted = {o.name for o in d.op.differentiable}
    return {a.target.name for a in d.steps.adjoints if a.of in wanted}


def _is_view(value: object) -> bool:
    return isinstance(value, Read) and not any(isinstance(n, Read) for i in value.index for n in walk(i))


def largest(program: Program, lengths: Nominal) -> float:
    """The elements of the largest tensor of a program, at nominal lengths."""
    sizes = [lengths.elements(axes) for _, axes in program.given]
    sizes += [lengths.elements(set(axes_along(s.axes))) for s in program.statements]
    return max(sizes, default=1.0)


def _widest(tensors: Iterable[Axes], lengths: Nominal) -> Axes | None:
    return max(tensors, key=lengths.elements, default=None)


# --- the table --------------------------------------------------------------------------------------------

_HEAD = """# Backward passes, counted

Written by `{command}`; do not edit. One block an op: its closed form, then the chain rule's own (stepwise),
autograd's of the same equations, and published hand-derived forms where we know one.
{found}

How it is counted, for all alike; nothing is measured:

- **statements** of the backward, those left out that only view a tensor. For autograd: its kernels, one for each
  operand of an operation that needs a gradient, one for each sum over an axis that was broadcast, and one for each
  addition where several gradients of a tensor meet. What passes its gradient on (a sum, an addition) has none.
- **passes** over the largest tensor of the forward: every elementwise operation is one, `exp` and its like three or
  four, a reduction one, a multiply-add of a matrix product an eighth of an element. Axes that inputs carry, `...` too,
  are taken as 32 long, kernels and groups as 4, the others as long as these make them. For autograd: the operations
  of PyTorch's formula for that kernel. What the forward makes for the backward's sake (`dy_dx`), mostly
  from what it has, counts as the forward's.
- **largest temporary**: the axes of the largest tensor that a statement names and that is no gradient of an input,
  nor what one is a view of.
- **saved**: elements kept from the forward, inputs and outputs included; `|...|` is the number of leading positions.

A fused kernel is written out as whole tensors, with what it computes again, so this compares the algebra and not the
fusion. A figure of another form that is better than the closed form's stands in **bold**.
"""

_COLUMNS = ("op", "form", "statements", "passes", "largest temporary", "saved")


def table(rows: Iterable[Comparison], command: str) -> str:
    """The page: how it is counted, then a Markdown table of all rows."""
    rows = list(rows)
    known = sum(1 for r in rows if r.hand)
    worse = [r.op.name for r in rows if any(h.better_than(r.closed) for h in r.hand)]
    found = f"{len(rows)} {'op' if len(rows) == 1 else 'ops'}, {known} with a published form"
    found += f"; somewhere behind one: {', '.join(f'`{name}`' for name in worse)}." if worse else "; behind none."
    head = _HEAD.format(command=command, found=textwrap.fill(found, 118, break_long_words=False))
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{'|'.join('--:' if c in _NUMBERS else '---' for c in _COLUMNS)}|"]
    lines += [line for row in rows for line in _lines(row)]
    return "\n".join([head, *lines, ""])


_NUMBERS = ("statements", "passes")


def _lines(row: Comparison) -> Iterator[str]:
    for form in row.forms:
        bold = form.better_than(row.closed)
        cells = {
            "statements": str(form.statements),
            "passes": f"{form.passes:.1f}",
            "temporary": "none" if form.temporary is None else f"`[{', '.join(form.temporary)}]`",
            "saved": f"`{elements_formula(form.saved)}`",
        }
        escaped = {column: text.replace("|", r"\|") for column, text in cells.items()}
        marked = [f"**{text}**" if column in bold else text for column, text in escaped.items()]
        yield f"| {' | '.join([f'`{row.op.name}`' if form is row.closed else '', form.title, *marked])} |"


def write_table(text: str, out: Path, check: bool = False) -> bool:
    """Bring the file up to date and say whether it differed; with `check`, write nothing.

    Raises DeriveError for a folder.
    """
    if out.is_dir():
        raise DeriveError(f"{out} is a folder", fix=f"name a file in it, such as {out / 'table.md'}")
    old = out.read_text(encoding="utf-8") if out.exists() else None
    if old == text:
        return False
    if not check:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8", newline="\n")
    return True
