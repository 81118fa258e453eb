"""What is measured of both sides: how far apart they are, how fast, and how much memory a step takes."""

import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import track
from torch.profiler import ProfilerActivity, profile

from training.compare.sides import Contest, Side

# Long enough that no learning rate falls while blocks are timed.
LONG = 10**6


@dataclass(frozen=True)
class Agreement:
    """The largest differences over a run: of the loss, and of each gradient beside its own size."""

    steps: int
    loss: float
    gradients: dict[str, float]
    sizes: dict[str, float]


@dataclass(frozen=True)
class Speed:
    """Steps a second, block by block; block k of both was measured one right after the other."""

    generated: tuple[float, ...]
    autograd: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over pairs of blocks, so that a machine that slows down for a while does not decide."""
        return statistics.median(g / a for g, a in zip(self.generated, self.autograd, strict=True))


@dataclass(frozen=True)
class Memory:
    """Bytes of tensors at the peak of one step, beyond what was there before it."""

    generated: int
    autograd: int


def differences(contest: Contest, steps: int) -> Iterator[list[float]]:
    """A row a step of both runs: the loss difference, each gradient's largest, then each gradient's size."""
    ours, twin = (begin(steps).trajectory(steps) for begin in (contest.ours, contest.twin))
    for (loss, gradients), (twin_loss, twin_gradients) in zip(ours, twin, strict=True):
        pairs = zip(gradients, twin_gradients, strict=True)
        apart = [(mine - theirs).abs().max().item() for mine, theirs in pairs]
        yield [abs(loss - twin_loss), *apart, *(gradient.abs().max().item() for gradient in twin_gradients)]


def agree(contest: Contest, steps: int, quiet: bool = True) -> Agreement:
    """Run both over all steps and keep the largest differences; a NaN anywhere is kept too."""
    console, rows = Console(stderr=True), differences(contest, steps)
    rows = iter(track(rows, "comparing", total=steps, console=console, disable=quiet, transient=True))
    # Python's own max would lose a NaN.
    loss, *rest = torch.tensor(list(rows), dtype=torch.float64).amax(0).tolist()
    names = contest.parameters
    gradients, sizes = rest[: len(names)], rest[len(names) :]
    return Agreement(steps, loss, dict(zip(names, gradients, strict=True)), dict(zip(names, sizes, strict=True)))


def race(contest: Contest, blocks: int, quiet: bool = True) -> Speed:
    """Time blocks of both loops in turn, after one untimed block each; who goes first alternates."""
    sides = (contest.ours(LONG), contest.twin(LONG))
    speeds: tuple[list[float], list[float]] = ([], [])
    # No refresh thread: it would compete with the loops for the interpreter.
    shown = track(
        range(blocks + 1),
        "timing",
        auto_refresh=False,
        console=Console(stderr=True),
        disable=quiet,
        transient=True,
    )
    for block in shown:
        pairs = list(zip(sides, speeds, strict=True))
        for side, measured in pairs if block % 2 else reversed(pairs):
            started = time.perf_counter()
            side.block(contest.block)
            if block > 0:
                measured.append(contest.block / (time.perf_counter() - started))
    return Speed(tuple(speeds[0]), tuple(speeds[1]))


def weigh(contest: Contest) -> Memory:
    """The peak of one step of either side, each after two that let it make what it keeps."""
    return Memory(peak(contest.ours(LONG)), peak(contest.twin(LONG)))


@contextmanager
def silent() -> Iterator[None]:
    """Nothing on stderr, not from C++ either: PyTorch's profiler reports its every start and end there."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def peak(side: Side) -> int:
    """The most bytes that PyTorch's allocator had handed out during the third step, less those before it."""
    taken = side.trajectory(3)
    # What a step hands out is held until the next, as in a loop that looks at it.
    held = [next(taken), next(taken)]
    with silent(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        held[0] = next(taken)
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    most = now = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
