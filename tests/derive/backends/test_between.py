"""A value between two others is one call, `torch.lerp`, where an end tells that both are finite."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import amax, axes, constant, emit, index, mean, op, scalar, sigmoid, softplus, sum, tanh, tensor
from derive.ir.equations import Op
from derive.pipeline import derive_op
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

d, e, n = axes("d e n")


@op
def gated(f, z: tensor[n, d], a: tensor[n, d], h: tensor[n, d]):
    """A GRU's last line."""
    f.u[n, d] = sigmoid(z[n, d])
    f.y[n, d] = (1 - f.u[n, d]) * tanh(a[n, d]) + f.u[n, d] * h[n, d]
    return f.y


@op
def gated_rows(f, g: tensor[n], h: tensor[n, d], w: tensor[d, e], scale: scalar = 3.0):
    """The weight is one of a row, the ends are products with a number."""
    f.a[n, e] = sum(h[n, d] * w[d, e], over=d)
    f.y[n, e] = g[n] * 2 * f.a[n, e] - (1 - g[n]) * scale * tanh(f.a[n, e])
    return f.y


@op
def whole_weight(f, a: tensor[n, d], b: tensor[n, d], y: index(e)[n], t: tensor[e]):
    f.z[n, d] = (1 - y[n]) * tanh(a[n, d]) + y[n] * tanh(b[n, d]) + t[y[n]]
    return f.z


@op
def compared(f, x: tensor[n, d], z: tensor[n, d], w: constant[n]):
    """What the backward makes again and compares is made as the forward makes it."""
    f.y[n, d] = (1 - w[n]) * tanh(x[n, d]) + w[n] * z[n, d]
    f.m[n] = amax(f.y[n, d], over=d)
    return f.m


@op
def weighed_classes(f, z: tensor[n], y: constant[n], positive: scalar = 2.0):
    f.loss[()] = mean(positive * y[n] * softplus(-z[n]) + (1 - y[n]) * softplus(z[n]), over=n)
    return f.loss


@op
def mixed(f, x: tensor[n, d], z: tensor[n, d], w: tensor[n]):
    """Scores, of which some may be left out."""
    f.y[n, d] = w[n] * x[n, d] + (1 - w[n]) * z[n, d]
    return f.y


@op
def gated_units(f, x: tensor[n, d], z: tensor[n, d]):
    """What is saved alone may be so whatever the inputs: it is 1 at one end."""
    f.y[n, d] = x[n, d] * sigmoid(x[n, d]) * z[n, d]
    return f.y


@op
def softly(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] * sigmoid(x[n, d])
    return f.y


def _gated_rows(g: Tensor, h: Tensor, w: Tensor) -> Tensor:
    a, g = h @ w, g[:, None]
    return g * 2 * a - (1 - g) * 3 * a.tanh()


def _weighed_classes(z: Tensor, y: Tensor) -> Tensor:
    return (2 * y * functional.softplus(-z) + (1 - y) * functional.softplus(z)).mean()


CASES = [
    (gated.op, lambda z, a, h: (1 - z.sigmoid()) * a.tanh() + z.sigmoid() * h, {"z": (4, 3), "a": (4, 3), "h": (4, 3)}),
    (gated_rows.op, _gated_rows, {"g": (4,), "h": (4, 3), "w": (3, 2)}),
    (weighed_classes.op, _weighed_classes, {"z": (5,), "y": (5,)}),
    (gated_units.op, lambda x, z: functional.silu(x) * z, {"x": (4, 3), "z": (4, 3)}),
    (softly.op, lambda x: functional.silu(x), {"x": (4, 3)}),
    (mixed.op, lambda x, z, w: w[:, None] * x + (1 - w[:, None]) * z, {"x": (4, 3), "z": (4, 3), "w": (4,)}),
]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES)
def test_gradients(made: Op, plain, shapes: dict[str, tuple[int, ...]]) -> None:
    assert_derived(made, plain, shapes)
    found = verify(made)
    assert found.right, [(r.line, [str(w) for w in r.wrong]) for r in found.rows if r.wrong]


def test_one_call() -> None:
    assert "y = torch.lerp(tanh_a, h, u)" in code_of(gated.op)
    assert ".lerp_(" in code_of(gated_rows.op) or "torch.lerp(" in code_of(gated_rows.op)
    assert "torch.lerp(y, z, sigmoid_x)" in code_of(gated_units.op)
    assert "torch.lerp(y, x.new_ones(()), sigmoid_x)" in code_of(softly.op)
    code = code_of(weighed_classes.op)
    assert code.count("lerp_(") == 2 and "(1 - y)" not in code, code


def test_whole_numbers_are_no_weights() -> None:
    assert "lerp" not in code_of(whole_weight.op)
    found = verify(whole_weight.op)
    assert found.right, [(r.line, [str(w) for w in r.wrong]) for r in found.rows if r.wrong]


def test_what_is_made_again_is_made_alike() -> None:
    """One of the largest is found again in a row only where it is rounded as it was."""
    assert "lerp" in emit.render(derive_op(compared.op))
    code = emit.render(derive_op(compared.op, save="input"))
    assert "y == m" in code and "lerp" not in code, code


def test_ends_are_exact() -> None:
    z, y = torch.tensor([-20.0, 20.0, 90.0]), torch.tensor([0.0, 1.0, 1.0])
    loss, saved = module(weighed_classes.op).weighed_classes_forward(z, y)
    expected = (y * 2 * functional.softplus(-z.double()) + (1 - y) * functional.softplus(z.double())).mean()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    dz = module(weighed_classes.op).weighed_classes_backward(torch.tensor(1.0), *saved)
    exact = [z[0].double().sigmoid() / 3, -2 / 3 * (-z[1].double()).sigmoid(), 0.0]
    torch.testing.assert_close(dz.double(), torch.tensor(exact, dtype=torch.float64), rtol=1e-6, atol=1e-30)


def test_what_may_be_left_out_stays_left_out() -> None:
    x, z, w = torch.tensor([[-math.inf, 1.0]]), torch.tensor([[-math.inf, -math.inf]]), torch.tensor([0.7])
    y, _ = module(mixed.op).mixed_forward(x, z, w)
    assert y.tolist() == [[-math.inf, -math.inf]]
