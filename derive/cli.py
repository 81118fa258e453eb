"""The command `derive`: generate packages, explain derivations, list the catalogue."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from derive.book.lessons import read_lessons
from derive.book.measured import read_measured
from derive.book.site import book as book_of
from derive.book.site import lone_page, write_book
from derive.catalogue import catalogue, find, load_file
from derive.emit import render
from derive.equations import Op
from derive.errors import DeriveError
from derive.explain import STAGES
from derive.explain import explain as explained
from derive.package import write_package
from derive.pipeline import derive_op
from derive.report import compare, table, write_table
from derive.starter import write_starter
from derive.typeset import document

app = typer.Typer(
    help="Derive backward passes as one would by hand, and write them as PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Save(StrEnum):
    """What the forward keeps for the backward."""

    cost = "cost"
    least = "least"
    input = "input"
    output = "output"


class Backend(StrEnum):
    """What the package runs as: PyTorch, or C kernels for the CPU with PyTorch to fall back on."""

    torch = "torch"
    cpu = "cpu"


Stage = StrEnum("Stage", list(STAGES))  # type: ignore[misc]

File = Annotated[Path | None, typer.Option("--from", metavar="FILE", help="A file of specs instead of the catalogue.")]
Saving = Annotated[Save, typer.Option(help="What the forward keeps: the cheapest, the least, its inputs or outputs.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"derive {version('handgrad')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Derive backward passes as one would by hand, and write them as PyTorch."""


@app.command()
def generate(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...", help="Ops to generate; all if none.")] = None,
    file: File = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the package.")] = Path("generated"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file would change.")] = False,
    save: Saving = Save.cost,
    backend: Annotated[
        Backend, typer.Option(help="What runs: PyTorch, or C compiled when first used, and PyTorch where that cannot.")
    ] = Backend.torch,
    step: Annotated[
        bool, typer.Option("--step", help="With --backend cpu: a whole step of gradient descent for each loss as well.")
    ] = False,
    workspace: Annotated[
        bool, typer.Option("--workspace", help="With OP_backward_out as well, which writes into given tensors.")
    ] = False,
) -> None:
    """Write a package with one module for each op."""
    known = catalogue() if file is None else load_file(file)
    wanted = [find(name, known) for name in dict.fromkeys(ops)] if ops else known
    with _progress(wanted) as done:
        changed = write_package(
            wanted, out, check, save=save.value, backend=backend.value, step=step, workspace=workspace,
            whole=not ops, done=done,
        )  # fmt: skip
    count = "1 file" if len(changed) == 1 else f"{len(changed)} files"
    if check and changed:
        print(*(out / name for name in changed), sep="\n")
        _complain(f"{out}: {count} not as the specs say; run the same command without --check")
        raise typer.Exit(1)
    print(f"{out}: {f'{count} written' if changed else 'up to date'}")


@contextmanager
def _progress(ops: list[Op]) -> Iterator[Callable[[Op], None]]:
    """A bar on the standard error, if that is a terminal; what it gives is called with each op that is done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(ops[0].name, total=len(ops))

        def done(op: Op) -> None:
            following = ops[ops.index(op) + 1 :]
            progress.update(task, advance=1, description=following[0].name if following else op.name)

        yield done


@app.command()
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
    cost: Annotated[
        bool, typer.Option("--cost", help="Count and time the generated code line by line, and nothing else.")
    ] = False,
    threads: Annotated[int, typer.Option(help="PyTorch's threads, for --cost.", min=1)] = 1,
) -> None:
    """Show how a backward pass was derived, or what it costs."""
    op = find(name, None if file is None else load_file(file))
    if html:
        print(lone_page(op, file, save.value), end="")
        return
    derivation = derive_op(op, save.value)
    if cost:
        from derive.cost_report import cost_report, cost_tables  # PyTorch takes seconds to import

        for part in cost_tables(cost_report(derivation, dict(map(_size, size or [])), threads)):
            Console().print(part, highlight=False)
        return
    stage = None if show is None else str(show.value)
    console = Console()
    if latex or (stage == "latex" and not console.is_terminal):
        print(document(derivation), end="")
    elif stage == "code" and not console.is_terminal:
        print(render(derivation), end="")
    else:
        console.print(explained(derivation, stage, dict(map(_size, size or []))), highlight=False)


@app.command()
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
    with _progress(known) as done:
        texts = book_of(known, file, save=save.value, measured=numbers, lessons=pages, done=done)
    changed = write_book(texts, out)
    count = "1 file" if len(changed) == 1 else f"{len(changed)} files"
    print(f"{out / 'index.html'}: {f'{count} written' if changed else 'up to date'}")


@app.command("list")
def list_ops(file: File = None) -> None:
    """List the ops of the catalogue, or of a file."""
    ops = catalogue() if file is None else load_file(file)
    width = max(len(op.name) for op in ops)
    for op in ops:
        print(f"{op.name:<{width}}  {op.doc.partition(chr(10))[0]}".rstrip())


@app.command("new")
def new_spec(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the op is to be called.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file; NAME.py if not given.")] = None,
) -> None:
    """Write a spec to start from, with a comment on every line."""
    path = write_starter(name, out)
    print(f"{path}: written; next, derive generate --from {path} --out {name}_package")


@app.command("table")
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
    options = [f"{flag} {path}" for flag, path in (("--from", file), ("--against", against)) if path]
    command = " ".join(["derive table", *(ops or []), *options])
    page = table([compare(derive_op(op), hand) for op in wanted], command)
    if out is None:
        if check:
            raise DeriveError("--check needs a page to look at", fix="name it with --out FILE")
        print(page, end="")
    elif write_table(page, out, check) and check:
        _complain(f"{out} is not as the specs say; run the same command without --check")
        raise typer.Exit(1)
    else:
        print(f"{out}: up to date" if check else f"{out}: written")


@app.command("verify")
def verify_ops(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...", help="Ops to verify.")] = None,
    file: File = None,
    everything: Annotated[bool, typer.Option("--all", help="Every op of the catalogue, or of the file.")] = False,
    full: Annotated[bool, typer.Option("--full", help="A table of all that each gradient was held against.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the error of finite differences against their step.")
    ] = None,
    native: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A forward to round beside: torch.nn.functional.NAME or FILE.py:NAME."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers there, for derive book --measured.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Where all random numbers start from.")] = 0,
    save: Saving = Save.cost,
) -> None:
    """Hold derived gradients against autograd, finite differences, their stepwise form and lower precisions.

    Exit status 1 if any gradient is wrong.
    """
    known = catalogue() if file is None else load_file(file)
    if not ops and not everything and file is None:
        raise DeriveError("no op to verify", fix="name one, or give --all")
    wanted = [find(name, known) for name in dict.fromkeys(ops)] if ops and not everything else known
    if (plot or native) and len(wanted) > 1:
        raise DeriveError(f"{'--plot' if plot else '--native'} is for one op", fix="name one op")
    from derive.verify import command, record  # these need PyTorch, which the other commands start without

    named = record.command_line(ops or (), file, everything, native, seed=seed, save=save.value)
    if not command.verify(wanted, save.value, seed, full=full, plot=plot, native=native, json=json, said=named):
        raise typer.Exit(1)


@app.command("judge")
def judge_candidate(
    candidate: Annotated[
        str | None,
        typer.Argument(metavar="[FILE.py:NAME]", help="backward(d_output, *inputs), or a torch.autograd.Function."),
    ] = None,
    op: Annotated[str, typer.Option(metavar="OP", help="The op whose backward it claims to be.")] = "",
    file: File = None,
    formula: Annotated[
        str | None, typer.Option(metavar="TEXT", help='A formula in place of a function: "dx[..., d] = …".')
    ] = None,
    seed: Annotated[int, typer.Option(help="Where all random numbers start from.")] = 0,
) -> None:
    """Hold a backward that someone else wrote against the derived one.

    Exit status 0 if it is right, 1 if it is wrong, or right only somewhere, 2 if it could not be run.
    """
    known = catalogue() if file is None else load_file(file)
    if not op and file is not None and len(known) == 1:
        op = known[0].name
    if not op:
        raise DeriveError("no op to judge by", fix="name it with --op OP")
    if (candidate is None) == (formula is None):
        raise DeriveError("nothing to judge, or two things", fix="give FILE.py:NAME or --formula TEXT")
    found = find(op, known)
    from derive.verify import command  # needs PyTorch, which the other commands start without

    if not command.judge(found, candidate, formula, seed):
        raise typer.Exit(1)


def _size(text: str) -> tuple[str, int]:
    """`n=4096`, the length of an axis."""
    axis, _, length = text.partition("=")
    if not axis or not length.isdecimal():
        raise DeriveError(f"--size {text} is no length of an axis", fix="write it as --size n=4096")
    return axis, int(length)


def _complain(message: str) -> None:
    """One line on the standard error, whatever the message holds."""
    print(f"derive: {' '.join(message.split())}", file=sys.stderr)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What a user can cause ends in one line and exit status 2; the rest is ours, and keeps its traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough; keep the interpreter from complaining once more as it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except DeriveError as error:
        _complain(str(error))
        sys.exit(2)
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        sys.exit(2)


def main() -> None:
    """The entry point."""
    with _one_line_errors():
        app()


if __name__ == "__main__":
    main()
