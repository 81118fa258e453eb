"""Calls that take three tensors at once, where two of them do not repeat along the last dimension."""

import inspect

import pytest

from derive.notation import axes, op, sum, tanh, tensor
from tests.derive.live import assert_derived, module

n, c, s = axes("n c s")


@op
def by_numbers(f, x: tensor[n, c], a: tensor[()], b: tensor[()]):
    f.y[n, c] = a[()] * x[n, c] + b[()]
    return f.y


@op
def by_channels(f, x: tensor[n, c, s], a: tensor[c], b: tensor[c]):
    f.y[n, c, s] = a[c] * x[n, c, s] + b[c]
    return f.y


@op
def shifted(f, x: tensor[n, c, s], a: tensor[n], b: tensor[c]):
    f.y[n, c, s] = (2 * x[n, c, s]) - a[n] * b[c]
    return f.y


@op
def by_features(f, x: tensor[n, c], a: tensor[c], b: tensor[c]):
    f.y[n, c] = a[c] * x[n, c] + b[c]
    return f.y


@op
def faded(f, x: tensor[n, c], a: tensor[n], b: tensor[n]):
    f.y[n, c] = (1 - a[n]) * tanh(b[n]) + a[n] * x[n, c]
    return f.y


@op
def of_statistics(f, x: tensor[n, c], a: tensor[()], b: tensor[()]):
    """What is small takes one call, however that goes about it."""
    f.s[n] = sum(x[n, c], over=c)
    f.r[n] = a[()] * f.s[n] + b[()]
    f.y[n, c] = x[n, c] * f.r[n] ** 2
    return f.y


@op
def at_the_end(f, x: tensor[n, c], a: tensor[n]):
    """What is added to a part of a gradient."""
    f.y[n, c] = x[n, c] ** 2 + a[n] * sum(x[n, s + 1], over=s)
    return f.y


@op
def by_rows_and_features(f, x: tensor[n, c], a: tensor[n], g: tensor[c], b: tensor[c]):
    """As a norm that is written in one line: the two vectors would make a matrix."""
    f.y[n, c] = x[n, c] * a[n] * g[c] + b[c]
    return f.y


LINES = [
    (
        by_rows_and_features,
        "y = torch.addcmul(b, g, x * a[:, None])",
        lambda x, a, g, b: x * a[:, None] * g + b,
        {"x": (3, 4), "a": (3,), "g": (4,), "b": (4,)},
    ),
    (
        at_the_end,
        "dx[:, 1:] += (a * sum_dy)[:, None]",
        lambda x, a: x**2 + (a * x[:, 1:].sum(1))[:, None],
        {"x": (3, 4), "a": (3,)},
    ),
    (
        of_statistics,
        "r = torch.addcmul(b, a, s)",
        lambda x, a, b: x * (a * x.sum(1, keepdim=True) + b) ** 2,
        {"x": (3, 4), "a": (), "b": ()},
    ),
    (by_numbers, "y = (a * x).add_(b)", lambda x, a, b: a * x + b, {"x": (3, 4), "a": (), "b": ()}),
    (
        by_channels,
        "y = (a[:, None] * x).add_(b[:, None])",
        lambda x, a, b: a[:, None] * x + b[:, None],
        {"x": (3, 4, 2), "a": (4,), "b": (4,)},
    ),
    (
        shifted,
        "y = (2 * x).sub_(a[:, None, None] * b[:, None])",
        lambda x, a, b: 2 * x - a[:, None, None] * b[:, None],
        {"x": (3, 4, 2), "a": (3,), "b": (4,)},
    ),
    (by_features, "y = torch.addcmul(b, a, x)", lambda x, a, b: a * x + b, {"x": (3, 4), "a": (4,), "b": (4,)}),
    (
        faded,
        "torch.lerp",
        lambda x, a, b: (1 - a[:, None]) * b[:, None].tanh() + a[:, None] * x,
        {"x": (3, 4), "a": (3,), "b": (3,)},
    ),
]


@pytest.mark.parametrize(("made", "line", "theirs", "shapes"), LINES, ids=[m.op.name for m, *_ in LINES])
def test_lines(made, line, theirs, shapes) -> None:
    code = inspect.getsource(module(made.op))
    assert (line in code) == (made is not faded), code
    assert_derived(made.op, theirs, shapes)
