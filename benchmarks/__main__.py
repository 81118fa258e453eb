"""`python -m benchmarks`: forward and backward of every composite op, each way to run it, in one process."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer import Option

from benchmarks import block, names
from benchmarks.jax_forms import jax
from benchmarks.kernels import NativePackage, native_package
from benchmarks.measure import Measured, as_json, derivation_seconds, measure, measure_whole
from benchmarks.report import chart, page, table
from benchmarks.rows import SIZES, carried, composite, row
from benchmarks.ways import use_threads
from derive.catalogue import catalogue, find, load_file
from derive.emit.devices import CPU, device_name, device_of, float32_in_full
from derive.errors import DeriveError
from derive.ir.equations import Op

QUICK_SECONDS, SECONDS = 0.4, 3.0
LEAST_WIDTH = 200
"""Characters: a table cut to fewer says nothing."""


def main(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...", help="All, and gpt_block, if none.")] = None,
    file: Annotated[Path | None, Option("--from", metavar="FILE", help="A file of specs of your own.")] = None,
    size: Annotated[list[str] | None, Option(help="small, medium or large; all if not given.")] = None,
    length: Annotated[
        list[str] | None, Option("--length", metavar="AXIS=N", help="The length of an axis, at each of the sizes.")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer rounds, and nothing compiled.")] = False,
    compiled: Annotated[bool, Option("--compile/--no-compile", help="The columns of torch.compile.")] = True,
    seconds: Annotated[float, Option(help="Seconds a row, after warming up.", min=0.01)] = SECONDS,
    threads: Annotated[int, Option(help="Threads of PyTorch and JAX; all cores if not given.", min=0)] = 0,
    device: Annotated[
        str, Option(metavar="NAME", help="Such as cuda: then no column of kernels or JAX, no names step.")
    ] = "cpu",
    out: Annotated[Path, Option(metavar="DIR", help="For benchmarks.json and benchmarks.svg.")] = Path("runs"),
) -> None:
    """Measure forward + backward, each way in turn, and write a table, benchmarks.json, .md and .svg."""
    try:
        wanted, there = _wanted(ops, file), device_of(device)
        sizes, lengths = _sizes(size), _lengths(length or [], wanted)
    except DeriveError as error:
        typer.echo(f"benchmarks: {error}", err=True)
        raise typer.Exit(2) from None
    threads = threads or os.cpu_count() or 1
    use_threads(threads)
    if quick:
        seconds, compiled = QUICK_SECONDS, False
    asked = _Asked(seconds, compiled, threads, there, lengths)
    wholes = [name for name in _wholes(there) if file is None and (not ops or name in ops)]
    derivation = {op.name: derivation_seconds(op) for op in wanted}
    parts = [find(op) for op in block.OPS if block.NAME in wholes]
    printed = {op.name: op for op in (*wanted, *parts)}.values()
    kernels = native_package(printed, file) if there == CPU else nullcontext(NativePackage())
    with kernels as native, float32_in_full():
        if native.missing:
            typer.echo(f"no column of native kernels: {native.missing}", err=True)
        rows = [(f"{op.name}, {each}", partial(asked.of_op, op, each, native)) for op in wanted for each in sizes]
        rows += [(f"{name}, {each}", partial(asked.of_whole, name, each, native)) for name in wholes for each in sizes]
        found, failed = _measured(rows)
    if found:
        _write(found, derivation, _about(threads, there), out)
    for title, why in failed:
        typer.echo(f"benchmarks: {title}: {why}", err=True)
    if failed:
        raise typer.Exit(1)


def _wholes(device: torch.device) -> tuple[str, ...]:
    """The rows that are more than one op, by the name that asks for them; the names step draws on the CPU."""
    return (names.OP, block.NAME) if device == CPU else (block.NAME,)


@dataclass(frozen=True)
class _Asked:
    """How rows are measured."""

    seconds: float
    compiled: bool
    threads: int
    device: torch.device
    lengths: Mapping[str, int]

    def of_op(self, op: Op, size: str, native: NativePackage) -> Measured:
        made = row(op, size, given=self.lengths, device=self.device)
        return measure(made, self.seconds, self.compiled, native, self.threads)

    def of_whole(self, name: str, size: str, native: NativePackage) -> Measured:
        if name == names.OP:
            return measure_whole(names.whole(size, self.compiled, native), size, self.seconds)
        whole = block.whole(size, self.compiled, native, self.device)
        return measure_whole(whole, size, self.seconds, self.device)


def _measured(rows: Sequence[tuple[str, Callable[[], Measured]]]) -> tuple[list[Measured], list[tuple[str, str]]]:
    """Each row in turn, behind a bar that names it; and why there is none of some."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found: list[Measured] = []
    failed: list[tuple[str, str]] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(rows))
        for title, measured in rows:
            progress.update(task, description=title)
            torch.compiler.reset()
            try:
                found.append(measured())
            except (DeriveError, ValueError) as error:
                failed.append((title, str(error)))
            progress.advance(task)
    return found, failed


def _write(found: list[Measured], derivation: Mapping[str, float], about: dict[str, str], out: Path) -> None:
    """Print the table, and write all of it into a folder."""
    caption = ", ".join(f"{k} {v}" for k, v in about.items())
    wide = Console(width=max(Console().width, LEAST_WIDTH), soft_wrap=True)
    wide.print(table(found, derivation, caption), highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    (out / "benchmarks.json").write_text(json.dumps(as_json(found, about, derivation), indent=1) + "\n")
    (out / "benchmarks.md").write_text(page(found, caption))
    where = about.get("device", f"{about['threads']} thread(s)")
    chart(found, out / "benchmarks.svg", f"forward + backward, float32, {where}")
    print(f"{out / 'benchmarks.json'}, {out / 'benchmarks.md'}, {out / 'benchmarks.svg'}: written")


def _lengths(named: list[str], ops: Sequence[Op]) -> dict[str, int]:
    """The lengths that were given. Raises DeriveError for one that is none, or of an axis that no op has."""
    found, axes = {}, {a.base for op in ops for a in carried(op)}
    for text in named:
        axis, _, number = text.partition("=")
        if axis not in axes or not number.isdecimal():
            known = f"the axes are {', '.join(sorted(axes))}"
            raise DeriveError(f"--length {text} is no length of an axis", fix=f"write it as n=4096; {known}")
        found[axis] = int(number)
    return found


def _sizes(named: list[str] | None) -> list[str]:
    """The sizes that were named, from small to large; all without names. Raises DeriveError for one that is none."""
    if unknown := set(named or ()) - set(SIZES):
        raise DeriveError(f"there is no size {min(unknown)}", fix=f"choose from {', '.join(SIZES)}")
    return [s for s in SIZES if s in (named or SIZES)]


def _wanted(ops: list[str] | None, file: Path | None) -> list[Op]:
    """The ops that were named; without names, those that are composite, or all of a file."""
    known = catalogue() if file is None else load_file(file)
    named = [name for name in dict.fromkeys(ops or ()) if name != block.NAME]
    return [find(name, known) for name in named] if ops else [o for o in known if file or composite(o)]


def _about(threads: int, device: torch.device) -> dict[str, str]:
    versions = {"PyTorch": torch.__version__, "Python": platform.python_version()}
    if jax is not None:
        versions["JAX"] = jax.__version__
    where = {} if device == CPU else {"device": device_name(device)}
    return {**versions, "threads": str(threads), "cores": str(os.cpu_count()), **where}


if __name__ == "__main__":
    typer.run(main)
