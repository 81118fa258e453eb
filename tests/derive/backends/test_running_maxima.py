"""Maxima up to a place: running maxima, whose gradients are sums over runs of places that have the same one."""

import math

import pytest
import torch

from derive.emit import render
from derive.notation import amax, amin, axes, eq, oo, op, sum, tanh, tensor, where
from derive.pipeline import derivation_of
from tests.derive.against_loops import code_of
from tests.derive.live import module

n, t, u, d = axes("n t u d")


@op
def highest(f, x: tensor[n, t], w: tensor[n, t]):
    f.m[n, t] = amax(where(u <= t, x[n, u], -oo), over=u)
    f.y[n, t] = f.m[n, t] * w[n, t]
    return f.y, f.m


@op
def lowest_ahead(f, x: tensor[t, d]):
    """From each place on, along the first axis."""
    f.m[t, d] = amin(where(u >= t, tanh(x[u, d]), oo), over=u)
    f.y[t] = sum(f.m[t, d] ** 2, over=d)
    return f.y


@op
def highest_before(f, x: tensor[..., t]):
    """Of nothing there is none."""
    f.m[..., t] = amax(where(u < t, x[..., u], -oo), over=u)
    return f.m


@op
def beside_highest(f, x: tensor[n, t], g: tensor[n, t]):
    """What stands where the maximum up to a place does."""
    f.m[n, t] = amax(where(u <= t, x[n, u], -oo), over=u)
    f.y[n, t] = sum(where(eq(where(u <= t, x[n, u], -oo), f.m[n, t]), g[n, u], 0), over=u)
    return f.y


def _masked(x, keep, kind):
    """The maximum of each place's own row, in a table of all places; `keep[t, u]` says what is in it."""
    beyond = -math.inf if kind == "amax" else math.inf
    return getattr(torch.where(keep, x[..., None, :], beyond), kind)(-1)


def _highest(x, w):
    m = _masked(x, torch.ones(x.shape[1], x.shape[1]).tril().bool(), "amax")
    return m * w, m


def _lowest_ahead(x):
    return _masked(torch.tanh(x).T, torch.ones(len(x), len(x)).triu().bool(), "amin").square().sum(0)


def _highest_before(x):
    return _masked(x, torch.ones(x.shape[-1], x.shape[-1]).tril(-1).bool(), "amax")


SPECS = [(highest, _highest, 2), (lowest_ahead, _lowest_ahead, 1), (highest_before, _highest_before, 1)]


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (3, 1), (1, 1), (5, 300)])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("spec", "reference", "inputs"), SPECS, ids=[s[0].op.name for s in SPECS])
def test_against_a_table_of_all_places(spec, reference, inputs, tied, shape):
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(inputs)]
    leaves = [(v.mul(2).round() / 2 if tied else v).requires_grad_() for v in made]
    outputs = reference(*leaves), getattr(module(spec.op), spec.op.name)(*leaves)
    wanted, found = (o if isinstance(o, tuple) else (o,) for o in outputs)
    cotangents = [torch.randn(o.shape, dtype=torch.float64, generator=generator) for o in wanted]
    exact = torch.autograd.grad(wanted, leaves, cotangents)
    ours = torch.autograd.grad(found, leaves, cotangents)
    for a, b in zip((*found, *ours), (*wanted, *exact), strict=True):
        torch.testing.assert_close(a, b)


def test_an_empty_batch():
    x, w = torch.randn(2, 0, 5, requires_grad=True)
    y, m = module(highest.op).highest(x, w)
    assert y.shape == m.shape == (0, 5)
    assert [g.shape for g in torch.autograd.grad([y.sum() + m.sum()], [x, w])] == [(0, 5), (0, 5)]


def test_no_table_of_all_places():
    """Neither forward nor backward compares places."""
    text = render(derivation_of(highest.op))
    assert "x.cummax(1).values" in text
    assert "run_sums(" in code_of(highest.op) and "ahead=True" in code_of(highest.op)
    assert "arange" not in text and "arange" not in render(derivation_of(lowest_ahead.op))


def _gradient(x, cotangent):
    """Of `m` in `highest`, whose other output has a gradient of 0."""
    leaf = x.clone().requires_grad_()
    m = module(highest.op).highest(leaf, torch.ones_like(x))[1]
    return torch.autograd.grad(m, leaf, cotangent)[0]


@pytest.mark.parametrize("large", [1e8, 1e30])
def test_a_small_run_keeps_its_digits_beside_a_large_one(large):
    x = torch.tensor([[0, 0, 5, 4, 6, 6]], dtype=torch.float64)
    found = _gradient(x, torch.tensor([[large, large, 1e-3, 1e-3, 1e-7, 2e-7]], dtype=torch.float64))
    expected = torch.tensor([[1.5 * large, 0.5 * large, 2e-3, 0, 2e-7, 1e-7]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


def test_what_is_infinite_stays_in_its_run():
    x = torch.tensor([[0, 1, 0, 2, 0]], dtype=torch.float64)
    found = _gradient(x, torch.tensor([[1, math.inf, 1, 1, 2]], dtype=torch.float64))
    assert found.tolist() == [[1, math.inf, 0, 3, 0]]


def test_where_there_is_no_maximum_yet_all_places_tie():
    """The places behind are masked with the very -oo."""
    x = torch.tensor([[-math.inf, -math.inf, 1, -math.inf]], dtype=torch.float64)
    assert _gradient(x, torch.ones_like(x)).tolist() == [[0.5, 0.25, 2, 0]]
    g = torch.tensor([[1, 2, 4, 8]], dtype=torch.float64)
    assert module(beside_highest.op).beside_highest(x, g).tolist() == [[15, 15, 4, 4]]
    assert "run_sums(" in render(derivation_of(beside_highest.op))
