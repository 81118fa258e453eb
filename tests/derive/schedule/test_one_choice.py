"""Choices by one condition are one choice, with the gradients of autograd, at ties too."""

from fractions import Fraction

import pytest
import torch

from derive.emit import render
from derive.ir.program import Assign, AxisValue, Call, Node, Num, Program, Read, Reduce
from derive.notation import (
    axes,
    constant,
    exp,
    maximum,
    mean,
    minimum,
    ne,
    op,
    scalar,
    sigmoid,
    sqrt,
    sum,
    tensor,
    where,
)
from derive.pipeline import derivation_of
from derive.schedule.one_choice import one_choice
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

n, d, c, k = axes("n d c k")
X, A, B, U = (Read(name, ("n",)) for name in "xabu")
ASKED, ZERO = Call("gt", (X, Num(Fraction(0)))), Num(Fraction(0))


def chosen(a: Node, b: Node, condition: Node = ASKED) -> Call:
    return Call("where", (condition, a, b))


def after(node: Node) -> str:
    given = tuple((name, ("n",)) for name in "xabu")
    return str(one_choice(Program("p", given, (), (Assign("y", ("n",), node),), ("y",))).statements[0].value)


ABOVE, GAP = Call("gt", (X, U)), Call("sub", (X, U))
PLACES = Call("le", (AxisValue("n"), Num(Fraction(3))))
ROWS = [
    (Call("add", (chosen(A, ZERO), chosen(ZERO, B))), "where(x[n] > 0, a[n], b[n])"),
    (Call("sub", (chosen(ZERO, B), chosen(A, ZERO))), "where(x[n] > 0, -a[n], b[n])"),
    (Call("sub", (U, Call("add", (chosen(A, ZERO), chosen(U, B))))), "u[n] - where(x[n] > 0, a[n] + u[n], b[n])"),
    (Call("add", (Call("mul", (U, chosen(ZERO, B))), chosen(A, X))), "where(x[n] > 0, a[n], u[n] * b[n] + x[n])"),
    (chosen(chosen(A, B), U), "where(x[n] > 0, a[n], u[n])"),
    (chosen(chosen(A, ZERO, Call("eq", (X, U))), ZERO, Call("ge", (U, X))), "where(eq(x[n], u[n]), a[n], 0)"),
    (chosen(chosen(A, ZERO, Call("lt", (X, U))), ZERO, Call("ge", (U, X))), "where(x[n] < u[n], a[n], 0)"),
    (chosen(chosen(A, ZERO, Call("gt", (X, U))), ZERO, Call("ge", (U, X))),
     "where(u[n] >= x[n], where(x[n] > u[n], a[n], 0), 0)"),
    (chosen(chosen(A, ZERO, Call("eq", PLACES.args)), ZERO, PLACES), "where(eq(n, 3), a[n], 0)"),
    (chosen(A, chosen(B, U)), "where(x[n] > 0, a[n], u[n])"),
    (Call("add", (chosen(A, ZERO, PLACES), chosen(ZERO, B, PLACES))),
     "where(n <= 3, a[n], 0) + where(n <= 3, 0, b[n])"),
    (Call("sub", (chosen(A, ZERO, PLACES), Call("mul", (U, chosen(B, ZERO, PLACES))))),
     "where(n <= 3, a[n] - u[n] * b[n], 0)"),
    (Call("sub", (Call("sub", (chosen(X, B), chosen(A, B))), chosen(U, B))),
     "where(x[n] > 0, x[n] - a[n] - u[n], b[n] - b[n] - b[n])"),
    (Call("sub", (Call("sub", (Call("neg", (chosen(X, ZERO),)), chosen(A, ZERO))), chosen(U, ZERO))),
     "-where(x[n] > 0, x[n] + a[n] + u[n], 0)"),
    (Call("add", (Call("mul", (U, chosen(A, B))), chosen(A, X))),
     "u[n] * where(x[n] > 0, a[n], b[n]) + where(x[n] > 0, a[n], x[n])"),
    (chosen(Call("exp", (Call("add", (chosen(A, B), U)),)), chosen(A, B)), "where(x[n] > 0, exp(a[n] + u[n]), b[n])"),
    (chosen(Call("maximum", (X, U)), ZERO, ABOVE), "where(x[n] > u[n], x[n], 0)"),
    (chosen(Call("minimum", (U, X)), ZERO, ABOVE), "where(x[n] > u[n], u[n], 0)"),
    (chosen(A, Call("maximum", (X, U)), ABOVE), "where(x[n] > u[n], a[n], maximum(x[n], u[n]))"),
    (chosen(Call("maximum", (X, B)), ZERO, ABOVE), "where(x[n] > u[n], maximum(x[n], b[n]), 0)"),
    (chosen(Call("div", (X, chosen(X, A))), ZERO), "where(x[n] > 0, 1, 0)"),
    (chosen(Call("div", (GAP, GAP)), ZERO, ABOVE), "where(x[n] > u[n], 1, 0)"),
    (chosen(Call("div", (X, X)), ZERO, ABOVE), "where(x[n] > u[n], x[n] / x[n], 0)"),
    (chosen(Reduce("sum", ("n",), chosen(A, B)), ZERO),
     "where(x[n] > 0, sum(where(x[n] > 0, a[n], b[n]), over=n), 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "text"), ROWS)
def test_sums_and_nested_choices(node: Node, text: str) -> None:
    assert after(node) == text


@op
def preferences(f, x: tensor[n], t: constant[n], w: scalar = 0.7):
    f.l[n] = where(t[n] > 0.5, w * (1 - sigmoid(x[n])), 1 - sigmoid(-x[n]) ** 2)
    f.loss[()] = mean(f.l[n], over=n)
    return f.loss


@op
def bounded_cosine(f, x: tensor[n, d], w: tensor[c, d], low: scalar = 1.875):
    f.xx[n] = sum(x[n, d] ** 2, over=d)
    f.ww[c] = sum(w[c, d] ** 2, over=d)
    f.y[n, c] = sum(x[n, d] * w[c, d], over=d) / maximum(sqrt(f.xx[n] * f.ww[c]), low)
    return f.y


@op
def clipped_ratio(f, x: tensor[n, d], a: constant[n], low: scalar = 0.8, high: scalar = 1.2):
    f.r[n, d] = exp(x[n, d])
    f.y[n] = sum(a[n] * minimum(maximum(f.r[n, d], low), high), over=d)
    return f.y


def bounded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    lengths = (x.square().sum(1)[:, None] * w.square().sum(1)).sqrt()
    return x @ w.T / torch.maximum(lengths, torch.tensor(1.875).double())


def test_each_side_of_a_preference_is_computed_in_one_choice() -> None:
    d = derivation_of(preferences.op)
    lines = [str(s) for s in (*d.forward.statements, *d.backward.statements)]
    assert [line.count("where(") for line in lines if "where(" in line] == [1, 1]
    x, t = torch.randn(13).double().requires_grad_(), torch.rand(13).double()
    y = torch.where(t > 0.5, 0.7 * (1 - x.sigmoid()), 1 - (-x).sigmoid() ** 2).mean()
    ours = module(preferences.op).preferences(x, t)
    (right,), (found,) = torch.autograd.grad(y, x), torch.autograd.grad(ours, x)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


def test_half_at_a_tie_takes_one_choice() -> None:
    code = render(derivation_of(bounded_cosine.op)).split("_backward(")[1]
    assert code.count("torch.where(") + code.count("where_by_bits(") == 2, code
    x = torch.tensor([[3.0, 4.0], [0.75, 1.0], [1.0, 1.0]]).double().requires_grad_()
    w = torch.tensor([[0.375, 0.0], [1.5, 0.0], [1.0, 0.5]]).double().requires_grad_()
    y, ours = bounded(x, w), module(bounded_cosine.op).bounded_cosine(x, w)
    assert (x.square().sum(1)[:, None] * w.square().sum(1)).sqrt().eq(1.875).sum() == 2  # ties
    dy = torch.randn_like(y)
    for found, right in zip(torch.autograd.grad(ours, (x, w), dy), torch.autograd.grad(y, (x, w), dy), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


def test_both_ends_of_a_clamp_pass_on_half() -> None:
    x = torch.tensor([[40.0, 0.0, -1.0], [0.1, 0.7, -800.0]]).double()
    high = x.exp()[1, 1].item()
    x.requires_grad_()
    a, dy = torch.tensor([0.5, -2.0]).double(), torch.tensor([1.5, 0.3]).double()
    y = module(clipped_ratio.op).clipped_ratio(x, a, 1.0, high)
    (dx,) = torch.autograd.grad(y, x, dy)
    passed = torch.tensor([[0, 0.5, 0], [1, 0.5, 0]]).double()
    torch.testing.assert_close(dx, (a * dy)[:, None] * x.exp() * passed, rtol=1e-12, atol=1e-12)


@op
def falling(f, x: tensor[n, d], w: constant[n, d]):
    f.gap[n, k] = where(x[n, k] > x[n, k + 1], (x[n, k] - x[n, k + 1]) ** 2 * w[n, k], 0)
    f.y[n] = sum(f.gap[n, k], over=k)
    return f.y


def test_what_is_added_here_and_taken_away_there_is_chosen_once() -> None:
    code = code_of(falling.op).partition("def falling_backward")[2]
    assert code.count("torch.where(") + code.count("where_by_bits(") == 1, code
    x, w = torch.randn(2, 3, 7, dtype=torch.float64)
    x.requires_grad_()
    y = (torch.relu(x[:, :-1] - x[:, 1:]).square() * w[:, :-1]).sum(1)
    dy = torch.randn_like(y)
    (wanted,) = torch.autograd.grad(y, x, dy)
    _, saved = module(falling.op).falling_forward(x.detach(), w)
    torch.testing.assert_close(module(falling.op).falling_backward(dy, *saved), wanted)


i, j = axes("i j")


@op
def others(f, s: tensor[n, k], w: constant[n, k], temperature: scalar = 0.1):
    """Two sums over all places, its own in another way."""
    f.g[n, i, j] = sigmoid((s[n, j] - s[n, i]) / temperature)
    f.all[n, i] = 1 + sum(where(ne(i, j), f.g[n, i, j], f.g[n, i, j] ** 2), over=j)
    f.some[n, i] = 1 + sum(where(ne(i, j), w[n, j] * f.g[n, i, j], f.g[n, i, j]), over=j)
    f.y[n, i] = f.some[n, i] / f.all[n, i]
    return f.y


def others_reference(s: torch.Tensor, w: torch.Tensor, temperature: float) -> torch.Tensor:
    g = ((s[:, None] - s[:, :, None]) / temperature).sigmoid()
    own = torch.eye(s.shape[1]) > 0
    return (torch.where(own, g, g * w[:, None]).sum(2) + 1) / (torch.where(own, g**2, g).sum(2) + 1)


def test_places_are_compared_once() -> None:
    forward, _, backward = code_of(others.op).partition("def others_backward")
    assert "off_diagonal = k_range[:, None] != k_range\n" in forward and forward.count("!=") == 1
    assert backward.count("!=") == 1
    assert_derived(others.op, lambda s, w: others_reference(s, w, 0.1), {"s": (3, 5), "w": (3, 5)})


@op
def largest_of_three(f, x: tensor[n, d], z: tensor[n, d], w: tensor[n, d]):
    f.y[n, d] = maximum(maximum(x[n, d], z[n, d]), w[n, d])
    return f.y


def test_what_is_asked_elsewhere_as_well_is_asked_alike() -> None:
    """Under `x > z` the larger of both is `x`, but `dw` asks for the larger of both in any case."""
    lines = [str(s) for s in derivation_of(largest_of_three.op).backward.statements]
    assert not any("x[n, d] - w[n, d]" in line for line in lines), lines
    one, other = Call("maximum", (X, U)), Call("gt", (Call("maximum", (X, U)), A))
    inside = chosen(chosen(B, ZERO, other), ZERO, ABOVE)
    assert after(inside) == "where(x[n] > u[n], where(x[n] > a[n], b[n], 0), 0)"
    assert after(Call("mul", (inside, chosen(A, one, other)))) == (
        "where(x[n] > u[n], where(maximum(x[n], u[n]) > a[n], b[n], 0), 0)"
        " * where(maximum(x[n], u[n]) > a[n], a[n], maximum(x[n], u[n]))"
    )
