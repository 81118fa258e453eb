"""Where nothing is left to share, a maximum that is subtracted for safety gets no gradient either."""

import pytest
import torch
from torch import Tensor

from derive.collapse.emptied import as_if_filled, totals
from derive.collapse.vocabulary import name_sums
from derive.ir.algebra import normal, sigma
from derive.ir.equations import Op
from derive.ir.terms.elements import At
from derive.ir.terms.elements import Tensor as Named
from derive.notation import amax, axes, constant, eq, exp, index, length, mean, ne, oo, op, sum, tensor, where
from derive.pipeline import derivation_of
from derive.rules.index.selections import selected
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, c, d, e = axes("n c d e")


@op
def divided_first(f, x: tensor[n, c], keep: constant[n, c], v: tensor[c, d]):
    f.w[n, c] = where(keep[n, c] > 0, x[n, c], -oo)
    f.m[n] = amax(f.w[n, c], over=c)
    f.u[n, c] = exp(f.w[n, c] - where(f.m[n] > -oo, f.m[n], 0))
    f.z[n] = sum(f.u[n, c], over=c)
    f.o[n, d] = sum(f.u[n, c] / where(f.z[n] > 0, f.z[n], 1) * v[c, d], over=c)
    return f.o


@op
def by_its_shares(f, x: tensor[n, c], keep: constant[n, c], v: tensor[c, d]):
    f.w[n, c] = where(keep[n, c] > 0, x[n, c], -oo)
    f.m[n] = amax(f.w[n, c], over=c)
    f.u[n, c] = exp(f.w[n, c] - where(f.m[n] > -oo, f.m[n], 0))
    f.z[n] = sum(f.u[n, c], over=c)
    f.p[n, c] = f.u[n, c] / where(ne(f.z[n], 0), f.z[n], 1)
    f.o[n, d] = sum(f.p[n, c] * v[c, d], over=c)
    return f.o


@op
def shares_or_nothing(f, x: tensor[n, c], keep: constant[n, c], v: tensor[c, d]):
    f.w[n, c] = where(keep[n, c] > 0, x[n, c], -oo)
    f.m[n] = amax(f.w[n, c], over=c)
    f.u[n, c] = exp(f.w[n, c] - where(f.m[n] > -oo, f.m[n], 0))
    f.z[n] = mean(f.u[n, c], over=c)
    f.p[n, c] = where(f.z[n] > 0, f.u[n, c] / f.z[n], 0)
    f.o[n, d] = mean(f.p[n, c] * v[c, d], over=c)
    return f.o


@op
def divided_last(f, x: tensor[n, c], keep: constant[n, c], v: tensor[c, d]):
    f.w[n, c] = where(keep[n, c] > 0, x[n, c], -oo)
    f.m[n] = amax(f.w[n, c], over=c)
    f.u[n, c] = exp(f.w[n, c] - where(f.m[n] > -oo, f.m[n], 0))
    f.z[n] = sum(f.u[n, c], over=c)
    f.o[n, d] = sum(f.u[n, c] * v[c, d], over=c) / where(eq(f.z[n], 0), 1, f.z[n])
    return f.o


SPELLINGS = [divided_first.op, by_its_shares.op, shares_or_nothing.op, divided_last.op]


def _maximum_is_kept(made: Op) -> bool:
    return "m" in derivation_of(made).kept or "w" in derivation_of(made).kept


def _case(rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, two of them the largest of their row, a mask that leaves nothing of one row, and values."""
    generator = torch.Generator().manual_seed(0)
    x, v = (torch.randn(shape, generator=generator).double() for shape in ((rows, columns), (columns, 3)))
    keep = (torch.rand(rows, columns, generator=generator) > 0.4).double()
    keep[2], keep[1], x[1, :2] = 0, 1, 3
    return x.requires_grad_(), keep, v.requires_grad_()


def _weighted(x: Tensor, keep: Tensor, v: Tensor) -> Tensor:
    nothing = x.sum() * 0 + v[0] * 0
    rows = [row[k].softmax(0) @ v[k] if k.any() else nothing for row, k in zip(x, keep > 0, strict=True)]
    return torch.stack(rows)


@pytest.mark.parametrize("made", SPELLINGS, ids=lambda made: made.name)
@pytest.mark.parametrize("columns", [4, 5])
def test_a_softmax_that_may_have_nothing_to_share(made: Op, columns: int) -> None:
    assert not _maximum_is_kept(made)
    x, keep, v = _case(5, columns)
    assert_alike(getattr(module(made), made.name)(x, keep, v), _weighted(x, keep, v), [x, v])


@op
def of_groups(f, x: tensor[e], of: index(n)[e], keep: constant[e], v: tensor[e, d], groups: length(n)):
    f.w[e] = where(keep[e] > 0, x[e], -oo)
    f.top[n] = amax(where(eq(of[e], n), f.w[e], -oo), over=e)
    f.shift[n] = where(f.top[n] > -oo, f.top[n], 0)
    f.u[e] = exp(f.w[e] - f.shift[of[e]])
    f.z[n] = sum(where(eq(of[e], n), f.u[e], 0), over=e)
    f.o[n, d] = sum(where(eq(of[e], n), f.u[e] * v[e, d], 0), over=e) / where(f.z[n] > 0, f.z[n], 1)
    return f.o


def test_groups_of_which_some_have_nothing_to_share() -> None:
    assert "ties" not in code_of(of_groups.op) and not {"top", "w"} & set(derivation_of(of_groups.op).kept)
    of = torch.tensor([2, 0, 2, 2, 4, 0, 4])  # 1 and 3 are empty, of 4 nothing is kept
    keep = torch.tensor([1, 1, 1, 0, 0, 1, 0]).double()
    x = torch.tensor([2.0, 3, 2, 9, 5, 1, 4], dtype=torch.float64, requires_grad=True)
    v = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    inside = (of == torch.arange(5)[:, None]) & (keep > 0)
    wanted = _weighted(x.expand(5, -1), inside.double(), v)
    assert_alike(module(of_groups.op).of_groups(x, of, keep, v, 5), wanted, [x, v])


@op
def no_less_than_two(f, x: tensor[n, c], v: tensor[c, d]):
    """Where the sum is above 0 it may still be below 2: there the maximum has a gradient."""
    f.m[n] = amax(x[n, c], over=c)
    f.u[n, c] = exp(x[n, c] - f.m[n])
    f.z[n] = sum(f.u[n, c], over=c)
    f.o[n, d] = sum(f.u[n, c] * v[c, d], over=c) / where(f.z[n] > 2, f.z[n], 2)
    return f.o


@op
def with_a_term_more(f, x: tensor[n, c], v: tensor[c, d]):
    """What is added beside the shares is not 0 where these are."""
    f.m[n] = amax(x[n, c], over=c)
    f.u[n, c] = exp(x[n, c] - f.m[n])
    f.z[n] = sum(f.u[n, c], over=c)
    f.o[n, d] = (sum(f.u[n, c] * v[c, d], over=c) + v[0, d]) / where(f.z[n] > 0, f.z[n], 1)
    return f.o


@op
def of_either_sign(f, x: tensor[n, c], v: tensor[c, d]):
    """A scale is of no account where the sum is above 0; elsewhere it is, since what is added up may be negative."""
    f.m[n] = amax(x[n, c], over=c)
    f.u[n, c] = x[n, c] * f.m[n]
    f.z[n] = sum(f.u[n, c], over=c)
    f.o[n, d] = sum(f.u[n, c] * v[c, d], over=c) / where(f.z[n] > 0, f.z[n], 1)
    return f.o


def _shifted(x: Tensor) -> Tensor:
    return (x - x.amax(1, keepdim=True)).exp()


def _by_either_sign(x: Tensor, v: Tensor) -> Tensor:
    u = x * x.amax(1, keepdim=True)
    z = u.sum(1, keepdim=True)
    return u @ v / z.where(z > 0, 1)


OTHERS = {
    no_less_than_two.op: lambda x, v: _shifted(x) @ v / _shifted(x).sum(1, keepdim=True).clamp(min=2),
    with_a_term_more.op: lambda x, v: (_shifted(x) @ v + v[0]) / _shifted(x).sum(1, keepdim=True),
    of_either_sign.op: _by_either_sign,
}


@pytest.mark.parametrize("made", OTHERS, ids=lambda made: made.name)
def test_what_has_a_gradient_keeps_it(made: Op) -> None:
    x, _, v = _case(5, 3)
    x = torch.cat([x, torch.tensor([[1.0, -4, -3], [-1, 2, -9]])]).detach().requires_grad_()  # sums below 0
    assert_alike(getattr(module(made), made.name)(x, v), OTHERS[made](x, v), [x, v])


def test_what_is_never_negative_is_told_by_its_equation() -> None:
    assert set(totals(shares_or_nothing.op)) == {"z"} and not totals(of_either_sign.op)
    assert set(totals(name_sums(selected(of_groups.op)))) == {"z"}


def test_only_what_is_0_where_a_sum_is_not_above_0_is_read_as_if_it_were() -> None:
    known = totals(divided_first.op)
    part, z, other = At(Named("u"), n, c), At(Named("z"), n), At(Named("x"), n, c)
    divided = 1 / where(z > 0, z, 1)
    shared = sigma(part * other, (c,)) * divided
    assert as_if_filled(shared, known) == sigma(part * other, (c,)) / z
    assert as_if_filled(z * other * divided, known) == other
    assert as_if_filled(where(z > 0, other / z, 0), known) == other / z
    assert as_if_filled(where(ne(z, 0), other / z, 0), known) == other / z
    elsewhere = sigma(part.xreplace({n: e}) * other, (c, e)) * divided  # of all rows
    beside = shared + other * divided
    below_two = sigma(part * other, (c,)) / where(z > 2, z, 2)
    each_row = sigma(part * where(z > 0, z, 1), (n, c))
    for unlike in (other * divided, elsewhere, beside, below_two, each_row):
        assert as_if_filled(unlike, known) == normal(unlike)
