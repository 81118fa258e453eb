"""A maximum over what an index puts at each place: no table of places against elements, and ties shared evenly."""

import math

import pytest
import torch

from derive import amax, amin, axes, constant, eq, exp, index, length, ne, oo, op, sum, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from tests.derive.live import module

b, e, h, v, n, t = axes("b e h v n t")


@op
def pool(f, x: tensor[e, h], dst: index(v)[e], nodes: length(v)):
    f.m[v, h] = amax(where(eq(dst[e], v), x[e, h], -oo), over=e)
    f.y[e, h] = f.m[dst[e], h] * x[e, h]
    return f.y


@op
def smallest(f, x: tensor[e, h], bias: tensor[v], dst: index(v)[e]):
    f.m[v] = amin(where(ne(dst[e], v), oo, 2 * x[e, h] + bias[v]), over=(e, h))
    f.y[v] = where(f.m[v] < oo, f.m[v], 0)
    return f.y


@op
def of_each(f, x: tensor[..., b, e], dst: index(v)[b, e], ok: constant[b, e], nodes: length(v)):
    f.m[..., b, v] = amax(where(eq(dst[b, e], v) & (ok[b, e] > 0), x[..., b, e], -oo), over=e)
    f.y[..., b, v] = where(f.m[..., b, v] > -oo, f.m[..., b, v], 0)
    return f.y


@op
def words(f, x: tensor[n, t, h], ids: index(v)[n, t], nodes: length(v)):
    f.m[v, h] = amax(where(eq(ids[n, t], v), x[n, t, h], -oo), over=(n, t))
    f.y[n, t, h] = exp(x[n, t, h] - f.m[ids[n, t], h])
    return f.y


@op
def of_one(f, x: tensor[n, h], y: index(h)[n]):
    f.m[n] = amax(where(eq(h, y[n]), x[n, h], -oo), over=h)
    return f.m


@op
def shares(f, s: tensor[e], dst: index(v)[e], nodes: length(v)):
    f.m[v] = amax(where(eq(dst[e], v), s[e], -oo), over=e)
    f.w[e] = exp(s[e] - f.m[dst[e]])
    f.total[v] = sum(where(eq(dst[e], v), f.w[e], 0), over=e)
    f.p[e] = f.w[e] / f.total[dst[e]]
    return f.p


def at(ix, places):
    return ix[..., None] == torch.arange(places)


def table(x, chosen, over, far=-math.inf):
    largest = torch.where(chosen, x, far)
    return largest.amax(over) if far < 0 else largest.amin(over)


def finite(m):
    return torch.where(m.abs() < math.inf, m, 0.0)


PLAIN = {
    pool: lambda x, ix, k: table(x[:, None], at(ix, k)[..., None], 0)[ix] * x,
    smallest: lambda x, bias, ix: finite(
        table((2 * x + bias[ix][:, None])[:, None], at(ix, len(bias))[..., None], (0, 2), math.inf)
    ),
    of_each: lambda x, ix, ok, k: finite(table(x[..., None], at(ix, k) & (ok > 0)[..., None], -2)),
    words: lambda x, ix, k: (x - table(x[:, :, None], at(ix, k)[..., None], (0, 1))[ix]).exp(),
    of_one: lambda x, ix: x.gather(1, ix[:, None])[:, 0],
    shares: lambda s, ix, k: torch.where(at(ix, k), s[:, None], -math.inf).softmax(0)[torch.arange(len(ix)), ix],
}


def tied(*shape):
    """Values of which many are equal."""
    return (torch.randint(-3, 4, shape).double() / 2).requires_grad_()


def given(plain, elements, places):
    ix = torch.randint(places, (elements,))
    if plain is smallest:
        return tied(elements, 3), tied(places), ix
    if plain is of_each:
        return tied(4, 3, 2, elements), torch.randint(places, (2, elements)), torch.randn(2, elements).double(), places
    if plain is words:
        return tied(elements, 5, 3), torch.randint(places, (elements, 5)), places
    if plain is of_one:
        return tied(elements, places), ix
    return tied(elements) if plain is shares else tied(elements, 3), ix, places


@pytest.mark.parametrize("sizes", [(13, 5), (1, 1), (7, 7), (5, 23)])
@pytest.mark.parametrize("spec", PLAIN, ids=lambda s: s.op.name)
def test_gradients_are_those_of_the_table(spec, sizes):
    torch.manual_seed(3)
    arguments = given(spec, *sizes)
    real = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
    values = [f(*arguments) for f in (PLAIN[spec], getattr(module(spec.op), spec.op.name))]
    dy = torch.randn_like(values[0])
    first, second = ((y, *torch.autograd.grad(y, real, dy)) for y in values)
    for ours, theirs in zip(second, first, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_an_index_of_small_integers_says_what_one_of_int64_says():
    """PyTorch has a form of its own for rows of 16 and more, by an index that is expanded over them."""
    x, ix = torch.randn(900, 16), torch.randint(5, (900,))
    found = []
    for dst in (ix, ix.int()):
        a = x.clone().requires_grad_()
        y = module(pool.op).pool(a, dst, 5)
        found.append((y.detach(), *torch.autograd.grad(y, a, torch.ones_like(y))))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("spec", [pool, smallest, of_each, words, shares], ids=lambda s: s.op.name)
def test_no_table_of_places_against_elements(spec):
    code = render(derivation_of(spec.op))
    assert "scatter_reduce_(" in code and "torch.arange" not in code


def test_of_one_place_it_is_what_stands_there():
    assert str(derivation_of(of_one.op).forward.statements[0]) == "m[n] = x[n, y[n]]"


def test_ties_are_counted_by_the_backward_alone():
    d = derivation_of(pool.op)
    assert d.kept == ("m", "x", "dst")
    assert any(s.name == "m_ties" for s in d.backward.statements)


def test_the_maximum_under_a_softmax_of_each_place_has_no_gradient():
    d = derivation_of(shares.op)
    assert d.kept == ("p", "dst") and [s.name for s in d.backward.statements] == ["sum_dp_p", "ds"]


@op
def guarded_rows(f, x: tensor[n, t], mask: constant[n, t]):
    f.s[n, t] = where(mask[n, t] > 0, x[n, t], -oo)
    f.m[n] = 3 * amax(f.s[n, t], over=t)
    f.y[n] = where(f.m[n] > -oo, f.m[n], 0)
    return f.y


def test_what_is_computed_of_what_may_be_infinite_may_be_infinite():
    """SymPy is not to answer `f.m[n] > -oo` by taking the maximum of a masked row for a number."""
    x, mask = torch.randn(3, 4, dtype=torch.float64), torch.ones(3, 4, dtype=torch.float64)
    mask[1] = 0
    found = module(guarded_rows.op).guarded_rows(x, mask)
    torch.testing.assert_close(found, torch.where(mask[:, 0] > 0, 3 * x.amax(1), 0), rtol=1e-12, atol=1e-12)
