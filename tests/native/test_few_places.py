"""Vectors and small matrices, one a row, of which single places are read and added to: vectors run along the rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.native.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """
from derive import *

n, i, j = axes("n i j")
two, three, four = axes("two=2 three=3 four=4")


@op
def turned_about(f, v: tensor[n, three], x: tensor[n, three]):
    f.th[n] = sqrt(sum(v[n, three]**2, over=three) + 1e-8)
    f.k[n, three] = v[n, three] / f.th[n]
    f.cr[n, i] = concat(
        f.k[n, 1]*x[n, 2] - f.k[n, 2]*x[n, 1], f.k[n, 2]*x[n, 0] - f.k[n, 0]*x[n, 2],
        f.k[n, 0]*x[n, 1] - f.k[n, 1]*x[n, 0], along=i,
    )
    f.y[n, three] = x[n, three] * cos(f.th[n]) + f.cr[n, three] * sin(f.th[n])
    return f.y


@op
def scaled_about(f, q: tensor[n, four], x: tensor[n, three]):
    f.u[n, four] = q[n, four] * rsqrt(sum(q[n, four]**2, over=four) + 1e-8)
    f.a[n] = f.u[n, 0] * x[n, 0] - f.u[n, 1] * x[n, 1]
    f.b[n] = f.u[n, 2] * x[n, 1] - f.u[n, 3] * x[n, 2]
    f.s[n, i] = concat(f.a[n], f.b[n], f.a[n] * f.b[n], along=i)
    f.y[n, three] = x[n, three] + f.s[n, three]
    return f.y


@op
def inverse(f, a: tensor[n, two, two]):
    f.det[n] = a[n, 0, 0] * a[n, 1, 1] - a[n, 0, 1] * a[n, 1, 0]
    f.s[n, i] = concat(a[n, 1, 1], -a[n, 0, 1], along=i)
    f.t[n, i] = concat(-a[n, 1, 0], a[n, 0, 0], along=i)
    f.c[n, j, i] = concat(f.s[n, i], f.t[n, i], along=j)
    f.y[n, j, i] = f.c[n, j, i] / f.det[n]
    return f.y
"""


def _turned_about(v: Tensor, x: Tensor) -> Tensor:
    th = (v.square().sum(1, keepdim=True) + 1e-8).sqrt()
    return x * th.cos() + torch.linalg.cross(v / th, x) * th.sin()


def _scaled_about(q: Tensor, x: Tensor) -> Tensor:
    u = q * (q.square().sum(1, keepdim=True) + 1e-8).rsqrt()
    a, b = u[:, 0] * x[:, 0] - u[:, 1] * x[:, 1], u[:, 2] * x[:, 1] - u[:, 3] * x[:, 2]
    return x + torch.stack([a, b, a * b], 1)


REFERENCES: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "turned_about": (_turned_about, ((3,), (3,))),
    "scaled_about": (_scaled_about, ((4,), (3,))),
    "inverse": (torch.linalg.inv, ((2, 2),)),
}


@pytest.fixture(scope="module", params=["along many rows", "row by row"])
def native(package: Package, request: pytest.FixtureRequest) -> ModuleType:
    made = package(specs=SPECS)
    library = sys.modules[f"{made.__name__}._library"]
    few = {"along many rows": (), "row by row": ("-DMANY=100000",)}
    library.FLAGS = (*library.FLAGS, *few[request.param])
    return made


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rows", [1, 33, 1000])
@pytest.mark.parametrize("name", REFERENCES)
def test_agrees_with_autograd(native: ModuleType, name: str, rows: int) -> None:
    torch.manual_seed(0)
    forward, shapes = REFERENCES[name]
    given = [torch.randn(rows, *s, dtype=torch.float64) for s in shapes]
    given = [x + 5 * torch.eye(2, dtype=x.dtype) if x.ndim == 3 else x for x in given]
    leaves = [x.requires_grad_() for x in given]
    want = forward(*given)
    dy = torch.randn_like(want)
    exact = (want.detach(), *torch.autograd.grad(want, leaves, dy))
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        y, saved = getattr(native, f"{name}_forward")(*(x.detach().to(dtype) for x in given))
        found = getattr(native, f"{name}_backward")(dy.to(dtype), *saved)
        for got, true in zip((y, *(found if isinstance(found, tuple) else (found,))), exact, strict=True):
            torch.testing.assert_close(got.double(), true, rtol=tolerance, atol=tolerance * float(true.abs().max()))


def test_threads_give_the_same_numbers(native: ModuleType, threads: Callable[[int], None]) -> None:
    torch.manual_seed(0)
    v, x, dy, found = torch.randn(90000, 3), torch.randn(90000, 3), torch.randn(90000, 3), []
    for count in (1, 2):
        threads(count)
        y, saved = native.turned_about_forward(v, x)
        found.append([y, *native.turned_about_backward(dy, *saved)])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


ADDED = [("turned_about", "dx[i_n * n_three + 1] +="), ("scaled_about", "dq[i_n * n_four + 3] +="), ("inverse", "] +=")]


@pytest.mark.parametrize(("name", "added"), ADDED, ids=[name for name, _ in ADDED])
def test_what_single_places_are_read_of_runs_along_the_rows(native: ModuleType, name: str, added: str) -> None:
    backward = Path(native.__path__[0], f"{name}.c").read_text().partition(f"int {name}_backward(")[2]
    columns = backward.partition(" < SHORT && n_n >= MANY) {")[2].partition("    } else")[0]
    assert added in columns
    assert "for (int64_t i_n = from; i_n < to; i_n++) {" in columns
