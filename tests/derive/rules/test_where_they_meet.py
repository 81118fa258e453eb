"""What a choice keeps where two axes meet, or where an index names a place, is computed at these places alone."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import amax, axes, delta, eq, exp, index, log, ne, oo, op, scalar, sigmoid, sqrt, sum, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from derive.rules.index.where_they_meet import computed_where_they_meet
from tests.derive.live import assert_alike, assert_derived, chooses, module

b, c, d, e, n = axes("b c d e n")


@op
def factor(f, r: tensor[n, d], m: tensor[n, d, d]):
    f.low[n, d, e] = where(e < d, m[n, d, e], 0) + where(eq(d, e), exp(m[n, d, e]), 0)
    f.y[n, e] = sum(f.low[n, d, e] * r[n, d], over=d)
    return f.y


@op
def nested(f, r: tensor[n, d], m: tensor[n, d, d]):
    f.low[n, d, e] = where(e < d, m[n, d, e], where(ne(e, d), 0, exp(m[n, d, e])))
    f.y[n, e] = sum(f.low[n, d, e] * r[n, d], over=d)
    return f.y


@op
def by_delta(f, r: tensor[n, d], m: tensor[n, d, d]):
    f.low[n, d, e] = where(e < d, m[n, d, e], delta(d, e) * exp(m[n, d, e]))
    f.y[n, e] = sum(f.low[n, d, e] * r[n, d], over=d)
    return f.y


def _factor(r: Tensor, m: Tensor) -> Tensor:
    return torch.einsum("nde,nd->ne", m.tril(-1) + torch.diag_embed(m.diagonal(dim1=1, dim2=2).exp()), r)


@pytest.mark.parametrize("made", [factor, nested, by_delta])
def test_an_exponential_is_taken_on_the_diagonal(made) -> None:
    code = render(derivation_of(made.op))
    assert "torch.exp(m.diagonal(dim1=1, dim2=2))" in code and not chooses(code), code
    assert_derived(made.op, _factor, {"r": (3, 4), "m": (3, 4, 4)})
    assert_derived(made.op, _factor, {"r": (1, 1), "m": (1, 1, 1)})


@op
def both(f, m: tensor[d, d]):
    f.y[d, e] = where(eq(e, d), exp(m[d, e]), 2 * m[d, e] ** 3)
    return f.y


def test_what_holds_elsewhere_is_written_over_on_the_diagonal() -> None:
    code = render(derivation_of(both.op))
    assert "y.diagonal().copy_(torch.exp(m.diagonal()))" in code and "fill_diagonal_" not in code, code
    eye = torch.eye(4, dtype=torch.bool)
    assert_derived(both.op, lambda m: torch.where(eye, m.exp(), 2 * m**3), {"m": (4, 4)})


@op
def infinite(f, m: tensor[d, d]):
    f.s[d, e] = where(eq(d, e), log(m[d, e] ** 2 + 1), -oo)
    f.y[d] = amax(f.s[d, e], over=e)
    return f.y


def test_nothing_is_taken_off_what_is_infinite() -> None:
    assert_derived(infinite.op, lambda m: (m.diagonal() ** 2 + 1).log(), {"m": (4, 4)})


@op
def unequal(f, m: tensor[d, e]):
    f.y[d, e] = where(eq(d, e), exp(m[d, e]), m[d, e])
    return f.y


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_axes_of_other_lengths_are_read_where_both_have_places(shape) -> None:
    assert computed_where_they_meet(unequal.op) == unequal.op
    eye = torch.eye(*shape, dtype=torch.bool)
    assert_derived(unequal.op, lambda m: torch.where(eye, m.exp(), m), {"m": shape})


@op
def focal(f, z: tensor[n, c], y: index(c)[n], gamma: scalar = 2.0):
    f.p[n, c] = sigmoid(z[n, c])
    f.loss[n, c] = where(
        eq(c, y[n]), -((1 - f.p[n, c]) ** gamma) * log(f.p[n, c]), -(f.p[n, c] ** gamma) * log(1 - f.p[n, c])
    )
    return f.loss


def _focal(z: Tensor, y: Tensor) -> Tensor:
    p, hot = z.sigmoid(), functional.one_hot(y, z.shape[1]).bool()
    there = -((1 - p) ** 2) * functional.logsigmoid(z)
    return torch.where(hot, there, -(p**2) * functional.logsigmoid(-z))


def test_the_value_of_a_label_is_computed_for_the_label() -> None:
    code = render(derivation_of(focal.op))
    assert code.count("functional.softplus(z, ") == 1, code  # that of all others; the label's is of -z_y
    assert ".scatter_(1, y.unsqueeze(1), 0)" not in code and "scatter_add_" not in code, code
    y = torch.tensor([0, 2, 2])
    z = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert_alike(module(focal.op).focal(z, y), _focal(z, y), [z])


@op
def margin(f, z: tensor[n, c], y: index(c)[n], m: scalar = 0.35):
    f.s[n, c] = where(eq(c, y[n]), z[n, c] - m * sqrt(1 + z[n, c] ** 2), z[n, c])
    return f.s


def test_one_value_a_row_is_put_into_what_is_at_hand() -> None:
    """The table elsewhere is the input itself: there is nothing to be saved."""
    assert computed_where_they_meet(margin.op) == margin.op


@op
def moved(f, m: tensor[d, d]):
    f.y[d, e] = where(eq(d, e), exp(m[d, e]) + 3, exp(m[d, e]))
    return f.y


def test_a_number_more_on_the_diagonal_is_added_there() -> None:
    assert "y.diagonal().add_(3)" in render(derivation_of(moved.op))
    assert_derived(moved.op, lambda m: m.exp() + 3 * torch.eye(4, dtype=m.dtype), {"m": (4, 4)})


@op
def ignoring(f, z: tensor[n, c], y: index(c)[n]):
    f.loss[n, c] = where(ne(y[n], -100), where(eq(c, y[n]), log(sigmoid(z[n, c])), log(1 - sigmoid(z[n, c]))), 0)
    return f.loss


def test_an_index_that_may_name_no_place_reads_nothing() -> None:
    z = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    y = torch.tensor([1, -100, 3])
    hot = functional.one_hot(y.clamp(min=0), 4).bool()
    right = torch.where(hot, functional.logsigmoid(z), functional.logsigmoid(-z)) * (y != -100)[:, None]
    assert_alike(module(ignoring.op).ignoring(z, y), right, [z])
