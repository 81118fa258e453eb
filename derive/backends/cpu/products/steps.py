"""How far apart the places of a tensor are along each of the axes that it is read at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.names import times, variable
from derive.backends.cpu.products.matrices import Matrix
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.program import Index, Merged, Place, Window


class Step(NamedTuple):
    """So many times the elements behind a dimension, whose lengths are given as C has them."""

    times: str
    behind: tuple[str, ...]

    @property
    def code(self) -> str:
        factors = [*([self.times] if self.times != "1" else []), *self.behind]
        return " * ".join(factors) or "1"


@dataclass(frozen=True)
class Steps:
    """A tensor at the places where a product reads or writes it."""

    matrix: Matrix
    text: Expressions
    called: str = ""  # in C, if not by its name

    @property
    def name(self) -> str:
        """What it is called in C."""
        return self.called or self.text.name(self.matrix.name)

    def start(self, batch: tuple[str, ...]) -> str:
        """Where its first element is, for a place of the batch axes."""
        found = [times(variable(a), s.code) for a, s in self._steps() if a in batch]
        found += [s.code for a, s in self._steps() if not a]
        return " + ".join([self.name, *found])

    @property
    def end(self) -> str:
        """Where its memory ends."""
        size = " * ".join(self.text.extent(d) for d in self.text.normal.dims[self.matrix.name]) or "1"
        return f"{self.name} + {size}"

    def step(self, axis: str) -> str:
        """How far apart neighbours along an axis are."""
        return " + ".join(s.code for a, s in self._steps() if a == axis) or "0"

    def side(self, axes: tuple[str, ...]) -> str:
        """Axes, the slowest first, each with its length and its step; neighbours in memory are one."""
        runs: list[tuple[list[str], list[Step]]] = []
        for a in axes:
            own, count = [s for name, s in self._steps() if name == a], self.text.extent(a)
            before = runs[-1] if runs else None
            if before and len(own) == 1 and before[1] == [Step(own[0].times, (count, *own[0].behind))]:
                runs[-1] = ([*before[0], count], own)
            else:
                runs.append(([count], own))
        along = [f"{{{' * '.join(counts)}, {' + '.join(s.code for s in steps) or '0'}}}" for counts, steps in runs]
        return f"SIDE({', '.join(along)})" if along else "NO_SIDE"

    def _steps(self) -> Iterator[tuple[str, Step]]:
        """What a place on each axis adds, and under no name what is added in any case."""
        behind: tuple[str, ...] = ()
        pairs = zip(self.text.normal.dims[self.matrix.name], self.matrix.index, strict=True)
        for dim, index in reversed(list(pairs)):
            yield from self._along(index, behind)
            behind = (self.text.extent(dim), *behind)

    def _along(self, index: Index, behind: tuple[str, ...]) -> Iterator[tuple[str, Step]]:
        if isinstance(index, str):
            yield index, Step("1", behind)
        elif isinstance(index, Window):
            yield from ((a, Step(str(step), behind)) for a, step in index.steps)
            if index.offset != ZERO:
                yield "", Step(self.text.integer(index.offset), behind)
        elif isinstance(index, Merged):
            for part in reversed(index.axes):
                yield from self._along(part.index if isinstance(part, Place) else part, behind)
                behind = (self.text.extent(part), *behind)
