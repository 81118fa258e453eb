"""The first lines of a function, which say lengths: read off shapes, computed from others, and checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from derive.backends.values import Dims, is_pack, position
from derive.emit.names import Names
from derive.facts.lengths.length_code import length_check, lengths_of, size_code
from derive.ir.equations import Op, Requirement
from derive.ir.terms.axes import Size


class LengthLines(NamedTuple):
    """Lines of code, the axes whose length no shape gives, the tensors whose shapes the lines read."""

    lines: list[str]
    unknown: list[str]
    shapes: set[str]


def length_lines(
    op: Op, names: Names, axes: Iterable[str], sources: Mapping[str, Dims], given: Collection[str] = (),
    checks: Iterable[Requirement] = (),
) -> LengthLines:  # fmt: skip
    """Lines that say the lengths of axes and check them.

    `sources` are tensors whose shapes may be read, with their dimensions; lengths in `given` are arguments.
    """
    lengths = _Lengths(op, names, sources, given, list(axes), list(checks))
    lengths.say_all()
    asked = [length_check(op.name, r, names.sizes) for r in lengths.checks]
    return LengthLines(lengths.lines + asked, lengths.unknown, lengths.shapes)


@dataclass
class _Lengths:
    """What is known so far, and the lines that said it."""

    op: Op
    names: Names
    sources: Mapping[str, Dims]
    given: Collection[str]
    pending: list[str]
    checks: list[Requirement]  # that no line asks yet
    lines: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    shapes: set[str] = field(default_factory=set)

    def say_all(self) -> None:
        while self.pending:
            axis = self.pending.pop(0)
            if axis in self.known or axis in self.unknown:
                continue
            tensor = self._source(axis)
            if self.names.sizes[axis] in self._said or axis in self.names.fixed:
                self.known.add(axis)
            elif tensor is not None:
                self._read(tensor, axis)
            else:
                self._derive(axis)

    @property
    def _said(self) -> set[str]:
        """The names of lengths that are arguments, or that a line says already, of an axis that is as long."""
        return {*self.given, *(self.names.sizes[a] for a in self.known)}

    def _source(self, axis: str) -> str | None:
        """The first tensor that has the axis as a dimension."""
        return next((name for name, dims in self.sources.items() if axis in dims), None)

    def _read(self, tensor: str, axis: str) -> None:
        """A length off a tensor's shape, with all others that are wanted of that shape."""
        new = (a for a in self.pending if a not in self.known and a not in self.names.fixed)
        axes = list(dict.fromkeys([axis, *(a for a in new if self._source(a) == tensor)]))
        names = {self.names.sizes[a]: a for a in reversed(axes) if self.names.sizes[a] not in self._said}
        self.lines.append(self._shape(tensor, {a: name for name, a in names.items()}))
        self.shapes.add(tensor)
        self.known |= set(axes)

    def _shape(self, tensor: str, wanted: Mapping[str, str]) -> str:
        dims = self.sources[tensor]
        code = self.names.tensors.get(tensor, tensor)
        if len(wanted) > 1:
            parts = [f"*{wanted.get(d or '', '_')}" if is_pack(d) else wanted.get(d or "", "_") for d in dims]
            return f"{', '.join(parts)} = {code}.shape"
        ((axis, name),) = wanted.items()
        at = dims.index(axis)
        if is_pack(axis):
            after = len(dims) - at - 1
            return f"{name} = {code}.shape[{at or ''}:{-after if after else ''}]"
        return f"{name} = {code}.shape[{position(dims, at)}]"

    def _derive(self, axis: str) -> None:
        """A length that follows from others by the windows and merges that read it; else one that must be saved."""
        rule = next((r for r in self.op.sizes if r.axis.base == axis), None)
        if rule is None or rule.formula is None:
            self.unknown.append(axis)
            return
        inner = [s.axis.base for s in sorted(rule.formula.atoms(Size), key=str)]
        missing = [a for a in inner if a not in self.known and a not in self.unknown]
        if missing:
            self.pending[:0] = [*missing, axis]
            return
        if self.names.original(axis) != axis:  # whose length is handed on
            self.known.add(axis)
            return
        ready = [r for r in self.checks if {s.axis.base for s in lengths_of(r)} <= self.known]
        for r in [r for r in ready if r.relation == "%" and r.left / r.right == rule.formula]:
            self.lines.append(length_check(self.op.name, r, self.names.sizes))
            self.checks.remove(r)
        self.lines.append(f"{self.names.sizes[axis]} = {size_code(rule.formula, self.names.sizes)}")
        self.known.add(axis)
