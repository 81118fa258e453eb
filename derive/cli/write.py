"""Commands that write: a package, the formula book, a spec to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from derive.catalogue import catalogue, find, load_file
from derive.cli.options import Backend, File, Instructions, Save, Saving
from derive.cli.starter import write_starter
from derive.cli.terminal import bar, complain
from derive.emit import Rendered
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.output.package import write_package
from derive.show.book.lessons import read_lessons
from derive.show.book.site import book as book_of
from derive.show.book.site import write_book
from derive.verify.measured import read_measured


def generate(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...", help="Ops to generate; all if none.")] = None,
    file: File = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the package.")] = Path("generated"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file would change.")] = False,
    save: Saving = Save.cost,
    backend: Annotated[
        Backend, typer.Option(help="What runs: PyTorch, or C compiled when first used, and PyTorch where that cannot.")
    ] = Backend.torch,
    instructions: Annotated[
        Instructions,
        typer.Option(help="PyTorch's calls: of formulas, also of one line of a derivation, also of several."),
    ] = Instructions.plain,
    step: Annotated[
        bool, typer.Option("--step", help="With --backend cpu: a whole step of gradient descent for each loss as well.")
    ] = False,
    workspace: Annotated[
        bool, typer.Option("--workspace", help="With OP_forward_out and OP_backward_out, which write over old results.")
    ] = False,
    order: Annotated[
        int, typer.Option(help="How often an op is differentiable: 2, in reverse and forward mode, or once.", min=1)
    ] = 2,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="Do not hold the gradients against autograd; the first lines say so.")
    ] = False,
) -> None:
    """Write a package with one module for each op, once its gradients agree with autograd of its equations."""
    if step and backend is not Backend.cpu:
        raise DeriveError("--step is a kernel", fix="give --backend cpu with it")
    if instructions is not Instructions.plain and backend is not Backend.torch:
        raise DeriveError("--instructions are PyTorch's, and kernels call none", fix="leave out --backend")
    known = catalogue() if file is None else load_file(file)
    wanted = [find(name, known) for name in dict.fromkeys(ops)] if ops else known
    if order > 2:
        fix = "take --order 2; derive explain OP --order 3 shows the formulas"
        raise DeriveError("packages have derivatives of the first and second order", op=wanted[0].name, fix=fix)
    as_torch: dict[str, str] = {}
    not_proved: dict[str, str] = {}
    with bar(wanted) as done:

        def rendered(op: Op, made: Rendered) -> None:
            if made.why_no_kernel:
                as_torch[op.name] = made.why_no_kernel
            if made.unproven and not unproven:
                not_proved[op.name] = made.unproven
            done(op)

        changed = write_package(
            wanted, out, check, save=save.value, backend=backend.value, step=step, workspace=workspace,
            instructions=instructions.value, whole=not ops, proven=not unproven, order=order, done=rendered,
            told=done.told,
        )  # fmt: skip
    count = "1 file" if len(changed) == 1 else f"{len(changed)} files"
    if check and changed:
        print(*(out / name for name in changed), sep="\n")
        complain(f"{out}: {count} not as the specs say; run the same command without --check")
        raise typer.Exit(1)
    print(f"{out}: {f'{count} written' if changed else 'up to date'}")
    for name, why in as_torch.items():
        print(f"{name} has no kernel and runs as PyTorch: {why}")
    for name, why in not_proved.items():
        print(f"{name} is unproven: {why}")
    for op in wanted:
        _print_slips(op)


def _print_slips(op: Op) -> None:
    """What the notation allows and its author hardly meant."""
    for operand in op.unread:
        effect = "its gradient is 0" if operand.differentiable else "it changes nothing"
        print(f"{op.name} never reads its input {operand.name}: {effect}")
    for operand, at in op.turned:
        own = ", ".join(map(str, operand.declared or operand.axes))
        left = ", ".join(map(str, at.index))
        print(
            f"{op.name} reads its input {operand.name}[{own}] as {at}, so that these axes are one length; "
            f"a transpose has its axes on the left: f.y[{left}] = {operand.name}[{own}]"
        )


def book(
    file: File = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the site.")] = Path("book"),
    measured: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Numbers that a run has measured; may be given again.")
    ] = None,
    lessons: Annotated[Path | None, typer.Option(metavar="DIR", help="A folder of pages that move.")] = None,
    save: Saving = Save.cost,
) -> None:
    """Write a site with a page for each op: its forward, its gradient, every step between, the code."""
    known = catalogue() if file is None else load_file(file)
    numbers = read_measured(measured or [])
    pages = () if lessons is None else read_lessons(lessons, known)
    with bar(known) as done:
        texts = book_of(known, file, save=save.value, measured=numbers, lessons=pages, done=done)
    changed = write_book(texts, out)
    count = "1 file" if len(changed) == 1 else f"{len(changed)} files"
    print(f"{out / 'index.html'}: {f'{count} written' if changed else 'up to date'}")


def new_spec(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the op is to be called.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file; NAME.py if not given.")] = None,
) -> None:
    """Write a spec to start from, with a comment on every line."""
    path = write_starter(name, out)
    print(f"{path}: written; next, derive generate --from {path} --out {name}_package")
