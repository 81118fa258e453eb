"""Powers by what the caller gives, by places and by both: a number of the caller's need not be whole."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from derive.ir.equations import Op
from tests.native.running import assert_right

SPECS = """
from derive import *

n = axes("n")

def powers(name, value):
    def forward(f, x: tensor[n].positive, b: scalar = 0.3, g: scalar = 0.2):
        f.y[n] = value(x[n], b, g)
        return f.y
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)

by_it = powers("by_it", lambda x, b, g: x**b + g)
less = powers("less", lambda x, b, g: x ** (1 - b) + g)
twice = powers("twice", lambda x, b, g: x ** (2 * b) + g)
negative = powers("negative", lambda x, b, g: x**-b + g)
of_two = powers("of_two", lambda x, b, g: x ** (b + g))
product = powers("product", lambda x, b, g: x ** (b * g))
larger = powers("larger", lambda x, b, g: x ** maximum(b, g))
by_place = powers("by_place", lambda x, b, g: x ** (n * b) + g)
of_place = powers("of_place", lambda x, b, g: x * b ** (n + 1) + g ** (n * b))
less_places = powers("less_places", lambda x, b, g: (x + 1) ** (1 - n * b) + g)
whole = powers("whole", lambda x, b, g: x ** (size(n) - n - 1) + b * g)
where_less = powers("where_less", lambda x, b, g: where(n < 2 * b + 1, x, g * x))
"""

B, G = 0.3, 0.2
WANTED = {
    "by_it": lambda x, n: x**B + G,
    "less": lambda x, n: x ** (1 - B) + G,
    "twice": lambda x, n: x ** (2 * B) + G,
    "negative": lambda x, n: x**-B + G,
    "of_two": lambda x, n: x ** (B + G),
    "product": lambda x, n: x ** (B * G),
    "larger": lambda x, n: x ** max(B, G),
    "by_place": lambda x, n: x ** (n * B) + G,
    "of_place": lambda x, n: x * B ** (n + 1) + G ** (n * B),
    "less_places": lambda x, n: (x + 1) ** (1 - n * B) + G,
    "whole": lambda x, n: x ** (len(x) - n - 1) + B * G,
    "where_less": lambda x, n: torch.where(n < 2 * B + 1, x, G * x),
}


@pytest.mark.parametrize("name", WANTED)
def test_they_are_what_pytorch_makes_of_them(native: ModuleType, kernels: None, name: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(37, dtype=torch.float64).add_(0.5).requires_grad_()
    want = WANTED[name](x, torch.arange(37, dtype=torch.float64))
    found = getattr(native, name)(x, B, G)
    dy = torch.randn_like(want)
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)
    gradients = (torch.autograd.grad(y, x, dy) for y in (found, want))
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["less", "of_two", "less_places"])
def test_they_are_verified(ops: dict[str, Op], name: str) -> None:
    assert_right(ops[name])
