"""How values are spread in the tensors of a run, looked at now and then: histograms over time, and moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

BINS = 60


@dataclass(frozen=True)
class Scale:
    """The values that a histogram covers, in `BINS` equal parts; what lies outside counts in the outermost ones.

    On a logarithmic scale they are of log10 of the absolute value, and a zero counts as the smallest.
    """

    low: float
    high: float
    logarithmic: bool = False

    def count(self, values: Tensor) -> Tensor:
        """How many values [BINS] lie in each part."""
        flat = values.detach().flatten().double()
        if self.logarithmic:
            flat = flat.abs().log10()
        inside = flat.nan_to_num(nan=self.high, neginf=self.low, posinf=self.high).clamp(self.low, self.high)
        return torch.histc(inside, BINS, self.low, self.high)


# Of one update beside the spread of its parameter; about 1e-3 is usual.
UPDATES = Scale(-9.0, 0.0, logarithmic=True)
GRADIENTS = Scale(-11.0, 1.0, logarithmic=True)


@dataclass(frozen=True)
class Moments:
    """Mean, standard deviation and Euclidean norm of the elements of a tensor."""

    mean: float
    std: float
    norm: float

    @classmethod
    def of(cls, values: Tensor) -> "Moments":
        flat = values.detach().flatten().double()
        return cls(flat.mean().item(), flat.std(correction=0).item(), flat.norm().item())


@dataclass
class Monitor:
    """Histograms by group and tensor, one row a look; `scales` has those of groups or of "group/tensor"."""

    scales: Mapping[str, Scale]
    steps: list[int] = field(default_factory=list)
    counts: dict[str, dict[str, list[Tensor]]] = field(default_factory=dict)

    def scale(self, group: str, name: str) -> Scale:
        """The scale of a tensor's histogram."""
        return self.scales.get(f"{group}/{name}") or self.scales[group]

    def look(self, step: int, groups: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Count the values of every tensor after `step` steps; nothing where that was done already."""
        if step in self.steps:
            return
        self.steps.append(step)
        for group, tensors in groups.items():
            for name, values in tensors.items():
                rows = self.counts.setdefault(group, {}).setdefault(name, [])
                rows.append(self.scale(group, name).count(values))

    def dump(self) -> dict[str, Any]:
        """All that was counted, for a checkpoint."""
        counts = {g: {name: torch.stack(rows) for name, rows in named.items()} for g, named in self.counts.items()}
        return {"steps": list(self.steps), "counts": counts}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self.steps = list(state["steps"])
        self.counts = {g: {name: list(rows) for name, rows in named.items()} for g, named in state["counts"].items()}


def beside_spread(parameters: Mapping[str, Tensor], changes: Sequence[Tensor]) -> dict[str, Tensor]:
    """Of each parameter, the changes that a step made, beside the spread of its values."""
    return {
        name: change / parameter.detach().std(correction=0).clamp_min(1e-30)
        for (name, parameter), change in zip(parameters.items(), changes, strict=True)
    }
