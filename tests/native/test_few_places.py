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

n, m, i, j = axes("n m i j")
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


@op
def to_boxes(f, p: tensor[n, three], centre: tensor[m, three], half: tensor[m, three]):
    # distances of points to boxes: coordinates are few, and vectors run along the boxes
    f.q[n, m, three] = abs(p[n, three] - centre[m, three]) - half[m, three]
    f.out[n, m] = sqrt(sum(relu(f.q[n, m, three]) ** 2, over=three) + 1e-8)
    f.d[n, m] = f.out[n, m] + minimum(amax(f.q[n, m, three], over=three), 0)
    f.y[n] = log(sum(exp(-f.d[n, m]), over=m))
    return f.y


@op
def scaled_by_pairs(f, x: tensor[n, m, three], w: tensor[m, three], s: tensor[n, m]):
    # a sum of few places for each pair, beside what is computed for each of these
    f.a[n, m] = sum(x[n, m, three] * w[m, three], over=three) / (s[n, m] ** 2 + 1)
    f.y[n, m, three] = tanh(f.a[n, m]) * x[n, m, three] / (s[n, m] ** 2 + 1) + amax(x[n, m, three], over=three)
    return f.y
"""


def _to_boxes(p: Tensor, centre: Tensor, half: Tensor) -> Tensor:
    q = (p[:, None] - centre).abs() - half
    d = (q.relu().square().sum(2) + 1e-8).sqrt() + torch.minimum(q.amax(2), torch.zeros((), dtype=p.dtype))
    return (-d).logsumexp(1)


def _scaled_by_pairs(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    below = s[..., None] ** 2 + 1
    return ((x * w).sum(2, keepdim=True) / below).tanh() * x / below + x.amax(2, keepdim=True)


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
OF_PAIRS: dict[str, tuple[Callable[..., Tensor], str]] = {
    "to_boxes": (_to_boxes, "n3 m3 m3"),
    "scaled_by_pairs": (_scaled_by_pairs, "nm3 m3 nm"),
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lengths", [(1, 1), (5, 7), (40, 20), (3, 33), (70, 100), (0, 4)], ids=str)
@pytest.mark.parametrize("name", OF_PAIRS)
def test_pairs_agree_with_autograd(native: ModuleType, name: str, lengths: tuple[int, int]) -> None:
    torch.manual_seed(0)
    forward, axes = OF_PAIRS[name]
    long = dict(zip("nm3", (*lengths, 3), strict=True))
    leaves = [torch.randn(*(long[a] for a in own), dtype=torch.float64).requires_grad_() for own in axes.split()]
    want = forward(*leaves)
    dy = torch.randn_like(want)
    exact = (want.detach(), *torch.autograd.grad(want, leaves, dy))
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        y, saved = getattr(native, f"{name}_forward")(*(x.detach().to(dtype) for x in leaves))
        found = (y, *getattr(native, f"{name}_backward")(dy.to(dtype), *saved))
        for got, true in zip(found, exact, strict=True):
            most = float(true.abs().max()) if true.numel() else 0.0
            torch.testing.assert_close(got.double(), true, rtol=tolerance, atol=tolerance * most)


def test_vectors_run_along_what_has_many_places(native: ModuleType) -> None:
    code = Path(native.__path__[0], "to_boxes.c").read_text()
    assert "IN_VECTORS(i_three" not in code
    assert "for (int64_t i_three = 0; i_three < n_three; i_three++) {\n" in code


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
    columns = backward.partition(" < SHORT && n_n >= many_rows(")[2].partition("    } else")[0]
    assert added in columns
    assert "for (int64_t i_n = from; i_n < to; i_n++) {" in columns
