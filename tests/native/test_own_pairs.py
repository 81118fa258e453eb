"""Distances of the points of one set: each point is left out for itself, in kernels as in PyTorch's form."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

SPECS = """
from derive import *

n, i, d = axes("n i d")


@op
def spread(f, x: tensor[n, d]):
    f.y[()] = mean(sqrt(sum((x[n, d] - x[i, d]) ** 2, over=d)), over=(n, i))
    return f.y


@op
def laplace(f, x: tensor[n, d], l: tensor[()]):
    f.K[n, i] = exp(-sqrt(sum((x[n, d] - x[i, d]) ** 2, over=d)) / l[()])
    return f.K


@op
def matern(f, x: tensor[n, d], l: tensor[()]):
    f.r[n, i] = sqrt(sum((x[n, d] - x[i, d]) ** 2, over=d)) / l[()]
    f.K[n, i] = (1 + sqrt(5) * f.r[n, i] + 5 * f.r[n, i] ** 2 / 3) * exp(-sqrt(5) * f.r[n, i])
    return f.K
"""


def _distances(x: Tensor) -> Tensor:
    own = torch.eye(len(x), dtype=x.dtype)
    return (((x[:, None] - x) ** 2).sum(-1) + own).sqrt() * (1 - own)


def _matern(x: Tensor, l: Tensor) -> Tensor:
    r = _distances(x) / l
    return (1 + 5**0.5 * r + 5 * r**2 / 3) * (-(5**0.5) * r).exp()


PLAIN: dict[str, Callable[..., Tensor]] = {
    "spread": lambda x: _distances(x).mean(),
    "laplace": lambda x, l: (-_distances(x) / l).exp(),
    "matern": _matern,
}


@pytest.mark.parametrize("size", [(1, 3), (3, 2), (40, 3), (37, 70)])
@pytest.mark.parametrize("name", PLAIN)
def test_gradients_are_finite(native: ModuleType, kernels: None, name: str, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(size, dtype=torch.float64, requires_grad=True)
    args = [x] if name == "spread" else [x, torch.tensor(1.3, dtype=torch.float64, requires_grad=True)]
    found, want = getattr(native, name)(*args), PLAIN[name](*args)
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)
    dy = torch.randn_like(want)
    gradients = (torch.autograd.grad(y, args, dy) for y in (found, want))
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-13)
