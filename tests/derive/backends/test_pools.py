"""What windows hold is reduced slice by slice; the form that fuses nothing calls PyTorch's pools, as a person would."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import emit
from derive.ir.equations import Op
from derive.notation import amax, amin, axes, length, mean, op, sum, tensor
from derive.output.live import build
from derive.pipeline import derivation_of
from tests.derive.live import assert_alike, inputs_of, module

n, c, i, j, p, q, h, w = axes("n c i j p q h w")


@op
def largest(f, x: tensor[n, c, h, w], high: length(p), wide: length(q)):
    f.y[n, c, i, j] = amax(x[n, c, 2 * i + p, 2 * j + q], over=(p, q))
    return f.y


@op
def smallest(f, x: tensor[n, h], wide: length(p)):
    f.y[n, i] = 2 - amin(x[n, i + p], over=p)
    return f.y


@op
def total(f, x: tensor[n, c, h, w], high: length(p), wide: length(q)):
    f.y[n, c, i, j] = sum(x[n, c, i + p, j + q], over=(p, q))
    return f.y


@op
def average(f, x: tensor[n, c, h, w], high: length(p), wide: length(q)):
    f.y[n, c, i, j] = mean(x[n, c, 2 * i + p, 2 * j + q], over=(p, q))
    return f.y


CASES = [
    (largest.op, (2, 3, 7, 8), (3, 2), lambda x: functional.max_pool2d(x, (3, 2), 2), "functional.max_pool2d("),
    (smallest.op, (4, 9), (3,), lambda x: 2 - x.unfold(1, 3, 1).amin(2), "-functional.max_pool1d(-"),
    (total.op, (2, 3, 7, 8), (3, 2), lambda x: 6 * functional.avg_pool2d(x, (3, 2), 1), "divisor_override=1"),
    (average.op, (2, 3, 7, 8), (3, 2), lambda x: functional.avg_pool2d(x, (3, 2), 2), "functional.avg_pool2d("),
]


@pytest.mark.parametrize(("made", "shape", "sides", "plain", "call"), CASES, ids=lambda v: getattr(v, "name", ""))
def test_both_forms(made: Op, shape: tuple[int, ...], sides: tuple[int, ...], plain, call: str) -> None:
    code = emit.render(derivation_of(replace(made, stepwise=True)))
    fused, _, rest = code.partition("_stepwise_forward(")
    assert call in rest.partition("_backward(")[0] and call not in fused, code
    spec = build(replace(made, stepwise=True)).function.__globals__
    (x,) = inputs_of(made, {"x": shape}).values()
    y, saved = spec[f"{made.name}_stepwise_forward"](x, *sides)
    torch.testing.assert_close(y, plain(x))
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    (expected,) = torch.autograd.grad(plain(x), x, dy)
    for found in (spec[f"{made.name}_backward"](dy, *_saved(spec, made, x, sides)), _last(spec, made, dy, saved)):
        torch.testing.assert_close(found, expected)


def _saved(spec: dict, made: Op, x: Tensor, sides: tuple[int, ...]) -> tuple:
    return tuple(spec[f"{made.name}_forward"](x, *sides)[1])


def _last(spec: dict, made: Op, dy: Tensor, saved: tuple) -> Tensor:
    found = spec[f"{made.name}_stepwise_backward"](dy, *saved)
    return found.dx if hasattr(found, "dx") else found


@op
def every_other(f, x: tensor[n, c, h], wide: length(p)):
    f.y[n, c, i] = sum(x[n, c, 2 * i + p], over=p) ** 2
    return f.y


@pytest.mark.parametrize("wide", [1, 2, 3, 6, 7, 9])
def test_windows_some_places_apart_are_added_as_slices(wide: int) -> None:
    assert "window_sums(x, {2: wide}, steps={2: 2})" in emit.render(derivation_of(every_other.op))
    (x,) = inputs_of(every_other.op, {"x": (2, 3, 12)}).values()
    assert_alike(module(every_other.op).every_other(x, wide), x.unfold(2, wide, 2).sum(3).square(), [x])
