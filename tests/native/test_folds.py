"""Folds where vectors cannot simply run along the row: over an axis that is not last, and of a few elements."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """
from derive import *

n, m, t, u, h, r, w, s, c, d, k = axes("n m t u h r w s c d k")


@op
def responses(f, x: tensor[n, t, c], gamma: tensor[c]):
    f.g[n, c] = sqrt(sum(x[n, t, c]**2, over=t) + 1)
    f.y[n, t, c] = gamma[c] * x[n, t, c] * f.g[n, c] / mean(f.g[n, c], over=c)
    return f.y


@op
def columns_largest(f, x: tensor[n, t, c]):
    f.top[n, c] = amax(x[n, t, c], over=t)
    f.y[n] = sum(f.top[n, c]**2, over=c)
    return f.y


@op
def repulsion(f, x: tensor[n, d]):
    f.r2[n, m] = sum((x[n, d] - x[m, d])**2, over=d)
    f.e[()] = sum(where(ne(n, m), 1 / (1 + f.r2[n, m])**4, 0), over=(n, m))
    return f.e


@op
def pull(f, x: tensor[n, d], z: tensor[n, c]):
    f.a[n, m] = tanh(sum(z[n, c] * z[m, c], over=c))
    f.y[n, d] = x[n, d] + sum((x[n, d] - x[m, d]) * f.a[n, m], over=m)
    return f.y


@op
def largest_of_pieces(f, x: tensor[n, c], pieces: length(k)):
    f.z[n, h, k] = x[n, (h, k)]
    f.y[n, h] = amax(f.z[n, h, k], over=k)
    return f.y


@op
def shuffled(f, x: tensor[n, c, h, w], up: length(r), across: length(s)):
    f.z[n, d, r, s, h, w] = x[n, (d, r, s), h, w]
    f.y[n, d, (h, r), (w, s)] = f.z[n, d, r, s, h, w]
    return f.y


@op
def normalised(f, x: tensor[n, m, c], gamma: tensor[c], beta: tensor[c]):
    f.mu[n, m] = mean(x[n, m, c], over=c)
    f.e[n, m, c] = exp(x[n, m, c] - f.mu[n, m])
    f.s[n, m] = sum(f.e[n, m, c], over=c)
    f.y[n, m, c] = gamma[c] * f.e[n, m, c] / f.s[n, m] + beta[c]
    return f.y


@op
def picked(f, x: tensor[n, c], y: index(c)[n], w: tensor[n]):
    f.m[n] = amax(x[n, c], over=c)
    f.p[n, c] = exp(x[n, c] - f.m[n])
    f.loss[()] = mean(w[n] * (log(sum(f.p[n, c], over=c)) + f.m[n] - x[n, y[n]]), over=n)
    return f.loss


@op
def discounted(f, reward: tensor[n, t], gamma: scalar = 0.9):
    f.y[n, t] = sum(where(u >= t, gamma**(u - t) * reward[n, u], 0), over=u)
    return f.y


@op
def spacing(f, x: tensor[n, t]):
    f.y[n] = mean(abs(x[n, t] - x[n, u]), over=(t, u))
    return f.y


@op
def turned(f, x: tensor[n, c], a: tensor[c]):
    f.y[n, c] = x[n, c] + sin(a[c] * x[n, c]) ** 2
    return f.y


@op
def largest_around(f, x: tensor[n, t], taps: length(k)):
    f.y[n, u] = amax(x[n, u + k], over=k)
    return f.y


@op
def largest_of_every_other(f, x: tensor[n, t], taps: length(k)):
    f.y[n, u] = amax(x[n, 2*u + k], over=k)
    return f.y
"""

T = torch.Tensor


def _responses(x: T, gamma: T) -> T:
    g = (x.square().sum(1) + 1).sqrt()
    return gamma * x * (g / g.mean(1, keepdim=True))[:, None]


def _repulsion(x: T) -> T:
    r2 = (x[:, None] - x).square().sum(-1)
    return ((1 + r2) ** -4.0 * (1 - torch.eye(len(x), dtype=x.dtype))).sum()


def _pull(x: T, z: T) -> T:
    a = torch.tanh(z @ z.T)
    return x + ((x[:, None] - x) * a[..., None]).sum(1)


def _discounted(reward: T) -> T:
    t = torch.arange(reward.shape[1], dtype=reward.dtype)
    return reward @ (0.9 ** (t[:, None] - t).clamp(min=0)).tril()


def _normalised(x: T, gamma: T, beta: T) -> T:
    return gamma * torch.softmax(x, -1) + beta


def _picked(x: T, y: T, w: T) -> T:
    return (torch.nn.functional.cross_entropy(x, y, reduction="none") * w).mean()


ROWS = [(2, 40, 3), (1, 300, 31), (3, 33, 40), (40, 2, 5)]
CASES = [
    *(("normalised", _normalised, [(n, m, c), (c,), (c,)]) for n, m, c in ROWS),
    *(("picked", _picked, [(n, c), torch.arange(n) % c, (n,)]) for n, c in [(700, 10), (257, 31), (33, 32), (5, 7)]),
    ("responses", _responses, [(3, 5, 7), (7,)]),
    ("responses", _responses, [(2, 130, 19), (19,)]),
    ("responses", _responses, [(2, 65, 300), (300,)]),
    ("columns_largest", lambda x: x.amax(1).square().sum(1), [(3, 4, 5)]),
    ("columns_largest", lambda x: x.amax(1).square().sum(1), [(2, 70, 270)]),
    ("repulsion", _repulsion, [(11, 3)]),
    ("repulsion", _repulsion, [(9, 40)]),
    ("pull", _pull, [(12, 3), (12, 5)]),
    ("pull", _pull, [(70, 33), (70, 5)]),
    ("largest_of_pieces", lambda x, k: x.unflatten(1, (-1, k)).amax(2), [(5, 12), 3]),
    ("largest_of_pieces", lambda x, k: x.unflatten(1, (-1, k)).amax(2), [(3, 120), 40]),
    ("shuffled", lambda x, r, s: torch.nn.functional.pixel_shuffle(x, r), [(2, 12, 3, 5), 2, 2]),
    ("shuffled", lambda x, r, s: torch.nn.functional.pixel_shuffle(x, r), [(1, 400, 2, 3), 20, 20]),
    ("discounted", _discounted, [(4, 9)]),
    *(("spacing", lambda x: (x[:, :, None] - x[:, None]).abs().mean((1, 2)), [(3, t)]) for t in (1, 5, 16, 37, 130)),
    *(("turned", lambda x, a: x + (a * x).sin() ** 2, [(n, c), (c,)]) for n, c in [(300, 3), (40, 15), (33, 16)]),
    *(("largest_around", lambda x, k: x.unfold(1, k, 1).amax(2), [(3, t), 3]) for t in (4, 18, 37, 300)),
    *(("largest_of_every_other", lambda x, k: x.unfold(1, k, 2).amax(2), [(3, t), 3]) for t in (5, 37, 77, 601)),
]
NAMES = [f"{name}-{k}" for k, (name, _, _) in enumerate(CASES)]


@pytest.fixture(scope="module", params=["as columns where there are many", "as columns where they are few"])
def native(package: Package, request: pytest.FixtureRequest) -> ModuleType:
    """Compiled so that few rows are taken as columns as well, the other time."""
    made = package(specs=SPECS)
    if request.param.endswith("few"):
        library = sys.modules[f"{made.__name__}._library"]
        library.FLAGS = (*library.FLAGS, "-DMANY=1")
    return made


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("name", "reference", "given"), CASES, ids=NAMES)
def test_agrees_with_autograd_whatever_is_short(
    native: ModuleType, name: str, reference: Callable[..., T], given: list[Any], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    args = [torch.randn(*g, dtype=torch.float64, requires_grad=True) if isinstance(g, tuple) else g for g in given]
    leaves = [a for a in args if isinstance(a, T) and a.requires_grad]
    want = reference(*args)
    dy = torch.randn_like(want)
    gradients = torch.autograd.grad(want, leaves, dy)
    real = [isinstance(a, T) and a.requires_grad for a in args]
    args = [a.detach().to(dtype) if r else a for a, r in zip(args, real, strict=True)]
    y, saved = getattr(native, f"{name}_forward")(*args)
    found = getattr(native, f"{name}_backward")(dy.to(dtype), *saved)
    tolerance = 1e-14 if dtype == torch.float64 else 2e-6
    results = (y, *(found if isinstance(found, tuple) else (found,)))
    for got, exact in zip(results, (want.detach(), *gradients), strict=True):
        scale = tolerance * float(exact.abs().max())
        torch.testing.assert_close(got.double(), exact, rtol=tolerance, atol=scale)


def test_a_masked_sum_is_a_matrix_product_forwards_as_well(native: ModuleType) -> None:
    with open(f"{native.__path__[0]}/discounted.c") as file:
        forward, _, backward = file.read().partition("int discounted_backward")
    assert "product(reward, PLAIN" in forward
    assert "product(dy, PLAIN" in backward


def test_both_forms_stand_where_rows_may_be_short(native: ModuleType) -> None:
    found = {"responses": "n_c < NARROW)", "largest_of_pieces": "n_k < SHORT &&", "repulsion": "n_d < NARROW &&"}
    found["picked"] = "n_c < SHORT &&"  # an exponential of each element, of one tensor
    found["normalised"] = "n_c < NARROW &&"  # one of as many, of three
    found["turned"] = "n_c < NARROW &&"  # no fold, but a costly function of each element
    found["spacing"] = "n_u >= LANES &&"  # a vector for all rows of pairs, which is summed once
    for name, test in found.items():
        with open(f"{native.__path__[0]}/{name}.c") as file:
            assert f"if ({test}" in file.read()


def test_only_neighbours_are_added_to_in_vectors_that_overlap(native: ModuleType) -> None:
    """A vector of every other place is gathered and scattered: 128 of those took 2.3 times as long."""
    for name, blocks in {"largest_around": True, "largest_of_every_other": False}.items():
        with open(f"{native.__path__[0]}/{name}.c") as file:
            assert ("dx_new : 0;" in file.read()) is blocks, name
