"""`python -m tests.corpus record` writes what the code makes of every spec; `diff` says what a change does to it.

What is measured is kept in `runs/corpus/` by what it depends on, so that a run that was cut off goes on where it
stopped, and `record` after `diff` measures nothing again.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

import typer
from rich.console import Console
from rich.progress import Progress
from rich.syntax import Syntax
from rich.table import Table

from derive.output.live import build
from tests.corpus import Spec, corpus
from tests.corpus.compared import Change, changes, settled
from tests.corpus.measured import Entry, as_text, functions_of
from tests.corpus.recorded import RECORD, ROOT, Failed, entries, path_of, recorded, write

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
console = Console()

_NAMES = typer.Argument(None, help="These specs alone (default: all).")
_JOBS = typer.Option(2, "--jobs", help="Processes that measure.")
_ALL = typer.Option(False, "--all", help="Measure anew what was measured already.")


@app.command()
def record(names: list[str] = _NAMES, jobs: int = _JOBS, again: bool = _ALL) -> None:
    """Write what the code makes of every spec into tests/corpus/record/, which is committed."""
    specs = _chosen(names)
    known = {s.name: s for s in specs}
    written = failed = 0
    for entry in _with_bar(specs, jobs, again):
        if isinstance(entry, Failed):
            console.print(f"[red]{entry.name} is not recorded[/]: {entry.message}", soft_wrap=True)
            failed += 1
            continue
        before = recorded(known[entry.name])
        entry = entry if before is None else settled(before, entry)
        written += write(path_of(entry.family, entry.name), as_text(entry))
    gone = set() if names else set(RECORD.rglob("*.json")) - {path_of(s.family, s.name) for s in specs}
    for path in gone:
        path.unlink()
    console.print(f"{len(specs)} specs, {written} entries changed, {len(gone)} removed")
    raise typer.Exit(1 if failed else 0)


@app.command()
def diff(
    names: list[str] = _NAMES,
    jobs: int = _JOBS,
    again: bool = _ALL,
    code: str = typer.Option("", "--code", help="Show what changed of the code and the steps of this spec."),
) -> None:
    """Derive anew and show what is another than recorded, worse first. Ends with status 1 where anything is worse."""
    specs = _chosen([*(names or []), *([code] if code else [])])
    found_now = list(_with_bar(specs, jobs, again))
    failed = [e for e in found_now if isinstance(e, Failed)]
    new = {e.name: e for e in found_now if isinstance(e, Entry)}
    old = {s.name: e for s in specs if (e := recorded(s)) is not None}
    for failure in failed:
        console.print(f"[red]{failure.name} is not derived any more[/]: {failure.message}", soft_wrap=True)
    if code and code in new:
        _show_code(old.get(code), new[code])
    found = {name: changes(old[name], new[name]) for name in sorted(new) if name in old}
    told = sorted(((n, c) for n, c in found.items() if c), key=lambda pair: _badness(pair[1]))
    console.print(_table(told))
    other = [n for n, c in found.items() if not c and (old[n].code, old[n].steps) != (new[n].code, new[n].steps)]
    _list("other code or steps at the same cost", other)
    _list("not recorded yet", [n for n in new if n not in old])
    worse = [n for n, c in told if any(x.worse for x in c)]
    console.print(f"{len(new)} specs, {len(told)} with other figures, {len(worse)} somewhere worse")
    raise typer.Exit(1 if worse or failed else 0)


# --- choosing and showing ------------------------------------------------------------------------------------------


def _with_bar(specs: list[Spec], jobs: int, again: bool) -> Iterator[Entry | Failed]:
    with Progress(console=console, transient=True) as bar:
        yield from bar.track(entries(specs, jobs, again), total=len(specs), description="measuring")


def _chosen(names: list[str] | None) -> list[Spec]:
    known = {s.name: s for s in corpus()}
    unknown = [n for n in names or [] if n not in known]
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, 3)
        raise typer.BadParameter(f"there is no spec {unknown[0]}" + (f"; near it: {', '.join(close)}" if close else ""))
    return [known[n] for n in dict.fromkeys(names or known)]


def _badness(found: tuple[Change, ...]) -> float:
    """Sorts what is worst first."""
    return -max(c.ratio for c in found)


def _table(told: Iterable[tuple[str, tuple[Change, ...]]]) -> Table:
    table = Table("spec", "figure", "recorded", "now", "", box=None, header_style="bold")
    for name, found in told:
        for k, c in enumerate(sorted(found, key=lambda c: -c.ratio)):
            style = "red" if c.worse else "green"
            ratio = f"{c.ratio:.2f} times" if c.before else "new"
            table.add_row(name if k == 0 else "", c.what, f"{c.before:g}", f"{c.after:g}", f"[{style}]{ratio}[/]")
    return table


def _list(title: str, names: list[str]) -> None:
    if names:
        console.print(f"{title} ({len(names)}): {', '.join(names)}", soft_wrap=True)


def _show_code(old: Entry | None, new: Entry) -> None:
    """What changed of an entry's steps and code; of the catalogue, beside generated/."""
    before, after = ((*e.steps, "", *_code(e)) if e else () for e in (old, new))
    if new.family.startswith("catalogue/"):
        after = (*new.steps, "", *functions_of(_source(new.name), new.name))
    text = "\n".join(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=3))
    console.print(Syntax(text or "no other code, no other steps", "diff", background_color="default"))


def _code(entry: Entry) -> tuple[str, ...]:
    if not entry.family.startswith("catalogue/"):
        return entry.code
    return functions_of((ROOT / "generated" / f"{entry.name}.py").read_text(encoding="utf-8"), entry.name)


def _source(name: str) -> str:
    (spec,) = _chosen([name])
    return build(spec.op).source


if __name__ == "__main__":
    app()
