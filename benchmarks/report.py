"""What was measured, for people: a table on the terminal, a chart as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib
from rich.table import Table

from benchmarks.measure import Measured
from benchmarks.ways import AUTOGRAD, COLUMNS

matplotlib.use("Agg")
from matplotlib import pyplot

_COLOURS = (
    "#999999", "#777777", "#4c78a8", "#f2a03d", "#8cc27f", "#54a24b", "#2f6b2f", "#b03060", "#d6616b", "#7b1f3a",
)  # fmt: skip


def table(rows: Iterable[Measured], derivation: Mapping[str, float], about: str) -> Table:
    """A row an op and a size: microseconds of autograd, how many times faster each other way is, and bytes."""
    rows = list(rows)
    others = [way for way in COLUMNS if way != AUTOGRAD and any(way in r.times for r in rows)]
    out = Table("op", "first input", title=about, title_justify="left", caption=_legend(others), caption_justify="left")
    out.add_column("autograd us\nmedian (best)", justify="right")
    for way in others:
        out.add_column(way.replace(" ", "\n"), justify="right")
    out.add_column("over floor\ngenerated, native", justify="right")
    out.add_column("peak MB\nautograd, ours", justify="right")
    out.add_column("saved MB\nautograd, native op, generated, native", justify="right")
    out.add_column("derived\nin ms", justify="right")
    for k, r in enumerate(rows):
        first = k == 0 or rows[k - 1].op != r.op
        base = r.times[AUTOGRAD]
        cells = [_times(r.speedup(way)) for way in others]
        peak = ", ".join(_megabytes(r.peak.get(way)) for way in (AUTOGRAD, "generated"))
        took = f"{1000 * derivation[r.op]:.0f}" if first and r.op in derivation else ""
        micro = f"{1e6 * base.median:,.0f} ({1e6 * base.best:,.0f})"
        if first and k:
            out.add_section()
        out.add_row(r.op if first else "", r.shapes, micro, *cells, _over_floor(r), peak, _saved(r), took)
    return out


def page(rows: Iterable[Measured], about: str) -> str:
    """The table as Markdown, a section a size."""
    rows = list(rows)
    others = [way for way in COLUMNS if way != AUTOGRAD and any(way in r.times for r in rows)]
    lines = [f"{about}. Times faster than autograd of the primitives, the median over rounds of the ratio.", ""]
    for size in dict.fromkeys(r.size for r in rows):
        head = ["op", "first input", "autograd, us", *others, "over floor", "saved MB"]
        rule = "|---" * 2 + "|---:" * (len(head) - 2)
        lines += [f"## {size.capitalize()}", "", f"| {' | '.join(head)} |", f"{rule}|"]
        for r in (r for r in rows if r.size == size):
            cells = [r.op, r.shapes, f"{1e6 * r.times[AUTOGRAD].median:,.0f}", *(_times(r.speedup(w)) for w in others)]
            cells += [_over_floor(r), _saved(r)]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    legend = [f"- `{way}`: {what}" for way, what in COLUMNS.items() if way == AUTOGRAD or way in others]
    legend += [f"- `over floor`: {_FLOOR}", f"- `saved MB`: {_SAVED}"]
    return "\n".join([*lines, *legend, ""])


_FLOOR = "the best times of `generated out=` and `native out=` over the floor"
_SAVED = "kept for the backward, inputs included: autograd, native op, generated, native"


def _over_floor(row: Measured) -> str:
    return ", ".join(_times(row.over_floor(way)) or "-" for way in ("generated out=", "native out="))


def _saved(row: Measured) -> str:
    return ", ".join(_megabytes(row.saved.get(way)) for way in (AUTOGRAD, "native op", "generated", "native"))


def _legend(others: list[str]) -> str:
    lines = [f"{way}: {what}" for way, what in COLUMNS.items() if way == AUTOGRAD or way in others]
    return "\n".join(
        [
            *lines,
            "Figures under these are times faster than autograd, the median over rounds of the ratio.",
            "Preallocated: outputs, saved tensors and gradients in columns with out= and in one call, nothing else.",
            "Every way of the names step updates its parameters in place, `native, one call` in the same kernel; JAX",
            "is given back the buffers that it donated.",
        ]
    )


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.3g}"


def chart(rows: Iterable[Measured], path: Path, title: str) -> None:
    """Bars of how many times faster than autograd each way is, a panel a size, written as SVG."""
    rows = list(rows)
    sizes = list(dict.fromkeys(r.size for r in rows))
    ways = [way for way in COLUMNS if way != AUTOGRAD and any(way in r.times for r in rows)]
    ops = list(dict.fromkeys(r.op for r in rows))
    height = 1.2 + 0.14 * len(ops) * (len(ways) + 1)
    # Ids that do not change from run to run, and text that stays text.
    with pyplot.rc_context({"svg.hashsalt": "handgrad", "svg.fonttype": "none", "font.size": 8}):
        figure, panels = pyplot.subplots(1, len(sizes), figsize=(4.2 * len(sizes), height), squeeze=False, sharey=True)
        for panel, size in zip(panels[0], sizes, strict=True):
            for k, way in enumerate(ways):
                found = [(ops.index(r.op), r.speedup(way)) for r in rows if r.size == size and way in r.times]
                at = [place + (k - (len(ways) - 1) / 2) / (len(ways) + 1) for place, _ in found]
                colour = _COLOURS[list(COLUMNS).index(way) % len(_COLOURS)]
                panel.barh(at, [s for _, s in found], 0.9 / (len(ways) + 1), left=None, label=way, color=colour)
            panel.axvline(1, color="black", linewidth=0.8)
            panel.set_xscale("log")
            panel.set_title(size)
            panel.set_xlabel("times faster than autograd of the primitives")
            panel.grid(axis="x", linewidth=0.3)
        panels[0][0].set_yticks(range(len(ops)), ops)
        panels[0][0].invert_yaxis()
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=max(1, len(labels)), frameon=False)
        figure.suptitle(title)
        figure.tight_layout(rect=(0, 0.4 / height, 1, 1))
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
