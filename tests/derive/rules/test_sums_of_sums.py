"""Sums of sums of exponentials have one largest exponent, whichever of them are means."""

import math

import pytest
import torch

from derive.notation import axes, exp, log, mean, op, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

n, j, k = axes("n j k")


@op
def sums(f, z: tensor[n, j, k]):
    f.o[n] = log(sum(sum(exp(z[n, j, k]), over=k), over=j))
    return f.o


@op
def sum_of_means(f, z: tensor[n, j, k]):
    f.o[n] = log(sum(mean(exp(z[n, j, k]), over=k), over=j))
    return f.o


@op
def means(f, z: tensor[n, j, k]):
    f.o[n] = log(mean(mean(exp(z[n, j, k]), over=k), over=j))
    return f.o


@op
def mean_of_sums(f, z: tensor[n, j, k]):
    f.o[n] = log(mean(sum(exp(z[n, j, k]), over=k), over=j))
    return f.o


@op
def sum_at_turned_axes(f, z: tensor[j, k, n]):
    f.o[n] = log(sum(sum(exp(z[j, k, n]), over=j), over=k))
    return f.o


@op
def named(f, z: tensor[n, j, k]):
    f.s[n, j] = sum(exp(z[n, j, k]), over=k)
    f.o[n] = log(sum(f.s[n, j], over=j))
    return f.o


PLACES = {"sums": 1, "sum_of_means": 5, "means": 20, "mean_of_sums": 4}


@pytest.mark.parametrize("made", [sums, sum_of_means, means, mean_of_sums], ids=lambda m: m.op.name)
def test_they_neither_overflow_nor_underflow(made) -> None:
    places = PLACES[made.op.name]

    def plain(z):
        return z.flatten(1).logsumexp(1) - math.log(places)

    assert_derived(made.op, plain, {"z": (3, 4, 5)})
    for shift in (1000.0, -1000.0):
        z = (torch.randn(3, 4, 5, dtype=torch.float64) + shift).requires_grad_()
        o = getattr(module(made.op), made.op.name)(z)
        torch.testing.assert_close(o, plain(z), rtol=1e-12, atol=0)
        (dz,) = torch.autograd.grad(o.sum(), z)
        torch.testing.assert_close(dz, z.detach().flatten(1).softmax(1).view_as(z), rtol=1e-10, atol=0)


def test_axes_may_come_in_any_order() -> None:
    assert_derived(sum_at_turned_axes.op, lambda z: z.flatten(0, 1).logsumexp(0), {"z": (4, 5, 3)})


def test_what_has_a_name_stays() -> None:
    assert "s" in {e.name for e in derivation_of(named.op).named.equations}
