"""The cost report for a reader: a table for the forward, one for the backward, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from derive.collapse.autograd.saved import total_bytes
from derive.ir.terms.axes import PACK_NAME
from derive.show.cost_report import CostReport, Part

_HEADINGS = ("MB", "multiply-\nadds", "operations", "floor\nus", "measured\nus", "times")
_WIDE = 10_000
"""Columns where nothing is cut: of a file, of a pipe."""


def cost_tables(report: CostReport) -> Iterator[RenderableType]:
    """A table for the forward, one for the backward, and what they come to."""
    for title, parts, passes in zip(
        ("forward", "backward"), (report.forward, report.backward), report.passes, strict=True
    ):
        yield _table(title, parts, passes)
    taken = sum(p.taken for p in (*report.forward, *report.backward))
    axes = ", ".join(f"{a} = {n}" for a, n in report.sizes.items())
    yield (
        f"{report.name} in float32 on {report.threads} thread(s), {axes.replace(PACK_NAME, '|...|')}\n"
        f"together: {1e6 * taken:,.0f} us; the least that any forward and backward must move is "
        f"{report.least_bytes / 1e6:,.2f} MB, a floor of {1e6 * report.floor:,.0f} us: "
        f"{taken / report.floor:.1f} times that"
    )
    for who, saved in report.saved:
        names = f": {', '.join(s.label for s in saved)}" if saved else ""
        yield f"{who} keeps {total_bytes(saved, report.sizes) / 1e6:,.2f} MB{names}"
    worst = max((*report.forward, *report.backward), key=lambda p: p.taken - p.floor)
    yield (
        f"they part most at `{worst.code}`: {1e6 * worst.taken:,.0f} us where {1e6 * worst.floor:,.0f} would do"
        if worst.floor
        else f"they part most at `{worst.code}`: {1e6 * worst.taken:,.0f} us beside no work on tensors"
    )


def shown(report: CostReport, console: Console) -> None:
    """The tables on a terminal as wide as it is, elsewhere as wide as they are."""
    if not console.is_terminal:
        console.width = _WIDE
    for part in cost_tables(report):
        console.print(part, highlight=False)


def _table(title: str, parts: tuple[Part, ...], passes: float) -> Table:
    """Code wraps so that all of it is there, and has the room of columns in which no line has anything."""
    of = ("bytes", "multiply_adds", "operations", "floor", "taken")
    lines = [(p.code, *_figures(*(getattr(p, f) for f in of))) for p in parts]
    sums = ("all lines", *_figures(*(sum(getattr(p, f) for p in parts) for f in of)))
    about = f"{title}: {passes:.1f} passes over the largest tensor"
    table = Table(title=about, title_justify="left", box=SIMPLE, padding=(0, 1), pad_edge=False)
    table.add_column(title, overflow="fold")
    filled = [k for k, _ in enumerate(_HEADINGS, 1) if sums[k]]
    for k in filled:
        table.add_column(_HEADINGS[k - 1], justify="right", no_wrap=True)
    for line in lines:
        table.add_row(Text(line[0]), *(line[k] for k in filled))
    table.add_section()
    table.add_row(sums[0], *(sums[k] for k in filled))
    return table


def _figures(moved: float, products: float, operations: float, floor: float, taken: float) -> list[str]:
    return [
        f"{moved / 1e6:,.2f}" if moved else "",
        f"{products:,.0f}" if products else "",
        f"{operations:,.0f}" if operations else "",
        f"{1e6 * floor:,.1f}" if floor else "",
        f"{1e6 * taken:,.1f}",
        f"{taken / floor:.1f}" if floor else "",
    ]
