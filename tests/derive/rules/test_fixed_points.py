"""Where an index holds its own place, `y[c] == c`: several places do, or none, so that nothing is gathered or added."""

import pytest
import torch
from torch import Tensor

from derive import amax, axes, delta, eq, index, mean, oo, op, sum, tensor, where
from tests.derive.live import assert_alike, module

n, c = axes("n c")


@op
def total(f, x: tensor[c], y: index(c)[c]):
    f.z[()] = sum(where(eq(y[c], c), x[c] ** 2, 0), over=c)
    return f.z


@op
def total_by_delta(f, x: tensor[c], y: index(c)[c]):
    f.z[()] = sum(delta(y[c], c) * x[c] ** 2, over=c)
    return f.z


@op
def largest(f, x: tensor[c], y: index(c)[c]):
    f.z[()] = amax(where(eq(y[c], c), x[c] ** 2, -oo), over=c)
    return f.z


@op
def in_rows(f, x: tensor[n, c], y: index(c)[n, c]):
    f.z[n] = sum(where(eq(y[n, c], c), x[n, c] ** 2, 0), over=c)
    return f.z


@op
def mean_of_all(f, x: tensor[n, c], y: index(c)[n, c]):
    f.z[()] = mean(where(eq(y[n, c], c), x[n, c] ** 2, 0), over=(n, c))
    return f.z


@op
def of_each_place(f, x: tensor[n], y: index(c)[n, c]):
    f.z[c] = sum(where(eq(y[n, c], c), x[n] ** 2, 0), over=n)
    return f.z


@op
def of_each_place_by_delta(f, x: tensor[n], y: index(c)[n, c]):
    f.z[c] = sum(delta(y[n, c], c) * x[n] ** 2, over=n)
    return f.z


@op
def largest_of_each_place(f, x: tensor[n], y: index(c)[n, c]):
    f.z[c] = amax(where(eq(y[n, c], c), x[n] ** 2, -oo), over=n)
    return f.z


def chosen(x: Tensor, y: Tensor, otherwise: float) -> Tensor:
    """The squares where an index holds its own place; what has no axis `c` stands beside each."""
    squares = x**2 if x.shape == y.shape else x[:, None] ** 2
    return squares.where(y == torch.arange(y.shape[-1]), otherwise)


CASES = [
    (total, lambda x, y: chosen(x, y, 0).sum(), (5,), (5,)),
    (total_by_delta, lambda x, y: chosen(x, y, 0).sum(), (5,), (5,)),
    (largest, lambda x, y: chosen(x, y, -torch.inf).amax(), (5,), (5,)),
    (in_rows, lambda x, y: chosen(x, y, 0).sum(1), (3, 5), (3, 5)),
    (mean_of_all, lambda x, y: chosen(x, y, 0).mean(), (3, 5), (3, 5)),
    (of_each_place, lambda x, y: chosen(x, y, 0).sum(0), (3,), (3, 5)),
    (of_each_place_by_delta, lambda x, y: chosen(x, y, 0).sum(0), (3,), (3, 5)),
    (largest_of_each_place, lambda x, y: chosen(x, y, -torch.inf).amax(0), (3,), (3, 5)),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("made", "reference", "shape", "places"), CASES, ids=[row[0].op.name for row in CASES])
def test_values_and_gradients(made, reference, shape, places, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
    y = torch.randint(places[-1], places, generator=generator)
    own = torch.rand(places, generator=generator) < 0.5
    y = torch.arange(places[-1]).expand(places).where(own, y)
    assert_alike(getattr(module(made.op), made.op.name)(x, y), reference(x, y), [x])
