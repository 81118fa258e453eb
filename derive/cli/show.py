"""Commands that show: how an op was derived, which ops there are, what their backwards cost."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax

from derive.catalogue import catalogue, find, load_file
from derive.cli.options import File, Save, Saving
from derive.cli.terminal import complain, searching
from derive.emit import ORDERS, cheapest, render, rendered
from derive.errors import DeriveError
from derive.orders import double_backward, forward_mode, gradient_op, specs
from derive.pipeline import derive_op
from derive.show.book.site import lone_page
from derive.show.document import document
from derive.show.explain import STAGES
from derive.show.explain import explain as explained
from derive.show.report import compare, table, write_table

_DIGITS = 18
"""Of a length: as many as PyTorch takes."""

Stage = StrEnum("Stage", list(STAGES))  # type: ignore[misc]


def explain(
    name: Annotated[str, typer.Argument(metavar="OP", help="The op to explain.")],
    file: File = None,
    show: Annotated[Stage | None, typer.Option(help="Show one stage alone.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX document and nothing else.")] = False,
    html: Annotated[bool, typer.Option("--html", help="Print a page for a browser and nothing else.")] = False,
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS=N", help="A length of an axis, for the bytes kept and the cost; 64 if not given."),
    ] = None,
    save: Saving = Save.cost,
    order: Annotated[
        int, typer.Option(help="The order of the derivative: 2 explains the gradients of the gradients.", min=1)
    ] = 1,
    jvp: Annotated[bool, typer.Option("--jvp", help="Explain the tangents of the outputs, in forward mode.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Count and time the generated code line by line, and nothing else.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="PyTorch's threads, for --cost; 1 if not given.", min=1)] = None,
) -> None:
    """Show how a backward pass was derived, or what it costs."""
    chosen = {"--show": show is not None, "--latex": latex, "--html": html, "--cost": cost}
    _check_shown(chosen, size, threads)
    other = next((flag for flag, given in {"--html": html, "--cost": cost, "--order": order > 1}.items() if given), "")
    if jvp and other:
        raise DeriveError(f"--jvp and {other} show different things", fix="give one of them")
    lengths, stage = _sizes(size or []), None if show is None else str(show.value)
    op = find(name, None if file is None else load_file(file))
    if html and order > 1:
        fix = "leave out --order: the page has a section on further derivatives"
        raise DeriveError("--html shows the page of an op, whatever the order", op=name, fix=fix)
    if html:
        print(lone_page(op, file, save.value), end="")
        return
    as_op = cost or stage in ("schedule", "specs")  # what is shown of an op alone; the map to the gradients is one
    for _ in range(order - 1 if as_op else order - 2):
        op = gradient_op(op)
    with searching(op) as said:
        native = stage == "schedule" and save == Save.cost
        derivation = derive_op(op, cheapest("cpu") if native else save.value, said)
        code = ""
        if jvp or (order > 1 and not as_op):
            code = rendered(derivation, "torch", order=2).files[f"{ORDERS}/{op.name}.py"] if stage == "code" else ""
            derivation = forward_mode(derivation) if jvp else double_backward(derivation)
    if cost:
        from derive.show.cost_report import cost_report  # PyTorch takes seconds to import
        from derive.show.cost_tables import shown

        shown(cost_report(derivation, lengths, threads or 1, order == 1), Console())
        return
    console = Console()
    if latex or (stage == "latex" and not console.is_terminal):
        print(document(derivation), end="")
    elif stage == "code" and not console.is_terminal:
        print(code or render(derivation), end="")
    elif code:
        console.print(Syntax(code, "python", background_color="default"))
    elif stage == "specs" and not console.is_terminal:
        print(specs(derivation), end="")
    else:
        console.print(explained(derivation, stage, lengths), highlight=False)


def list_ops(file: File = None) -> None:
    """List the ops of the catalogue, or of a file."""
    ops = catalogue() if file is None else load_file(file)
    width = max(len(op.name) for op in ops)
    for op in ops:
        print(f"{op.name:<{width}}  {op.doc.partition(chr(10))[0]}".rstrip())


def print_table(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...", help="Ops to count; all if none.")] = None,
    file: File = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of hand-derived backwards to count as well.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The page to write; printed if not given.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if the page would change.")] = False,
) -> None:
    """Count the backward of each op, beside autograd's and those derived by hand."""
    known = catalogue() if file is None else load_file(file)
    wanted = [find(name, known) for name in dict.fromkeys(ops)] if ops else known
    hand = [] if against is None else load_file(against)
    options = [f"{flag} {given}" for flag, given in (("--from", file), ("--against", against)) if given]
    command = " ".join(["derive table", *(ops or []), *options])
    page = table([compare(derive_op(op), hand) for op in wanted], command)
    if out is None:
        if check:
            raise DeriveError("--check needs a page to look at", fix="name it with --out FILE")
        print(page, end="")
    elif write_table(page, out, check) and check:
        complain(f"{out} is not as the specs say; run the same command without --check")
        raise typer.Exit(1)
    else:
        print(f"{out}: up to date" if check else f"{out}: written")


def _check_shown(chosen: dict[str, bool], size: list[str] | None, threads: int | None) -> None:
    """At most one thing is shown, and what is given counts for it. Raises DeriveError."""
    flags = [flag for flag, given in chosen.items() if given]
    if len(flags) > 1:
        raise DeriveError(f"{' and '.join(flags)} show different things", fix="give one of them")
    if threads is not None and not chosen["--cost"]:
        raise DeriveError("--threads is for --cost", fix="give both, or neither")
    if size and (chosen["--latex"] or chosen["--html"]):
        raise DeriveError(f"--size changes nothing of {flags[0]}", fix="leave it out")


def _sizes(given: list[str]) -> dict[str, int]:
    """The lengths that are given, each axis once."""
    out: dict[str, int] = {}
    for axis, length in map(_size, given):
        if axis in out:
            raise DeriveError(f"--size gives axis {axis} two lengths", fix="give it one")
        out[axis] = length
    return out


def _size(text: str) -> tuple[str, int]:
    """`n=4096`, the length of an axis."""
    axis, _, length = text.partition("=")
    if not axis or not length.isdecimal() or len(length) > _DIGITS or int(length) == 0:
        raise DeriveError(f"--size {text} is no length of an axis", fix="write it as --size n=4096")
    return axis, int(length)
