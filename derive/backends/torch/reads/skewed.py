"""A dimension read from another place in each row, `b[n, t, s - t + size(t) - 1]`: a view along diagonals, no index.

So relative positions are read (Dai et al., 2019), of which a table has one column for each distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derive.backends.code import call
from derive.backends.torch.sizes import Sizes
from derive.backends.values import Value, is_pack, position
from derive.ir.program import Index, Node, Read, Window


@dataclass(frozen=True)
class Skew:
    """In which dimension of a tensor a stretch is read, and which is the row that it begins later in, by how much."""

    at: int
    row: int
    own: str
    by: int
    start: Node

    def arguments(self, dims: Sequence[object], sizes: Sizes) -> tuple[object, ...]:
        """Those of `skewed` between the tensor and the count: both dimensions, and where the first row's begins."""
        names = tuple(str(d) for d in dims)
        return position(names, self.row), position(names, self.at), sizes.number(self.start)

    @property
    def options(self) -> dict[str, int]:
        return {} if self.by == -1 else {"by": self.by}


def skew(index: Sequence[Index]) -> Skew | None:
    """What an index reads so: one window of two axes, of which one is a dimension of its own besides."""
    windows = [k for k, i in enumerate(index) if not isinstance(i, str)]
    plain = [i for i in index if isinstance(i, str)]
    window = index[windows[0]] if len(windows) == 1 else None
    if not isinstance(window, Window) or len(window.steps) != 2 or len(set(plain)) < len(plain):
        return None
    inside = [(a, step) for a, step in window.steps if a in plain]
    alone = [(a, step) for a, step in window.steps if a not in plain]
    if len(inside) != 1 or len(alone) != 1 or alone[0][1] != 1 or is_pack(inside[0][0]):
        return None
    ((row, by),), ((own, _),) = inside, alone
    return Skew(windows[0], list(index).index(row), own, by, window.offset)


def skewed(stored: Value, node: Read, sizes: Sizes) -> Value | None:
    """Such a read as one call; None for any other."""
    found = skew(node.index)
    if found is None or None in stored.dims:
        return None
    dims = tuple(found.own if k == found.at else str(i) for k, i in enumerate(node.index))
    return Value(call("skewed", stored, *found.arguments(dims, sizes), sizes.of(found.own), **found.options), dims)
