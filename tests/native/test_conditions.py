"""Conditions in C: what holds together."""

import importlib

import torch

from tests.conftest import Package
from tests.native.running import only_kernels

CONDITIONS = """
from derive import *

n, d = axes("n d")

@op
def both_and_either(f, x: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = where((x[n, d] > 0) & ((z[n, d] > 0) | (d <= n)), x[n, d], 2 * z[n, d])
    return f.y

@op
def either_or_both(f, x: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = where((x[n, d] > 0) | ((z[n, d] > 0) & (d <= n)), x[n, d], 2 * z[n, d])
    return f.y
"""


def test_conditions_hold_together_as_they_were_written(package: Package) -> None:
    """In C `a & b | c` is `(a & b) | c`."""
    made = package(specs=CONDITIONS)
    x, z = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0))
    below = torch.arange(5) <= torch.arange(7)[:, None]
    wanted = {"both_and_either": (x > 0) & ((z > 0) | below), "either_or_both": (x > 0) | ((z > 0) & below)}
    for name, chosen in wanted.items():
        with only_kernels(importlib.import_module(f"{made.__name__}._native")):
            y = getattr(made, f"{name}_forward")(x, z)[0]
        assert torch.equal(y, torch.where(chosen, x, 2 * z))


PLACES = """
from derive import *

t = axes("t")

@op
def all_but_the_last(f, x: tensor[t]):
    f.y[t] = where(t + 1 < size(t), 2 * x[t], 0)
    return f.y
"""


def test_places_are_compared_as_whole_numbers(package: Package) -> None:
    """float32 has none of them beyond 2**24: those before the last were dropped."""
    made = package(specs=PLACES)
    x = torch.ones(2**24 + 9)
    with only_kernels(importlib.import_module(f"{made.__name__}._native")):
        y = made.all_but_the_last_forward(x)[0]
    assert y[-4:].tolist() == [2, 2, 2, 0]
