"""NumPy's functions take no element: `np.sum(x[n, d])` was `x[n, d]`, without a word."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from derive import axes, op, tensor
from derive.errors import DeriveError

n, d = axes("n d")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": np.sum, "max": np.max, "mean": np.mean, "var": np.var, "argmax": np.argmax, "exp": np.exp,
    "dot": lambda x: np.dot(x, x), "where": lambda x: np.where(x > 0, x, 0), "array": lambda x: np.ones(2) * x,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_refused(name: str) -> None:
    with pytest.raises(DeriveError, match=r"op asking: NumPy is asked for an array of x\[n, d\]"):

        @op
        def asking(f, x: tensor[n, d]):
            f.y[n, d] = x[n, d] * FUNCTIONS[name](x[n, d])
            return f.y


def test_numbers_are_taken() -> None:
    @op
    def scaled(f, x: tensor[n, d]):
        f.y[n, d] = np.float64(0.5) * x[n, d] + x[n, d] / np.float32(4) - (np.int64(1) - x[n, d])
        return f.y

    assert str(scaled.op.equations[0]) == "y[n, d] = 7*x[n, d]/4 - 1"
