"""What may be infinite stays behind masks that differ: nothing flows through a branch that is not taken."""

import pytest
import torch
from torch import Tensor

from derive import axes, constant, op, sqrt, tensor, where
from derive.ir.equations import Op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, h = axes("n h")


@op
def two_masks(f, x: tensor[h], a: constant[h], b: constant[h]):
    f.y[h] = sqrt(where(a[h] > 0, x[h], 0) ** 2 + where(b[h] > 0, x[h], 0) ** 2)
    return f.y


@op
def products(f, x: tensor[n, h], w: tensor[h], a: constant[h], b: constant[h]):
    f.y[n, h] = (where(a[h] > 0, x[n, h], 0) ** 2 + where(b[h] > 0, w[h] * x[n, h], 0) ** 2) ** (1 / 4)
    return f.y


@op
def one_or_the_other(f, x: tensor[h], a: constant[h]):
    f.y[h] = sqrt(where(a[h] > 0, x[h], 0) ** 2 + where(a[h] > 0, 0, 3 * x[h]) ** 2)
    return f.y


def _two_masks(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return (torch.where(a > 0, x, 0) ** 2 + torch.where(b > 0, x, 0) ** 2).sqrt()


def _products(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return (torch.where(a > 0, x, 0) ** 2 + torch.where(b > 0, w * x, 0) ** 2) ** 0.25


@pytest.mark.parametrize(
    ("made", "plain", "shapes"), [(two_masks.op, _two_masks, [(4,)]), (products.op, _products, [(3, 4), (4,)])]
)
def test_a_root_of_nothing_has_no_gradient(made: Op, plain, shapes: list[tuple[int, ...]]) -> None:
    """At the last place neither mask holds: the root is 0, and 1 divided by it infinite."""
    a = torch.tensor([1.0, -1, 1, -1], dtype=torch.float64)
    b = torch.tensor([-1.0, 1, 1, -1], dtype=torch.float64)
    leaves = [torch.rand(s, dtype=torch.float64) + 0.5 for s in shapes]
    leaves = [t.requires_grad_() for t in leaves]
    assert_alike(getattr(module(made), made.name)(*leaves, a, b), plain(*leaves, a, b), leaves)
    y = getattr(module(made), made.name)(*leaves, a, b)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(y.sum(), leaves))


def test_of_one_mask_and_its_opposite_one_holds() -> None:
    code = code_of(one_or_the_other.op)
    assert "(a_above_zero.view(torch.int8).to(dy.dtype), 0, 9).mul_(dy).mul_(x).div_(y)" in code, code
