"""What a spec calls is what the code calls: SymPy's own evaluation must not lose digits that the author had."""

from collections.abc import Callable

import pytest
import sympy
import torch
from sympy import erfc

from derive.ir.equations import Op
from derive.notation import amax, axes, constant, exp, log, op, scalar, sqrt, sum, tensor
from derive.output.live import build
from tests.derive.live import module

n, m, d = axes("n m d")


def log_of_a_tail() -> Op:
    @op
    def log_of_a_tail(f, z: tensor[n]):
        f.y[n] = log(erfc(-z[n] / sqrt(2)) / 2)
        return f.y

    return log_of_a_tail.op


def of_an_equation() -> Op:
    @op
    def of_an_equation(f, z: tensor[n]):
        f.a[n] = -z[n] / sqrt(2)
        f.y[n] = log(sympy.erfc(f.a[n]) / 2)
        return f.y

    return of_an_equation.op


def scaled() -> Op:
    @op
    def scaled(f, z: tensor[n], c: scalar = 1.0):
        f.y[n] = log(erfc(-c * z[n] / sqrt(2)) / 2)
        return f.y

    return scaled.op


@pytest.mark.parametrize("made", [log_of_a_tail, of_an_equation, scaled])
def test_the_tail_of_erfc_is_not_lost(made: object) -> None:
    """`erfc(-x)` is not `2 - erfc(x)`, which is 0 where `x` is -9."""
    z = torch.tensor([-3.0, -9.0, -20.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = torch.log(torch.erfc(-z / 2**0.5) / 2)
    ours = getattr(module(made()), made.__name__)  # type: ignore
    mine = ours(z)
    torch.testing.assert_close(mine, y, rtol=1e-12, atol=0)
    dy = torch.ones_like(y)
    torch.testing.assert_close(torch.autograd.grad(mine, z, dy), torch.autograd.grad(y, z, dy), rtol=1e-12, atol=0)


def test_two_tails_do_not_cancel() -> None:
    @op
    def between(f, a: tensor[n], b: tensor[n]):
        f.y[n] = (erfc(-b[n]) - erfc(-a[n])) / 2
        return f.y

    a, b = torch.tensor([-9.0], dtype=torch.float64), torch.tensor([-8.0], dtype=torch.float64)
    ours = module(between.op).between(a, b)
    torch.testing.assert_close(ours, (torch.erfc(-b) - torch.erfc(-a)) / 2, rtol=1e-12, atol=0)


def test_sympy_keeps_its_own() -> None:
    x = sympy.Symbol("x")
    assert erfc(-x) == 2 - erfc(x)
    assert erfc(0) == 1


def test_a_number_is_multiplied_after_the_sum() -> None:
    """SymPy has `3*(x - y)` as `3*x - 3*y`, two numbers that are rounded, in one pass more."""

    @op
    def apart(f, x: tensor[n], y: tensor[n]):
        f.z[n] = 3 * (x[n] - y[n])
        f.u[n] = -(x[n] - y[n] + 1) / 10
        return f.z, f.u

    x, y = torch.tensor([1e7 + 1]), torch.tensor([1e7])
    assert float(3 * x - 3 * y) != 3  # in float32
    z, u = module(apart.op).apart(x, y)
    assert float(z) == 3
    assert float(u) == float(torch.tensor(-2.0) / 10)


def test_a_decimal_is_not_taken_out_of_an_exponential() -> None:
    """SymPy has `exp(x - 0.5)` as `0.6065*exp(x)` at once, and `exp(x - 1e9*(1 - m))` as 0."""

    @op
    def shifted(f, x: tensor[n], seen: constant[n]):
        f.y[n] = exp(x[n] - 60.5)
        f.z[n] = exp(x[n] - 1e9 * (1 - seen[n]))
        return f.y, f.z

    x, seen = torch.tensor([100.0, 1.0, 2.0]), torch.tensor([0.0, 1.0, 0.0])
    y, z = module(shifted.op).shifted(x, seen)
    torch.testing.assert_close(y, (x - 60.5).exp())
    torch.testing.assert_close(z, torch.where(seen > 0, x.exp(), 0))


def test_a_quotient_by_a_long_decimal_is_one() -> None:
    @op
    def scaled(f, x: tensor[n]):
        f.y[n] = x[n] / 2**0.5 + x[n] ** 2 / 0.3
        return f.y

    x = torch.tensor([3.0], dtype=torch.float64)
    assert str(scaled.op.equations[0].body) == "10*x[n]**2/3 + 282842712474619*x[n]/400000000000000"
    torch.testing.assert_close(module(scaled.op).scaled(x), x / 2**0.5 + x**2 / 0.3, rtol=1e-15, atol=0)


def test_what_sympy_was_asked_before_changes_no_equation() -> None:
    """A function of a decimal, called before the spec, is remembered as a decimal, which is not the spec's."""
    sympy.tanh(0.7)

    @op
    def remembered(f, x: tensor[n]):
        f.y[n] = x[n] * sympy.tanh(0.7)
        return f.y

    (y,) = remembered.op.equations
    assert y.body.atoms(sympy.tanh) == {sympy.tanh(sympy.Rational(7, 10))}


def test_sympy_keeps_its_decimals() -> None:
    @op
    def halves(f, x: tensor[n]):
        f.y[n] = x[n] ** 0.5 + sympy.tanh(0.5)
        return f.y

    assert str(halves.op.equations[0].body) == "sqrt(x[n]) + tanh(1/2)"
    assert isinstance(sympy.sympify(0.5), sympy.Float)
    assert isinstance(sympy.tanh(0.5), sympy.Float)


@op
def masked_softmax(f, s: tensor[n, m], seen: constant[m]):
    f.a[n, m] = s[n, m] - 1e9 * (1 - seen[m])
    f.u[n, m] = exp(f.a[n, m] - amax(f.a[n, m], over=m))
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    return f.p


@op
def of_a_pair(f, s: tensor[n, m], seen: constant[n]):
    f.y[n, m] = (s[n, m] + (seen[n] * seen[m] - 1) * 1e6 - s[n, n] * 0.5) ** 3
    return f.y


@op
def of_two_masks(f, s: tensor[n, m], seen: constant[n]):
    f.y[n, m] = (s[n, m] - 1e9 * (1 - seen[n]) - 1e9 * (1 - seen[m]) - 2e4 * (1 - seen[n])) ** 3
    return f.y


@pytest.mark.parametrize("save", ["cost", "least", "input", "fused"])
def test_a_number_beside_other_terms_is_multiplied_after_its_sum(save: str) -> None:
    """SymPy has `s - 1e9*(1 - m)` as `s + 1e9*m - 1e9`, which in float32 is 0 where `m` is 1."""
    s, seen = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([1.0, 0.0, 1.0, 1.0])
    plain: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "masked_softmax": lambda s: s.masked_fill(seen == 0, -torch.inf).softmax(1),
        "of_a_pair": lambda s: (s + (seen[:, None] * seen - 1) * 1e6 - s.diagonal()[:, None] * 0.5) ** 3,
    }
    off = 1 - seen
    plain["of_two_masks"] = lambda s: (s - 1e9 * off[:, None] - 1e9 * off - 2e4 * off[:, None]) ** 3
    for made in (masked_softmax, of_a_pair, of_two_masks):
        x = s.clone().requires_grad_()
        expected, ours = plain[made.op.name](x), build(made, save=save)(x, seen)
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
        dy = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1))
        for a, b in zip(*(torch.autograd.grad(y, x, dy) for y in (ours, expected)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
