"""An index that is only summed over is local to its sum: it is as long as the windows of that sum allow."""

import pytest
from torch import Tensor

from derive import amax, axes, mean, op, size, sum, tensor
from derive.errors import DeriveError
from derive.ir.equations import Op
from tests.derive.live import assert_derived_at

h, w, i, j, k = axes("h w i j k")


@op
def of_rows_and_columns(f, x: tensor[h, w]):
    """Total variation, both sums over an index of one name."""
    f.y[()] = sum((x[i + 1, w] - x[i, w]) ** 2, over=(i, w)) + sum((x[h, i + 1] - x[h, i]) ** 2, over=(h, i))
    return f.y


@op
def of_several_equations(f, x: tensor[h, w]):
    """Neighbours, every second one, and a maximum of all."""
    f.a[w] = sum((x[i + 1, w] - x[i, w]) ** 2, over=i)
    f.b[h] = mean((x[h, i + 2] - x[h, i]) ** 2, over=i)
    f.y[w, h] = f.a[w] * f.b[h] + amax(x[h, i], over=i)
    return f.y


@op
def with_a_sum_inside(f, x: tensor[h, w]):
    """What is split off from a sum goes with it."""
    f.y[()] = sum(x[i + 1, j] * x[i, j] / (1 + sum(x[i, k] ** 2, over=k)), over=(i, j)) + sum(
        x[i + 2, j] * x[i, j], over=(i, j)
    )
    return f.y


def _several(x: Tensor) -> Tensor:
    a, b = x.diff(dim=0).square().sum(0), (x[:, 2:] - x[:, :-2]).square().mean(1)
    return a[:, None] * b + x.amax(1)


def _with_sums(x: Tensor) -> Tensor:
    shares = x[1:] * x[:-1] / (1 + x[:-1].square().sum(1, keepdim=True))
    return shares.sum() + (x[2:] * x[:-2]).sum()


OPS = [
    (of_rows_and_columns.op, lambda x: x.diff(dim=0).square().sum() + x.diff(dim=1).square().sum()),
    (of_several_equations.op, _several),
    (with_a_sum_inside.op, _with_sums),
]


@pytest.mark.parametrize("made, reference", OPS, ids=[made.name for made, _ in OPS])
@pytest.mark.parametrize("lengths", [{"h": 3, "w": 5}, {"h": 5, "w": 3}, {"h": 4, "w": 4}])
def test_each_sum_runs_over_its_own_places(made: Op, reference, lengths: dict[str, int]) -> None:
    assert_derived_at(made, reference, lengths)


def test_its_length_is_not_asked_for_where_it_has_several() -> None:
    with pytest.raises(DeriveError, match=r"equation y: size\(i\) is asked for, but i is size\(w\) - 1 in one sum and"):

        @op
        def asked(f, x: tensor[h, w]):
            f.y[()] = (sum(x[i + 1, w] * x[i, w], over=(i, w)) + sum(x[h, i + 1] * x[h, i], over=(h, i))) / size(i)
            return f.y


@op
def of_one_length(f, x: tensor[h, w]):
    """Both sums go by the same places: their index is one axis."""
    f.y[w] = sum((x[i + 1, w] - x[i, w]) ** 2, over=i) / (1 + sum(x[i + 1, w] * x[i, w], over=i))
    return f.y


def test_of_one_length_it_is_one_axis() -> None:
    assert {a.base for e in of_one_length.op.equations for a in e.over} == {"i"}
