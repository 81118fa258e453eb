"""What a run is asked to do, checked before it starts."""

import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from training.data import Names
from training.errors import InputError
from training.keeping import Keep
from training.names.loop import Recipe


class Dtype(StrEnum):
    """The precision of parameters and gradients."""

    float32 = "float32"
    float64 = "float64"

    @property
    def torch(self) -> torch.dtype:
        return torch.float32 if self is Dtype.float32 else torch.float64


class Gradients(StrEnum):
    """Who derives the backward."""

    generated = "generated"
    autograd = "autograd"


@dataclass(frozen=True)
class Settings:
    """Everything a run depends on; the defaults are the public notebook's last exercise.

    Raises `InputError` for a number outside its range.
    """

    recipe: Recipe = field(default_factory=Recipe)
    names: Path | None = None
    context: int = 3
    embedding: int = 10
    hidden: int = 200
    seed: int = 2147483647
    split_seed: int = 42
    samples: int = 20
    dtype: Dtype = Dtype.float32
    threads: int = 1
    gradients: Gradients = Gradients.generated
    quiet: bool = False
    keep: Keep = field(default_factory=Keep)

    def __post_init__(self) -> None:
        recipe = self.recipe
        within("--context", self.context, 1)
        within("--embedding", self.embedding, 1)
        within("--hidden", self.hidden, 1)
        # Bessel's correction divides by one less than the batch.
        within("--batch", recipe.batch, 2)
        within("--steps", recipe.steps, 0)
        within("--lr", recipe.lr, 0.0)
        within("--lr-final", recipe.lr_final, 0.0)
        within("--lr-drop", recipe.lr_drop, 0.0, 1.0)
        # Without it, a hidden unit that is constant over a batch divides by zero.
        within("--eps", recipe.eps, 1e-12, 1.0)
        # Sampling and the notebook's unseeded draws use seeds a little above this one.
        within("--seed", self.seed, 0, 2**62)
        within("--split-seed", self.split_seed, 0, 2**62)
        within("--samples", self.samples, 0)
        within("--threads", self.threads, 1)
        within("--every", self.keep.every, 1)

    def identity(self, names: Names, processes: int = 1) -> dict[str, Any]:
        """What decides every step: a checkpoint is only good for the same."""
        recipe = {f"--{name.replace('_', '-')}": value for name, value in vars(self.recipe).items()}
        own = ("context", "embedding", "hidden", "seed", "split_seed", "dtype", "gradients", "threads")
        chosen = {f"--{name.replace('_', '-')}": getattr(self, name) for name in own}
        digest = hashlib.sha256("\n".join(names.words).encode()).hexdigest()
        given = {"the list of names": digest[:12], "the number of processes": processes}
        return {**recipe, **{name: plain(value) for name, value in chosen.items()}, **given}


def plain(value: Any) -> Any:
    """A word of an option as plain text: a checkpoint holds nothing else."""
    return str(value) if isinstance(value, StrEnum) else value


def within(option: str, value: float, least: float, most: float = math.inf) -> None:
    """`InputError` unless `value` is finite and lies between `least` and `most`."""
    if math.isfinite(value) and least <= value <= most:
        return
    wanted = f"at least {least}" if most == math.inf else f"between {least} and {most}"
    raise InputError("reading options", f"{option} is {value}, expected {wanted}", f"change {option}")
