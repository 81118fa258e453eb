"""Measures as tables."""

import statistics

from rich.table import Table

from training.compare.measures import Agreement, Memory, Speed
from training.compare.sides import Contest


def agreement_table(contest: Contest, agreement: Agreement) -> Table:
    """How far apart the two runs were."""
    title = f"{contest.title}: generated against autograd, {agreement.steps:,} steps"
    table = Table("tensor", title=title, caption=contest.note or None)
    for heading in ("largest difference", "largest value", "relative"):
        table.add_column(heading, justify="right")
    table.add_row("loss", f"{agreement.loss:.1e}", "", "")
    for name, difference in agreement.gradients.items():
        size = agreement.sizes[name]
        relative = f"{difference / size:.1e}" if size else ""
        table.add_row(f"d{name}", f"{difference:.1e}", f"{size:.1e}", relative)
    return table


def cost_table(contest: Contest, speed: Speed, memory: Memory, threads: int) -> Table:
    """How fast the two loops were, and how much memory a step took."""
    table = Table("", title=f"{threads} thread(s), interleaved blocks of {contest.block} steps")
    for heading in ("steps a second: median", "slowest", "fastest", "peak memory of a step"):
        table.add_column(heading, justify="right")
    sides = (("generated", speed.generated, memory.generated), ("autograd", speed.autograd, memory.autograd))
    for name, values, weight in sides:
        figures = (statistics.median(values), min(values), max(values))
        table.add_row(name, *(f"{figure:,.4g}" for figure in figures), f"{weight / 1e3:,.0f} kB")
    share = memory.generated / memory.autograd if memory.autograd else 1.0
    table.add_row("ratio (of speeds: median of pairs)", f"{speed.ratio:.2f}", "", "", f"{share:.2f}")
    return table
