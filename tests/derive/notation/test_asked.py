"""Comparisons with 0 are asked of the numbers: a sign on paper is not one in floating point."""

import pytest
import torch
from sympy import And, Not, Or

from derive.ir.terms.asked import Above, Alike, Below, NotAbove, NotBelow, Opposite, Unlike
from derive.ir.terms.elements import At, Tensor
from derive.notation import amax, axes, eq, exp, log, ne, oo, op, sum, tensor, where
from derive.output.live import build
from derive.pipeline import derivation_of

n, i, j = axes("n i j")


@op
def entropy(f, s: tensor[i, j]):
    f.u[i, j] = exp(s[i, j] - amax(s[i, j], over=j))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.h[i] = -sum(where(f.p[i, j] > 0, f.p[i, j] * log(f.p[i, j]), 0), over=j)
    return f.h


@op
def entropy_by_zeros(f, s: tensor[i, j]):
    f.u[i, j] = exp(s[i, j] - amax(s[i, j], over=j))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.h[i] = -sum(where(eq(f.p[i, j], 0), 0, f.p[i, j] * log(f.p[i, j])), over=j)
    return f.h


@op
def entropy_but_where_nothing(f, s: tensor[i, j]):
    f.u[i, j] = exp(s[i, j] - amax(s[i, j], over=j))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.h[i] = -sum(where((f.p[i, j] <= 0) | ~ne(f.p[i, j], 0), 0, f.p[i, j] * log(f.p[i, j])), over=j)
    return f.h


@op
def masked(f, s: tensor[i, j]):
    f.e[i, j] = exp(where(j <= i, s[i, j], -oo))
    f.y[i, j] = where(f.e[i, j] > 0, f.e[i, j] ** 2, s[i, j])
    return f.y


@pytest.mark.parametrize("spec", [entropy, entropy_by_zeros, entropy_but_where_nothing], ids=lambda s: s.op.name)
def test_an_exponential_far_below_is_zero(spec) -> None:
    live = build(spec.op)
    s = torch.tensor([[0.0, -2000.0, 1.0], [0.5, 0.25, -1.0]], dtype=torch.float64)
    dh = torch.tensor([1.3, -0.7], dtype=torch.float64)
    h, saved = live.forward(s)
    at = s.clone().requires_grad_()
    p = at.softmax(-1)
    expected = -torch.special.xlogy(p, p.clamp(min=1e-300)).sum(-1)
    torch.testing.assert_close(h, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        live.backward(dh, *saved), torch.autograd.grad(expected, at, dh)[0], rtol=1e-12, atol=1e-12
    )


def test_an_exponential_of_minus_infinity_is_zero() -> None:
    live = build(masked.op)
    s = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    e = s.tril().exp().tril()
    expected = torch.where(e > 0, e**2, s)
    y, saved = live.forward(s.detach())
    dy = torch.randn_like(y)
    torch.testing.assert_close(y, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        live.backward(dy, *saved), torch.autograd.grad(expected, s, dy)[0], rtol=1e-12, atol=1e-12
    )


@op
def softmax_of_a_mask(f, s: tensor[i, j]):
    f.m[i] = amax(where(j <= i, s[i, j], -oo), over=j)
    f.u[i, j] = exp(where(j <= i, s[i, j], -oo) - f.m[i])
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    return f.p


def test_a_mask_inside_an_exponential_costs_no_short_form() -> None:
    assert derivation_of(softmax_of_a_mask.op).kept == ("p",)


def test_one_value_of_either_sign_is_no_contradiction() -> None:
    t = At(Tensor("t"), n)
    both = And(Above(-t, 0), NotAbove(t, 0))
    assert both.args and both == And(NotAbove(t, 0), Above(-t, 0))
    assert And(Above(n, 3), NotAbove(n, 3)) == False  # noqa: E712  (SymPy's truth)
    assert Or(Above(t, 0), NotAbove(t, 0)) != True  # noqa: E712  (nan is neither)


@pytest.mark.parametrize(
    ("one", "opposite", "turned"),
    [(Above, NotAbove, Below), (Below, NotBelow, Above), (Alike, Unlike, Alike)],
    ids=["above", "below", "alike"],
)
def test_what_is_asked_stays_asked(one, opposite, turned) -> None:
    u = At(Tensor("u", positive=True), n)
    t = At(Tensor("t", negative=True), n)
    assert type(one(u, t)) is one
    i, k = At(Tensor("i", integer=True), n), At(Tensor("k", integer=True), n)
    assert one(i, k).negated == opposite(i, k) and opposite(i, k).negated == one(i, k)
    assert one(u, t).negated == (opposite(u, t) if one is Alike else Opposite(one(u, t), evaluate=False))
    assert Not(Not(one(u, t))) == one(u, t)
    assert one(u, t).reversed == turned(t, u) and one(u, t).reversedsign == turned(-u, -t)
