"""Two lists of gradients side by side: `name | exact | approximate | maxdiff`."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

HEADER = "name | exact | approximate | maxdiff"


@dataclass(frozen=True)
class Row:
    """How one gradient agrees with the one it is compared to."""

    name: str
    exact: bool
    approximate: bool
    maxdiff: float

    def __str__(self) -> str:
        return f"{self.name} | {self.exact} | {self.approximate} | {self.maxdiff:.1e}"


def compared(name: str, found: Tensor, expected: Tensor) -> Row:
    """One row. Dimensions of length 1 do not count; the rest of the shape must agree."""
    assert found.dtype == expected.dtype, f"{name} is {found.dtype}, expected {expected.dtype}"
    found, expected = found.squeeze(), expected.squeeze()
    assert found.shape == expected.shape, f"{name} has shape {list(found.shape)}, expected {list(expected.shape)}"
    maxdiff = (found - expected).abs().max().item() if found.numel() else 0.0
    return Row(name, torch.equal(found, expected), torch.allclose(found, expected), maxdiff)


def table(rows: Iterable[Row]) -> str:
    """The rows under their header, columns aligned."""
    cells = [HEADER.split(" | "), *(str(row).split(" | ") for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join(lines)


ROUNDING = 1e-14
"""What is allowed, relative to terms that cancel: some tens of the last place of float64."""


def assert_close(name: str, found: Tensor, expected: Tensor, relative: float, terms: float = 0.0) -> None:
    """Equal shapes and dtypes, and no element further away than `relative` times the largest one.

    `terms` is the size of what cancels in the sum, where it does: no order of operations is better than its rounding.
    """
    assert found.shape == expected.shape, f"{name} has shape {list(found.shape)}, expected {list(expected.shape)}"
    assert found.dtype == expected.dtype, f"{name} is {found.dtype}, expected {expected.dtype}"
    if not found.numel():
        return
    assert torch.isfinite(found).all(), f"{name} is not finite"
    distance = (found - expected).abs()
    worst = int(distance.argmax())
    where = [int(i) for i in torch.unravel_index(torch.tensor(worst), found.shape)]
    scale = float(expected.abs().max())
    assert float(distance.max()) <= max(relative * scale, ROUNDING * terms), (
        f"{name}{where} is {found.flatten()[worst].item():.17g}, expected {expected.flatten()[worst].item():.17g}, "
        f"where the largest is {scale:.3g}"
    )
