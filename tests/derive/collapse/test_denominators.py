"""Terms over one denominator, where they cancel, and only there."""

import pytest
import torch
from sympy import Expr, Rational, symbols

from derive.ir.algebra import normal
from derive.ir.terms.kinks import absolute, sign
from derive.notation import axes, op, sigmoid, sqrt, sum, tensor
from derive.pipeline import derive_op
from derive.rules.expressions import rewritings
from derive.rules.tables.algebra import DENOMINATORS
from tests.derive.live import module

x, y, t = symbols("x y t", real=True)
k, m, n = axes("k m n")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1 / (1 + x) - x / (1 + x) ** 2, [1 / (1 + x) ** 2]),
        (y / (1 + absolute(x)) - y * x * sign(x) / (1 + absolute(x)) ** 2 + t, [y / (1 + absolute(x)) ** 2 + t]),
        ((1 + x) ** Rational(-1, 2) - x * (1 + x) ** Rational(-3, 2), [(1 + x) ** Rational(-3, 2)]),
        (
            1 / (1 + x) - x / (1 + x) ** 2 + t * (1 + x) ** Rational(-5, 2),
            [1 / (1 + x) ** 2 + t * (1 + x) ** Rational(-5, 2)],
        ),
        (1 / (1 + x) + x / (1 + x) ** 2, []),
        (y / (1 + x) ** 2 + x * y / (1 + x) ** 2 + t, [y / (1 + x) + t]),
        (y / (t + x) ** 3 + x * y / (t + x) ** 3, []),
        (2 * t * y / (t + x) ** 2 + 2 * x * y / (t + x) ** 2 - x, [2 * y / (t + x) - x]),
        (1 / (1 + x) - x, []),
        (1 / (1 + x + t) - x / (1 + x + t) ** 2 - t / (1 + x + t) ** 2, [1 / (1 + x + t) ** 2]),
    ],
)
def test_terms(value: Expr, found: list[Expr]) -> None:
    assert [move.value for move in rewritings(value, DENOMINATORS, tidy=normal)][:1] == found


@op
def bounded(f, x: tensor[n]):
    f.y[n] = x[n] / (1 + abs(x[n]))
    return f.y


def test_a_gradient_without_what_cancels() -> None:
    d = derive_op(bounded.op)
    assert [s.law for s in d.closed.steps] == ["denominator"]
    assert str(d.backward.statements[0]) == "dx[n] = dy[n] / (abs(x[n]) + 1)**2"
    x = torch.tensor([-3.0, -1e-9, 0.0, 0.7, 1e20], dtype=torch.float64, requires_grad=True)
    (right,) = torch.autograd.grad((x / (1 + x.abs()))[:4].sum(), x)
    (found,) = torch.autograd.grad(module(bounded.op).bounded(x).sum(), x)
    torch.testing.assert_close(found[:4], right[:4], rtol=1e-12, atol=0)
    torch.testing.assert_close(found[4].item(), 1e-40, rtol=1e-12, atol=0)


@op
def rooted(f, x: tensor[n]):
    f.y[n] = x[n] / sqrt(1 + x[n] ** 2)
    return f.y


def test_roots_are_no_denominators_of_their_own() -> None:
    """`1/sqrt(b) - x**2/sqrt(b)**3` has no digits left where x is large, `1/sqrt(b)**3` all."""
    assert [s.law for s in derive_op(rooted.op).closed.steps] == ["denominator"]
    x = torch.linspace(-300, 300, 41)
    x.requires_grad_()
    (found,) = torch.autograd.grad(module(rooted.op).rooted(x).sum(), x)
    right = (1 + x.detach().double() ** 2) ** -1.5
    torch.testing.assert_close(found.double(), right, rtol=1e-6, atol=0)


@op
def unnamed_share(f, a: tensor[n, k], v: tensor[k, m]):
    f.p[n, k] = sigmoid(a[n, k])
    f.y[n, m] = sum(f.p[n, k] / (1 + sum(f.p[n, k], over=k)) * v[k, m], over=k)
    return f.y


def test_what_all_of_a_denominator_is_divided_by() -> None:
    """The sum that comes back is one less power, `dy*y / (s + 1)`, not `dy*y*(s + 1) / (s + 1)**2`."""
    backward = str(derive_op(unnamed_share.op).backward)
    assert "**2" not in backward and "p_sum[n] + 1" in backward, backward
