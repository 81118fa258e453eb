"""Rows a few at a time, one stage of all before the next; and the same rows one by one, as where they lie in memory."""

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

n, h, t, c, d, k, two = axes("n h t c d k two=2")


@op
def normed(f, x: tensor[..., d], gamma: tensor[d], eps: scalar = 1e-5):
    f.mu[...] = mean(x[..., d], over=d)
    f.rstd[...] = rsqrt(mean((x[..., d] - f.mu[...])**2, over=d) + eps)
    f.y[..., d] = gamma[d] * (x[..., d] - f.mu[...]) * f.rstd[...]
    return f.y


@op
def shares(f, z: tensor[n, h, c], y: index(c)[n, h]):
    f.m[n, h] = amax(z[n, h, c], over=c)
    f.u[n, h, c] = exp(z[n, h, c] - f.m[n, h])
    f.p[n, h, c] = f.u[n, h, c] / sum(f.u[n, h, c], over=c)
    f.loss[()] = -mean(log(f.p[n, h, y[n, h]]), over=(n, h))
    return f.p, f.loss


@op
def between(f, x: tensor[n, d]):
    f.low[n] = amin(x[n, d], over=d)
    f.high[n] = amax(x[n, d], over=d)
    f.z[n, d] = (x[n, d] - f.low[n]) / (f.high[n] - f.low[n])
    f.y[n, d] = f.z[n, d] / sqrt(mean(f.z[n, d]**2, over=d)) + mean(f.z[n, d], over=d) * amax(f.z[n, d]**2, over=d)
    return f.y


@op
def gated(f, x: tensor[n, d], w: tensor[n, d], kinds: index(k)[n], table: tensor[k]):
    f.a[n] = sum(x[n, d] * w[n, d], over=d)
    f.on[n] = table[kinds[n]] * where(f.a[n] > 0, f.a[n], 0)
    f.b[n] = sum(tanh(x[n, d] - f.on[n]), over=d)
    f.y[n, d] = where(f.b[n] > f.a[n], x[n, d] * f.b[n], w[n, d] * f.on[n])
    return f.y


@op
def counted(f, x: tensor[n, d], w: tensor[n, d]):
    f.a[n] = sum(x[n, d] * w[n, d], over=d)
    f.high[n] = amax(x[n, d], over=d)
    f.y[n, d] = x[n, d] * f.a[n] + w[n, d] * f.high[n]
    return f.y


@op
def grown(f, x: tensor[n, d], a: tensor[n]):
    f.y[n, d] = a[n] * exp(x[n, d])
    return f.y


@op
def turned(f, q: tensor[n, two], v: tensor[n, d, two]):
    # the gradient of `u` is written place by place, where its row ends
    f.u[n, two] = q[n, two] * rsqrt(sum(q[n, two]**2, over=two))
    f.y[n, d, two] = concat(
        f.u[n, 0]*v[n, d, 0] - f.u[n, 1]*v[n, d, 1], f.u[n, 0]*v[n, d, 1] + f.u[n, 1]*v[n, d, 0], along=two,
    )
    return f.y
"""


def _turned(q: Tensor, v: Tensor) -> Tensor:
    u = torch.view_as_complex(q / q.norm(dim=1, keepdim=True))
    return torch.view_as_real(u[:, None] * torch.view_as_complex(v))


def _normed(x: Tensor, gamma: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], gamma)


def _shares(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return z.softmax(2), torch.nn.functional.cross_entropy(z.flatten(0, 1), y.flatten())


def _between(x: Tensor) -> Tensor:
    low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    z = (x - low) / (high - low)
    return z / z.square().mean(1, keepdim=True).sqrt() + z.mean(1, keepdim=True) * z.square().amax(1, keepdim=True)


def _gated(x: Tensor, w: Tensor, kinds: Tensor, table: Tensor) -> Tensor:
    a = (x * w).sum(1, keepdim=True)
    on = table[kinds][:, None] * torch.where(a > 0, a, 0)
    b = (x - on).tanh().sum(1, keepdim=True)
    return torch.where(b > a, x * b, w * on)


def _inputs(name: str, rows: int, length: int) -> list[Tensor]:
    x = torch.randn(rows, length, dtype=torch.float64)
    if name == "normed":
        return [x, torch.randn(length, dtype=torch.float64)]
    if name == "shares":
        return [torch.randn(rows, 3, length, dtype=torch.float64), torch.randint(length, (rows, 3))]
    if name == "turned":
        return [torch.randn(rows, 2, dtype=torch.float64), torch.randn(rows, length, 2, dtype=torch.float64)]
    if name == "gated":
        return [x, torch.randn_like(x) / length, torch.randint(5, (rows,)), torch.randn(5, dtype=torch.float64)]
    return [x]


REFERENCES: dict[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    "normed": _normed, "shares": _shares, "between": _between, "gated": _gated, "turned": _turned,
}  # fmt: skip


def compiled(package: Package, *flags: str) -> ModuleType:
    made = package(specs=SPECS)
    library = sys.modules[f"{made.__name__}._library"]
    library.FLAGS = (*library.FLAGS, *flags)
    return made


@pytest.fixture(scope="module", params=["together", "one by one"])
def native(package: Package, request: pytest.FixtureRequest) -> ModuleType:
    """Compiled so that all rows lie near, the other time so that none does."""
    return compiled(package, "-DFAR_OFF=0" if request.param == "one by one" else "-DWIDE=LANES")


@pytest.mark.parametrize(("rows", "length"), [(1, 33), (4, 64), (7, 130), (9, 1030), (3, 20000)])
@pytest.mark.parametrize("name", REFERENCES)
def test_agrees_with_autograd(native: ModuleType, name: str, rows: int, length: int) -> None:
    torch.manual_seed(0)
    given = _inputs(name, rows, length)
    leaves = [x.requires_grad_() for x in given if x.is_floating_point()]
    want = REFERENCES[name](*given)
    want = want if isinstance(want, tuple) else (want,)
    cotangents = [torch.randn_like(w) for w in want]
    exact = [w.detach() for w in (*want, *torch.autograd.grad(want, leaves, cotangents))]
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        args = [x.detach().to(dtype) if x.is_floating_point() else x for x in given]
        *outputs, saved = getattr(native, f"{name}_forward")(*args)
        found = getattr(native, f"{name}_backward")(*(v.to(dtype) for v in cotangents), *saved)
        for got, true in zip((*outputs, *(found if isinstance(found, tuple) else (found,))), exact, strict=True):
            torch.testing.assert_close(got.double(), true, rtol=tolerance, atol=tolerance * float(true.abs().max()))


def test_what_is_not_a_number_stays_so(native: ModuleType) -> None:
    x = torch.randn(6, 100)
    x[2, 41] = torch.nan
    y, _ = native.between_forward(x)
    assert y.isnan().all(1).tolist() == [False, False, True, False, False, False]


def test_threads_give_the_same_numbers(native: ModuleType, threads: Callable[[int], None]) -> None:
    args = [torch.randn(700, 200), torch.randn(200)]
    dy, found = torch.randn(700, 200), []
    for count in (1, 2):
        threads(count)
        y, saved = native.normed_forward(*args)
        found.append([y, *native.normed_backward(dy, *saved)])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("rows", [3, 130])
def test_what_overlaps_is_summed_once(native: ModuleType, rows: int, dtype: torch.dtype) -> None:
    for length in range(1, 70):
        x, w = (torch.randint(-9, 10, (rows, length)).to(dtype) for _ in range(2))  # sums are exact in any order
        y, _ = native.counted_forward(x, w)
        assert torch.equal(y, x * (x * w).sum(1, keepdim=True) + w * x.amax(1, keepdim=True)), length


@pytest.mark.parametrize("length", [5, 16, 17, 33, 77])
def test_costly_functions_of_whole_vectors(native: ModuleType, length: int) -> None:
    x, a = torch.randn(9, length), torch.randn(9)
    y, _ = native.grown_forward(x, a)
    torch.testing.assert_close(y, a[:, None] * x.exp(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("name", "vectors"), [("counted", 1), ("grown", 1)])
def test_no_row_ends_place_by_place(native: ModuleType, name: str, vectors: int) -> None:
    source = Path(native.__path__[0], f"{name}.c").read_text().partition(f"int {name}_backward(")[0]
    rows = source.partition(" < WIDE) {")[2].partition("    } else {\n")[0] or source
    assert rows.count("IN_VECTORS(") == vectors
    assert "reduction(" not in rows


def test_costly_functions_of_values_run_along_the_rows(native: ModuleType) -> None:
    source = Path(native.__path__[0], "shares.c").read_text().partition("int shares_backward(")[0]
    rows = source.partition(" < WIDE) {")[2].partition("    } else {\n")[0]
    alone = rows.partition("#pragma omp simd reduction(+ : loss_mean_sum_part)\n")[2].partition("}\n")[0]
    assert "real_log(" in alone
    assert rows.count("real_log(") == 1


def test_each_stage_is_taken_of_all_the_rows(native: ModuleType) -> None:
    with open(f"{native.__path__[0]}/normed.c") as file:
        forward = file.read().partition("int normed_backward(")[0]
    test = "n_d >= WIDE && rows_together(2 * n_d, n_d, n_rows, TOGETHER) > 1"
    near = forward.partition(f"}} else if ({test}) {{")[2].partition("    } else if (")[0]
    assert near.count("for (int64_t i_rows = first; i_rows < last; i_rows++) {") == 3
    assert near.count("IN_FOURS(") == 2
