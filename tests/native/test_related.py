"""Functions that share their work: 1 + erf(x) beside exp(-x**2), softplus beside sigmoid."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.conftest import Package

SPECS = """
from derive import *

n, m = axes("n m")


def pointwise(name, value):
    def forward(f, x: tensor[n]):
        f.y[n] = value(x[n])
        return f.y
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)


upper = pointwise("upper", lambda x: 1 + erf(x))
lower = pointwise("lower", lambda x: 1 - erf(x))
halves = pointwise("halves", lambda x: x * (0.5 + 0.5 * erf(x * 0.7071067811865475)))
whole = pointwise("whole", lambda x: x / 2 * (1 + erf(x / sqrt(2))))
alone = pointwise("alone", lambda x: 2 + 3 * erf(x))
elsewhere = pointwise("elsewhere", lambda x: (1 + erf(x)) * (2 + erf(x)))


@op
def expected_improvement(f, x: tensor[n, m], mu: tensor[m], s: tensor[m].positive):
    f.z[n, m] = (x[n, m] - mu[m]) / s[m]
    f.P[n, m] = (1 - erf(f.z[n, m] / sqrt(2))) / 2
    f.p[n, m] = exp(-(f.z[n, m] ** 2) / 2) / sqrt(2 * pi)
    f.y[n, m] = f.P[n, m] * (x[n, m] - mu[m]) + s[m] * f.p[n, m]
    return f.y


@op
def soft_and_logistic(f, x: tensor[n]):
    f.soft[n] = softplus(-x[n])
    f.y[n] = sigmoid(x[n])
    return f.soft, f.y
"""


@pytest.fixture(scope="module")
def sources(native: ModuleType) -> dict[str, str]:
    """The C of every op's forward."""
    files = Path(native.__path__[0]).glob("*.c")
    return {file.stem: file.read_text().partition("_backward(")[0] for file in files}


@pytest.mark.parametrize("name", ["upper", "lower", "halves", "whole", "expected_improvement"])
def test_one_is_added_to_erf_in_one_function(sources: dict[str, str], name: str) -> None:
    assert "real_one_plus_erf(" in sources[name]
    assert "real_erf(" not in sources[name]


@pytest.mark.parametrize("name", ["alone", "elsewhere"])
def test_erf_stays_where_it_stands_without_its_one(sources: dict[str, str], name: str) -> None:
    assert "real_erf(" in sources[name]
    assert "one_plus_erf(" not in sources[name]


@pytest.mark.parametrize("name", ["halves", "whole", "expected_improvement"])
def test_the_exponential_beside_it_is_of_the_same_number(sources: dict[str, str], name: str) -> None:
    (of,) = {line.partition("one_plus_erf(")[2] for line in sources[name].splitlines() if "real_one_plus" in line}
    (squared,) = {line.partition("(-square(")[2] for line in sources[name].splitlines() if "real_exp" in line}
    number = of.removeprefix("-(").partition(";")[0].split(" * ")
    assert squared.startswith(" * ".join(number[:-1]))


def test_a_sum_with_one_is_no_further_off_than_pytorch_s(native: ModuleType) -> None:
    """Over all of it; in the tail, where PyTorch's has no digits, to five."""
    x = torch.cat([torch.linspace(-12, 12, 400_001), torch.linspace(-0.1, 0.1, 100_001)])
    for name, sign in (("upper", 1), ("lower", -1)):
        y, _ = getattr(native, f"{name}_forward")(x)
        exact = torch.erfc(-sign * x.double())
        mine, theirs = (y - exact).abs(), (1 + sign * x.erf() - exact).abs()
        assert mine.max() <= 2 * theirs.max()
        assert mine.mean() <= 1.1 * theirs.mean()
        tail = sign * x > -9
        assert float((mine / exact)[tail].max()) < 2e-5


def test_ends_of_sums_with_one(native: ModuleType) -> None:
    x = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 3e38, -3e38, 1e-45, 20.0, -20.0])
    y, _ = native.upper_forward(x)
    torch.testing.assert_close(y, 1 + x.erf(), rtol=0, atol=0, equal_nan=True)


def test_values_and_gradients_in_double_precision(native: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(257, dtype=torch.float64, generator=generator, requires_grad=True)
    dy = torch.randn(257, dtype=torch.float64, generator=generator)
    forms = {
        "upper": 1 + x.erf(),
        "lower": 1 - x.erf(),
        "halves": torch.nn.functional.gelu(x),
        "whole": torch.nn.functional.gelu(x),
        "alone": 2 + 3 * x.erf(),
        "elsewhere": (1 + x.erf()) * (2 + x.erf()),
    }
    for name, y in forms.items():
        torch.testing.assert_close(getattr(native, name)(x), y, rtol=1e-12, atol=1e-14)
        mine, theirs = (torch.autograd.grad(v, x, dy)[0] for v in (getattr(native, name)(x), y))
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)


def test_a_logistic_beside_softplus_is_as_exact(native: ModuleType, sources: dict[str, str]) -> None:
    assert "real_sigmoid_of_size(" in sources["soft_and_logistic"]
    x = torch.cat([torch.linspace(-87, 88, 400_001), torch.linspace(-6, 6, 400_001)])
    _, y, _ = native.soft_and_logistic_forward(x)
    exact = torch.sigmoid(x.double())
    mine, theirs = ((v - exact).abs() / exact for v in (y, torch.sigmoid(x)))
    assert mine.max() <= 2 * theirs.max()
    assert mine.mean() <= 1.1 * theirs.mean()
    ends = torch.tensor([math.inf, -math.inf, math.nan, 3e38, -3e38])
    _, y, _ = native.soft_and_logistic_forward(ends)
    torch.testing.assert_close(y, torch.sigmoid(ends), rtol=0, atol=0, equal_nan=True)


def test_what_shares_its_work_is_stored_last(sources: dict[str, str]) -> None:
    """Behind a store, a compiler that cannot tell memory apart would read `x` and compute its exponential anew."""
    body = sources["whole"].partition("omp simd")[2]
    assert body.index("real_exp") < body.index(" y[")


RUNNING = """
from derive import *

n, t, s = axes("n t s")


@op
def survival(f, x: tensor[n, t]):
    f.e[n, t] = erf(x[n, t])
    f.total[n, t] = sum(where(s <= t, f.e[n, s], 0), over=s)
    f.y[n, t] = f.total[n, t] * (1 + f.e[n, t])
    return f.y
"""


def test_erf_stays_where_a_running_sum_reads_it(package: Package) -> None:
    x = torch.randn(3, 9, dtype=torch.float64, requires_grad=True)
    right = x.erf().cumsum(1) * (1 + x.erf())
    found = package(specs=RUNNING).survival(x)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)
    mine, theirs = (torch.autograd.grad(y, x, right.detach())[0] for y in (found, right))
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)


LATER = """
from derive import *

n, m = axes("n m")


@op
def bell_first(f, x: tensor[n, m]):
    f.bell[n, m] = exp(-(x[n, m] ** 2) / 2)
    f.total[n] = sum(f.bell[n, m], over=m)
    f.u[n, m] = x[n, m] / sqrt(2)
    f.y[n, m] = (1 + erf(f.u[n, m])) * f.u[n, m] + f.bell[n, m]
    return f.y, f.total, f.u
"""


@pytest.mark.parametrize("shape", [(5, 7), (40, 3), (3, 300)])
def test_an_exponential_does_not_read_what_is_known_only_later(package: Package, shape: tuple[int, int]) -> None:
    x = torch.randn(shape, dtype=torch.float64)
    y, total, u, *_ = package(specs=LATER).bell_first_forward(x)
    bell, half = torch.exp(-(x**2) / 2), x / math.sqrt(2)
    right = [(1 + half.erf()) * half + bell, bell.sum(1), half]
    torch.testing.assert_close([y, total, u], right, rtol=1e-12, atol=1e-14)


def test_no_tail_of_a_sum_with_one_is_below_zero(native: ModuleType) -> None:
    """Nor a zero with a sign, which 1 divided by it would show."""
    for name, sign in (("upper", 1), ("lower", -1)):
        y, _ = getattr(native, f"{name}_forward")(sign * torch.linspace(-10.5, -9.9, 600_001))
        assert not y.signbit().any()
