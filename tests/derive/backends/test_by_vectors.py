"""A matrix by several vectors along one axis is a matrix by their product: nothing else is as large as the matrix."""

import pytest
import torch

from derive import axes, exp, op, sum, tensor
from derive.equations import Op
from derive.verify.verify import verify
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
    (quadratic.op, "i j, i, i, j, j ->", [(4, 5), (4,), (4,), (5,), (5,)], "u * v @ k\n"),
    (rows.op, "b n d, b n, b n -> d", [(2, 3, 4), (2, 3), (2, 3)], "@ k.flatten(0, 1)"),
    (blocks.op, "b n d, b, b -> n d", [(2, 3, 4), (2,), (2,)], "u * v @ k.flatten(1)"),
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
    assert code in forward and "* k" not in forward and "k *" not in forward if code else "(u * v)" not in forward


@pytest.mark.parametrize("made", [by_two.op, quadratic.op, rows.op, blocks.op], ids=lambda o: o.name)
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
