"""An index whose values are calculated with: whole numbers beside real ones, in every call that torch has for them."""

import pytest
import torch

from derive.ir.equations import Op
from derive.notation import (
    amax,
    axes,
    constant,
    cos,
    exp,
    index,
    length,
    mean,
    op,
    pi,
    scalar,
    sin,
    size,
    sum,
    tensor,
    where,
)
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import module

n, m, d, t, u, k, a = axes("n m d t u k a")


def matrix_and_vector() -> Op:
    @op
    def aged(f, x: tensor[n, d], age: index(a)[n], ages: length(a), slope: tensor[d]):
        f.y[n, d] = x[n, d] + slope[d] * age[n]
        return f.y

    return aged.op


def matrices() -> Op:
    @op
    def counted(f, count: index(a)[n, t], ages: length(a), w: tensor[t, d]):
        f.y[n, d] = sum(count[n, t] * w[t, d], over=t)
        return f.y

    return counted.op


def made_on_the_way() -> Op:
    @op
    def later(f, x: tensor[n, d], age: index(a)[n], ages: length(a), mark: constant[n]):
        f.since[n, m] = where(age[n] > age[m], age[n] - age[m], 0)
        f.y[n, d] = sum(f.since[n, m] * x[m, d], over=m)
        return f.y

    return later.op


def a_convolution() -> Op:
    @op
    def filtered(f, age: index(a)[n, t], ages: length(a), w: tensor[k]):
        f.y[n, u] = sum(age[n, u + k] * w[k], over=k)
        return f.y

    return filtered.op


def a_mean_and_a_maximum() -> Op:
    @op
    def statistics(f, age: index(a)[n, t], ages: length(a), w: tensor[n]):
        f.mean[n] = mean(age[n, t], over=t)
        f.top[n] = amax(age[n, t], over=t)
        f.y[n] = f.mean[n] * w[n] + f.top[n] * w[n] ** 2
        return f.y

    return statistics.op


def beside_a_given_number() -> Op:
    """`rate * age` of a Python number is of torch's default dtype: 0.1 has 7 digits there."""

    @op
    def decaying(f, age: index(a)[n, t], ages: length(a), s: tensor[()], rate: scalar = 0.1):
        f.y[n, t] = exp(-s[()] * age[n, t]) + s[()] * sin(rate * age[n, t])
        return f.y

    return decaying.op


def beside_a_number_longer_than_any() -> Op:
    """Torch takes no whole numbers of more than 64 bits."""

    @op
    def filled(f, x: tensor[n, d], w: tensor[n, d]):
        f.y[n, d] = where(x[n, d] > -1e30, x[n, d] * w[n, d], w[n, d] - 1e30)
        return f.y

    return filled.op


def a_count_that_is_kept() -> Op:
    @op
    def shared(f, x: tensor[n, t], z: tensor[n, t], g: tensor[n]):
        f.count[n] = sum(where(x[n, t] > z[n, t], 1, 0), over=t)
        f.y[n] = where(f.count[n] > 0, g[n] / f.count[n], 0)
        return f.y

    return shared.op


def counts_that_are_convolved() -> Op:
    @op
    def ranked(f, x: tensor[n, t], z: tensor[n, d], w: tensor[k]):
        f.rank[n, t] = sum(where(x[n, t] > z[n, d], 1, 0), over=d)
        f.y[n, u] = sum(f.rank[n, u + k] * w[k], over=k)
        return f.y

    return ranked.op


CASES = [
    matrix_and_vector, matrices, made_on_the_way, a_convolution, a_mean_and_a_maximum, beside_a_given_number,
    beside_a_number_longer_than_any, a_count_that_is_kept, counts_that_are_convolved,
]  # fmt: skip


@pytest.mark.parametrize("made", CASES)
def test_whole_numbers_beside_real_ones(made: object) -> None:
    found = verify(made())  # type: ignore[operator]
    assert found.rows
    assert found.right, found


def test_the_places_of_an_axis_are_of_the_dtype_of_the_inputs_at_once() -> None:
    @op
    def cosines(f, x: tensor[n, t], bands: length(k)):
        f.y[n, k] = sum(x[n, t] * cos(pi * k * (t + 0.5) / size(t)), over=t)
        return f.y

    assert ".to(" not in code_of(cosines.op), code_of(cosines.op)
    for dtype, error in ((torch.float64, 1e-14), (torch.float32, 1e-6), (torch.bfloat16, 1e-2)):
        x, dy = (torch.randn(2, length).to(dtype) for length in (5, 3))
        table = torch.cos(torch.pi * torch.arange(3.0).double() * (torch.arange(5.0)[:, None] + 0.5) / 5)
        y = module(cosines.op).cosines(x.requires_grad_(), 3)
        (found,) = torch.autograd.grad(y, x, dy)
        assert y.dtype == found.dtype == dtype
        torch.testing.assert_close(y.double(), x.double() @ table, rtol=error, atol=error)
        torch.testing.assert_close(found.double(), dy.double() @ table.T, rtol=error, atol=error)
