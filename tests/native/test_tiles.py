"""Chains of matrix products, a few rows at a time: right wherever tiles end, with nothing as large as all rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.backends.cpu.statements.scales import with_scales
from derive.ir.nodes.products import product_factors
from derive.ir.program import Call, Num, Program, Read
from tests.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels", "threads")

ATTENTION = '''
@op
def {name}(f, q: tensor[..., i, d], k: tensor[..., j, d], v: tensor[..., j, e]):
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.w[..., i, j] = where({condition}, f.s[..., i, j], -oo)
    f.m[..., i] = amax(f.w[..., i, j], over=j)
    f.u[..., i, j] = exp(f.w[..., i, j] - f.m[..., i])
    f.p[..., i, j] = f.u[..., i, j] / sum(f.u[..., i, j], over=j)
    f.o[..., i, e] = sum(f.p[..., i, j] * v[..., j, e], over=j)
    return f.o
'''

# the condition, the same of two grids of places and their numbers, and from where to where a tile reaches
MASKS: dict[str, tuple[str, Callable[..., Tensor], str | None, str | None]] = {
    "causal": ("j <= i", lambda i, j, n, m: j <= i, None, ""),
    "turned": ("i >= j", lambda i, j, n, m: j <= i, None, ""),
    "two_more": ("j < i + 3", lambda i, j, n, m: j < i + 3, None, " + 2"),
    "apart": ("i - j > -2", lambda i, j, n, m: i - j > -2, None, " + 1"),
    "excluded": ("~(j > i + 1)", lambda i, j, n, m: j <= i + 1, None, " + 1"),
    "last_ones": ("(j <= i) & (j > i - 4)", lambda i, j, n, m: (j <= i) & (j > i - 4), " - 3", ""),
    "neighbours": ("(i - 2 <= j) & (j < i + 3)", lambda i, j, n, m: (i - 2 <= j) & (j < i + 3), " - 2", " + 2"),
    "either": ("~((j < i - 5) | (j > i))", lambda i, j, n, m: (j >= i - 5) & (j <= i), " - 5", ""),
    "aligned_ends": ("j - size(j) <= i - size(i)", lambda i, j, n, m: j - m <= i - n, None, " + n_j - n_i"),
    "from_here_on": ("j >= i", lambda i, j, n, m: j >= i, "", None),
    "after_here": ("j > i - 1", lambda i, j, n, m: j >= i, "", None),
    "every_other": ("j <= 2 * i", lambda i, j, n, m: j <= 2 * i, None, None),
    "all_of_them": ("j >= 0", lambda i, j, n, m: j >= 0, None, None),
}

SPECS = "from derive import *\nn, m, c, d, i, j, e, h, b, i_tile, j_reach, rows = axes(\n"
SPECS += "    'n m c d i j e h b i_tile j_reach rows'\n)\n" + "".join(
    ATTENTION.format(name=name, condition=condition) for name, (condition, *_) in MASKS.items()
)
SPECS += '''
@op
def linear_attention(f, q: tensor[..., i, d], k: tensor[..., j, d], v: tensor[..., j, e]):
    f.s[..., i, j] = where(j <= i, sum(q[..., i, d] * k[..., j, d], over=d), 0)
    f.o[..., i, e] = sum(f.s[..., i, j] * v[..., j, e], over=j)
    return f.o


@op
def with_bias(f, q: tensor[i, d], k: tensor[j, d], v: tensor[j, e], g: tensor[i, j]):
    """What it reads along the keys lies last in memory as well."""
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d) + g[i, j]
    f.w[i, j] = where((j <= i + 1) & (j >= i - 3), f.s[i, j], -oo)
    f.u[i, j] = exp(f.w[i, j] - amax(f.w[i, j], over=j))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o


@op
def heads_last(f, q: tensor[b, i, h, d], k: tensor[b, j, h, d], v: tensor[b, j, h, e]):
    """Its batches lie apart in memory: one of them is a tile."""
    f.s[b, h, i, j] = sum(q[b, i, h, d] * k[b, j, h, d], over=d)
    f.p[b, h, i, j] = exp(f.s[b, h, i, j]) / sum(exp(f.s[b, h, i, j]), over=j)
    f.o[b, i, h, e] = sum(f.p[b, h, i, j] * v[b, j, h, e], over=j)
    return f.o


@op
def gives_weights(f, q: tensor[i, d], k: tensor[j, d], v: tensor[j, e]):
    """What is an output is made whole: it has zeros as far as there are keys."""
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d)
    f.w[i, j] = where(j <= i, f.s[i, j], -oo)
    f.u[i, j] = exp(f.w[i, j] - amax(f.w[i, j], over=j))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.o[i, e] = sum(f.p[i, j] * v[j, e], over=j)
    return f.o, f.p


@op
def of_itself(f, x: tensor[b, n, d]):
    """Its backward adds what it makes of scores to the same of their transpose: to what other tiles make."""
    f.s[b, n, m] = sum(x[b, n, d] * x[b, m, d], over=d) / size(d)
    f.p[b, n, m] = exp(f.s[b, n, m]) / sum(exp(f.s[b, n, m]), over=m)
    f.o[b, n, d] = sum(f.p[b, n, m] * x[b, m, d], over=m)
    return f.o


@op
def both_ways(f, x: tensor[b, n, d], u: tensor[b, n, e]):
    """An output is read the other way round within a batch."""
    f.s[b, n, m] = sum(x[b, n, d] * x[b, m, d], over=d) / size(d)
    f.p[b, n, m] = exp(f.s[b, n, m]) / sum(exp(f.s[b, n, m]), over=m)
    f.c[b, n, m] = f.p[b, n, m] + f.p[b, m, n]
    f.o[b, n, e] = sum(f.c[b, n, m] * u[b, m, e], over=m)
    return f.o, f.p


@op
def single_places(f, q: tensor[b, i, d], k: tensor[b, j, d], v: tensor[b, j, e], y: index(j)[b, i]):
    """Places of the keys that a tile would not reach are read by themselves, and added to."""
    f.s[b, i, j] = sum(q[b, i, d] * k[b, j, d], over=d)
    f.w[b, i, j] = where(j <= i - 3, tanh(f.s[b, i, j]), 0)
    f.o[b, i, e] = sum(f.w[b, i, j] * v[b, j, e], over=j)
    f.z[b, i] = f.w[b, i, y[b, i]] + f.w[b, i, -1]
    return f.o, f.z


@op
def own_place(f, q: tensor[b, i, d], k: tensor[b, i, d], v: tensor[b, i, e]):
    """So is the place of a row itself, which the mask leaves out."""
    f.s[b, i, j] = sum(q[b, i, d] * k[b, j, d], over=d)
    f.w[b, i, j] = where(j <= i - 3, tanh(f.s[b, i, j]), 0)
    f.o[b, i, e] = sum(f.w[b, i, j] * v[b, j, e], over=j) + f.s[b, i, i] * v[b, i, e]
    return f.o


@op
def heads_inside(f, q: tensor[b, i, h, d], k: tensor[b, j, d], v: tensor[b, j, e]):
    """Rows and heads are one axis in memory, but not for the mask."""
    f.s[b, i, h, j] = where(j <= i, sum(q[b, i, h, d] * k[b, j, d], over=d), -oo)
    f.p[b, i, h, j] = exp(f.s[b, i, h, j]) / sum(exp(f.s[b, i, h, j]), over=j)
    f.o[b, i, h, e] = sum(f.p[b, i, h, j] * v[b, j, e], over=j)
    return f.o


@op
def same_names(f, q: tensor[..., i, i_tile], k: tensor[..., j, i_tile], v: tensor[..., j, j_reach], g: tensor[rows]):
    """Its axes are called as those of a tile."""
    f.s[..., i, j] = where(j <= i, sum(q[..., i, i_tile] * k[..., j, i_tile], over=i_tile), 0)
    f.o[..., i, j_reach] = sum(f.s[..., i, j] * v[..., j, j_reach], over=j) + sum(g[rows] ** 2, over=rows)
    return f.o


@op
def tempered(f, q: tensor[b, h, i, d], k: tensor[b, h, j, d], v: tensor[b, h, j, e], tau: tensor[h]):
    """What is learned of each head sums over rows of all tiles."""
    f.s[b, h, i, j] = where(j <= i, tau[h] * sum(q[b, h, i, d] * k[b, h, j, d], over=d), -oo)
    f.m[b, h, i] = amax(f.s[b, h, i, j], over=j)
    f.u[b, h, i, j] = exp(f.s[b, h, i, j] - f.m[b, h, i])
    f.p[b, h, i, j] = f.u[b, h, i, j] / sum(f.u[b, h, i, j], over=j)
    f.o[b, h, i, e] = sum(f.p[b, h, i, j] * v[b, h, j, e], over=j)
    return f.o


@op
def unit_scores(f, q: tensor[b, h, i, d], k: tensor[b, h, j, d], v: tensor[b, h, j, e], tau: tensor[h]):
    """The norms of k need all of its rows."""
    f.a[b, h, i, d] = q[b, h, i, d] * rsqrt(sum(q[b, h, i, d]**2, over=d) + 1e-6)
    f.c[b, h, j, d] = k[b, h, j, d] * rsqrt(sum(k[b, h, j, d]**2, over=d) + 1e-6)
    f.s[b, h, i, j] = where(j <= i, tau[h] * sum(f.a[b, h, i, d] * f.c[b, h, j, d], over=d), -oo)
    f.m[b, h, i] = amax(f.s[b, h, i, j], over=j)
    f.u[b, h, i, j] = exp(f.s[b, h, i, j] - f.m[b, h, i])
    f.p[b, h, i, j] = f.u[b, h, i, j] / sum(f.u[b, h, i, j], over=j)
    f.o[b, h, i, e] = sum(f.p[b, h, i, j] * v[b, h, j, e], over=j)
    return f.o


@op
def contrastive(f, x: tensor[n, d], y: tensor[n, d]):
    """A row's own column is read at its place on all rows."""
    f.s[n, m] = sum(x[n, d] * y[m, d], over=d) * 3
    f.top[n] = amax(f.s[n, m], over=m)
    f.lse[n] = f.top[n] + log(sum(exp(f.s[n, m] - f.top[n]), over=m))
    f.loss[()] = mean(f.lse[n] - f.s[n, n], over=n)
    return f.loss


@op
def classes(f, x: tensor[n, d], w: tensor[c, d], bias: tensor[c], y: index(c)[n], scale: tensor[()]):
    """Its bias gradient is a total of what each tile makes; `scale` is one number."""
    f.z[n, c] = scale[()] * sum(x[n, d] * w[c, d], over=d) + bias[c]
    f.top[n] = amax(f.z[n, c], over=c)
    f.lse[n] = f.top[n] + log(sum(exp(f.z[n, c] - f.top[n]), over=c))
    f.loss[()] = mean(f.lse[n] - f.z[n, y[n]], over=n)
    return f.loss


@op
def batched(f, x: tensor[b, n, d], y: tensor[b, m, d]):
    """A total over stepped axes too."""
    f.s[b, n, m] = sum(x[b, n, d] * y[b, m, d], over=d)
    f.loss[()] = sum(log(1 + f.s[b, n, m] ** 2), over=(b, n, m)) + amax(f.s[b, n, m], over=(b, n, m))
    return f.loss


@op
def weighted(f, x: tensor[n, d], y: tensor[m, d], g: tensor[n]):
    """Read with its scale and without: the product stays as it is."""
    f.s[n, m] = sum(x[n, d] * y[m, d], over=d)
    f.t[n, m] = exp(-f.s[n, m] ** 2) + f.s[n, m] / 7
    f.o[n, d] = sum(f.t[n, m] * g[n] * y[m, d], over=m)
    return f.o
'''


@pytest.fixture(scope="module", params=["few rows", "as many as fit"])
def native(package: Package, request: pytest.FixtureRequest) -> ModuleType:
    """Compiled for tiles of three rows, the other time for as many as there would be."""
    made = package(specs=SPECS)
    if request.param == "few rows":
        library = sys.modules[f"{made.__name__}._library"]
        library.FLAGS = (*library.FLAGS, "-DFEW_ROWS=3")
    return made


def _softmax(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~allowed, -torch.inf)
    return s.softmax(-1) @ v


def _grids(n: int, m: int) -> tuple[Tensor, Tensor, int, int]:
    return torch.arange(n)[:, None], torch.arange(m)[None, :], n, m


def _masked(name: str) -> Callable[..., Tensor]:
    return lambda q, k, v: _softmax(q, k, v, MASKS[name][1](*_grids(q.shape[-2], k.shape[-2])))


def _linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i, j, *_ = _grids(q.shape[-2], k.shape[-2])
    return torch.where(j <= i, q @ k.mT, 0) @ v


def _with_bias(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    i, j, *_ = _grids(len(q), len(k))
    return (q @ k.mT + g).masked_fill((j > i + 1) | (j < i - 3), -torch.inf).softmax(-1) @ v


def _heads_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhij,bjhe->bihe", torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1), v)


def _weights(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    i, j, *_ = _grids(len(q), len(k))
    p = (q @ k.mT).masked_fill(j > i, -torch.inf).softmax(-1)
    return p @ v, p


def _of_itself(x: Tensor) -> Tensor:
    return (x @ x.mT / x.shape[-1]).softmax(-1) @ x


def _both_ways(x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    p = (x @ x.mT / x.shape[-1]).softmax(-1)
    return (p + p.mT) @ u, p


def _single_places(q: Tensor, k: Tensor, v: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    s = q @ k.mT
    i, j, *_ = _grids(s.shape[-1], s.shape[-1])
    w = torch.where(j <= i - 3, s.tanh(), 0)
    return w @ v, w.gather(-1, y[..., None])[..., 0] + w[..., -1]


def _own_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = q @ k.mT
    i, j, *_ = _grids(s.shape[-1], s.shape[-1])
    return torch.where(j <= i - 3, s.tanh(), 0) @ v + s.diagonal(dim1=-2, dim2=-1)[..., None] * v


def _heads_inside(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = torch.einsum("bihd,bjd->bihj", q, k)
    i, j, *_ = _grids(q.shape[1], k.shape[1])
    return torch.einsum("bihj,bje->bihe", s.masked_fill((j > i)[:, None, :], -torch.inf).softmax(-1), v)


def _same_names(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    return _linear(q, k, v) + (g**2).sum()


def _tempered(q: Tensor, k: Tensor, v: Tensor, tau: Tensor) -> Tensor:
    i, j, *_ = _grids(q.shape[-2], k.shape[-2])
    return (tau[:, None, None] * (q @ k.mT)).masked_fill(j > i, -torch.inf).softmax(-1) @ v


def _unit_scores(q: Tensor, k: Tensor, v: Tensor, tau: Tensor) -> Tensor:
    a, c = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
    return _tempered(a, c, v, tau)


def _weighted(x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    s = x @ y.mT
    return g[:, None] * ((torch.exp(-(s**2)) + s / 7) @ y)


SIZES = [((2, 3), 7, 7), ((1,), 200, 200), ((), 130, 140), ((5,), 1, 9)]
CASES = [
    *((name, _masked(name), ((*rows, n, 5), (*rows, m, 5), (*rows, m, 4))) for name in MASKS for rows, n, m in SIZES),
    *(("linear_attention", _linear, ((*rows, n, 5), (*rows, m, 5), (*rows, m, 4))) for rows, n, m in SIZES),
    ("with_bias", _with_bias, ((9, 5), (9, 5), (9, 4), (9, 9))),
    ("with_bias", _with_bias, ((200, 5), (210, 5), (210, 4), (200, 210))),
    ("of_itself", _of_itself, ((3, 7, 5),)),
    ("of_itself", _of_itself, ((2, 140, 5),)),
    ("both_ways", _both_ways, ((3, 5, 4), (3, 5, 2))),
    ("both_ways", _both_ways, ((2, 140, 4), (2, 140, 3))),
    ("single_places", _single_places, ((3, 7, 4), (3, 7, 4), (3, 7, 2), 7)),
    ("single_places", _single_places, ((2, 150, 4), (2, 150, 4), (2, 150, 2), 150)),
    ("own_place", _own_place, ((3, 7, 4), (3, 7, 4), (3, 7, 2))),
    ("own_place", _own_place, ((2, 150, 4), (2, 150, 4), (2, 150, 2))),
    ("heads_inside", _heads_inside, ((2, 5, 17, 2), (2, 5, 2), (2, 5, 2))),
    ("heads_inside", _heads_inside, ((2, 130, 40, 3), (2, 13, 3), (2, 13, 2))),
    ("same_names", _same_names, ((2, 150, 4), (2, 150, 4), (2, 150, 3), (5,))),
    ("heads_last", _heads_last, ((4, 6, 3, 5), (4, 8, 3, 5), (4, 8, 3, 2))),
    ("heads_last", _heads_last, ((2, 150, 2, 5), (2, 160, 2, 5), (2, 160, 2, 2))),
    ("gives_weights", _weights, ((170, 5), (180, 5), (180, 4))),
    ("tempered", _tempered, ((2, 3, 7, 5), (2, 3, 8, 5), (2, 3, 8, 4), (3,))),
    ("tempered", _tempered, ((1, 2, 150, 5), (1, 2, 150, 5), (1, 2, 150, 4), (2,))),
    ("unit_scores", _unit_scores, ((2, 3, 7, 5), (2, 3, 8, 5), (2, 3, 8, 4), (3,))),
    ("unit_scores", _unit_scores, ((1, 2, 150, 5), (1, 2, 150, 5), (1, 2, 150, 4), (2,))),
    ("weighted", _weighted, ((150, 6), (40, 6), (150,))),
]


def _agree(found: object, exact: object) -> None:
    for got, want in zip(_flat(found), map(Tensor.detach, _flat(exact)), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12 * float(want.abs().max()))


def _flat(values: object) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list):
        for v in values:
            yield from _flat(v)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("name", "reference", "shapes"), CASES, ids=[f"{n}-{k}" for k, (n, *_) in enumerate(CASES)])
def test_agrees_with_autograd(
    native: ModuleType,
    threads: Callable[[int], None],
    name: str,
    reference: Callable[..., Tensor],
    shapes: tuple[Any, ...],
    count: int,
) -> None:
    torch.manual_seed(0)
    threads(count)
    leaves = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes if isinstance(s, tuple)]
    others = [torch.randint(0, x, shapes[0][:-1]) for x in shapes if not isinstance(x, tuple)]  # places on an axis
    want = reference(*leaves, *others)
    cotangents = [torch.randn_like(w) for w in _flat(want)]
    gradients = torch.autograd.grad(list(_flat(want)), leaves, cotangents)
    given = [*(x.detach() for x in leaves), *others]
    *outputs, saved = getattr(native, f"{name}_forward")(*given)
    found = getattr(native, f"{name}_backward")(*cotangents, *saved)
    _agree(outputs, want)
    _agree(found, gradients)
    again = getattr(native, f"{name}_backward")(*cotangents, *saved)
    assert all(map(torch.equal, _flat(found), _flat(again)))


def _classes(x: Tensor, w: Tensor, bias: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(scale * x @ w.mT + bias, y)


LOSSES: dict[str, Callable[..., Tensor]] = {
    "contrastive": lambda x, y: torch.nn.functional.cross_entropy(3 * x @ y.mT, torch.arange(len(x))),
    "classes": _classes,
    "batched": lambda x, y: (1 + (x @ y.mT) ** 2).log().sum() + (x @ y.mT).amax(),
}


def _given(name: str, rows: int) -> list[Tensor]:
    double = {"dtype": torch.float64}
    if name == "classes":
        y = torch.randint(0, 11, (rows,))
        return [torch.randn(rows, 5, **double), torch.randn(11, 5, **double), torch.randn(11, **double), y,
                torch.rand((), **double)]  # fmt: skip
    batch = (3,) if name == "batched" else ()
    return [torch.randn(*batch, rows, 5, **double), torch.randn(*batch, rows, 5, **double)]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rows", [1, 8, 300])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_with_its_gradients_agrees_with_autograd(
    native: ModuleType, threads: Callable[[int], None], name: str, rows: int, count: int
) -> None:
    torch.manual_seed(0)
    threads(count)
    given = _given(name, rows)
    leaves = [x.requires_grad_() for x in given if x.is_floating_point()]
    loss = LOSSES[name](*given)
    gradients = torch.autograd.grad(loss, leaves)
    with torch.no_grad():
        found, derived = getattr(native, f"{name}_with_gradients")(*given)
    _agree(found, loss)
    _agree(derived, gradients)


def _text(native: ModuleType, name: str) -> str:
    return Path(f"{native.__path__[0]}/{name}.c").read_text()


@pytest.mark.parametrize("name", MASKS)
def test_a_tile_reaches_as_far_as_its_mask_lets_it(native: ModuleType, name: str) -> None:
    *_, start, end = MASKS[name]
    lines = {x.split(";")[0] for x in re.findall(r"const int64_t ((?:first|n)_j_reach = .*)", _text(native, name))}
    want = set()
    if start is not None:
        want.add(f"first_j_reach = at_least(0, at_most(first_i_tile{start}, n_j - 1))")
    if start is not None or end is not None:
        stop = "n_j" if end is None else f"first_i_tile + n_i_tile{end}"
        less = " - first_j_reach" if start is not None else ""
        want.add(f"n_j_reach = at_most(n_j{less}, at_least(1, {stop}{less}))")
    assert lines == want


WHOLE = ["every_other", "all_of_them", "gives_weights", "heads_last", "single_places", "own_place"]


@pytest.mark.parametrize("name", WHOLE)
def test_it_takes_all_where_that_is_needed(native: ModuleType, name: str) -> None:
    assert "reach" not in _text(native, name)


@pytest.mark.parametrize("name", [*MASKS, "linear_attention"])
def test_no_scores_are_kept_for_all_rows(native: ModuleType, name: str) -> None:
    text = _text(native, name)
    assert re.search(r"take\(&next, n_i_tile \* n_j\w*, sizeof\(real\)\)", text)
    assert "n_i * n_j" not in text


def test_what_sums_over_rows_leaves_them_to_tiles(native: ModuleType) -> None:
    backward = _text(native, "tempered").partition("void tempered_backward_tile(")[2]
    assert "const int64_t n_j_reach = at_most(n_j, at_least(1, first_i_tile + n_i_tile));" in backward
    assert "n_i * n_j" not in backward
    assert "dtau_each + i_b * n_h * n_i + i_h * n_i + first_i_tile" in backward  # in the order of the tiles


def test_norms_of_all_keys_come_before_tiles_of_rows(native: ModuleType) -> None:
    forward, _, backward = _text(native, "unit_scores").partition("int unit_scores_backward(")[0].partition(
        "int unit_scores_forward("
    )
    tiles = backward.index("void unit_scores_backward_tile(")
    for tile, function in ((forward, backward[:tiles]), (backward[tiles:], "")):
        assert "const int64_t n_j_reach = at_most(n_j, at_least(1, first_i_tile + n_i_tile));" in tile
        assert "n_i * n_j" not in tile
        if function:
            assert function.index("// c[b, h, j, d] = ") < function.index("// in tiles along i: ")
    heights = re.findall(r"tile_of\(n_i, (.*)\);", _text(native, "unit_scores"))
    assert heights == ["at_least(at_least(LOW, n_d), n_e)", "at_least(at_least(LOW, n_e), n_d)"]  # not as many as keys


def test_no_logits_are_kept_beside_a_loss_with_its_gradients(native: ModuleType) -> None:
    *_, contrastive = _text(native, "contrastive").partition("contrastive_with_gradients_tile")
    assert "n_n * n_m" not in contrastive
    *_, classes = _text(native, "classes").partition("classes_with_gradients_tile")
    assert "n_n * n_c" not in classes


def test_a_number_goes_into_the_product_where_it_is_always_there(native: ModuleType) -> None:
    assert "n_n_tile, n_m, n_d, 3, threads);" in _text(native, "contrastive")
    assert "/ 7" in re.sub(r"//.*", "", _text(native, "weighted"))
    assert "number_sqrt" not in "".join(re.findall(r"product\(.*\);", _text(native, "causal")))  # it is rounded


def test_a_product_that_takes_in_a_number_may_read_one_that_does() -> None:
    def quotient(name: str, axes: tuple[str, ...], by: int) -> Call:
        return Call("div", (Read(name, axes), Num(Fraction(by))))

    s = Loop("s", ("n", "m"), Call("mul", (Read("x", ("n", "d")), Read("y", ("m", "d")))), "sum", ("d",))
    t = Loop("t", ("n", "c"), Call("mul", (quotient("s", ("n", "m"), 4), Read("w", ("m", "c")))), "sum", ("m",))
    o = Loop("o", ("n", "c"), Call("exp", (quotient("t", ("n", "c"), 8),)))
    given = (("x", ("n", "d")), ("y", ("m", "d")), ("w", ("m", "c")))
    form = Normal(Program("f", given, (), (), ("o",)), [s, t, o], dict(given))
    with_scales(form)
    first, second, last = form.loops
    assert [str(x) for x in product_factors(first.value)] == ["1 / 4", "x[n, d]", "y[m, d]"]
    assert [str(x) for x in product_factors(second.value)] == ["1 / 8", "s[n, m]", "w[m, c]"]
    assert str(last.value) == "exp(t[n, c])"


def test_a_mask_is_chosen_after_the_exponential(native: ModuleType) -> None:
    *_, backward = _text(native, "causal").partition("causal_backward_tile")
    assert re.search(r"<= .* \? real_exp\(.* : this_u_exp;", backward)
    assert "u_exp[i_i_tile] = real_exp(R(-INFINITY) - m[i_i_tile]);" in backward
