"""A slope of its own for every channel where a tensor is not above 0."""

import math

import pytest
import torch

from derive import axes, op, sum, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from tests.derive.live import chooses, module

n, c, t, d = axes("n c t d")


@op
def channels(f, x: tensor[n, c, t], a: tensor[c]):
    f.y[n, c, t] = where(x[n, c, t] > 0, x[n, c, t], a[c] * x[n, c, t])
    return f.y


@op
def features(f, x: tensor[n, t, d], a: tensor[d]):
    f.y[n, t, d] = where(x[n, t, d] < 0, a[d] * x[n, t, d], x[n, t, d])
    return f.y


@op
def rows(f, x: tensor[c, t], a: tensor[c]):
    f.y[c, t] = where(x[c, t] >= 0, x[c, t], x[c, t] * a[c])
    return f.y


@op
def one_slope(f, x: tensor[..., d], a: tensor[()]):
    f.y[..., d] = where(x[..., d] > 0, x[..., d], a[()] * x[..., d])
    return f.y


@op
def layer(f, x: tensor[n, d], w: tensor[d, c], a: tensor[c]):
    f.z[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = where(f.z[n, c] > 0, f.z[n, c], a[c] * f.z[n, c])
    return f.y


@op
def any_width(f, x: tensor[..., d], a: tensor[d]):
    """With no leading axis, the second dimension is none."""
    f.y[..., d] = where(x[..., d] > 0, x[..., d], a[d] * x[..., d])
    return f.y


@pytest.mark.parametrize("made", [channels, features, rows, one_slope, layer])
def test_neither_pass_chooses(made) -> None:
    code = render(derivation_of(made.op))
    assert not chooses(code) and code.count("functional.prelu(") >= 2, code
    assert verify(made.op).right


def test_leading_axes_that_may_be_none_are_no_dimension() -> None:
    assert "where_by_bits(x > 0, x, a * x)" in render(derivation_of(any_width.op))
    assert verify(any_width.op).right


@pytest.mark.parametrize(
    ("made", "shape", "holds"), [(channels, (-1, 1), torch.gt), (features, (-1,), torch.ge), (rows, (-1, 1), torch.ge)]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_same_to_the_last_digit(made, shape, holds, dtype) -> None:
    """At 0, beside infinities, and where the slope is infinite itself."""
    a = torch.tensor([0.25, -3.0, 0.0, math.inf], dtype=dtype)
    values = torch.tensor([-math.inf, -2.5, -0.0, 0.0, 1e-30, 7.0, math.inf, math.nan], dtype=dtype)
    x = values.repeat(4, 1) if made is rows else values.repeat(2, 4, 1)
    x = x.mT.contiguous() if made is features else x
    slope = a.view(shape)
    y, saved = getattr(module(made.op), f"{made.op.name}_forward")(x, a)
    torch.testing.assert_close(y, torch.where(x > 0, x, slope * x), rtol=0, atol=0, equal_nan=True)
    dy = torch.randn_like(x)
    dx, _ = getattr(module(made.op), f"{made.op.name}_backward")(dy, *saved)
    holds_here = holds(x, 0) if made is not features else ~torch.lt(x, 0)
    torch.testing.assert_close(dx, dy * torch.where(holds_here, 1, slope), rtol=0, atol=0, equal_nan=True)
