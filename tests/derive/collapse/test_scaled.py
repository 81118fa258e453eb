"""An adjoint that is another times a number is put in its place: what is made of matrix products is scaled."""

import torch

from derive import amax, axes, eq, exp, log, mean, op, size, softplus, sqrt, sum, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from tests.derive.live import module

i, j, d = axes("i j d")


@op
def compared(f, x: tensor[i, d], y: tensor[j, d], t: tensor[()], b: tensor[()]):
    """Logits of all pairs under a temperature that is learned (Zhai et al., 2023), of vectors of length 1."""
    f.u[i, d] = x[i, d] / sqrt(sum(x[i, d] ** 2, over=d))
    f.v[j, d] = y[j, d] / sqrt(sum(y[j, d] ** 2, over=d))
    f.z[i, j] = exp(t[()]) * sum(f.u[i, d] * f.v[j, d], over=d) + b[()]
    f.l[i, j] = where(eq(i, j), 1, -1)
    f.loss[()] = sum(softplus(-f.l[i, j] * f.z[i, j]), over=(i, j)) / size(i)
    return f.loss


def test_what_is_scaled_is_the_gradients_and_not_the_logits() -> None:
    lines = [str(s) for s in derivation_of(compared.op).backward.statements]
    assert "du[i, d] = exp_t[()] * sum(dz[i, j] * v[j, d], over=j)" in lines, lines
    assert "dv[j, d] = exp_t[()] * sum(dz[i, j] * u[i, d], over=i)" in lines, lines


def test_the_gradient_of_the_temperature_reads_that_of_the_vectors() -> None:
    """It is the sum of `dz` times the product; dividing by the temperature, which may underflow, is no way to it."""
    lines = [str(s) for s in derivation_of(compared.op).backward.statements]
    temperature = next(line for line in lines if line.startswith("dt[()]"))
    assert "dz" not in temperature and " / " not in temperature, temperature


def test_sums_of_columns_are_taken_as_they_lie() -> None:
    assert "squeeze" not in render(derivation_of(compared.op))


@op
def told_apart(f, a: tensor[i, d], b: tensor[i, d], t: tensor[()]):
    """Logits that nothing else reads are scaled with what scales the loss (CLIP: Radford et al., 2021)."""
    f.s[i, j] = sum(a[i, d] * b[j, d], over=d) / t[()]
    f.top[i] = amax(f.s[i, j], over=j)
    f.loss[()] = mean(f.top[i] + log(sum(exp(f.s[i, j] - f.top[i]), over=j)) - f.s[i, i], over=i)
    return f.loss


def test_where_all_numbers_meet_at_the_matrix_it_is_scaled_once() -> None:
    lines = [str(s) for s in derivation_of(told_apart.op).backward.statements]
    assert "da[i, d] = sum(b[j, d] * ds_sum[i, j], over=j)" in lines, lines


def test_it_is_right() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, 3, generator=generator, dtype=torch.float64, requires_grad=True) for n in (5, 4))
    t, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, -0.3))
    z = t.exp() * torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(y).T + b
    labels = 2 * torch.eye(5, 4, dtype=torch.float64) - 1
    right = torch.autograd.grad(torch.nn.functional.softplus(-labels * z).sum() / 5 * 1.3, (x, y, t, b))
    found = torch.autograd.grad(module(compared.op).compared(x, y, t, b) * 1.3, (x, y, t, b))
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)
