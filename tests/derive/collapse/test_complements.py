"""`1 - sigmoid(u)` is `sigmoid(-u)`, in pairs of terms, and only there."""

import pytest
import torch
from sympy import Expr, symbols, tanh

from derive import axes, constant, exp, log, log1p, maximum, minimum, op, relu, softplus, tensor
from derive import sigmoid as said
from derive.catalogue import find
from derive.ir.algebra import normal
from derive.ir.terms.functions import sigmoid
from derive.pipeline import derivation_of, derive_op
from derive.rules.expressions import rewritings
from derive.rules.tables.algebra import COMPLEMENTS
from tests.derive.live import module

n = axes("n")

x, y, t = symbols("x y t", real=True)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1 - sigmoid(x), [sigmoid(-x)]),
        (y - t * y - y * sigmoid(-x), [y * sigmoid(x) - t * y]),
        (2 * y * sigmoid(x) - 2 * y, [-2 * y * sigmoid(-x)]),
        (y - 2 * y * sigmoid(x), [-y * tanh(x / 2)]),
        (1 - 2 * sigmoid(x), [tanh(-x / 2)]),
        (y - t * y - 2 * y * sigmoid(-2 * x), [y * tanh(x) - t * y]),
        (y * sigmoid(x) + y * sigmoid(-x) - t, [y - t]),
        (y - 3 * y * sigmoid(x), []),
        (1 + sigmoid(x), []),
        (1 + 2 * sigmoid(x), []),
        (
            1 - sigmoid(x) + y - y * sigmoid(t),
            [
                sigmoid(-x) + y * sigmoid(-t),
                sigmoid(-x) + y - y * sigmoid(t),
                1 - sigmoid(x) + y * sigmoid(-t),
            ],
        ),
    ],
)
def test_pairs(value: Expr, found: list[Expr]) -> None:
    assert {move.value for move in rewritings(value, COMPLEMENTS, tidy=normal)} == set(found)


@op
def with_logits(f, x: tensor[n], z: constant[n]):
    """Binary cross-entropy as PyTorch's and TensorFlow's documentation have it."""
    f.y[n] = maximum(x[n], 0) - x[n] * z[n] + log(1 + exp(-abs(x[n])))
    return f.y


@op
def of_minus(f, x: tensor[n], z: constant[n]):
    f.y[n] = maximum(-x[n], 0) - x[n] * z[n] + softplus(-abs(x[n]))
    return f.y


@op
def log_sigmoid(f, x: tensor[n], z: constant[n]):
    f.y[n] = z[n] * x[n] + minimum(x[n], 0) - log1p(exp(-abs(x[n])))
    return f.y


@op
def log_of_other(f, x: tensor[n], z: constant[n]):
    f.y[n] = z[n] * x[n] + minimum(-x[n], 0) - log1p(exp(-abs(x[n])))
    return f.y


@op
def other_slope(f, x: tensor[n], z: constant[n]):
    """At 0 the gradient of `relu` is 0, and no sigmoid has that one."""
    f.y[n] = relu(x[n]) - x[n] * z[n] + softplus(-abs(x[n]))
    return f.y


@pytest.mark.parametrize(
    ("made", "slope"),
    [
        (with_logits, lambda x, z: x.sigmoid() - z),
        (of_minus, lambda x, z: -(-x).sigmoid() - z),
        (log_sigmoid, lambda x, z: z + (-x).sigmoid()),
        (log_of_other, lambda x, z: z - x.sigmoid()),
    ],
)
def test_a_step_and_a_magnitude_are_a_sigmoid(made, slope) -> None:
    assert [s.law for s in derivation_of(made.op).closed.steps] == ["complement"]
    assert "sign" not in str(derivation_of(made.op).backward)
    x = torch.tensor([-200.0, -3.0, -1e-6, 0.0, 0.7, 40.0, 200.0], dtype=torch.float64, requires_grad=True)
    z = torch.linspace(0, 1, 7, dtype=torch.float64)
    getattr(module(made.op), made.op.name)(x, z).sum().backward()
    torch.testing.assert_close(x.grad, slope(x.detach(), z), rtol=1e-14, atol=1e-14)


def test_the_slope_of_relu_stays() -> None:
    assert "sign" in str(derivation_of(other_slope.op).backward)
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    module(other_slope.op).other_slope(x, torch.zeros(1, dtype=torch.float64)).sum().backward()
    assert x.grad.item() == 0


@op
def log_cosh(f, r: tensor[n]):
    f.y[n] = r[n] + softplus(-2 * r[n])
    return f.y


def test_small_differences_keep_their_digits() -> None:
    """`1 - 2*sigmoid(-2*r)` has none left in float32."""
    assert [s.law for s in derivation_of(log_cosh.op).closed.steps if s.law == "complement"] == ["complement"]
    r = torch.tensor([1e-9, -1e-5, 0.3, 40.0], dtype=torch.float32, requires_grad=True)
    (dr,) = torch.autograd.grad(module(log_cosh.op).log_cosh(r).sum(), r)
    torch.testing.assert_close(dr, torch.tanh(r.detach()), rtol=1e-6, atol=0)


def test_it_is_taken_where_it_is_cheaper_and_says_so() -> None:
    taken = [s.subject.name for s in derive_op(find("bce_with_logits")).closed.steps if s.law == "complement"]
    assert taken == ["dx"]
    assert not [s for s in derive_op(find("silu")).closed.steps if s.law == "complement"]


@op
def both_sides(f, x: tensor[n], a: tensor[n], b: tensor[n]):
    f.y[n] = said(x[n]) * a[n] + said(-x[n]) * b[n]
    return f.y


def test_where_the_forward_has_both_sides_each_is_what_the_other_leaves() -> None:
    """`p*(1 - p)*a - q*(1 - q)*b` is `p*q*(a - b)`, and has its digits where `p` is nearly 1."""
    backward = derivation_of(both_sides.op).backward
    assert "1 -" not in str(backward) and "- 1" not in str(backward), backward
    values = torch.tensor([-30.0, -2.0, 0.0, 0.5, 12.0, 25.0])
    x, a, b = (v.clone().requires_grad_() for v in (values, values + 2, 3 - values))
    found = torch.autograd.grad(module(both_sides.op).both_sides(x, a, b).sum(), (x, a, b))
    p, q, wide = values.double().sigmoid(), (-values).double().sigmoid(), values.double()
    for f, w in zip(found, (p * q * (2 * wide - 1), p, q), strict=True):
        torch.testing.assert_close(f.double(), w, rtol=1e-6, atol=0)
