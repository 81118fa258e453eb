"""What an index picks for each of other axes, whole behind it, is a row for each place: no index for every element."""

import pytest
import torch
from torch import Tensor

from derive import axes, exp, index, op, sigmoid, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

b, d, e, i, k, n = axes("b d e i k n")


@op
def best_expert(f, z: tensor[n, k], y: tensor[n, k, d, e], best: index(k)[n]):
    f.o[n, d, e] = sigmoid(z[n, best[n]]) * y[n, best[n], d, e]
    return f.o


@op
def twice(f, y: tensor[n, k, d], one: index(k)[n], other: index(k)[n]):
    f.o[n, d] = y[n, one[n], d] * y[n, other[n], d]
    return f.o


@op
def rows_of_a_diagonal(f, y: tensor[n, n, k, d], at: index(k)[n]):
    f.o[n, d] = y[n, n, at[n], d]
    return f.o


@op
def other_axes_first(f, y: tensor[d, n, k], at: index(k)[n, b]):
    f.o[b, n, d] = y[d, n, at[n, b]] ** 2
    return f.o


@op
def in_front(f, y: tensor[..., k, d], at: index(k)[...]):
    f.o[..., d] = y[..., at[...], d] ** 2
    return f.o


@op
def gap(f, z: tensor[n, k], at: index(k)[n]):
    f.o[n, k] = exp(z[n, k] - z[n, at[n]])
    return f.o


def rows(y: Tensor, at: Tensor) -> Tensor:
    return y[torch.arange(len(y)), at]


def chosen(z: Tensor, y: Tensor, best: Tensor) -> Tensor:
    return rows(z, best).sigmoid()[:, None, None] * rows(y, best)


def product(y: Tensor, one: Tensor, other: Tensor) -> Tensor:
    return rows(y, one) * rows(y, other)


def stacked(y: Tensor, at: Tensor) -> Tensor:
    return torch.stack([rows(*pair).square() for pair in zip(y, at, strict=True)])


R, AT = torch.randn, torch.tensor([0, 2, 2, 1])
CASES = [
    (best_expert, chosen, (R(4, 3), R(4, 3, 5, 2), AT)),
    (best_expert, chosen, (R(4, 4), R(4, 4, 4, 4), AT)),
    (best_expert, chosen, (R(0, 3), R(0, 3, 5, 2), AT[:0])),
    (twice, product, (R(4, 3, 5), AT, AT.flip(0))),
    (twice, product, (R(4, 3, 0), AT, AT)),
    (rows_of_a_diagonal, lambda y, at: rows(y.diagonal().movedim(-1, 0), at), (R(4, 4, 3, 5), AT)),
    (other_axes_first, lambda y, at: rows(y.movedim(0, 2), at[:, 0]).square()[None], (R(5, 4, 3), AT[:, None])),
    (in_front, lambda y, at: rows(y, at).square(), (R(4, 3, 5), AT)),
    (in_front, stacked, (R(2, 2, 3, 5), AT.view(2, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("made", "reference", "given"), CASES)
def test_values_and_gradients(made, reference, given):
    given = [g.double().requires_grad_() if g.is_floating_point() else g for g in given]
    leaves = [g for g in given if g.is_floating_point()]
    assert_alike(getattr(module(made.op), made.op.name)(*given), reference(*given), leaves)


def test_the_rows_are_read_and_written_whole():
    code = code_of(best_expert.op)
    assert "y[torch.arange(n, device=z.device), best]" in code
    assert ".index_put_((n_range, best)," in code
    assert " d_range" not in code and " e_range" not in code


def test_what_is_picked_keeps_its_dimension_where_it_meets_the_others():
    assert "(z - z.gather(1, at.unsqueeze(1))).exp_()" in code_of(gap.op)
