"""A sum that a gradient is a multiple of gets a name where another sum starts from it."""

import torch

from derive import amax, axes, exp, log, op, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_alike, assert_derived, module

n, m, d, h = axes("n m d h")


@op
def sharpened(f, x: tensor[n, d], w: tensor[d, m], g: tensor[()]):
    """A softmax under a learned gain, by which nothing may divide: it may be 0."""
    f.z[n, m] = g[()] * sum(x[n, d] * w[d, m], over=d)
    f.top[n] = amax(f.z[n, m], over=m)
    f.u[n, m] = exp(f.z[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    return f.p


@op
def remembered(f, q: tensor[n, d], mem: tensor[m, d], beta: tensor[()]):
    """An energy of modern Hopfield networks (Ramsauer et al., 2021), of which one sum is a term of a gradient."""
    f.s[n, m] = beta[()] * sum(q[n, d] * mem[m, d], over=d)
    f.top[n] = amax(f.s[n, m], over=m)
    f.energy[n] = -(f.top[n] + log(sum(exp(f.s[n, m] - f.top[n]), over=m))) + sum(q[n, d] ** 2, over=d) / 2
    return f.energy


@op
def heads(f, q: tensor[h, n, d], k: tensor[h, m, d], v: tensor[h, m, d], g: tensor[h]):
    """Attention with a gain for every head."""
    f.s[h, n, m] = g[h] * sum(q[h, n, d] * k[h, m, d], over=d)
    f.top[h, n] = amax(f.s[h, n, m], over=m)
    f.u[h, n, m] = exp(f.s[h, n, m] - f.top[h, n])
    f.p[h, n, m] = f.u[h, n, m] / sum(f.u[h, n, m], over=m)
    f.o[h, n, d] = sum(f.p[h, n, m] * v[h, m, d], over=m)
    return f.o


def test_scores_without_their_gain_are_not_kept() -> None:
    assert set(derivation_of(sharpened.op).kept) == {"p", "x", "w", "g"}
    assert "s_sum" not in derivation_of(remembered.op).kept
    assert set(derivation_of(heads.op).kept) == {"p", "o", "q", "k", "v", "g"}


def test_the_gradient_of_the_gain_starts_from_what_that_of_the_input_is_a_multiple_of() -> None:
    lines = [str(s) for s in derivation_of(sharpened.op).backward.statements]
    assert "dx[n, d] = g[()] * sum_dz_w[n, d]" in lines, lines
    assert "dg[()] = sum(sum_dz_w[n, d] * x[n, d], over=(d, n))" in lines, lines
    assert "dw[d, m] = g[()] * sum(dz[n, m] * x[n, d], over=n)" in lines, lines


def test_nothing_divides_by_the_gain() -> None:
    for op_ in (sharpened.op, remembered.op):
        assert not any("/ g[()]" in str(s) or "/ beta[()]" in str(s) for s in derivation_of(op_).backward.statements)


def test_it_is_right_for_every_head() -> None:
    shapes = {"q": (2, 5, 3), "k": (2, 4, 3), "v": (2, 4, 3), "g": (2,)}
    assert_derived(heads.op, lambda q, k, v, g: (g[:, None, None] * q @ k.mT).softmax(-1) @ v, shapes)


def test_it_is_right_with_a_gain_of_0_too() -> None:
    generator = torch.Generator().manual_seed(0)
    for gain in (1.3, 0.0):
        x, w = (torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in ((5, 3), (3, 4)))
        g = torch.tensor(gain, dtype=torch.float64, requires_grad=True)
        assert_alike(module(sharpened.op).sharpened(x, w, g), (g * (x @ w)).softmax(1), (x, w, g))
        mem = w.T.contiguous().detach().requires_grad_()
        energy = (x**2).sum(1) / 2 - (g * (x @ mem.T)).logsumexp(1)
        assert_alike(module(remembered.op).remembered(x, mem, g), energy, (x, mem, g))
