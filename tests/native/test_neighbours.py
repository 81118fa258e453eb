"""Axes that lie one after another wherever they stand are one in C: the rows and columns of an image."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from derive.ir.equations import Op
from tests.native.running import assert_right

SPECS = """
from derive import *

n, c, h, w, g, k, d = axes("n c h w g k d")


@op
def over_batches(f, x: tensor[n, c, h, w], gamma: tensor[c], beta: tensor[c]):
    f.mu[c] = mean(x[n, c, h, w], over=(n, h, w))
    f.v[c] = mean((x[n, c, h, w] - f.mu[c]) ** 2, over=(n, h, w))
    f.xhat[n, c, h, w] = (x[n, c, h, w] - f.mu[c]) / sqrt(f.v[c] + 0.1)
    f.y[n, c, h, w] = gamma[c] * f.xhat[n, c, h, w] + beta[c]
    return f.y


@op
def channels_last(f, x: tensor[n, h, w, c], beta: tensor[c]):
    f.y[n, h, w, c] = tanh(x[n, h, w, c] + beta[c])
    return f.y


@op
def whole_images(f, x: tensor[..., h, w], m: tensor[h, w]):
    f.y[...] = sum(x[..., h, w] * m[h, w], over=(h, w))
    return f.y


@op
def largest(f, x: tensor[n, h, w]):
    f.y[n] = amax(x[n, h, w] ** 2, over=(h, w))
    return f.y


@op
def chosen_images(f, x: tensor[n, h, w], i: index(n)[k], m: tensor[h, w]):
    f.y[k, h, w] = x[i[k], h, w] * m[h, w]
    return f.y


@op
def turned(f, x: tensor[n, h, w], m: tensor[w, h]):
    f.y[n] = sum(x[n, h, w] * exp(m[w, h]), over=(h, w))
    return f.y


@op
def by_rows(f, x: tensor[n, h, w], b: tensor[h]):
    f.y[n, h, w] = x[n, h, w] * b[h]
    return f.y


@op
def up_to_here(f, x: tensor[n, h, w]):
    f.y[n, h, w] = sum(where(d <= w, x[n, h, d], 0), over=d) * x[n, h, w]
    return f.y


@op
def with_lengths(f, x: tensor[n, h, w]):
    f.y[n] = sum(x[n, h, w] ** 2, over=(h, w)) / (size(h) + 1) + size(w)
    return f.y


@op
def far_apart(f, x: tensor[n, h, w], z: tensor[k, h, w]):
    f.y[n, k] = sum(abs(x[n, h, w] - z[k, h, w]), over=(h, w))
    return f.y
"""

JOINED = {
    "over_batches": "h_w", "channels_last": "h_w", "whole_images": "h_w", "largest": "h_w", "chosen_images": "h_w",
    "with_lengths": "h_w", "far_apart": "h_w",
}  # fmt: skip


NAMES = re.findall(r"^def (\w+)", SPECS, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_in_every_situation(ops: dict[str, Op], name: str) -> None:
    assert_right(ops[name])


@pytest.mark.parametrize("name", NAMES)
def test_what_lies_together_is_gone_through_at_once(native: ModuleType, name: str) -> None:
    code = Path(native.__path__[0], f"{name}.c").read_text()
    both = [kernel for kernel in code.split("\nint ")[1:] if re.search(r"\bn_\w*h_w\w* = n_\w+ \* n_\w+;", kernel)]
    assert bool(both) is (name in JOINED), code
