"""Tables that are larger than all that they are made of are made again where they are read, and lie nowhere."""

from __future__ import annotations

import re
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
n, i, j, h, w, p, q, d = axes("n i j h w p q d")


@op
def contrast(f, x: tensor[n, h, w], y: tensor[n, h, w], rows: length(p) = 3, cols: length(q) = 4):
    f.a[n, i, j] = mean(x[n, i + p, j + q], over=(p, q))
    f.b[n, i, j] = mean(y[n, i + p, j + q], over=(p, q))
    f.v[n, i, j] = mean((x[n, i + p, j + q] - f.a[n, i, j]) ** 2, over=(p, q))
    f.c[n, i, j] = mean((x[n, i + p, j + q] - f.a[n, i, j]) * (y[n, i + p, j + q] - f.b[n, i, j]), over=(p, q))
    f.loss[()] = mean(f.c[n, i, j] / (f.v[n, i, j] + 1), over=(n, i, j))
    return f.loss


@op
def distances(f, x: tensor[i], y: tensor[j], w: tensor[i, j]):
    f.d[i, j] = x[i] - y[j]
    f.s[i] = sum(w[i, j] * sqrt(f.d[i, j] ** 2 + 1), over=j)
    f.loss[()] = sum(f.s[i] ** 2, over=i)
    return f.loss


@op
def sloping(f, x: tensor[i, d], y: tensor[j, d], w: tensor[d]):
    f.u[i, j, d] = x[i, d] + y[j, d]
    f.s[i, j] = sum(w[d] * where(f.u[i, j, d] > 0, f.u[i, j, d], 0.2 * f.u[i, j, d]), over=d)
    f.loss[()] = mean(f.s[i, j] ** 2, over=(i, j))
    return f.loss


@op
def sloping_larger(f, x: tensor[i, d], y: tensor[j, d], w: tensor[d]):
    f.u[i, j, d] = x[i, d] + y[j, d]
    f.s[i, j] = sum(w[d] * maximum(f.u[i, j, d], 0.2 * f.u[i, j, d]), over=d)
    f.loss[()] = mean(f.s[i, j] ** 2, over=(i, j))
    return f.loss


@op
def paired(f, x: tensor[i, d], y: tensor[j, d], tau: scalar = 0.5):
    # a table of conditions that is all that a pass makes: without it the pass is empty
    f.a[i] = rsqrt(sum(x[i, d] ** 2, over=d))
    f.b[j] = rsqrt(sum(y[j, d] ** 2, over=d))
    f.s[i, j] = f.a[i] * f.b[j] * sum(x[i, d] * y[j, d], over=d) / tau
    f.p[i, j] = f.s[i, j] - log(sum(exp(f.s[i, j] - amax(f.s[i, j], over=j)), over=j)) - amax(f.s[i, j], over=j)
    f.loss[()] = -sum(delta(i, j) * f.p[i, j], over=(i, j)) / size(i)
    return f.loss
"""


def _contrast(x: Tensor, y: Tensor) -> Tensor:
    x, y = (t.unfold(1, 3, 1).unfold(2, 4, 1) for t in (x, y))
    x, y = (t - t.mean((3, 4), keepdim=True) for t in (x, y))
    return ((x * y).mean((3, 4)) / (x.square().mean((3, 4)) + 1)).mean()


def _distances(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    return ((w * ((x[:, None] - y) ** 2 + 1).sqrt()).sum(1) ** 2).sum()


def _sloping(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    return (torch.nn.functional.leaky_relu(x[:, None] + y, 0.2) @ w).square().mean()


def _paired(x: Tensor, y: Tensor) -> Tensor:
    s = torch.nn.functional.normalize(x, dim=1) @ torch.nn.functional.normalize(y, dim=1).T / 0.5
    return -s.log_softmax(1).diagonal().sum() / len(x)


CASES: list[tuple[str, Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = [
    ("contrast", _contrast, ((2, 9, 40), (2, 9, 40))),
    ("contrast", _contrast, ((3, 3, 4), (3, 3, 4))),
    ("distances", _distances, ((70,), (50,), (70, 50))),
    ("sloping", _sloping, ((70, 33), (50, 33), (33,))),
    ("sloping_larger", _sloping, ((70, 33), (50, 33), (33,))),
    ("paired", _paired, ((40, 9), (40, 9))),
]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("name", "reference", "shapes"), CASES)
def test_a_loss_with_its_gradients(
    native: ModuleType,
    threads: Callable[[int], None],
    name: str,
    reference: Callable[..., Tensor],
    shapes: tuple[tuple[int, ...], ...],
    count: int,
) -> None:
    torch.manual_seed(0)
    threads(count)
    leaves = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]
    loss = reference(*leaves)
    found, gradients = getattr(native, f"{name}_with_gradients")(*(x.detach() for x in leaves))
    torch.testing.assert_close(found, loss.detach(), rtol=1e-12, atol=0)
    for got, want in zip(tensors_in(gradients), torch.autograd.grad(loss, leaves), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-13 * float(want.abs().max()))


TABLES = {
    "contrast": "n_i * n_j * n_p * n_q", "distances": "n_i * n_j", "sloping": "n_i * n_j * n_d",
    "sloping_larger": "n_i * n_j * n_d",
}  # fmt: skip


@pytest.mark.parametrize(("name", "table"), TABLES.items())
def test_no_table_lies_in_memory(native: ModuleType, name: str, table: str) -> None:
    text = Path(f"{native.__path__[0]}/{name}.c").read_text()
    taken = [size for size in re.findall(r"= take\(&next, (.*), sizeof", text) if "chunks" not in size]
    assert taken and not [size for size in taken if table in size], taken
