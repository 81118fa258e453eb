"""A derivation for the terminal: what was said, each step with its reason, what it came to, what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from sympy import Expr

from derive.collapse.autograd.saved import (
    elements_formula,
    example_sizes,
    saved_by_autograd,
    saved_by_forward,
    total_bytes,
)
from derive.emit import render
from derive.emit.module import module_of
from derive.errors import DeriveError
from derive.facts.costs.cost import work
from derive.facts.lengths.nominal import nominal
from derive.ir.equations import Equation
from derive.ir.lowering.reading import factored
from derive.ir.terms.elements import At, Tensor
from derive.ir.words import text
from derive.orders import specs
from derive.pipeline import Derivation, alternatives, stepwise_program
from derive.show.document import document
from derive.show.report import largest

# --- stages -----------------------------------------------------------------------------------------------


def explain(derivation: Derivation, show: str | None = None, sizes: Mapping[str, int] | None = None) -> RenderableType:
    """All of a derivation but what is shown alone, or one stage of it: a key of `STAGES`.

    `sizes` are example lengths of axes for the bytes kept. Raises DeriveError for an unknown stage or axis.
    """
    if show is not None and show not in STAGES:
        raise DeriveError(f"there is no stage {show}", op=derivation.op.name, fix=f"show one of {', '.join(STAGES)}")
    wanted = [show] if show is not None else [s for s in STAGES if s not in _ALONE]
    parts: list[RenderableType] = [_head(derivation)]
    for stage in wanted:
        title, body = STAGES[stage]
        parts += [Text(), Rule(title, align="left"), *body(derivation, sizes or {})]
    return Group(*parts)


def _head(d: Derivation) -> RenderableType:
    operands = ", ".join(map(str, d.op.operands))
    return Group(Text.assemble((d.op.name, "bold"), f"({operands})"), *([Text(d.op.doc)] if d.op.doc else []))


@dataclass(frozen=True)
class _Line:
    """One line of text at a depth; what does not fit goes on below, further in."""

    content: str
    depth: int = 1
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = "  " * self.depth
        rows = wrap(
            indent + self.content,
            max(options.max_width, 40),
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (Text(row, style=self.style, no_wrap=True, overflow="ignore") for row in rows)


def _equation(left: Expr, right: Expr, depth: int = 1) -> RenderableType:
    return _Line(f"{text(left)} = {text(right)}", depth)


def _equations(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    for e in d.named.equations:
        yield _equation(e.left, e.right)
    split = [e.name for e in d.named.equations if not _is_written(d, e)]
    if split:
        yield _Line(f"named by us, inside what was written: {', '.join(split)}", style="dim")


def _is_written(d: Derivation, equation: Equation) -> bool:
    return equation.given and d.op.equation(equation.name) is not None


def _adjoints(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    for c in d.steps.cotangents:
        yield _Line(f"{text(At(c.target, *c.axes))} is given: the gradient with respect to the output {c.of}")
    for a in d.steps.adjoints:
        yield _equation(a.left, a.value)
        rules = dict.fromkeys(rule for c in a.contributions for rule in c.rules)
        if rules:
            yield _Line("; ".join(rules), 2, "dim")


def _collapse(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    known = {str(r): _because(r.pattern, r.value, r.because) for r in d.closed.relations}
    for reason in dict.fromkeys(r for s in d.closed.steps for r in s.reason.split("; ") if r in known):
        yield _Line(f"because {known[reason]}", style="bold green")
    for i in d.closed.inversions:
        left = At(Tensor(i.of), *i.axes)
        known[f"{left} = {i.value}"] = _because(left, i.value, (i.through,))
    if not d.closed.steps:
        yield _Line("nothing is shorter than the chain rule itself")
    for subject, steps in groupby(d.closed.steps, key=lambda s: s.subject):
        yield Text()
        yield _Line(text(subject), style="bold")
        for k, step in enumerate(steps):
            if k == 0:
                yield _Line(f"= {text(step.before)}", 2)
            reasons = "; ".join(known.get(r, r) for r in step.reason.split("; "))
            yield _Line(f"{step.law}: {reasons}", 3, "cyan")
            yield _Line(f"= {text(step.after)}", 2)
    yield Text()
    yield _Line("the closed form", style="bold")
    for definition in d.closed.definitions:
        yield _equation(At(Tensor(definition.name), *definition.axes), factored(definition.value), 2)


def _because(left: Expr, right: Expr, equations: tuple[str, ...]) -> str:
    return f"{text(left)} = {text(right)}   by {', '.join(equations)}"


def _saving(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    lengths = example_sizes(d.op, sizes)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("", "keeps", "elements"):
        table.add_column(title, overflow="fold")
    table.add_column("bytes", justify="right", no_wrap=True)
    for who, saved in (
        ("closed form", d.saved),
        ("stepwise", saved_by_forward(d.named, stepwise_program(d.steps.cut)[1])),
        ("autograd", saved_by_autograd(d.written)),
    ):
        names = ", ".join(s.label for s in saved) or "nothing"
        row = (who, names, elements_formula(saved), f"{total_bytes(saved, lengths):,}")
        table.add_row(*map(Text, row))  # as text: brackets are indices here, not markup
    yield Padding(table, (0, 0, 0, 2), expand=False)
    for e in d.local:
        yield _Line("made by the forward, which has most of it, for the backward's sake:", style="dim")
        yield _equation(e.left, factored(e.body), 2)
    example = ", ".join(f"{'|...|' if a == '...' else a} = {n}" for a, n in lengths.items())
    yield _Line(
        f"bytes where {example}, with real tensors in float32, integers in int64, masks in one byte",
        style="dim",
    )
    yield _Line(
        "autograd runs the same equations one operation at a time; inputs that stay alive count as well",
        style="dim",
    )
    yield from _alternatives(d)


def _alternatives(d: Derivation) -> Iterable[RenderableType]:
    """What else could have been kept, at what cost, and what else could be had back under a condition."""
    others = alternatives(d)
    if others:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for title in ("", "what could be kept", "keeps"):
            table.add_column(title, overflow="fold")
        for title in ("passes", "elements"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("valid", overflow="fold")
        for a in others:
            cells = ("chosen" if a.chosen else "", a.description, ", ".join(a.kept) or "nothing")
            table.add_row(*map(Text, (*cells, f"{a.passes:.1f}", f"{a.elements:,.0f}", a.condition or "everywhere")))
        yield Text()
        yield Padding(table, (0, 0, 0, 2), expand=False)
    conditional = [i for i in d.closed.inversions if i.nonzero is not None]
    if conditional:
        yield Text()
        yield _Line("not used, since it does not hold for all inputs:", style="dim")
    for i in conditional:
        back = f"{text(At(Tensor(i.of), *i.axes))} = {text(i.value)}"
        yield _Line(f"{i.of} from {i.through}, where {text(i.nonzero)} != 0:   {back}", 2)


def _programs(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    long = d.stepwise_backward or stepwise_program(d.steps.cut)[0]
    for title, program in (("forward", d.forward), ("backward", d.backward)):
        yield _Line(title, style="bold")
        yield from (_Line(line, 2) for line in str(program).splitlines())
    lengths = nominal(d.named).unweighted
    unit = largest(d.forward, lengths)
    closed, steps = work(d.backward, lengths) / unit, work(long, lengths) / unit
    yield Text()
    yield _Line(f"passes over the largest tensor: stepwise {steps:.1f}, closed form {closed:.1f}")
    yield _Line(
        "counted, not measured: an elementwise operation is one, exp and its like three or four, "
        "a multiply-add of a matrix product an eighth of an element",
        style="dim",
    )


def _code(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    yield Syntax(render(d), "python", background_color="default")


def _latex(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    yield Syntax(document(d), "latex", background_color="default")


def _specs(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    yield Syntax(specs(d), "python", background_color="default")


def _schedule(d: Derivation, sizes: Mapping[str, int]) -> Iterable[RenderableType]:
    native = module_of(d, "cpu").native
    assert native is not None
    if native.why_none:
        yield _Line(f"no kernel: {native.why_none}")
    for kernel in native.kernels:
        yield _Line(kernel.name, style="bold")
        yield from (_Line(line, 2) for line in str(kernel.schedule).splitlines())


_ALONE = ("schedule", "code", "latex", "specs")
"""Stages that are shown alone: files of their own, and what C makes of a program."""

_Stage = Callable[[Derivation, Mapping[str, int]], Iterable[RenderableType]]

STAGES: Mapping[str, tuple[str, _Stage]] = {
    "equations": ("Forward, equation by equation", _equations),
    "adjoint": ("Chain rule, equation by equation", _adjoints),
    "collapse": ("Collapse, step by step", _collapse),
    "program": ("Programs", _programs),
    "saving": ("Kept from the forward", _saving),
    "schedule": ("Passes of the C kernels", _schedule),
    "code": ("Code", _code),
    "latex": ("LaTeX", _latex),
    "specs": ("The backward as specs", _specs),
}
"""What can be shown, in the order of the road: each stage's title, and what prints it."""
