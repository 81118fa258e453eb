"""A tensor that is written in parts, one loop a place, all in one pass: each part has its own place in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

pytestmark = [pytest.mark.usefixtures("kernels"), pytest.mark.filterwarnings("error")]

SPECS = """from derive import *

d, g, n, p = axes("d g n p=2")


@op
def splats(f, px: constant[n, p], mu: tensor[g, p], col: tensor[g]):
    f.w[n, g] = exp(-(px[n, 0] - mu[g, 0]) ** 2 - (px[n, 1] - mu[g, 1]) ** 2)
    f.y[n] = sum(f.w[n, g] * col[g], over=g)
    return f.y


@op
def decays(f, a: tensor[g, p], t: constant[n, g]):
    f.y[n, g] = exp(-t[n, g] * a[g, 0]) * tanh(a[g, 1])
    f.z[n, g] = f.y[n, g] * a[g, 0] + a[g, 1] * t[n, g]
    return f.z


@op
def by_rows(f, x: tensor[n, d]):
    f.s[n] = sum(x[n, d] ** 2, over=d)
    f.t[n] = amax(x[n, d], over=d)
    f.m[n, p] = concat(f.s[n], f.t[n], along=p)
    f.y[n, d] = x[n, d] * f.m[n, 0] + tanh(f.m[n, 1]) * f.m[n, 0]
    return f.y, f.m


@op
def by_columns(f, x: tensor[n, d]):
    f.s[d] = sum(x[n, d] ** 2, over=n)
    f.t[d] = amax(x[n, d], over=n)
    f.m[d, p] = concat(f.s[d], f.t[d], along=p)
    f.y[n, d] = x[n, d] * f.m[d, 0] + tanh(f.m[d, 1]) * f.m[d, 0]
    return f.y, f.m
"""


def _splats(px: torch.Tensor, mu: torch.Tensor, col: torch.Tensor) -> torch.Tensor:
    return (-((px[:, None] - mu) ** 2).sum(-1)).exp() @ col


def _decays(a: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return (-t * a[:, 0]).exp() * a[:, 1].tanh() * a[:, 0] + a[:, 1] * t


def _folded(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    m = torch.stack([(x**2).sum(dim), x.amax(dim)], -1)
    square, most = (v.unsqueeze(dim) for v in m.unbind(-1))
    return x * square + most.tanh() * square, m


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "splats": (_splats, ((9, 2), (5, 2), (5,))),
    "decays": (_decays, ((5, 2), (9, 5))),
    "by_rows": (lambda x: _folded(x, 1), ((7, 40),)),
    "by_columns": (lambda x: _folded(x, 0), ((7, 40),)),
}


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_parts_of_one_tensor_are_written_side_by_side(native: ModuleType, name: str, tall: bool) -> None:
    form, shapes = CASES[name]
    ours = [torch.randn([300 if tall and n > 5 else n for n in s], dtype=torch.float64) for s in shapes]
    if name == "decays":
        ours[1] = ours[1].abs()
    constant = {"splats": 0, "decays": 1}.get(name)
    leaves = [x.requires_grad_() for k, x in enumerate(ours) if k != constant]
    want, found = form(*ours), getattr(native, name)(*ours)
    pairs = [(found, want)] if isinstance(want, torch.Tensor) else list(zip(found, want, strict=True))
    dys = [torch.randn(y.shape, dtype=y.dtype) for _, y in pairs]
    gradients = [torch.autograd.grad(side, leaves, dys) for side in zip(*pairs, strict=True)]
    for got, right in (*pairs, *zip(*gradients, strict=True)):
        torch.testing.assert_close(got, right, rtol=1e-10, atol=1e-10)
