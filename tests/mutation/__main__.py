"""`python -m tests.mutation [--out FILE] [OP…]`: every mutant of every backward against the battery, as a table."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import torch
from rich.progress import track

from derive.catalogue import catalogue
from tests.mutation.mutants import KINDS
from tests.mutation.survivors import why_equivalent
from tests.mutation.trial import Trial, trials

HEAD = """# Mutants of the generated backwards

`python -m tests.mutation --out docs/mutation.md` makes every mechanical mistake below in every backward of
[generated/](../generated), one at a time, and holds each mutant against the battery of `derive verify`. No mutant is
made that is the same by arithmetic alone: operands of `+` and `*` are never exchanged. `make test` tries a sample.
"""


def table(found: list[Trial]) -> str:
    """The outcome in Markdown: by kind of mistake, then every survivor and why it is no mistake."""
    made, caught = (Counter(t.mutant.kind for t in found if which or t.caught) for which in (True, False))
    lines = ["| mistake | made | caught | |", "|---|---|---|---|"]
    for kind in KINDS:
        lines.append(f"| {kind} | {made[kind]} | {caught[kind]} | {_share(caught[kind], made[kind])} |")
    lines.append(f"| all | {made.total()} | {caught.total()} | {_share(caught.total(), made.total())} |")
    first = Counter(t.caught for t in found if t.caught)
    lines += ["", "| first caught in | mutants |", "|---|---|"]
    lines += [f"| {situation} | {count} |" for situation, count in first.most_common()]
    lines += ["", "| survivor | statement | mistake | why it is none |", "|---|---|---|---|"]
    for t in found:
        if t.caught is None:
            why = why_equivalent(t.op, t.mutant) or "**not explained**"
            lines.append(f"| {t.op}: {t.mutant.kind} | {_line(t.mutant.before)} | {_line(t.mutant.after)} | {why} |")
    return "\n".join(lines) + "\n"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _line(code: str) -> str:
    return f"`{' '.join(code.split())}`".replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("ops", nargs="*", help="which ops (default: the whole catalogue)")
    parser.add_argument("--out", type=Path, help="write the table here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ops = [op for op in catalogue() if not arguments.ops or op.name in arguments.ops]
    found = [trial for op in track(ops, "mutants") for trial in trials(op)]
    text = f"{HEAD}\n{table(found)}"
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
