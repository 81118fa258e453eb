"""A part that is written twice is one tensor, under whatever names its axes have."""

import pytest
import torch
from torch import Tensor

from derive import amax, axes, exp, log, mean, op, sigmoid, sqrt, sum, tanh, tensor
from derive.ir.equations import Op
from derive.pipeline import derive_op
from derive.rules.naming.twins import one_of_each
from tests.derive.live import assert_derived

n, m, d, e, i, j, k = axes("n m d e i j k")


@op
def softmax_in_two(f, x: tensor[n, d]):
    f.z[n] = sum(exp(x[n, d] - amax(x[n, d], over=d)), over=d)
    f.p[n, d] = exp(x[n, d] - amax(x[n, d], over=d)) / f.z[n]
    return f.p


@op
def centred_twice(f, x: tensor[n, d]):
    f.y[d, e] = sum((x[n, d] - mean(x[n, d], over=n)) * (x[n, e] - mean(x[n, e], over=n)), over=n)
    return f.y


@op
def named_later(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] / sqrt(1 + sum(x[n, k] ** 2, over=k))
    f.s[n] = sum(x[n, d] ** 2, over=d)
    f.z[n] = tanh(f.s[n])
    return f.y, f.z


@op
def gated(f, x: tensor[n, d], w: tensor[d, m]):
    f.a[n, m] = sum(x[n, d] * w[d, m], over=d)
    f.y[n, m] = f.a[n, m] * sigmoid(sum(x[n, k] * w[k, m], over=k))
    return f.y


@op
def turned(f, x: tensor[i, j, d]):
    f.y[i, j] = tanh(sum(x[i, j, d], over=d))
    f.z[j, i] = sum(x[i, j, d], over=d) * exp(sum(x[i, j, d], over=d))
    f.both[()] = sum(f.y[i, j] * f.z[j, i], over=(i, j))
    return f.both


@op
def as_long_as_others(f, x: tensor[i], z: tensor[j], w: tensor[d]):
    f.y[i, j] = x[i] * sum(w[d] ** i, over=d) * z[j] * sum(w[d] ** j, over=d)
    return f.y


@op
def an_output(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] - amax(x[n, d], over=d)
    f.m[n] = amax(x[n, k], over=k)
    return f.y, f.m


@op
def shares(f, x: tensor[n, d]):
    f.top[n] = amax(x[n, d], over=d)
    f.u[n, d] = exp(x[n, d] - f.top[n])
    f.p[n, d] = f.u[n, d] / sum(f.u[n, d], over=d)
    return f.p


@op
def log_shares(f, x: tensor[n, d]):
    f.most[n] = amax(x[n, d], over=d)
    f.z[n] = sum(exp(x[n, d] - f.most[n]), over=d)
    f.l[n, d] = x[n, d] - f.most[n] - log(f.z[n])
    return f.l


@op
def entropy(f, x: tensor[n, d]):
    """Of two ops that are called, each with a maximum, exponentials and their sum inside."""
    f.p = shares(x)
    f.l = log_shares(x)
    f.h[n] = -sum(f.p[n, d] * f.l[n, d], over=d)
    return f.h


@op
def named_by_the_author(f, x: tensor[n, d]):
    f.a = shares(x)
    f.b = shares(x)
    f.y[n, d] = f.a[n, d] + tanh(f.b[n, d])
    return f.y


REFERENCES = {
    "entropy": lambda x: -(x.softmax(1) * x.log_softmax(1)).sum(1),
    "softmax_in_two": lambda x: x.softmax(1),
    "centred_twice": lambda x: (x - x.mean(0)).T @ (x - x.mean(0)),
    "gated": lambda x, w: (x @ w) * (x @ w).sigmoid(),
}
SHAPES = {"x": (5, 3), "w": (3, 4)}


def _equations(made: Op) -> list[str]:
    return [e.name for e in one_of_each(made).equations]


@pytest.mark.parametrize("made", [entropy.op, softmax_in_two.op, centred_twice.op, gated.op], ids=REFERENCES)
def test_values_and_gradients(made: Op) -> None:
    assert_derived(made, REFERENCES[made.name], SHAPES)
    square = {name: (4, 4) for name in SHAPES}
    assert_derived(made, REFERENCES[made.name], square)


def test_no_gradient_goes_through_either_maximum() -> None:
    assert derive_op(softmax_in_two.op).kept == ("p",)
    assert _equations(softmax_in_two.op) == ["x_max", "z", "p"]


def test_axes_of_other_names() -> None:
    assert _equations(centred_twice.op) == ["x_mean", "y"]
    assert derive_op(centred_twice.op).kept == ("x_minus_x_mean",)


def test_a_name_of_the_author_stays() -> None:
    assert _equations(named_later.op) == ["s", "y", "z"]
    assert _equations(gated.op) == ["a", "y"]
    assert _equations(an_output.op) == ["m", "y"]


def test_what_is_inside_two_calls_is_one() -> None:
    """The gradient is `-p*(l + h)`, of one softmax: what is the maximum and the sum of either is that of both."""
    assert _equations(entropy.op) == ["p_top", "p_u", "p_u_sum", "p", "l", "h"]
    assert len(derive_op(entropy.op).kept) == 1
    assert _equations(named_by_the_author.op) == ["a_top", "a_u", "a_u_sum", "a", "b", "y"]


def test_in_another_order() -> None:
    assert _equations(turned.op) == ["x_sum", "y", "z", "both"]
    for shape in ((3, 4, 2), (3, 3, 3)):
        assert_derived(turned.op, lambda x: (x.sum(2).tanh() * x.sum(2) * x.sum(2).exp()).sum(), {"x": shape})


def test_lengths_that_differ() -> None:
    """Read as numbers, `i` and `j` stand for as many places as their own axes have."""

    def powers(x: Tensor, w: Tensor) -> Tensor:
        return x * (w ** torch.arange(len(x))[:, None]).sum(1)

    assert len(_equations(as_long_as_others.op)) == 3
    shapes = {"x": (3,), "z": (5,), "w": (4,)}
    assert_derived(as_long_as_others.op, lambda x, z, w: powers(x, w)[:, None] * powers(z, w), shapes)


def test_what_is_named_twice_stays() -> None:
    @op
    def twice(f, x: tensor[n, d]):
        f.a[n] = sum(x[n, d], over=d)
        f.b[n] = sum(x[n, k], over=k)
        f.y[n] = f.a[n] * f.b[n]
        return f.y

    assert _equations(twice.op) == ["a", "b", "y"]
