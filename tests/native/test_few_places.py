"""Vectors and small matrices, one a row, of which single places are read and added to: vectors run along the rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """
from derive import *

n, m, i, j, u = axes("n m i j u")
two, three, four, eight = axes("two=2 three=3 four=4 eight=8")


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


@op
def in_part_and_whole(f, x: tensor[n, m, three], w: tensor[m, three], v: tensor[three]):
    # sums of few places beside sums of all, and totals of every row
    f.a[n, m] = sum(x[n, m, three] ** 2, over=three)
    f.b[n] = sum(x[n, m, three] * w[m, three] / (1 + v[three] ** 2), over=(m, three))
    f.y[n, m] = f.a[n, m] / (1 + f.a[n, m]) * f.b[n]
    return f.y


@op
def eight_at_once(f, x: tensor[n, m, eight], s: tensor[n, m]):
    f.a[n, m] = amax(x[n, m, eight], over=eight)
    f.y[n, m, eight] = x[n, m, eight] / (1 + f.a[n, m] ** 2) * s[n, m]
    return f.y


@op
def put_at_places(f, x: tensor[n, m, three], s: tensor[n, m], to: index(u)[m], c: tensor[u, three]):
    # places may meet: they are added one after another
    f.y[n, u, three] = c[u, three] + sum(where(eq(to[m], u), x[n, m, three] / (1 + s[n, m] ** 2), 0), over=m)
    return f.y
"""


def _in_part_and_whole(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    a = x.square().sum(2)
    return a / (1 + a) * (x * w / (1 + v.square())).sum((1, 2))[:, None]


def _eight_at_once(x: Tensor, s: Tensor) -> Tensor:
    return x / (1 + x.amax(2, keepdim=True) ** 2) * s[..., None]


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
    "in_part_and_whole": (_in_part_and_whole, "nm3 m3 3"),
    "eight_at_once": (_eight_at_once, "nm8 nm"),
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
    long = dict(zip("nm38", (*lengths, 3, 8), strict=True))
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("many", [1, 7, 40])
def test_places_that_meet(native: ModuleType, many: int) -> None:
    torch.manual_seed(0)
    x, s, c = (torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in ((5, many, 3), (5, many), (4, 3)))
    to = torch.randint(0, 4, (many,))
    want = c + torch.zeros(5, 4, 3, dtype=torch.float64).index_add(1, to, x / (1 + s.square()[..., None]))
    dy = torch.randn_like(want)
    y, saved = native.put_at_places_forward(x.detach(), s.detach(), to, c.detach())
    torch.testing.assert_close(y, want.detach(), rtol=1e-12, atol=1e-12)
    exact = torch.autograd.grad(want, (x, s, c), dy)
    for got, true in zip(native.put_at_places_backward(dy, *saved), exact, strict=True):
        torch.testing.assert_close(got, true, rtol=1e-12, atol=1e-12)


def test_what_is_no_number_is_the_largest(native: ModuleType) -> None:
    x, s = torch.randn(3, 20, 3), torch.randn(3, 20)
    x[1, 7, 1] = torch.nan
    y, _ = native.scaled_by_pairs_forward(x, torch.ones(20, 3), s)
    assert y[1, 7].isnan().all() and int(y.isnan().sum()) == 3


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
