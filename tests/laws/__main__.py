"""`python -m tests.laws`: take every rule away in turn, resuming, and write docs/laws.md; `page` writes it alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from tests.corpus import corpus
from tests.corpus.recorded import ROOT, tools
from tests.laws.taken import rules
from tests.laws.trials import tried

KEPT = ROOT / "runs" / "laws"
PAGE = ROOT / "docs" / "laws.md"

app = typer.Typer(add_completion=False, help=__doc__)
console = Console()


@app.callback(invoke_without_command=True)
def laws(
    context: typer.Context,
    names: list[str] = typer.Option([], "--spec", help="These specs alone (default: all)."),
    jobs: int = typer.Option(2, "--jobs", help="Processes that try."),
) -> None:
    """Try what was not tried of this engine, then write the page."""
    if context.invoked_subcommand is not None:
        return
    wanted = [s.name for s in corpus() if not names or s.name in names]
    left = [n for n in wanted if _kept(n) is None]
    with Progress(console=console, transient=True) as bar:
        for found in bar.track(tried(left, jobs), total=len(left), description="without each rule"):
            path = KEPT / f"{found['name']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({**found, "engine": tools()}), encoding="utf-8")
    page()


@app.command()
def page() -> None:
    """Write docs/laws.md from what was tried."""
    found = [f for s in corpus() if (f := _read(s.name)) is not None]
    PAGE.write_text(written(found), encoding="utf-8")
    console.print(f"{PAGE}: {len(found)} specs")


def _kept(name: str) -> dict[str, Any] | None:
    found = _read(name)
    return found if found is not None and found["engine"] == tools() else None


def _read(name: str) -> dict[str, Any] | None:
    path: Path = KEPT / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


# --- the page ----------------------------------------------------------------------------------------------

HEAD = """# What each rule and pass is worth

Written by `make laws`; do not edit. Every rule and pass of the engine is taken away in turn, for each spec of the
corpus in which it did anything, as PyTorch and as kernels. Without it:

- **fired**: specs in which it changed or found anything; **other**: those whose programs are others without it.
- **needed**: specs that cannot be derived, or whose gradient is wrong: what it does is no choice.
- **worse**, **better**: specs with more or fewer element operations, saved bytes or statements (the first of these that
  differs by more than 1 %); **work**: the sum of operations over the other specs, over what it is with the rule.
- **digits**: specs whose largest float32 error is at least three times what it is with the rule; **fewer**: a third.

The last table lists the rules that pay for nothing: no spec is wrong, worse, or less exact without them.
"""


def written(found: Iterable[dict[str, Any]]) -> str:
    """The page of these trials."""
    rows: dict[str, Row] = defaultdict(Row)
    count = 0
    for spec in found:
        count += 1
        for trial in spec["trials"]:
            rows[trial["rule"]].add(spec["name"], spec["figures"], trial)
    names = [r.name for r in rules()]
    table = [
        "| rule | fired | other | needed | worse | better | work | digits | fewer |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    pays = [n for n in names if not rows[n].pays_for_nothing]
    table += [f"| {n} | {rows[n]} |" for n in sorted(pays, key=lambda n: (-rows[n].worth, n))]
    idle = ["| rule | fired | other | better without it | some of these |", "| --- | --: | --: | --: | --- |"]
    for n in sorted((n for n in names if rows[n].pays_for_nothing), key=lambda n: (rows[n].fired, n)):
        r = rows[n]
        idle.append(f"| {n} | {r.fired} | {r.other} | {r.better} | {', '.join(r.others[:3])} |")
    parts = (HEAD, f"{count} specs, {len(names)} rules and passes.", "\n".join(table))
    return "\n\n".join((*parts, "## What pays for nothing", "\n".join(idle))) + "\n"


class Row:
    """What is found of one rule."""

    def __init__(self) -> None:
        self.fired = self.other = self.needed = self.worse = self.better = self.digits = self.fewer = 0
        self.before = self.after = 0
        self.others: list[str] = []

    def add(self, name: str, before: dict[str, Any], trial: dict[str, Any]) -> None:
        """One spec more."""
        self.fired += 1
        if trial["outcome"] == "same":
            return
        self.other += 1
        self.others.append(name)
        after = trial["figures"]
        if trial["outcome"] != "other":
            self.needed += 1
            return
        self.before += before["work"]
        self.after += after["work"]
        for figure in ("work", "saved", "statements"):
            if abs(after[figure] - before[figure]) > 0.01 * before[figure]:
                self.worse += after[figure] > before[figure]
                self.better += after[figure] < before[figure]
                break
        least = 1e-6  # below which it is rounding alone
        a, b = max(after["float32"], least), max(before["float32"], least)
        self.digits += a >= 3 * b and a > b
        self.fewer += b >= 3 * a and b > a

    @property
    def worth(self) -> int:
        return self.needed + self.worse + self.digits

    @property
    def pays_for_nothing(self) -> bool:
        return not self.worth

    def __str__(self) -> str:
        work = f"{self.after / self.before:.3f}" if self.before else ""
        cells = (self.fired, self.other, self.needed, self.worse, self.better, work, self.digits, self.fewer)
        return " | ".join(str(c) if c else "" for c in cells)


if __name__ == "__main__":
    app()
