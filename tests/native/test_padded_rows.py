"""Padded filters of single channels keep to their memory at every length of a row: their numbers are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional

SPECS = (Path(__file__).parent / "sanitized_specs.py").read_text()
OPS = ("padded_rows", "padded_planes", "padded_blocks")
FILTERS = (functional.conv1d, functional.conv2d, functional.conv3d)


def gradients(function: Callable[..., Tensor], x: Tensor, k: Tensor, dy: Tensor) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in (x, k)]
    return [g.double() for g in torch.autograd.grad(function(*leaves), leaves, dy)]


@pytest.mark.parametrize("length", [8, 17, 63, 300, 1000, 4096])
@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_rows_of_every_length(
    native: ModuleType, threads: Callable[[int], None], dims: int, many: int, length: int
) -> None:
    """In float64 to rounding; in float32 with at most twice the error of PyTorch's own."""
    threads(many)
    torch.manual_seed(length)
    shape = ((2, 3), (2, 3, 4), (2, 5, 4))[dims - 1]
    x = torch.randn(*shape, length, dtype=torch.float64)
    k = torch.randn(*((3,) if dims < 3 else ()), *[3] * dims, dtype=torch.float64)
    dy = torch.randn_like(x)

    def filtered(x: Tensor, k: Tensor) -> Tensor:
        groups = 3 if dims < 3 else 1
        y = FILTERS[dims - 1](x if dims < 3 else x[:, None], k[:, None] if dims < 3 else k[None, None],
                              padding=1, groups=groups)  # fmt: skip
        return y if dims < 3 else y[:, 0]

    ours = getattr(native, OPS[dims - 1])
    exact, found = (gradients(f, x, k, dy) for f in (filtered, ours))
    single = [t.float() for t in (x, k, dy)]
    theirs, rounded = (gradients(f, *single) for f in (filtered, ours))
    for e, f, t, r in zip(exact, found, theirs, rounded, strict=True):
        size = e.abs().max()
        assert (f - e).abs().max() <= 1e-12 * size
        assert (r - e).abs().max() <= 2 * (t - e).abs().max() + 4 * torch.finfo(torch.float32).eps * size
