"""What is computed and then cut to a triangle is cut in its own memory."""

import pytest
import torch

from derive import axes, exp, op, sum, tensor, where
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

b, d, e, i, j = axes("b d e i j")


@op
def linear_attention(f, q: tensor[b, i, d], k: tensor[b, j, d], v: tensor[b, j, e]):
    f.a[b, i, j] = where(j <= i, sum(q[b, i, d] * k[b, j, d], over=d), 0)
    f.o[b, i, e] = sum(f.a[b, i, j] * v[b, j, e], over=j)
    return f.o


@op
def above(f, x: tensor[i, j]):
    f.y[i, j] = where(j > i, exp(x[i, j]) + x[i, j], 0)
    return f.y


@op
def as_it_is(f, x: tensor[b, i, j]):
    """What the caller gives is not written over."""
    f.y[b, i, j] = where(j <= i, x[b, i, j], 0)
    f.z[b, i, j] = f.y[b, i, j] * x[b, i, j]
    return f.y, f.z


@pytest.mark.parametrize("sizes", [(2, 4, 3, 5, 2), (1, 3, 5, 2, 2), (2, 1, 1, 1, 1), (2, 0, 3, 2, 2)])
def test_values_and_gradients(sizes):
    batch, rows, columns, inner, outer = sizes
    shapes = {"q": (batch, rows, inner), "k": (batch, columns, inner), "v": (batch, columns, outer)}
    assert_derived(linear_attention.op, lambda q, k, v: (q @ k.mT).tril() @ v, shapes)
    assert_derived(above.op, lambda x: (x.exp() + x).triu(1), {"x": (rows, columns)})


def test_what_is_ours_is_cut_where_it_lies():
    assert code_of(linear_attention.op).count(".tril_()") == 2 and ".tril()" not in code_of(linear_attention.op)
    assert ".triu_(1)" in code_of(above.op)
    assert "x.tril()" in code_of(as_it_is.op)


def test_what_the_caller_gives_stays():
    x = torch.ones(1, 2, 2)
    module(as_it_is.op).as_it_is(x)
    assert x.eq(1).all()
