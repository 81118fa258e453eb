"""Calls that take three tensors at once, where two of them do not repeat along the last dimension."""

import inspect

import pytest

from derive.notation import axes, op, tensor
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
    f.y[n, c] = (1 - a[n]) * b[n] + a[n] * x[n, c]
    return f.y


LINES = [
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
        lambda x, a, b: (1 - a[:, None]) * b[:, None] + a[:, None] * x,
        {"x": (3, 4), "a": (3,), "b": (3,)},
    ),
]


@pytest.mark.parametrize(("made", "line", "theirs", "shapes"), LINES, ids=[m.op.name for m, *_ in LINES])
def test_lines(made, line, theirs, shapes) -> None:
    code = inspect.getsource(module(made.op))
    assert (line in code) == (made is not faded), code
    assert_derived(made.op, theirs, shapes)
