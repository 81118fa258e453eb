"""`python -m benchmarks`: forward and backward of every composite op, each way to run it, in one process."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer import Option

from benchmarks import block, names
from benchmarks.jax_forms import jax
from benchmarks.measure import Measured, as_json, derivation_seconds, measure, measure_whole
from benchmarks.report import chart, page, table
from benchmarks.rows import SIZES, composite, row
from benchmarks.ways import native_package, use_threads
from derive.catalogue import catalogue, find, load_file
from derive.equations import Op
from derive.errors import DeriveError

WHOLES = {names.OP: names.whole, block.NAME: block.whole}
"""Rows that are more than one op, by the name that asks for them."""
QUICK_SECONDS, SECONDS = 0.4, 3.0
LEAST_WIDTH = 200
"""Characters: a table cut to fewer says nothing."""


def main(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...", help="All, and gpt_block, if none.")] = None,
    file: Annotated[Path | None, Option("--from", metavar="FILE", help="A file of specs of your own.")] = None,
    size: Annotated[list[str] | None, Option(help="small, medium or large; all if not given.")] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer rounds, and nothing compiled.")] = False,
    compiled: Annotated[bool, Option("--compile/--no-compile", help="The columns of torch.compile.")] = True,
    seconds: Annotated[float, Option(help="Seconds a row, after warming up.", min=0.01)] = SECONDS,
    threads: Annotated[int, Option(help="Threads of PyTorch and JAX; all cores if not given.", min=0)] = 0,
    out: Annotated[Path, Option(metavar="DIR", help="For benchmarks.json and benchmarks.svg.")] = Path("runs"),
) -> None:
    """Measure forward + backward, each way in turn, and write a table, benchmarks.json, .md and .svg."""
    try:
        wanted = _wanted(ops, file)
        sizes = [s for s in SIZES if s in (size or SIZES)]
        if unknown := set(size or ()) - set(SIZES):
            raise DeriveError(f"there is no size {min(unknown)}", fix=f"choose from {', '.join(SIZES)}")
    except DeriveError as error:
        typer.echo(f"benchmarks: {error}", err=True)
        raise typer.Exit(2) from None
    threads = threads or os.cpu_count() or 1
    use_threads(threads)
    seconds, compiled = (QUICK_SECONDS, False) if quick else (seconds, compiled)
    wholes = {name: make for name, make in WHOLES.items() if file is None and (not ops or name in ops)}
    parts = [find(op) for op in block.OPS if block.NAME in wholes]
    console = Console(stderr=True)
    derivation = {op.name: derivation_seconds(op) for op in wanted}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found: list[Measured] = []
    with (
        native_package({op.name: op for op in (*wanted, *parts)}.values(), file) as native,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        if native.missing:
            typer.echo(f"no column of native kernels: {native.missing}", err=True)
        task = progress.add_task("", total=len(sizes) * (len(wanted) + len(wholes)))
        for op in wanted:
            for each in sizes:
                progress.update(task, description=f"{op.name}, {each}")
                torch.compiler.reset()
                found.append(measure(row(op, each), seconds, compiled, native, threads))
                progress.advance(task)
        for name, make in wholes.items():
            for each in sizes:
                progress.update(task, description=f"{name}, {each}")
                torch.compiler.reset()
                found.append(measure_whole(make(each, compiled, native), each, seconds))
                progress.advance(task)
    about = _about(threads)
    wide = Console(width=max(Console().width, LEAST_WIDTH), soft_wrap=True)
    wide.print(table(found, derivation, ", ".join(f"{k} {v}" for k, v in about.items())), highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    (out / "benchmarks.json").write_text(json.dumps(as_json(found, about, derivation), indent=1) + "\n")
    (out / "benchmarks.md").write_text(page(found, ", ".join(f"{k} {v}" for k, v in about.items())))
    chart(found, out / "benchmarks.svg", f"forward + backward, float32, {threads} thread(s)")
    print(f"{out / 'benchmarks.json'}, {out / 'benchmarks.md'}, {out / 'benchmarks.svg'}: written")


def _wanted(ops: list[str] | None, file: Path | None) -> list[Op]:
    """The ops that were named; without names, those that are composite, or all of a file."""
    known = catalogue() if file is None else load_file(file)
    named = [name for name in dict.fromkeys(ops or ()) if name != block.NAME]
    return [find(name, known) for name in named] if ops else [o for o in known if file or composite(o)]


def _about(threads: int) -> dict[str, str]:
    versions = {"PyTorch": torch.__version__, "Python": platform.python_version()}
    if jax is not None:
        versions["JAX"] = jax.__version__
    return {**versions, "threads": str(threads), "cores": str(os.cpu_count())}


if __name__ == "__main__":
    typer.run(main)
