"""What is known of a sum of what is chosen is known of a product with the choice; one chosen place needs no sum."""

import pytest
import torch
from torch import Tensor

from derive import amax, axes, constant, eq, exp, index, log, mean, op, scalar, sin, sum, tensor, where
from derive.ir.equations import Op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, m, c = axes("n m c")


def shares(f, s):
    f.u[n, m] = exp(s[n, m] - amax(s[n, m], over=m))
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    return f.p


@op
def hits(f, s: tensor[n, m], y: constant[n], q: constant[m], eps: scalar = 1e-3):
    """Components of neighbours (Goldberger et al., 2004)."""
    p = shares(f, s)
    f.hit[n] = sum(where(eq(y[n], q[m]), p[n, m], 0), over=m)
    f.loss[()] = -mean(log(f.hit[n] + eps), over=n)
    return f.loss


@op
def hits_alone(f, s: tensor[n, m], y: constant[n], q: constant[m]):
    p = shares(f, s)
    f.hit[n] = sum(where(eq(y[n], q[m]), p[n, m], 0), over=m)
    f.loss[n] = where(f.hit[n] > 0, log(f.hit[n]), 0)
    return f.loss


def _hits(s: Tensor, y: Tensor, q: Tensor) -> Tensor:
    return torch.where(y[:, None] == q, s.softmax(1), 0).sum(1)


def _backward(made: Op) -> str:
    return code_of(made).partition("_backward(")[2].partition("class ")[0]


def _inputs() -> list[Tensor]:
    """The second row has no hit."""
    s = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    return [s, torch.tensor([1.0, 7.0, 2.0]), torch.tensor([1.0, 2.0, 2.0, 3.0])]


def test_the_saved_sum_is_read() -> None:
    s, y, q = _inputs()
    assert_alike(module(hits.op).hits(s, y, q), -(_hits(s, y, q) + 1e-3).log().mean(), [s])
    assert ".sum(" not in _backward(hits.op), _backward(hits.op)


def test_not_where_none_may_be_chosen_and_it_is_divided_by() -> None:
    """The gradient of a row without a hit is 0: the choice keeps what is divided by 0 out of it."""
    s, y, q = _inputs()
    hit = _hits(s, y, q)
    assert_alike(module(hits_alone.op).hits_alone(s, y, q), torch.where(hit > 0, hit, 1).log(), [s])


@op
def with_margin(f, s: tensor[n, c], y: index(c)[n], margin: scalar = 0.5):
    """Another value at the label (after ArcFace: Deng et al., 2019)."""
    f.z[n, c] = where(eq(c, y[n]), sin(s[n, y[n]] + margin), s[n, c])
    f.l[n] = log(sum(exp(f.z[n, c]), over=c))
    return f.l


@pytest.mark.parametrize("labels", [[0, 3, 3], [1, 1, 1]])
def test_no_table_of_one_place_a_row_is_summed(labels: list[int]) -> None:
    s = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    y = torch.tensor(labels)
    z = torch.where(torch.nn.functional.one_hot(y, 4) == 1, torch.sin(s.gather(1, y[:, None]) + 0.5), s)
    assert_alike(module(with_margin.op).with_margin(s, y), z.logsumexp(1), [s])
    assert "new_zeros" not in _backward(with_margin.op), _backward(with_margin.op)


@op
def beside_its_label(f, s: tensor[n, c], w: tensor[n, m], y: index(c)[n]):
    """What stands beside the place is read of every place: an index plus 1 is no place."""
    f.o[n, c] = where(eq(c, y[n]), s[n, y[n]] * w[n, c + 1], s[n, c])
    return f.o


def test_a_choice_stays_one_where_a_window_is_read_in_it() -> None:
    generator = torch.Generator().manual_seed(2)
    s = torch.randn(3, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    w = torch.randn(3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    y = torch.tensor([0, 3, 1])
    z = torch.where(torch.nn.functional.one_hot(y, 4) == 1, s.gather(1, y[:, None]) * w[:, 1:], s)
    assert_alike(module(beside_its_label.op).beside_its_label(s, w, y), z, [s, w])
