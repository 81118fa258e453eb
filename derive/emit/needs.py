"""A backward that computes what it is asked for: lines that fall away together stand under one `if`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from derive.backends.code import Text
from derive.backends.values import Line
from derive.ir.nodes.liveness import Liveness, Results, liveness
from derive.ir.program import Program


@dataclass(frozen=True)
class Needs:
    """Which gradients the caller of a backward needs, as its code has it."""

    backward: Program
    parameter: str
    flags: tuple[str, ...]  # whether it needs each gradient
    gradients: tuple[str, ...]  # what each is called in the code

    @cached_property
    def live(self) -> Liveness:
        return liveness(self.backward)

    @property
    def typed(self) -> str:
        """The parameter as Python writes it."""
        return f"{self.parameter}: tuple[bool, ...] | None = None"

    def condition(self, read_by: Results) -> str:
        """Whether one of these gradients is needed, as code; nothing where one always is."""
        return "" if len(read_by) in (0, len(self.flags)) else " or ".join(self.flags[k] for k in sorted(read_by))

    @property
    def unpacked(self) -> tuple[str, ...]:
        """The line that says which gradients are needed; none of one gradient alone."""
        if len(self.flags) == 1:
            return ()
        return (f"{', '.join(self.flags)} = {self.parameter} or (True,) * {len(self.flags)}",)

    @property
    def nothing(self) -> tuple[str, ...]:
        """The line that says what gradients are that are not computed."""
        found = [name for k, name in enumerate(self.gradients) if self._is_left_out(k)]
        return (f"{' = '.join(found)} = None",) if found else ()

    def copied(self, copies: Mapping[int, str]) -> tuple[str, ...]:
        """Lines that copy gradients, by number, those that are needed."""
        if len(self.flags) == 1:
            return tuple(copies.values())
        return tuple(line for k, copy in copies.items() for line in (f"if {self.flags[k]}:", f"    {copy}"))

    def needed(self, k: int, line: Line) -> str:
        """Whether the k-th gradient is needed where this line runs, as code; nothing where it always is."""
        alone = self.read_by(line) == {k} or len(self.flags) == 1
        return "" if alone else self.flags[k]

    def guarded(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines in order, those that not every gradient reads under an `if`."""
        for condition, group in groupby(lines, key=lambda line: self.condition(self.read_by(line))):
            if condition:
                yield Line(Text(f"if {condition}:"))
            yield from (replace(line, depth=line.depth + bool(condition)) for line in group)

    def returned(self, gradients: Sequence[str]) -> tuple[str, ...]:
        """What is returned, as code, where these are the gradients."""
        chosen = self.chosen(gradients)
        return tuple(g if self._is_left_out(k) else chosen[k] for k, g in enumerate(gradients))

    def chosen(self, gradients: Sequence[str]) -> tuple[str, ...]:
        """The same, where all of them are made in any case."""
        if len(self.flags) == 1:
            return (f"{gradients[0]} if {self.parameter} is None or {self.parameter}[0] else None",)
        return tuple(f"{g} if {flag} else None" for g, flag in zip(gradients, self.flags, strict=True))

    def read_by(self, line: Line) -> Results:
        """The gradients that read what a line computes."""
        return frozenset().union(*(self.live.statements[k] for k in line.part_of))

    def _is_left_out(self, k: int) -> bool:
        """Whether nothing is made of a gradient that is not needed: no other one reads it, nor is it a cotangent."""
        name = self.backward.returns[k]
        return len(self.flags) > 1 and self.live.tensors[name] == {k} and name not in dict(self.backward.given)
