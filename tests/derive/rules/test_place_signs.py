"""A sign by place times a tensor turns a diagonal round: no table of signs is made."""

import pytest
import torch

from derive import axes, delta, eq, log, mean, op, relu, scalar, sigmoid, sum, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, chooses

i, j, d = axes("i j d")


@op
def pairs(f, a: tensor[i, d], b: tensor[j, d]):
    f.s[i, j] = sum(a[i, d] * b[j, d], over=d)
    f.sign[i, j] = where(eq(i, j), 1, -1)
    f.loss[()] = -mean(log(sigmoid(f.sign[i, j] * f.s[i, j])), over=(i, j))
    return f.loss


@op
def pairs_by_delta(f, a: tensor[i, d], b: tensor[j, d]):
    f.s[i, j] = sum(a[i, d] * b[j, d], over=d)
    f.z[i, j] = (2 * delta(i, j) - 1) * f.s[i, j]
    f.loss[()] = -mean(log(sigmoid(f.z[i, j])), over=(i, j))
    return f.loss


@op
def pairs_apart(f, a: tensor[i, d], b: tensor[j, d], margin: scalar = 0.2):
    f.s[i, j] = sum(a[i, d] * b[j, d], over=d)
    f.loss[()] = mean(relu(margin + (1 - 2 * delta(i, j)) * f.s[i, j]), over=(i, j))
    return f.loss


@op
def weighed(f, x: tensor[i, j], y: tensor[i, j]):
    f.loss[()] = sum((2 * delta(i, j) - 1) * x[i, j] * y[i, j], over=(i, j))
    return f.loss


def _scores(a, b):
    return (2 * torch.eye(len(a), len(b), dtype=a.dtype) - 1) * (a @ b.T)


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        (pairs, lambda a, b: -torch.nn.functional.logsigmoid(_scores(a, b)).mean()),
        (pairs_by_delta, lambda a, b: -torch.nn.functional.logsigmoid(_scores(a, b)).mean()),
        (pairs_apart, lambda a, b: (0.2 - _scores(a, b)).relu().mean()),
    ],
)
@pytest.mark.parametrize("rows", [3, 5])
def test_a_diagonal_is_turned_round(made, plain, rows) -> None:
    code = render(derivation_of(made.op))
    assert "torch.eye" not in code and not chooses(code) and "diagonal_scatter" in code, code
    assert_derived(made.op, plain, {"a": (rows, 2), "b": (4, 2)})


def test_terms_of_a_sum_stay_products() -> None:
    assert "torch.eye" in render(derivation_of(weighed.op))
    assert_derived(weighed.op, lambda x, y: (x * y).trace() * 2 - (x * y).sum(), {"x": (4, 4), "y": (4, 4)})
