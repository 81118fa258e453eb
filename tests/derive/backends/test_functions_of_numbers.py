"""Functions of the caller's numbers: those of `math` where it has them, and tensors' values where it refuses."""

import math

import pytest
import torch
from sympy import acosh, digamma, erfinv, loggamma, sinh
from torch.nn import functional

from derive.notation import (
    axes,
    exp,
    log,
    mean,
    op,
    pi,
    relu,
    rsqrt,
    scalar,
    sigmoid,
    sin,
    size,
    softplus,
    sqrt,
    sum,
    tensor,
    where,
)
from derive.notation.spec import OpCall
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, d = axes("n d")


def _scaled(value) -> OpCall:
    """An input times a function of a number."""

    def scaled(f, x: tensor[n], p: scalar):
        f.y[n] = x[n] * value(p)
        return f.y

    return op(scaled)


FUNCTIONS = {
    "exp": (exp, torch.exp),
    "log": (log, torch.log),
    "sqrt": (sqrt, torch.sqrt),
    "rsqrt": (rsqrt, torch.rsqrt),
    "inverse root": (lambda p: 1 / sqrt(p), torch.rsqrt),
    "sin": (sin, torch.sin),
    "sinh": (sinh, torch.sinh),
    "acosh": (acosh, torch.acosh),
    "erfinv": (erfinv, torch.erfinv),
    "digamma": (digamma, torch.digamma),
    "loggamma": (loggamma, torch.lgamma),
    "relu": (relu, torch.relu),
    "sigmoid": (lambda p: sigmoid(2 * p + 1), lambda p: torch.sigmoid(2 * p + 1)),
    "softplus": (lambda p: 3 * softplus(2 * p + 1), lambda p: 3 * functional.softplus(2 * p + 1, threshold=800)),
    "power": (lambda p: p ** (p / 2), lambda p: p ** (p / 2)),
    "remainder": (lambda p: 3 * (p % 2), lambda p: 3 * (p % 2)),
    "chosen": (lambda p: where(p > 0, log(p), 0), lambda p: torch.where(p > 0, p.log(), 0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("number", [0.0, 0.3, -0.3, 1, -1, 2, 1000.0, -1000.0, math.inf])
def test_as_of_tensors(name: str, number: float) -> None:
    value, plain = FUNCTIONS[name]
    x = torch.tensor([0.5, -1.5, 2.0], dtype=torch.float64, requires_grad=True)
    expected = plain(torch.tensor(float(number), dtype=torch.float64))
    found = module(_scaled(value).op).scaled(x, number)
    torch.testing.assert_close(found, x * expected, rtol=1e-12, atol=1e-12, equal_nan=True)
    (dx,) = torch.autograd.grad(found, x, torch.ones_like(x))
    torch.testing.assert_close(dx, expected.expand(3), rtol=1e-12, atol=1e-12, equal_nan=True)


@op
def student_t(f, x: tensor[n], nu: scalar = 4.0):
    """Log-density."""
    f.y[n] = (
        loggamma((nu + 1) / 2) - loggamma(nu / 2) - log(nu * pi) / 2 - (nu + 1) / 2 * log(1 + x[n] ** 2 / nu)
    )  # fmt: skip
    return f.y


@pytest.mark.parametrize("nu", [1, 2.5, 300.0])
def test_a_density_with_its_normalizer(nu: float) -> None:
    x = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    wanted = torch.distributions.StudentT(torch.tensor(nu, dtype=torch.float64)).log_prob(x)
    assert_alike(module(student_t.op).student_t(x, nu), wanted, [x], tolerance=1e-11)


@op
def weighed(f, x: tensor[n], p: scalar):
    f.y[n] = where(p > 0, x[n] * log(p), 0)
    return f.y


def test_a_choice_leaves_out_what_is_infinite() -> None:
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    for p, expected in [(0.0, 0 * x), (2.0, x * math.log(2))]:
        assert_alike(module(weighed.op).weighed(x, p), expected, [x])


def test_what_math_has_is_written_so() -> None:
    @op
    def plain(f, x: tensor[n]):
        f.y[n] = x[n] * log(3) / sqrt(size(n))
        return f.y

    assert "of_numbers" not in code_of(plain.op) and "math.sqrt(n)" in code_of(plain.op)


@op
def of_lengths(f, x: tensor[n]):
    """SymPy has these as logarithms of gammas."""
    f.y[n] = x[n] * (loggamma(size(n)) - loggamma(1.5 * size(n)) * loggamma((size(n) + 1) / 2)) * loggamma(n / 2 + 3)
    return f.y


@pytest.mark.parametrize("length", [1, 3, 400])
def test_loggamma_of_a_length_is_that(length: int) -> None:
    x = torch.randn(length, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    numbers = math.lgamma(length) - math.lgamma(1.5 * length) * math.lgamma((length + 1) / 2)
    wanted = x * numbers * torch.lgamma(torch.arange(length, dtype=torch.float64) / 2 + 3)
    assert_alike(module(of_lengths.op).of_lengths(x), wanted, [x], tolerance=1e-12)


@op
def normalised(f, x: tensor[n], eps: scalar = 1e-8):
    """By the deviation with Bessel's correction, whose root is taken of a length."""
    f.mu[()] = mean(x[n], over=n)
    f.sd[()] = sqrt(sum((x[n] - f.mu[()]) ** 2, over=n)) / sqrt(size(n) - 1)
    f.y[n] = (x[n] - f.mu[()]) / (f.sd[()] + eps)
    return f.y


@op
def by_lengths(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] * sqrt(size(n) - 2) * (3 * size(d) - 2) ** -0.5 * sqrt(1 / (size(n) - size(d)))
    return f.y


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_length_less_a_number_may_have_no_root(count: int) -> None:
    x = torch.linspace(-1, 2, count, dtype=torch.float64, requires_grad=True)
    y = module(normalised.op).normalised(x)
    wanted = (x - x.mean()) / (x.var().sqrt() + 1e-8)
    torch.testing.assert_close(y, wanted, rtol=1e-12, atol=1e-12, equal_nan=True)
    found, right = (torch.autograd.grad(v.pow(3).sum(), x)[0] for v in (y, wanted))
    torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-10, equal_nan=True)


@pytest.mark.parametrize("lengths", [(0, 0), (0, 2), (2, 0), (1, 1), (3, 3), (2, 1), (3, 2), (2, 3)])
def test_as_of_tensors_of_lengths(lengths: tuple[int, int]) -> None:
    rows, columns = (torch.tensor(float(count), dtype=torch.float64) for count in lengths)
    factor = (rows - 2).sqrt() * (3 * columns - 2) ** -0.5 * (1 / (rows - columns)).sqrt()
    x = torch.ones(lengths, dtype=torch.float64, requires_grad=True)
    y = module(by_lengths.op).by_lengths(x)
    torch.testing.assert_close(y, x * factor, rtol=1e-12, atol=1e-12, equal_nan=True)
    (dx,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(dx, factor.expand(lengths), rtol=1e-12, atol=1e-12, equal_nan=True)


def test_roots_of_lengths_are_those_of_math() -> None:
    """A length, and products, quotients and sums of such and of numbers, are never below 0."""

    @op
    def scaled(f, x: tensor[n, d]):
        f.y[n, d] = x[n, d] * sqrt(size(n) + 1) / sqrt(2 * size(n) * size(d) / 3)
        return f.y

    assert "of_numbers" not in code_of(scaled.op)
    assert 'of_numbers("sqrt", n - 1)' in code_of(normalised.op)
