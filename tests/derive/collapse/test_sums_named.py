"""A sum that a gradient is a multiple of gets a name where another sum starts from it."""

import torch

from derive import amax, axes, exp, log, op, sum, tensor
from tests.derive.live import assert_alike, module

n, m, d = axes("n m d")


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


def test_scores_without_their_gain_are_not_kept() -> None:
    assert set(sharpened.op.derivation.kept) == {"p", "x", "w", "g"}
    assert "s_sum" not in remembered.op.derivation.kept


def test_the_gradient_of_the_gain_starts_from_what_that_of_the_input_is_a_multiple_of() -> None:
    lines = [str(s) for s in sharpened.op.derivation.backward.statements]
    assert "dx[n, d] = g[] * sum_dz_w[n, d]" in lines, lines
    assert "dg[] = sum(sum_dz_w[n, d] * x[n, d], over=(d, n))" in lines, lines
    assert "dw[d, m] = g[] * sum(dz[n, m] * x[n, d], over=n)" in lines, lines


def test_nothing_divides_by_the_gain() -> None:
    for op_ in (sharpened.op, remembered.op):
        assert not any("/ g[]" in str(s) or "/ beta[]" in str(s) for s in op_.derivation.backward.statements)


def test_it_is_right_with_a_gain_of_0_too() -> None:
    generator = torch.Generator().manual_seed(0)
    for gain in (1.3, 0.0):
        x, w = (torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in ((5, 3), (3, 4)))
        g = torch.tensor(gain, dtype=torch.float64, requires_grad=True)
        assert_alike(module(sharpened.op).sharpened(x, w, g), (g * (x @ w)).softmax(1), (x, w, g))
        mem = w.T.contiguous().detach().requires_grad_()
        energy = (x**2).sum(1) / 2 - (g * (x @ mem.T)).logsumexp(1)
        assert_alike(module(remembered.op).remembered(x, mem, g), energy, (x, mem, g))
