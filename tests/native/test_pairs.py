"""Tables of all pairs are gone through as they lie in memory, row by row, whatever is summed of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from derive.verify.subjects import tensors_in

pytestmark = pytest.mark.usefixtures("kernels", "threads")

SPECS = """
from derive import *
n, m, d = axes("n m d")
x3 = axes("x3=3")


@op
def touching(f, x: tensor[n, x3], size_of: tensor[n]):
    f.r[n, m] = sqrt(sum((x[n, x3] - x[m, x3]) ** 2, over=x3) + 0.01)
    f.y[()] = sum(where(eq(n, m), 0, relu(size_of[n] + size_of[m] - f.r[n, m]) ** 2), over=(n, m))
    return f.y


@op
def springs(f, x: tensor[n, d], rest: constant[n, n]):
    f.r[n, m] = sum((x[n, d] - x[m, d]) ** 2, over=d) + 1
    f.y[()] = sum(rest[n, m] * log(f.r[n, m]), over=(n, m))
    return f.y


@op
def pulled(f, x: tensor[n, x3], mass: tensor[n]):
    f.w[n, m] = mass[m] * (sum((x[n, x3] - x[m, x3]) ** 2, over=x3) + 1) ** (-1.5)
    f.a[n, x3] = sum(f.w[n, m] * (x[m, x3] - x[n, x3]), over=m)
    f.y[()] = sum(f.a[n, x3] ** 2, over=(n, x3))
    return f.y
"""


def _squares(x: Tensor) -> Tensor:
    return ((x[:, None] - x) ** 2).sum(-1)


def _touching(x: Tensor, size_of: Tensor) -> Tensor:
    gap = (size_of[:, None] + size_of - (_squares(x) + 0.01).sqrt()).relu() ** 2
    return (gap * (1 - torch.eye(len(x), dtype=x.dtype))).sum()


def _springs(x: Tensor, rest: Tensor) -> Tensor:
    return (rest * (_squares(x) + 1).log()).sum()


def _pulled(x: Tensor, mass: Tensor) -> Tensor:
    w = mass * (_squares(x) + 1) ** -1.5
    return ((w[:, :, None] * (x - x[:, None])).sum(1) ** 2).sum()


CASES: list[tuple[str, Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = [
    ("touching", _touching, ((70, 3), (70,))),
    ("touching", _touching, ((1, 3), (1,))),
    ("springs", _springs, ((70, 2), (70, 70))),
    ("springs", _springs, ((5, 40), (5, 5))),
    ("springs", _springs, ((300, 16), (300, 300))),
    ("pulled", _pulled, ((70, 3), (70,))),
    ("pulled", _pulled, ((300, 3), (300,))),
]


@pytest.mark.parametrize(("name", "reference", "shapes"), CASES)
def test_gradients_of_pairs(
    native: ModuleType,
    threads: Callable[[int], None],
    name: str,
    reference: Callable[..., Tensor],
    shapes: tuple[tuple[int, ...], ...],
) -> None:
    torch.manual_seed(0)
    leaves = [torch.rand(*s, dtype=torch.float64, requires_grad=s[0] != s[-1] or len(s) == 1) for s in shapes]
    loss = reference(*leaves)
    wanted = torch.autograd.grad(loss, [x for x in leaves if x.requires_grad])
    given = [x.detach() for x in leaves]
    results = []
    for count in (1, 2):
        threads(count)
        found, kept = getattr(native, f"{name}_forward")(*given)
        torch.testing.assert_close(found, loss.detach(), rtol=1e-11, atol=0)
        results.append(tensors_in(getattr(native, f"{name}_backward")(torch.ones((), dtype=torch.float64), *kept)))
        for got, want in zip(results[-1], wanted, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12 * float(want.abs().max()))
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


@pytest.mark.parametrize(("name", "kept"), [("touching", 0), ("springs", 0), ("pulled", 1)])
def test_no_pass_goes_down_columns(native: ModuleType, name: str, kept: int) -> None:
    """Of tables, only what goes into a product of matrices is kept between passes."""
    text = Path(f"{native.__path__[0]}/{name}.c").read_text().partition(f"int {name}_backward(")[2]
    backward = text.partition(f"int {name}_backward_of(")[0]
    assert backward.count("= take(&next, n_n * n_m, ") == kept
    rows = [line for line in backward.splitlines() if "_n * n_m + i_" in line or "n_n2 + i_" in line]
    assert rows and all("i_n * n_" in line for line in rows)
    assert "(int64_t i_m = from" not in backward  # of which rows are shared out
