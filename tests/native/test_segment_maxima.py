"""Kernels of a maximum over what an index puts at each place."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from tests.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """from derive import *

e, h, v = axes("e h v")


@op
def pool(f, x: tensor[e, h], dst: index(v)[e], nodes: length(v)):
    f.m[v, h] = amax(where(eq(dst[e], v), x[e, h], -oo), over=e)
    f.y[e, h] = f.m[dst[e], h] * x[e, h]
    return f.y


@op
def pool_of_rows(f, x: tensor[e, h], dst: index(v)[e], nodes: length(v)):
    f.m[v] = amin(where(eq(dst[e], v), x[e, h] ** 2, oo), over=(e, h))
    f.y[e] = f.m[dst[e]] ** 2
    return f.y
"""


@pytest.fixture(scope="module")
def native(package: Package) -> ModuleType:
    return package(specs=SPECS, workspace=True)


@pytest.mark.parametrize("sizes", [(13, 5, 3), (300, 7, 65), (1, 1, 1), (4, 9, 2)])
def test_the_same_as_a_table(native: ModuleType, sizes: tuple[int, int, int]) -> None:
    elements, places, width = sizes
    torch.manual_seed(1)
    x = (torch.randint(-3, 4, (elements, width)).double() / 2).requires_grad_()
    ix = torch.randint(places, (elements,))
    chosen = (ix[:, None] == torch.arange(places))[..., None]
    largest = torch.where(chosen, x[:, None], -torch.inf).amax(0)
    smallest = torch.where(chosen, (x**2)[:, None], torch.inf).amin((0, 2))
    for ours, theirs in (
        (native.pool(x, ix, places), largest[ix] * x),
        (native.pool_of_rows(x, ix, places), smallest[ix] ** 2),
    ):
        dy = torch.randn_like(theirs)
        found, right = ((y, *torch.autograd.grad(y, x, dy, retain_graph=True)) for y in (ours, theirs))
        for a, b in zip(found, right, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
