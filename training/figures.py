"""Figures of a run, as PNG: how the loss fell, and what flowed through the layers."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

# Before pyplot is loaded: files are drawn without a screen.
matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, MaxNLocator
from torch import Tensor

from training.metrics import read_rows
from training.monitor import Monitor

BLUE, ORANGE, GREY = "#1f5fa8", "#d9731a", "#b9c4d0"


def loss_curve(metrics: Path, file: Path, window: int = 0, validation: Sequence[tuple[int, float]] = ()) -> None:
    """log10 of the loss of every step, and of its running mean over `window` steps (None given: a hundredth)."""
    rows = np.array(read_rows(metrics))
    if len(rows) < 2:
        return
    steps, losses = rows[:, 0], rows[:, 1]
    window = window or max(2, len(rows) // 100)
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.plot(steps, np.log10(losses), color=GREY, linewidth=0.4, label="each step", rasterized=True)
    # The mean of the losses, then the logarithm: the mean of logarithms would lie below it.
    mean = np.convolve(losses, np.full(window, 1 / window), "valid")
    axes.plot(steps[window - 1 :], np.log10(mean), color=BLUE, label=f"mean of {window:,} steps")
    if validation:
        at, value = zip(*validation, strict=True)
        axes.plot(at, np.log10(value), "o-", color=ORANGE, markersize=3, label="validation")
    low, high = np.quantile(np.log10(losses), (0.001, 0.999))
    axes.set_ylim(low - 0.03, high + 0.03)
    axes.set(xlabel="step", ylabel="log10 loss", xlim=(0, steps[-1]))
    if high - low < 1:  # over more than a decade its labels would run into one another
        nats(axes)
    axes.legend(framealpha=0.9, edgecolor="none")
    save(figure, file)


def nats(axes: Axes) -> None:
    """A second scale at the right: the loss itself."""
    right = axes.secondary_yaxis(
        "right", functions=(lambda y: np.power(10.0, y), lambda y: np.log10(np.maximum(y, 1e-12)))
    )
    right.set_ylabel("loss")


def save(figure: plt.Figure, file: Path) -> None:
    """Write the figure and forget it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def distributions(
    monitor: Monitor, group: str, file: Path, title: str, axis: str, marks: Sequence[float] = (), across: int = 4
) -> None:
    """Small multiples, one a tensor: how its values are spread, over the steps; darker is more of them.

    On a logarithmic scale the lowest row of cells holds the zeros too.
    """
    named = monitor.counts.get(group, {})
    if len(monitor.steps) < 2 or not named:
        return
    across = min(across, len(named))
    down = -(-len(named) // across)
    figure, grid = plt.subplots(down, across, figsize=(2.6 * across, 2.1 * down + 0.4), layout="constrained")
    panels = np.atleast_1d(grid).ravel()
    for axes, (name, rows) in zip(panels, named.items(), strict=False):
        scale = monitor.scale(group, name)
        counts = np.stack([row.numpy() for row in rows])
        shares = counts / counts.sum(1, keepdims=True).clip(1)
        edges = np.linspace(scale.low, scale.high, counts.shape[1] + 1)
        # The square root keeps thin tails in sight, and a few full cells, such as the zeros', do not pale the others.
        # Cells stand where the looks were taken.
        depth = np.sqrt(shares.T)
        middles, most = (edges[1:] + edges[:-1]) / 2, np.quantile(depth, 0.98)
        axes.pcolormesh(monitor.steps, middles, depth, cmap="Blues", shading="nearest", vmin=0, vmax=most or None)
        for mark in marks:
            axes.axhline(mark, color=ORANGE, linewidth=0.8, linestyle="--")
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.xaxis.set_major_locator(MaxNLocator(4))
    for axes in panels[len(named) :]:
        axes.axis("off")
    figure.suptitle(title, fontsize=11)
    figure.supylabel(axis, fontsize=9)
    figure.supxlabel("step", fontsize=9)
    save(figure, file)


def dlogits_picture(dlogits: Tensor, labels: Tensor, letters: str, file: Path) -> None:
    """The gradient [n, c] as a picture, each row's label marked, and beside it the sum of each row, which is 0.

    A row pulls its label's score up and pushes the others down in proportion to their probability.
    """
    values, marked = dlogits.detach().double().numpy(), labels.numpy()
    n, c = values.shape
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(0.24 * c + 3.4, 0.2 * n + 1.2), layout="constrained", width_ratios=(5, 1), sharey=True
    )
    # The labels' pull of about 1/n would leave the rest of the picture blank.
    most = np.quantile(np.abs(values), 0.97)
    image = left.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
    for row, label in enumerate(marked):
        left.add_patch(Rectangle((label - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="black", linewidth=1.1))
    left.set_xticks(range(c), list(letters), fontsize=7)
    left.set(xlabel="letter (boxed: the right one)", ylabel="example", title=f"dlogits, {n} x {c}")
    figure.colorbar(image, ax=left, extend="both", pad=0.01, fraction=0.04).ax.tick_params(labelsize=7)
    sums = values.sum(1)
    most = np.abs(sums).max()
    power = int(np.floor(np.log10(max(most, 1e-17))))
    right.barh(range(n), sums / 10.0**power, color=BLUE, height=0.7)
    reach = 1.2 * max(most, 1e-17) / 10.0**power
    right.set(xlim=(-reach, reach), xlabel=f"times 1e{power}", title="row sums")
    right.axvline(0, color="black", linewidth=0.6)
    right.tick_params(labelsize=7)
    right.xaxis.set_major_locator(MaxNLocator(2, symmetric=True))
    save(figure, file)


def accuracy_curve(rows: Sequence[tuple[int, float, float]], test: float, file: Path) -> None:
    """The share read correctly over the steps, of what is learned from and of the validation; the test once."""
    if not rows:
        return
    steps, learned, validation = zip(*rows, strict=True)
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.plot(steps, 100 * np.array(learned), color=GREY, linewidth=2, label="learned from")
    axes.plot(steps, 100 * np.array(validation), color=BLUE, label="validation")
    axes.plot(steps[-1], 100 * test, "o", color=ORANGE, label=f"test: {100 * test:.2f}%", clip_on=False, zorder=3)
    axes.axhline(97, color="black", linewidth=0.6, linestyle=":")
    axes.set(xlabel="step", ylabel="pictures read correctly, %", xlim=(0, steps[-1]))
    axes.set_ylim(max(0.0, 100 * min(*learned[:3], *validation[:3]) - 2), 100.5)
    axes.legend(frameon=False, loc="lower right")
    save(figure, file)


def beside_solution(times: Sequence[float], x: np.ndarray, right: np.ndarray, found: np.ndarray, file: Path) -> None:
    """What a network says [t, k] at places [k], a panel a time, over the solution."""
    figure, panels = plt.subplots(1, len(times), figsize=(2.6 * len(times), 2.8), layout="constrained", sharey=True)
    for axes, t, solution, network in zip(panels, times, right, found, strict=True):
        axes.plot(x, solution, color=GREY, linewidth=4, label="solution")
        axes.plot(x, network, color=BLUE, linewidth=1.2, label="perceptron")
        axes.set(title=f"t = {t:g}", xlabel="x", xlim=(-1, 1))
    panels[0].set_ylabel("u")
    panels[-1].legend(frameon=False, loc="upper right", fontsize=8)
    save(figure, file)


def norms(metrics: Path, file: Path) -> None:
    """The global norm of the gradients at every step, before and after clipping."""
    rows = np.array(read_rows(metrics))
    if len(rows) < 2:
        return
    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    axes.semilogy(rows[:, 0], rows[:, 3], color=ORANGE, linewidth=0.5, label="before clipping")
    axes.semilogy(rows[:, 0], rows[:, 4], color=BLUE, linewidth=0.5, label="after")
    clipped = np.mean(rows[:, 4] < 0.999 * rows[:, 3])
    axes.set(xlabel="step", ylabel="norm of all gradients", title=f"{100 * clipped:.1f}% of the steps were clipped")
    axes.set_xlim(0, rows[-1, 0])
    axes.legend(frameon=False)
    save(figure, file)


def moments(metrics: Path, file: Path) -> None:
    """Mean, standard deviation and norm of each parameter's gradient over the steps."""
    rows = np.array(read_rows(metrics))
    if len(rows) < 2:
        return
    heading = metrics.read_text(encoding="utf-8").splitlines()[0].split(",")[1:]
    names = [column.rsplit(" ", 1)[0] for column in heading[::3]]
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(names)))
    for k, (axes, title) in enumerate(zip(panels, ("|mean|", "standard deviation", "norm"), strict=True)):
        for column, (name, colour) in enumerate(zip(names, colours, strict=True)):
            axes.semilogy(rows[:, 0], np.abs(rows[:, 1 + 3 * column + k]), color=colour, linewidth=1, label=name)
        axes.set(title=f"{title} of each gradient", xlabel="step")
    panels[-1].legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, file)
