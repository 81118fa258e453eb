"""Sums of windows that overlap place by place, and what is added all over each, one dimension after another."""

import inspect

import pytest
import torch

from derive import axes, length, mean, op, sqrt, sum, tensor
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from generated._functions import spread_over_windows, window_sums
from tests.derive.live import assert_derived, module

n, c, h, w, u, v, t, k = axes("n c h w u v t k")
p, q, two, also_two = axes("p=5 q=3 two=2 also_two=2")


@op
def contrast(f, x: tensor[n, c, h, w]):
    f.m[n, c, u, v] = mean(x[n, c, u + p, v + q], over=(p, q))
    f.y[n, c, u, v] = (x[n, c, u + 2, v + 1] - f.m[n, c, u, v]) / sqrt(f.m[n, c, u, v] ** 2 + 1)
    return f.y


@op
def moving_sum(f, x: tensor[n, t], width: length(k)):
    f.y[n, u] = sum(x[n, u + k] ** 2, over=k)
    return f.y


@op
def of_two_by_two(f, x: tensor[n, h, w]):
    f.y[n, u, v] = mean(x[n, u + two, v + also_two], over=(two, also_two)) ** 2
    return f.y


@op
def in_steps(f, x: tensor[n, t]):
    f.y[n, u] = mean(x[n, 2 * u + p] ** 2, over=p)
    return f.y


def _contrast(x):
    m = torch.nn.functional.avg_pool2d(x, (5, 3), 1)
    return (x[:, :, 2:-2, 1:-1] - m) / (m**2 + 1).sqrt()


CASES = [
    (contrast, _contrast, {"x": (2, 3, 7, 6)}),
    (of_two_by_two, lambda x: x.unfold(1, 2, 1).unfold(2, 2, 1).mean((-1, -2)) ** 2, {"x": (2, 4, 5)}),
    (in_steps, lambda x: (x**2).unfold(1, 5, 2).mean(-1), {"x": (2, 9)}),
]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES, ids=[made.op.name for made, *_ in CASES])
def test_values_and_gradients(made: OpCall, plain, shapes) -> None:
    assert_derived(made.op, plain, shapes)


@pytest.mark.parametrize("made", [contrast, moving_sum], ids=lambda made: made.op.name)
def test_battery(made: OpCall) -> None:
    found = verify(made.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


def _code(made: OpCall) -> str:
    return inspect.getsource(module(made.op))


def test_one_call_each_way() -> None:
    assert "m = window_sums(x, {2: 5, 3: 3}).div_(15)" in _code(contrast)
    assert "spread_over_windows(dm.div_(15), {2: 5, 3: 3})" in _code(contrast)
    assert "y = window_sums(x_squared, {1: width})" in _code(moving_sum)
    assert "spread_over_windows(dy, {1: width})" in _code(moving_sum)


def test_few_places_are_added_in_loops_and_steps_are_pooled() -> None:
    assert "spread_over_windows" not in _code(of_two_by_two)
    assert "window_sums" not in _code(in_steps) and "avg_pool1d" in _code(in_steps)


def test_one_is_the_adjoint_of_the_other() -> None:
    widths = {0: 3, 2: 4}
    x, y = (torch.randn(s, dtype=torch.float64) for s in ((5, 2, 6), (3, 2, 3)))
    torch.testing.assert_close((window_sums(x, widths) * y).sum(), (x * spread_over_windows(y, widths)).sum())
    torch.testing.assert_close(window_sums(x, widths), x.unfold(0, 3, 1).unfold(2, 4, 1).sum((-1, -2)))
