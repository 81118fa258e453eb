"""A sum of what is read from the other end is taken as it lies, and turned."""

import pytest
import torch

from derive import axes, op, size, sum, tanh, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from derive.rules.index.before_turns import made_before_turns
from tests.derive.live import assert_derived

d, e, n, s, t = axes("d e n s t")


@op
def backwards(f, x: tensor[n, t, d], w: tensor[d, e]):
    f.y[n, t, e] = 2 * sum(x[n, size(t) - 1 - t, d] * w[d, e], over=d)
    return f.y


@op
def by_a_vector(f, x: tensor[n, t, d], w: tensor[d]):
    f.y[n, t] = tanh(sum(x[n, size(t) - 1 - t, d] * w[d], over=d))
    return f.y


@op
def together(f, a: tensor[t, d], b: tensor[t, d]):
    """Two that are read alike are turned as one."""
    f.y[t] = sum(a[size(t) - 1 - t, d] * b[size(t) - 1 - t, d], over=d)
    return f.y


@pytest.mark.parametrize(
    ("made", "plain", "shapes"),
    [
        (backwards, lambda x, w: 2 * (x.flip(1) @ w), {"x": (2, 5, 3), "w": (3, 4)}),
        (by_a_vector, lambda x, w: (x.flip(1) @ w).tanh(), {"x": (2, 5, 3), "w": (3,)}),
        (together, lambda a, b: (a.flip(0) * b.flip(0)).sum(1), {"a": (4, 3), "b": (4, 3)}),
    ],
)
def test_what_is_turned_is_the_sum_and_its_gradient(made, plain, shapes) -> None:
    code = render(derivation_of(made.op))
    assert code.count(".flip(") == 2 and "x.flip(" not in code and "a.flip(" not in code, code
    assert_derived(made.op, plain, shapes)
    assert_derived(made.op, plain, {name: tuple(1 for _ in shape) for name, shape in shapes.items()})


@op
def beside_another(f, a: tensor[t, d], b: tensor[t, d]):
    f.y[t] = sum(a[size(t) - 1 - t, d] * b[t, d], over=d)
    return f.y


@op
def one_further(f, x: tensor[s, d], b: tensor[t]):
    """Of a longer dimension."""
    f.y[t] = sum(x[size(t) - 1 - t, d] ** 2, over=d) * b[t]
    return f.y


@op
def where_a_place_is_asked(f, x: tensor[t, d]):
    f.y[t] = sum(where(t > 0, x[size(t) - 1 - t, d], 3), over=d)
    return f.y


@op
def widened(f, x: tensor[t], w: tensor[s, d, e]):
    """The result is larger than what is read."""
    f.y[t, d, e] = sum(x[size(t) - 1 - t] * w[s, d, e], over=s)
    return f.y


@pytest.mark.parametrize("made", [beside_another, one_further, where_a_place_is_asked, widened])
def test_others_are_left(made) -> None:
    assert made_before_turns(made.op) == made.op


def test_others_are_right() -> None:
    shapes = {"a": (4, 3), "b": (4, 3)}
    assert_derived(beside_another.op, lambda a, b: (a.flip(0) * b).sum(1), shapes)
    assert_derived(one_further.op, lambda x, b: x[:3].flip(0).square().sum(1) * b, {"x": (5, 2), "b": (3,)})
    there = torch.arange(4)[:, None] > 0
    assert_derived(where_a_place_is_asked.op, lambda x: torch.where(there, x.flip(0), 3).sum(1), {"x": (4, 2)})
