"""The U of finite differences, drawn: error against step, one line a gradient and precision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from derive.errors import DeriveError
from derive.verify.differences import Curve

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # told apart by any eye


def check(path: Path) -> None:
    """That a plot can be written there. Raises DeriveError where matplotlib is missing or has no such format."""
    try:
        from matplotlib.figure import Figure  # an extra: nothing else in Handgrad draws
    except ImportError:
        raise DeriveError("--plot needs matplotlib", fix="pip install 'handgrad[plot]'") from None
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in known:
        raise DeriveError(f"--plot {path}: no such format", fix=f"end the name in one of .{', .'.join(sorted(known))}")
    if not path.parent.is_dir():
        raise DeriveError(f"--plot {path}: there is no folder {path.parent}", fix="make it first")


def draw(title: str, curves: Sequence[Curve], path: Path) -> None:
    """Write the plot to a file, whose suffix says the format. Raises as `check` does."""
    check(path)
    import matplotlib  # as in `check`
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "handgrad", "font.size": 10}):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        names = list(dict.fromkeys(c.gradient for c in curves))
        for curve in curves:
            colour = _COLOURS[names.index(curve.gradient) % len(_COLOURS)]
            style = "-" if "64" in str(curve.dtype) else "--"
            label = f"{curve.gradient}, {str(curve.dtype).removeprefix('torch.')}"
            errors = [max(e, 1e-17) for e in curve.errors]
            axes.loglog(curve.steps, errors, style, color=colour, linewidth=1.4, label=label)
        for chosen in sorted({c.chosen for c in curves}):
            axes.axvline(chosen, color="0.5", linewidth=0.8, linestyle=":")
            axes.annotate(f"{chosen:.0e}", (chosen, axes.get_ylim()[1]), color="0.4", fontsize=8, ha="left", va="top")
        axes.set(title=title, xlabel="step (relative to the largest input)", ylabel="error of the slope, relative")
        axes.grid(True, which="major", color="0.9", linewidth=0.6)
        axes.legend(frameon=False, fontsize=8)
        stamp = {"Date": None} if path.suffix in (".svg", ".pdf") else {}
        figure.savefig(path, dpi=150, metadata={"CreationDate": None} if path.suffix == ".pdf" else stamp or None)
