"""A matrix by several vectors along one axis is a matrix by their product: nothing else is as large as the matrix."""

import re

import pytest
import torch

from derive import axes, exp, op, sum, tensor
from derive.ir.equations import Op
from derive.verify.verify import verify
from generated._functions import sum_of_rows
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

b, d, i, j, n = axes("b d i j n")


@op
def by_two(f, k: tensor[i, j], u: tensor[j], v: tensor[j]):
    f.y[i] = sum(k[i, j] * u[j] * v[j], over=j)
    return f.y


@op
def quadratic(f, k: tensor[i, j], u: tensor[i], v: tensor[i], p: tensor[j], q: tensor[j]):
    f.y[()] = sum(k[i, j] * u[i] * v[i] * p[j] * q[j], over=(i, j))
    return f.y


@op
def rows(f, k: tensor[b, n, d], u: tensor[b, n], v: tensor[b, n]):
    f.y[d] = sum(k[b, n, d] * u[b, n] * v[b, n], over=(b, n))
    return f.y


@op
def blocks(f, k: tensor[b, n, d], u: tensor[b], v: tensor[b]):
    f.y[n, d] = sum(k[b, n, d] * u[b] * v[b], over=b)
    return f.y


@op
def rows_of_each(f, k: tensor[b, n, d], u: tensor[n], v: tensor[n]):
    f.y[b, d] = sum(k[b, n, d] * u[n] * v[n], over=n)
    return f.y


@op
def rows_of_any(f, k: tensor[..., n, d], u: tensor[n]):
    f.y[..., d] = sum(k[..., n, d] * u[n], over=n)
    return f.y


@op
def two_matrices(f, k: tensor[i, j], h: tensor[i, j], u: tensor[j]):
    f.y[i] = sum(k[i, j] * h[i, j] * u[j], over=j)
    return f.y


@op
def of_each_row(f, k: tensor[b, i, j], u: tensor[b, j], v: tensor[j]):
    f.y[b, i] = sum(k[b, i, j] * u[b, j] * v[j], over=j)
    return f.y


@op
def computed(f, k: tensor[i, j], u: tensor[j], v: tensor[j]):
    f.y[i] = sum(exp(k[i, j]) * u[j] * v[j], over=j)
    return f.y


CASES = [
    (by_two.op, "i j, j, j -> i", [(4, 5), (5,), (5,)], "k @ (u * v)"),
    (quadratic.op, "i j, i, i, j, j ->", [(4, 5), (4,), (4,), (5,), (5,)], "sum_of_rows(u * v, k)"),
    (rows.op, "b n d, b n, b n -> d", [(2, 3, 4), (2, 3), (2, 3)], "sum_of_rows(u * v, k)"),
    (blocks.op, "b n d, b, b -> n d", [(2, 3, 4), (2,), (2,)], "sum_of_rows(u * v, k.flatten(1))"),
    (rows_of_each.op, "b n d, n, n -> b d", [(2, 3, 4), (3,), (3,)], "sum_of_rows(u * v, k)"),
    (rows_of_any.op, "b e n d, n -> b e d", [(5, 2, 3, 4), (3,)], "sum_of_rows(u, k)"),
    (two_matrices.op, "i j, i j, j -> i", [(4, 5), (4, 5), (5,)], None),
    (of_each_row.op, "b i j, b j, j -> b i", [(2, 3, 4), (2, 4), (4,)], None),
]


@pytest.mark.parametrize(("made", "spec", "shapes", "code"), CASES, ids=[c[0].name for c in CASES])
def test_product_of_the_vectors(made: Op, spec: str, shapes: list[tuple[int, ...]], code: str | None) -> None:
    names = [o.name for o in made.operands]
    assert_derived(
        made, lambda **given: torch.einsum(spec, *(given[o] for o in names)), dict(zip(names, shapes, strict=True))
    )
    forward = code_of(made).partition("_backward(")[0]
    multiplied = re.search(r"\* k\b|\bk \*", forward)
    assert code in forward and not multiplied if code else "(u * v)" not in forward


@pytest.mark.parametrize("made", [made for made, *_ in CASES[:6]], ids=lambda o: o.name)
def test_in_every_situation(made: Op) -> None:
    assert verify(made).right


def test_what_is_computed_is_summed_as_it_is() -> None:
    assert_derived(computed.op, lambda k, u, v: k.exp() @ (u * v), {"k": (4, 5), "u": (5,), "v": (5,)})


k, s = axes("k s")


@op
def state_read(f, h: tensor[n, i, k, s], c: tensor[n, s]):
    """A state of matrices, read by one vector for all heads (SSD: Dao & Gu, 2024)."""
    f.y[n, i, k] = sum(h[n, i, k, s] * c[n, s], over=s)
    return f.y


@op
def state_written(f, h: tensor[n, i, k, s], x: tensor[n, i, k], t: tensor[n, i]):
    f.y[n, s] = sum(h[n, i, k, s] * x[n, i, k] * t[n, i], over=(i, k))
    return f.y


@pytest.mark.parametrize(
    ("made", "equation", "shapes", "expected"),
    [
        (state_read.op, "niks,ns->nik", ((2, 3, 4, 5), (2, 5)), 'torch.einsum("ns, niks -> nik", c, h)'),
        (
            state_written.op,
            "niks,nik,ni->ns",
            ((2, 3, 4, 5), (2, 3, 4), (2, 3)),
            'torch.einsum("nik, niks -> ns", t[:, :, None] * x, h)',
        ),
    ],
    ids=["read", "written"],
)
def test_a_tensor_by_a_vector_for_each_place_of_its_first_axis_is_products(
    made: Op, equation: str, shapes: tuple[tuple[int, ...], ...], expected: str
) -> None:
    """Nothing as large as the tensor is made."""
    assert expected in code_of(made).partition("_backward(")[0]
    names = [o.name for o in made.operands]
    lengths = dict(zip(names, shapes, strict=True))
    assert_derived(made, lambda **t: torch.einsum(equation, *(t[n] for n in names)), lengths)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200, 1000, 5000])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_sums_of_many_rows_keep_their_digits(count: int, width: int) -> None:
    """In float32 no worse than twice the error of `sum`, which a vector times a matrix is not from a few hundred on."""
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        weights, rows = torch.randn(count, generator=generator), torch.randn(count, width, generator=generator)
        exact = (weights.double()[:, None] * rows).sum(0)
        scale = (weights.double()[:, None] * rows).square().sum(0).sqrt()
        off, least = (
            ((found - exact) / scale).square().mean().sqrt().item() if count else found.abs().max().item()
            for found in (sum_of_rows(weights, rows), (weights[:, None] * rows).sum(0))
        )
        assert off <= 2 * max(least, 1e-7), (off, least)


def test_weights_of_rows_may_lie_anyhow() -> None:
    torch.manual_seed(0)
    rows = torch.randn(5, 40, 3, dtype=torch.float32).transpose(0, 1)
    for weights in (torch.randn(40, 5), torch.randn(5, 40).T, torch.randn(40, 5, 1), torch.randn(()).expand(40, 5)):
        exact = (weights.reshape(40, 5, 1).double() * rows).sum((0, 1))
        torch.testing.assert_close(sum_of_rows(weights, rows).double(), exact, rtol=1e-5, atol=1e-5)
    for count, wide in ((40, 5), (100, 5), (100, 120), (128, 120)):
        weights, each = torch.randn(count), torch.randn(3, 2, wide, count).mT
        exact = (weights.double()[:, None] * each).sum(-2)
        torch.testing.assert_close(sum_of_rows(weights, each).double(), exact, rtol=1e-5, atol=1e-5)
    long, one = torch.randn(3, 20_000).T, torch.ones(()).expand(20_000)
    exact, off = long.double().sum(0), 20_000**0.5 * 1e-6  # of sums as large as 140, a few roundings
    compiled = torch.compile(sum_of_rows, backend="eager", fullgraph=True, dynamic=True)
    for found in (sum_of_rows(one, long), compiled(one, long)):
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=off)
