"""`python -m benchmarks.outside`: the outside suites tried, counted and timed, and their page written."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from typer import Option

from benchmarks.outside.page import Line, page
from benchmarks.outside.problem import SUITES, Problem, problems
from benchmarks.outside.results import PARTS, Found, Results, digest, engine_digest
from benchmarks.outside.timing import timed
from benchmarks.outside.trial import counted, tried
from derive.errors import DeriveError

ROOT = Path(__file__).parents[2]


def main(
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PARTS]...", help="right, counts, time; or page alone.")
    ] = None,
    suite: Annotated[list[str] | None, Option(help="A suite; all if not given.")] = None,
    only: Annotated[list[int] | None, Option(metavar="N", help="A problem by its number; all if not given.")] = None,
    again: Annotated[bool, Option("--again", help="Also what was found before of the same problem.")] = False,
    seconds: Annotated[float, Option(help="Seconds of timing a problem.", min=0.01)] = 1.0,
    kept: Annotated[Path, Option(metavar="FILE", help="What was found so far.")] = ROOT / "runs" / "outside.json",
    out: Annotated[Path, Option(metavar="FILE", help="The page.")] = ROOT / "docs" / "outside.md",
) -> None:
    """Try, count and time; a part that was done before of the same problem and engine is not done again."""
    if unknown := {*(parts or ()), *(suite or ())} - {*PARTS, *SUITES, "page"}:
        typer.echo(
            f"outside: there is no {min(unknown)}; parts are {', '.join(PARTS)}, suites {', '.join(SUITES)}", err=True
        )
        raise typer.Exit(2)
    torch.set_num_threads(1)
    results, engine = Results.read(kept), engine_digest()
    all_right = True
    for name in suite or SUITES:
        for problem in problems(name):
            if problem.op is None or (only and problem.number not in only):
                continue
            told = digest(name, problem, engine)
            for part in (p for p in PARTS if p in (parts or PARTS)):
                if again or results.of(name, problem.number).get(part, {}).get("of") != told:
                    found = done(_doing(part, problem, seconds))
                    results.put(name, problem.number, part, {**found, "of": told})
                    typer.echo(f"{name} {problem.number} {problem.title}, {part}: {_short(found)}")
            line = Line(problem, results.of(name, problem.number))
            all_right &= line.is_right
    lines = {s: [Line(p, results.of(s, p.number)) for p in problems(s)] for s in SUITES}
    about = f"PyTorch {torch.__version__}, Python {platform.python_version()}, one thread."
    out.write_text(page({s: found for s, found in lines.items() if found}, about), encoding="utf-8")
    typer.echo(f"{out}: written")
    raise typer.Exit(0 if all_right else 1)


def _doing(part: str, problem: Problem, seconds: float) -> Callable[[], Found]:
    if part == "right":
        return lambda: asdict(tried(problem))
    return lambda: asdict(counted(problem) if part == "counts" else timed(problem, seconds))


def done(doing: Callable[[], Found]) -> Found:
    """What was found, or the error that it ended in."""
    try:
        return doing()
    except (DeriveError, ValueError, RuntimeError) as error:  # what PyTorch says of a forward's shapes as well
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _short(found: Found) -> str:
    return ", ".join(
        f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in found.items() if v not in ("", None)
    )


if __name__ == "__main__":
    typer.run(main)
