"""A number that all terms of a sum share is multiplied with the sum."""

import pytest
import torch

from derive import axes, constant, exp, mean, op, scalar, sin, size, sum, tanh, tensor
from tests.derive.against_loops import code_of, compare
from tests.derive.live import assert_alike, module

n, d, k = axes("n d k")


def one(name, value):
    def forward(f, x: tensor[n, d], w: tensor[n], y: constant[n, d], s: scalar = 0.7):
        f.u[n, d] = tanh(x[n, d]) + 0 * s * w[n] * y[n, d]
        f.loss[()] = value(f.u, w, y, s)
        return f.loss

    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)


half = one("half", lambda u, w, y, s: mean((u[n, d] - y[n, d]) ** 2 / 2, over=(n, d)))
minus = one("minus", lambda u, w, y, s: sum(-3 * exp(u[n, d]) / 4, over=(n, d)))
weighed = one("weighed", lambda u, w, y, s: mean(w[n] * exp(u[n, d]) * 0.25, over=(n, d)))
far = one("far", lambda u, w, y, s: sum(exp(u[n, d]) / 10**20, over=(n, d)))
scaled = one("scaled", lambda u, w, y, s: sum(exp(u[n, d]) * s, over=(n, d)))
counted = one("counted", lambda u, w, y, s: sum(exp(u[n, d]) / size(d), over=(n, d)))

WRITTEN = [
    (half, ".square().mean() / 2"),
    (minus, "loss = -0.75 * exp_u.sum()"),
    (weighed, ".mean() / 4"),
]


@pytest.mark.parametrize(("made", "written"), WRITTEN, ids=[m.op.name for m, _ in WRITTEN])
def test_behind_the_sum(made, written: str) -> None:
    forward = code_of(made.op).partition("_backward(")[0]
    assert written in forward, forward


@pytest.mark.parametrize("made", [far, scaled, counted], ids=lambda m: m.op.name)
def test_what_keeps_terms_in_range_stays(made) -> None:
    forward = code_of(made.op).partition("_backward(")[0]
    line = next(x for x in forward.splitlines() if x.strip().startswith("loss = "))
    assert ".sum()  #" in line or line.endswith(".sum()"), line


@pytest.mark.parametrize("made", [half, minus, weighed, far, scaled, counted], ids=lambda m: m.op.name)
@pytest.mark.parametrize("sizes", [{"n": 3, "d": 4}, {"n": 1, "d": 1}, {"n": 2, "d": 2}])
def test_values_and_gradients(made, sizes: dict[str, int]) -> None:
    compare(made.op, sizes)


@op
def half_a_product(f, a: tensor[n, k], b: tensor[k, d]):
    f.y[n, d] = sum(a[n, k] * b[k, d] / 2, over=k)
    return f.y


def test_a_matrix_product_takes_its_number_along() -> None:
    a, b = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert "y = a / 2 @ b" in code_of(half_a_product.op)
    assert_alike(module(half_a_product.op).half_a_product(a, b), a @ b / 2, [a, b])


@op
def kicks(f, q: tensor[n, d], p: tensor[n, d], stiffness: tensor[d]):
    """A step of a leapfrog: half a kick, a drift, half a kick."""
    f.half[n, d] = p[n, d] - stiffness[d] * sin(q[n, d]) / 2
    f.there[n, d] = q[n, d] + f.half[n, d]
    f.after[n, d] = f.half[n, d] - stiffness[d] * sin(f.there[n, d]) / 2
    return f.there, f.after


def test_behind_a_sum_of_the_backward() -> None:
    backward = code_of(kicks.op).partition("_backward(")[2]
    assert ".sum(0) / 2" in backward and "div_(2).sum(0)" not in backward
    compare(kicks.op, {"n": 3, "d": 4})
