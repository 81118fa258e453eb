"""What is selected by a place computed from an index is gathered and scattered; what lies outside selects nothing."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from derive.notation import amax, axes, constant, eq, index, length, oo, op, sum, tensor, where
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

b, c, d, k, n, w = axes("b c d k n w")


@op
def shared_with_the_next(f, x: tensor[n], lo: index(k)[n], bins: length(k)):
    f.h[k] = sum(where(eq(lo[n] + 1, k), x[n] ** 2, 0), over=n)
    return f.h


@op
def seen_before(f, x: tensor[n, k], at: index(k)[n]):
    f.y[n] = sum(where(eq(k, at[n] - 2), x[n, k] ** 2, 0), over=k)
    return f.y


@op
def by_two_indices(f, x: tensor[n, d], i: index(b)[n], j: index(c)[n], bins: length(b), others: length(c)):
    f.y[b, d] = sum(where(eq(2 * i[n] - j[n], b), x[n, d], 0), over=n)
    f.z[c, d] = sum(where(eq(c, i[n]), x[n, d] ** 2, 0), over=n)
    return f.y, f.z


@op
def around(f, x: tensor[n], i: index(b)[n], j: index(w)[n], high: length(b), wide: length(w)):
    f.y[b, w] = sum(where(eq(i[n] + 1, b), where(eq(j[n], w), x[n], 0), 0), over=n)
    return f.y


@op
def sent_back(f, share: tensor[n, w], x: tensor[w, c, d], took: index(n)[w, c]):
    """What is added at a place may read the place itself: a weight that the token gave, say."""
    f.y[n, d] = sum(where(eq(took[w, c], n), share[n, w] * x[w, c, d], 0), over=(w, c))
    return f.y


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """The same draws in every run; what other tests draw from stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def selects(place: Tensor, size: int) -> Tensor:
    return (place[:, None] == torch.arange(size)).double()


def same(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...], x: Tensor) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert_alike(ours, theirs, [x])


@pytest.mark.parametrize("count", [7, 1, 0])
def test_as_the_table_of_all_pairs_has_it(count: int) -> None:
    x = torch.randn(count, dtype=torch.float64, requires_grad=True)
    lo, others = torch.randint(0, 4, (count,)), torch.randint(0, 3, (count,))
    same((module(shared_with_the_next.op).shared_with_the_next(x, lo, 4),), (x**2 @ selects(lo + 1, 4),), x)
    rows = torch.randn(count, 4, dtype=torch.float64, requires_grad=True)
    same((module(seen_before.op).seen_before(rows, lo),), ((rows**2 * selects(lo - 2, 4)).sum(1),), rows)
    wanted = selects(2 * lo - others, 4).T @ rows, selects(lo, 3).T @ rows**2
    same(module(by_two_indices.op).by_two_indices(rows, lo, others, 4, 3), wanted, rows)
    found = module(around.op).around(x, lo, others, 4, 3)
    same((found,), (torch.einsum("n, nb, nw -> bw", x, selects(lo + 1, 4), selects(others, 3)),), x)


@pytest.mark.parametrize("made", [shared_with_the_next, seen_before, by_two_indices])
def test_no_table_of_all_pairs(made: object) -> None:
    code = code_of(made.op)  # type: ignore[attr-defined]
    assert "arange" not in code, code
    assert "gather" in code or "index_add_" in code, code


@pytest.mark.parametrize("count", [0, 5])
def test_what_is_added_may_read_its_place(count: int) -> None:
    took = torch.randint(6, (3, count), generator=torch.Generator().manual_seed(0))
    share = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, count, 2, dtype=torch.float64, requires_grad=True)
    shares = share.repeat_interleave(count, 1)
    wanted = torch.einsum("kn, nk, kd -> nd", selects(took.flatten(), 6), shares, x.flatten(0, 1))
    assert_alike(module(sent_back.op).sent_back(share, x, took), wanted, (share, x))


@op
def beside_its_place(f, x: tensor[k, w], a: tensor[w], at: index(n)[k], gain: constant[n]):
    """Windows that start at the place that is asked for: they are read by the axis."""
    f.one[k] = sum(where(eq(at[k], n), x[k, n + 1] * gain[n], 0), over=n)
    f.added[n] = sum(where(eq(at[k], n), a[n + 1] * f.one[k], 0), over=k)
    f.most[n] = amax(where(eq(at[k], n), a[n + 1] * f.one[k], -oo), over=k)
    return f.added, f.most


def test_windows_at_a_place_that_is_asked_for() -> None:
    at, gain = torch.tensor([2, 0, 2, 1]), torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    x, a = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((4, 4), (4,)))
    for leaf in (x, a):
        one = x[torch.arange(4), at + 1] * gain[at]
        terms = selects(at, 3) * one[:, None] * a[1:]
        most = terms.masked_fill(selects(at, 3) == 0, -torch.inf).amax(0)
        same(module(beside_its_place.op).beside_its_place(x, a, at, gain), (terms.sum(0), most), leaf)


def test_a_name_of_its_own() -> None:
    @op
    def taken(f, lo_place: tensor[n], lo: index(k)[n], s: constant[k]):
        f.h[k] = s[k] * sum(where(eq(lo[n] + 1, k), lo_place[n], 0), over=n)
        return f.h

    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    lo, s = torch.randint(0, 3, (5,)), torch.randn(3, dtype=torch.float64)
    same((module(taken.op).taken(x, lo, s),), (s * (x @ selects(lo + 1, 3)),), x)
