"""One sign where there are two, and nothing that adds 0 or multiplies by 1."""

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from derive import (
    amax,
    axes,
    constant,
    eq,
    exp,
    maximum,
    mean,
    minimum,
    op,
    relu,
    scalar,
    size,
    softplus,
    sqrt,
    tensor,
    where,
)  # fmt: skip
from derive.emit import render
from derive.ir.equations import Op
from derive.ir.nodes.walking import walk
from derive.ir.program import Call, Node, Num, Read
from derive.pipeline import derivation_of, derive_op
from derive.schedule.signs import plain
from tests.derive.live import assert_alike, assert_derived, module

n, c = axes("n c")
X, Y, TWO, ZERO, ONE = Read("x", ("n",)), Read("y", ("n",)), *(Num(Fraction(k)) for k in (2, 0, 1))


def neg(node: Node) -> Node:
    return Call("neg", (node,))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (neg(neg(X)), "x[n]"),
        (neg(Num(Fraction(-2))), "2"),
        (Call("sub", (X, neg(Y))), "x[n] + y[n]"),
        (Call("add", (X, neg(Y))), "x[n] - y[n]"),
        (Call("sub", (X, neg(TWO))), "x[n] + 2"),
        (Call("add", (X, Num(Fraction(-2)))), "x[n] - 2"),
        (Call("add", (ZERO, neg(X))), "-x[n]"),
        (Call("sub", (ZERO, neg(X))), "x[n]"),
        (Call("sub", (X, ZERO)), "x[n]"),
        (Call("mul", (neg(X), neg(Y))), "x[n] * y[n]"),
        (Call("mul", (Num(Fraction(-1)), X)), "-x[n]"),
        (Call("div", (Call("mul", (ONE, X)), ONE)), "x[n]"),
        (Call("exp", (Call("sub", (X, neg(neg(Y)))),)), "exp(x[n] - y[n])"),
        (Call("mul", (neg(X), Y)), "(-x[n]) * y[n]"),
    ],
)
def test_one_sign(node: Node, text: str) -> None:
    assert str(plain(node)) == text


@op
def inflated(f, x: constant[n], z: tensor[n], y: tensor[n]):
    f.zero[n] = softplus(y[n] - z[n]) - softplus(-z[n])
    f.ll[n] = where(eq(x[n], 0), f.zero[n], -softplus(z[n]) + x[n] * y[n])
    f.loss[()] = -mean(f.ll[n], over=n)
    return f.loss


@op
def within(f, x: tensor[n], clip: scalar = 0.2):
    f.y[n] = minimum(maximum(x[n], -clip), clip)
    return f.y


@op
def larger(f, a: tensor[n], b: tensor[n]):
    f.y[n] = maximum(a[n] + 2, b[n])
    f.loss[()] = -mean(f.y[n] ** 2, over=n)
    return f.loss


@op
def smoothed(f, z: tensor[n, c], w: tensor[n, c], a: tensor[n], smooth: scalar = 0.1):
    f.y[n, c] = w[n, c] ** 2 - smooth * a[n] * z[n, c]
    f.loss[()] = mean(f.y[n, c] ** 2, over=(n, c))
    return f.loss


def test_a_branch_of_minus_one_factor_is_negated_once() -> None:
    lines = [str(s) for s in derive_op(inflated.op, "input").backward.statements]
    assert any("sigmoid(z[n]))" in line for line in lines) and not any("-(-" in line for line in lines), lines


def test_above_a_negative_number_is_a_sum() -> None:
    lines = [str(s) for s in derivation_of(within.op).backward.statements]
    assert any("sign(x[n] + clip)" in line for line in lines), lines


def test_nothing_is_added_to_what_one_side_of_a_maximum_passes_on() -> None:
    source = render(derivation_of(larger.op))
    assert "db = dy.sub_(da)" in source and "0 +" not in source and "0 -" not in source, source


def test_a_number_that_is_subtracted_has_a_minus_in_front() -> None:
    source = render(derivation_of(smoothed.op))
    assert "value=-smooth)" in source and "-1 *" not in source, source


@op
def modulated(f, x: tensor[n, c], g: tensor[n, c]):
    """Normalised columns under gains of each place (Park et al., 2019)."""
    f.u[n, c] = x[n, c] - mean(x[n, c], over=n)
    f.r[c] = sqrt(mean(f.u[n, c] ** 2, over=n) + 1)
    f.y[n, c] = (1 + g[n, c]) * f.u[n, c] / f.r[c] + f.u[n, c]
    return f.y


def test_a_sum_of_negatives_is_minus_the_sum() -> None:
    values = [str(s.value) for s in derivation_of(modulated.op).backward.statements]
    assert [v[:7] for v in values if "mean(dy" in v] == ["-mean(d"], values
    assert not any("(-" in v for v in values), values


@op
def log_gated(f, g: tensor[n], m: tensor[n], state: tensor[n]):
    """A gate in the logarithm: minus a softplus, added to what it carries on (Beck et al., 2024)."""
    f.kept[n] = -softplus(-g[n])
    f.y[n] = exp(f.kept[n] + m[n]) * state[n]
    return f.y


def test_what_is_minus_something_is_taken_away() -> None:
    values = [str(s.value) for s in derivation_of(log_gated.op).forward.statements]
    assert any("m[n] - softplus(-g[n])" in v for v in values) and not any("-softplus" in v for v in values), values


@op
def counted(f, x: tensor[n], w: tensor[n, c]):
    """Minus what its places count in, read at another axis of the same length."""
    f.ramp[n] = -(n * x[n])
    f.y[c, n] = f.ramp[c] + w[n, c]
    return f.y


@op
def turned(f, x: tensor[n], w: tensor[n, c]):
    """Minus what is read from the end, read at another axis."""
    f.last[n] = -(x[size(n) - 1 - n] ** 3)
    f.y[c, n] = f.last[c] + w[n, c]
    return f.y


@op
def in_one_row(f, x: tensor[n], w: tensor[n, c]):
    """Minus something over a merged axis, read at one of its places."""
    f.rows[(n, c),] = -where(n <= c, x[n], w[n, c])
    f.y[c] = w[0, c] + f.rows[1]
    return f.y


ELSEWHERE: dict[str, Callable[..., Tensor]] = {
    "counted": lambda x, w: (w - (torch.arange(4) * x)).T,
    "turned": lambda x, w: (w - x.flip(0) ** 3).T,
    "in_one_row": lambda x, w: w[0] - x[0],
}


@pytest.mark.parametrize("made", [counted.op, turned.op, in_one_row.op], ids=lambda made: made.name)
def test_what_is_taken_away_elsewhere_is_that_of_its_own_place(made: Op) -> None:
    assert_derived(made, ELSEWHERE[made.name], {"x": (4,), "w": (4, 4)})


@op
def largest_of_rectified(f, x: tensor[n, c]):
    """What the largest of a row passes on is not rectified place by place."""
    f.z[n, c] = relu(x[n, c])
    f.y[n] = amax(f.z[n, c], over=c)
    return f.y


def test_the_sign_beside_a_tie_is_that_of_what_has_fewer_places() -> None:
    backward = derivation_of(largest_of_rectified.op).backward
    signs = {n.args[0] for s in backward.statements for n in walk(s.value) if isinstance(n, Call) and n.fn == "sign"}
    assert signs == {Read("y", ("n",))}
    x = torch.randn(5, 3, dtype=torch.float64).requires_grad_()
    with torch.no_grad():
        x[0] = -1.0  # all of them tie at 0
        x[1] = 2.0
    assert_alike(module(largest_of_rectified.op).largest_of_rectified(x), torch.relu(x).amax(1), [x])
