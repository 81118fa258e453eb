"""A sum over axes on both sides of a tensor's own is a product of matrices for each place of the first, added up."""

import pytest
import torch

from derive import axes, op, sum, tensor
from derive.ir.equations import Op
from derive.verify.verify import verify
from generated._functions import sum_of_products
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

b, i, j, n, t = axes("b i j n t")
three = axes("three=3")


@op
def mixed(f, x: tensor[b, t, i], w: tensor[j, t]):
    """The places of a sequence, mixed alike in every channel (Tolstikhin et al., 2021)."""
    f.y[b, j, i] = sum(w[j, t] * x[b, t, i], over=t)
    return f.y


@op
def of_any(f, x: tensor[..., t, i], w: tensor[j, t]):
    f.y[..., j, i] = sum(w[j, t] * x[..., t, i], over=t)
    return f.y


@op
def of_more(f, x: tensor[b, n, t, i], w: tensor[j, t]):
    f.y[b, n, j, i] = sum(w[j, t] * x[b, n, t, i], over=t)
    return f.y


@op
def of_three(f, x: tensor[b, t, three], w: tensor[j, t]):
    """What is made for each place may be larger than all that it is made of."""
    f.y[b, j, three] = sum(w[j, t] * x[b, t, three], over=t)
    return f.y


CASES = [
    (mixed.op, [(4, 3, 5)], "sum_of_products(dy, x)"),
    (of_any.op, [(3, 5), (4, 3, 5), (2, 4, 3, 5), (2, 0, 3, 5)], "sum_of_products(dy, x)"),
    (of_more.op, [(2, 4, 3, 5), (1, 1, 1, 1)], "sum_of_products(dy, x)"),
    (of_three.op, [(4, 3, 3), (2, 40, 3)], "sum_of_products(dy, x)"),
]


@pytest.mark.parametrize(("made", "shapes", "code"), CASES, ids=[made.name for made, *_ in CASES])
def test_gradients(made: Op, shapes: list[tuple[int, ...]], code: str) -> None:
    assert code in code_of(made).partition("_backward(")[2]
    for shape in shapes:
        assert_derived(made, lambda x, w: torch.einsum("jt,...ti->...ji", w, x), {"x": shape, "w": (30, shape[-2])})
    assert verify(made).right


@pytest.mark.parametrize(("lengths", "made"), [((50, 4, 4, 64), True), ((50, 64, 64, 3), False), ((7, 8, 8, 8), True)])
def test_products_are_made_where_they_are_small(
    lengths: tuple[int, ...], made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, i, j, k = lengths
    a, b, calls = torch.randn(n, i, k, dtype=torch.float64), torch.randn(n, j, k, dtype=torch.float64), []
    einsum = torch.einsum
    monkeypatch.setattr(torch, "einsum", lambda *args: calls.append(args) or einsum(*args))
    found = sum_of_products(a, b)
    torch.testing.assert_close(found, (a.mT.flatten(0, 1).T @ b.mT.flatten(0, 1)), rtol=1e-12, atol=1e-12)
    assert bool(calls) is not made


def test_float32_keeps_its_digits() -> None:
    """As one product along an axis as long as both it is off thirty times as far as what autograd adds up."""
    made, generator = module(mixed.op), torch.Generator().manual_seed(0)
    x, dy, w = (torch.randn(s, generator=generator) for s in ((2000, 4, 64), (2000, 3, 64), (3, 4)))
    exact = torch.einsum("bji,bti->jt", dy.double(), x.double())
    found = made.mixed_backward(dy, x, w).dw
    assert (found - exact).norm() <= 1e-6 * exact.norm()
