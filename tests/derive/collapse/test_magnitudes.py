"""A magnitude times its sign is what it is the magnitude of, and what stands in it has a name."""

import pytest
import torch

from derive.ir.equations import Op
from derive.notation import axes, constant, log, mean, op, sqrt, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

n, d = axes("n d")


@op
def mean_square(f, x: tensor[n, d], t: tensor[n, d]):
    f.r[n, d] = abs(x[n, d] - t[n, d])
    f.y[()] = mean(f.r[n, d] ** 2, over=(n, d))
    return f.y


@op
def mean_cube(f, x: tensor[n, d], t: tensor[n, d]):
    f.r[n, d] = abs(x[n, d] - t[n, d])
    f.y[()] = mean(f.r[n, d] ** 3, over=(n, d))
    return f.y


@op
def lengths(f, x: tensor[n, d], t: constant[n, d]):
    f.r[n, d] = abs(x[n, d] - t[n, d])
    f.y[n] = sqrt(1 + sum(f.r[n, d] * f.r[n, d], over=d))
    return f.y


@op
def logarithm(f, x: tensor[n, d], t: tensor[n, d]):
    f.r[n, d] = abs(x[n, d] - t[n, d])
    f.y[n] = sum(log(f.r[n, d]), over=d)
    return f.y


@op
def inverse_square(f, x: tensor[n, d], t: tensor[n, d]):
    f.y[n] = sum(abs(x[n, d] - t[n, d]) ** -2, over=d)
    return f.y


REFERENCES = {
    "logarithm": lambda x, t: (x - t).abs().log().sum(1),
    "inverse_square": lambda x, t: ((x - t).abs() ** -2).sum(1),
    "mean_square": lambda x, t: ((x - t) ** 2).mean(),
    "mean_cube": lambda x, t: ((x - t).abs() ** 3).mean(),
    "lengths": lambda x, t: (1 + ((x - t) ** 2).sum(1)).sqrt(),
}


MADE = [o.op for o in (mean_square, mean_cube, lengths, logarithm, inverse_square)]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.name)
def test_no_sign_is_left(made: Op) -> None:
    statements = [str(s) for s in derivation_of(made).backward.statements]
    assert not any("sign" in s for s in statements), statements
    assert_derived(made, REFERENCES[made.name], {"x": (4, 3), "t": (4, 3)})


def test_the_difference_alone_is_kept() -> None:
    assert [dims for name, dims in derivation_of(mean_square.op).backward.given if name != "dy"] == [("n", "d")]


@op
def square(f, x: tensor[n]):
    f.r[n] = abs(x[n])
    f.y[n] = f.r[n] ** 2
    return f.y


def test_of_zero_and_of_infinity() -> None:
    x = torch.tensor([0.0, -torch.inf, torch.inf, -2.0, torch.nan], dtype=torch.float64)
    _, *saved = module(square.op).square_forward(x)
    dy = torch.tensor([0.5, -1.5, 2.0, -0.25, 1.0], dtype=torch.float64)
    dx = module(square.op).square_backward(dy, *saved[0])
    torch.testing.assert_close(dx, 2 * dy * x, equal_nan=True)
