"""A forward's sum times one over a number is divided by it; what a person would have written is one division."""

import pytest

from derive import axes, mean, op, scalar, size, sum, tensor
from derive.ir.equations import Op
from derive.pipeline import derivation_of

n, m = axes("n m")


@op
def halved(f, x: tensor[n]):
    f.y[()] = sum(x[n] ** 2, over=n) / 2
    return f.y


@op
def over_pairs(f, x: tensor[n]):
    f.y[()] = sum(x[n] ** 2, over=n) / (size(n) * (size(n) - 1))
    return f.y


@op
def of_half(f, x: tensor[n, m]):
    f.y[m] = sum(x[n, m] ** 2, over=n) / (2 * size(n))
    return f.y


@op
def less(f, x: tensor[n], scale: scalar = 2.0):
    f.y[()] = -sum(x[n] ** 2, over=n) / scale / 3
    return f.y


@op
def twice(f, x: tensor[n]):
    f.y[()] = 2 * sum(x[n] ** 2, over=n) / size(n)
    return f.y


@op
def minus(f, x: tensor[n]):
    f.y[()] = -mean(x[n] ** 2, over=n)
    return f.y


@pytest.mark.parametrize(
    ("op", "value"),
    [
        (halved.op, "sum(x[n]**2, over=n) / 2"),
        (over_pairs.op, "sum(x[n]**2, over=n) / (size(n) * (size(n) - 1))"),
        (of_half.op, "sum(x[n, m]**2, over=n) / (2 * size(n))"),
        (less.op, "-sum(x[n]**2, over=n) / (3 * scale)"),
        (twice.op, "sum(x[n]**2, over=n) * (2 / size(n))"),
        (minus.op, "-mean(x[n]**2, over=n)"),
    ],
    ids=lambda known: known.name if isinstance(known, Op) else "",
)
def test_one_over_a_number_divides(op: Op, value: str) -> None:
    assert str(derivation_of(op).forward.statements[-1].value) == value
