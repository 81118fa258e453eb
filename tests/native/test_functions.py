"""The kernels' own elementary functions over all of float32, and which `exp` is printed where."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from tests.conftest import Package

SPECS = """
from sympy import acos, asin, asinh, atan, atan2, atanh, cosh, digamma, erfinv, loggamma, polygamma, sinh

from derive import *

n, c, d = axes("n c d")

def pointwise(name, value):
    def forward(f, x: tensor[n]):
        f.y[n] = value(x[n])
        return f.y
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)

exponential = pointwise("exponential", lambda x: exp(x))
decay = pointwise("decay", lambda x: exp(-abs(x)))
logistic = pointwise("logistic", lambda x: sigmoid(x))
soft = pointwise("soft", lambda x: softplus(x))
tangent = pointwise("tangent", lambda x: tanh(x))
error = pointwise("error", lambda x: erf(x))
sine = pointwise("sine", lambda x: sin(x))
cosine = pointwise("cosine", lambda x: cos(x))
less_one = pointwise("less_one", lambda x: expm1(x))
one_more = pointwise("one_more", lambda x: log1p(abs(x)))
hyperbolic = pointwise("hyperbolic", lambda x: asinh(x))
fourth = pointwise("fourth", lambda x: x**4)
eleventh = pointwise("eleventh", lambda x: x**11)
sine_of_area = pointwise("sine_of_area", lambda x: sinh(x))
cosine_of_area = pointwise("cosine_of_area", lambda x: cosh(x))
inverse = pointwise("inverse", lambda x: atanh(x))
angle_of_tangent = pointwise("angle_of_tangent", lambda x: atan(x))
angle_of_sine = pointwise("angle_of_sine", lambda x: asin(x))
angle_of_cosine = pointwise("angle_of_cosine", lambda x: acos(x))
inverse_error = pointwise("inverse_error", lambda x: erfinv(x))
factorial = pointwise("factorial", lambda x: loggamma(x))
slope_of_factorial = pointwise("slope_of_factorial", lambda x: digamma(x))

@op
def bend_of_factorial(f, x: constant[n], weight: tensor[n]):
    f.y[n] = weight[n] * polygamma(1, x[n])
    return f.y

@op
def angle(f, y: tensor[n], x: tensor[n]):
    f.a[n] = atan2(y[n], x[n])
    return f.a

@op
def by_places(f, x: tensor[n], a: tensor[c]):
    f.y[n] = sum(a[c] * x[n]**c, over=c) + sum(a[c] * x[n]**(-c - 1), over=c)
    return f.y

@op
def log_of_two(f, a: tensor[n], b: tensor[n], k: scalar = 0.5):
    f.y[n] = logaddexp(a[n], b[n]) + 0 * logaddexp(k, 2 * k)
    return f.y

@op
def remainder(f, x: tensor[n]):
    f.y[n] = x[n] * (n % 3) + (n - 7) % 4 + n // 5
    return f.y

@op
def power(f, x: tensor[n], p: scalar = 2.3):
    f.y[n] = abs(x[n])**p
    return f.y
"""

NATIVE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exponential": torch.exp,
    "decay": lambda x: torch.exp(-x.abs()),
    "logistic": torch.sigmoid,
    "soft": torch.nn.functional.softplus,
    "tangent": torch.tanh,
    "error": torch.erf,
    "sine": torch.sin,
    "cosine": torch.cos,
    "less_one": torch.expm1,
    "one_more": lambda x: x.abs().log1p(),
    "hyperbolic": torch.asinh,
    "fourth": lambda x: x**4,
    "eleventh": lambda x: x**11,
    "sine_of_area": torch.sinh,
    "cosine_of_area": torch.cosh,
    "inverse": torch.atanh,
    "power": lambda x: x.abs() ** 2.3,
    "angle_of_tangent": torch.atan,
    "angle_of_sine": torch.asin,
    "angle_of_cosine": torch.acos,
    "inverse_error": torch.erfinv,
    "factorial": torch.lgamma,
    "slope_of_factorial": torch.digamma,
    "bend_of_factorial": lambda x: torch.polygamma(1, x),
}
UP_TO_1 = {"inverse", "angle_of_sine", "angle_of_cosine", "inverse_error"}
POLES = {"slope_of_factorial", "bend_of_factorial"}
"""Beside their poles, at the negative whole numbers, PyTorch's are off by anything."""
SPECIAL = [1e5, -3e8, 2e9, -4e10, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38]


def _run(native: ModuleType, name: str, x: torch.Tensor, *numbers: float | torch.Tensor) -> torch.Tensor:
    numbers = (torch.ones_like(x),) if name == "bend_of_factorial" else numbers
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, _ = getattr(native, f"{name}_forward")(x, *numbers)
    assert isinstance(y, torch.Tensor)
    return y


def _places_off(y: torch.Tensor, exact: torch.Tensor) -> tuple[float, float]:
    """The largest and the mean error in units of the last place of what is exact."""
    least = torch.finfo(torch.float32).smallest_normal
    unit = 2.0 ** (torch.floor(torch.log2(exact.abs().clamp(min=least))) - 23)
    off = (y.double() - exact).abs() / unit
    return float(off.max()), float(off.mean())


@pytest.mark.parametrize("name", NATIVE)
def test_at_most_twice_as_far_off_as_pytorch_over_the_whole_range(native: ModuleType, name: str) -> None:
    """Down to where results are no longer normal, up to where they overflow; on the mean a tenth further off."""
    x = torch.cat([torch.linspace(-103, 88.7, 400_001), torch.linspace(-6, 6, 400_001), torch.logspace(-30, 1, 5001)])
    x = torch.cat([x, torch.linspace(1e3, 1e7, 50_001)]) if name in ("sine", "cosine") else x
    x = x[x.abs() < 1] if name in UP_TO_1 else x
    x = x[x > 1e-18] if name in POLES else x
    x = x[x > -88] if name == "logistic" else x  # PyTorch's is 0 below; so is ours
    x = x[~((x < 0) & (x == x.round()))] if name == "factorial" else x  # infinite
    exact = NATIVE[name](x.double())
    mine, theirs = _places_off(_run(native, name, x), exact), _places_off(NATIVE[name](x), exact)
    assert mine[0] <= 2 * theirs[0], (mine, theirs)
    assert mine[1] <= 1.1 * theirs[1], (mine, theirs)


@pytest.mark.parametrize("name", NATIVE)
def test_ends_and_what_is_no_number(native: ModuleType, name: str) -> None:
    x = torch.tensor([*SPECIAL, 88.72, 88.73, 89.5, -87.2, -87.4, -103.9, -104.1, -150.0])
    x = x[~(x < 0)] if name == "bend_of_factorial" else x
    exact = NATIVE[name](x.double()).float()
    y = _run(native, name, x)
    torch.testing.assert_close(y, exact, rtol=2e-6, atol=2e-38 if name == "logistic" else 3e-45, equal_nan=True)
    assert torch.equal(y.signbit()[~y.isnan()], exact.signbit()[~y.isnan()])  # of zeros too


def test_a_tangent_never_passes_its_bounds_nor_falls_where_its_forms_meet(native: ModuleType) -> None:
    x = torch.cat([torch.linspace(0.9599, 0.9601, 4001), torch.linspace(8, 11, 4001)])
    y = _run(native, "tangent", x)
    assert float(y.max()) == 1
    assert float((y[:-1] - y[1:]).max()) <= 2.0**-24  # neighbours may change places by one


SIGNS = """
from derive import *

n, c, d = axes("n c d")

def rows(name, value):
    def forward(f, z: tensor[n, c], w: tensor[n, c]):
        f.m[n] = amax(z[n, c], over=c)
        f.l[n] = amin(z[n, c], over=c)
        f.u[n, c] = value(f, z, w)
        f.y[n, c] = f.u[n, c] * z[n, c] * w[n, c] + f.l[n]
        return f.y
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)

below = rows("below", lambda f, z, w: exp(z[n, c] - f.m[n]))
of_another = rows("of_another", lambda f, z, w: exp(w[n, c] - f.m[n]))
above = rows("above", lambda f, z, w: exp(f.m[n] - z[n, c]))
least = rows("least", lambda f, z, w: exp(f.l[n] - z[n, c]))
bell = rows("bell", lambda f, z, w: exp(-(z[n, c] - w[n, c])**2 / (2*w[n, c]**2)))
cubic = rows("cubic", lambda f, z, w: exp(-z[n, c]**3))
quotient = rows("quotient", lambda f, z, w: exp(-abs(z[n, c]) / w[n, c]))
capped = rows("capped", lambda f, z, w: exp(minimum(z[n, c], 0)))
"""

SCALED = """
from derive import *

n, c = axes("n c")


@op
def scaled(f, z: tensor[n, c], scale: scalar):
    f.x[n, c] = z[n, c] * scale
    f.u[n, c] = exp(f.x[n, c] - amax(f.x[n, c], over=c))
    f.y[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    return f.y


@op
def negated(f, z: tensor[n, c], scale: scalar):
    f.x[n, c] = z[n, c] * scale
    f.u[n, c] = exp(amin(f.x[n, c], over=c) - f.x[n, c])
    f.y[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    return f.y
"""


def test_a_product_is_rounded_before_its_maximum_is_subtracted(package: Package) -> None:
    """Else GCC subtracts from what is not rounded yet: here up to 64, or 4000, above or below the maximum."""
    torch.manual_seed(0)
    made = package(specs=SCALED)
    for largest in (2.1e9, 1e11):
        z = largest / 0.1375 * (0.5 + 0.5 * torch.rand(4000, 16))
        torch.testing.assert_close(_run(made, "scaled", z, 0.1375), torch.softmax(z * 0.1375, -1))
        torch.testing.assert_close(_run(made, "negated", z, 0.1375), torch.softmax(z * -0.1375, -1))


TWICE = """
from derive import *

n, c = axes("n c")

def shares(name, value):
    def forward(f, x: tensor[n, c]):
        f.u[n, c] = value(x[n, c])
        f.y[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
        return f.y
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)

of_exp = shares("of_exp", exp)
of_expm1 = shares("of_expm1", expm1)
of_log1p = shares("of_log1p", log1p)
of_sin = shares("of_sin", sin)
"""


@pytest.mark.parametrize("name", ["exp", "expm1", "log1p", "sin"])
def test_a_function_that_two_sweeps_read_is_computed_once(package: Package, name: str) -> None:
    made = package(specs=TWICE)
    with open(f"{made.__path__[0]}/of_{name}.c") as file:
        forms = re.split(r"    } else .*{\n", file.read().partition("_backward(")[0])
    # short rows, wide ones a few together, narrow ones, those that come from memory
    assert [len(re.findall(rf"real_{name}(_up_to_0)?\(", form)) for form in forms] == [1, 1, 1, 1]


FALLS = {"below", "least", "bell", "capped"}


def test_exp_of_what_is_never_positive_is_seen(package: Package) -> None:
    made = package(specs=SIGNS)
    for name in ("below", "of_another", "above", "least", "bell", "cubic", "quotient", "capped"):
        path = f"{made.__path__[0]}/{name}.c"
        with open(path) as file:
            forward = file.read().partition("_backward(")[0]
        assert ("real_exp_up_to_0(" in forward) == (name in FALLS), name
        assert ("real_exp(" in forward) == (name not in FALLS), name


def test_an_exponent_that_is_infinite_is_a_power_and_no_product(package: Package) -> None:
    specs = """from derive import *

n = axes("n")


@op
def endless(f, x: tensor[n], p: scalar):
    f.y[n] = x[n] ** p
    return f.y
"""
    y, _ = package(specs=specs).endless_forward(torch.tensor([0.5, 2.0]), torch.inf)
    assert y.tolist() == [0.0, torch.inf]


OF_NUMBERS = """
from sympy import acos, acosh, asin, asinh, atan, atan2, atanh, cosh, digamma, erfc, erfinv, loggamma, sinh, tan

from derive import *

n = axes("n")

@op
def from_numbers(f, x: tensor[n], a: scalar, b: scalar):
    f.y[n] = x[n] * (
        tan(a) + sinh(a) + cosh(a) + asin(a) + acos(a) + atan(a) + asinh(a) + acosh(b) + atanh(a) + erfc(a)
        + erfinv(a) + loggamma(a) + digamma(a) + atan2(a, b)
    )
    return f.y
"""


def test_functions_of_numbers_are_in_the_library(package: Package) -> None:
    a, b = torch.tensor(0.3, dtype=torch.float64), torch.tensor(1.7, dtype=torch.float64)
    functions = ("tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "atanh", "erfc", "erfinv", "lgamma", "digamma")
    wanted = sum(getattr(a, name)() for name in functions) + b.acosh() + torch.atan2(a, b)
    x = torch.randn(5, dtype=torch.float64)
    torch.testing.assert_close(_run(package(specs=OF_NUMBERS), "from_numbers", x, 0.3, 1.7), wanted * x)


def test_an_angle_of_two_coordinates(native: ModuleType) -> None:
    """In every quadrant, on the axes and at the ends; nan beside anything."""
    ends = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, torch.inf, -torch.inf, torch.nan])
    y, x = torch.cartesian_prod(ends, ends).T.contiguous()
    torch.manual_seed(0)
    y, x = torch.cat([y, torch.randn(100_000)]), torch.cat([x, torch.randn(100_000)])
    found, exact = _angle(native, y, x), torch.atan2(y.double(), x.double())
    torch.testing.assert_close(found, exact.float(), rtol=2e-7, atol=1e-45, equal_nan=True)
    assert torch.equal(found.signbit()[~found.isnan()], exact.signbit()[~exact.isnan()])
    mine, theirs = _places_off(found[81:], exact[81:]), _places_off(torch.atan2(y, x)[81:], exact[81:])
    assert mine[0] <= 2 * theirs[0], (mine, theirs)
    assert mine[1] <= 1.1 * theirs[1], (mine, theirs)


def test_powers_by_places(native: ModuleType) -> None:
    """Whole ones of either sign, also of 0, of which the power of 0 is 1."""
    x = torch.randn(300, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    a = torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    places = torch.arange(7)
    wanted = (a * (x[:, None] ** places + x[:, None] ** (-places - 1.0))).sum(1)
    found = native.by_places(x, a)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
    dy = torch.randn_like(wanted)
    for ours, theirs in zip(*(torch.autograd.grad(y, (x, a), dy) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
    assert native.by_places(torch.zeros(1, dtype=torch.float64), a.detach().clamp(min=0.1)).eq(torch.inf).all()


def test_the_logarithm_of_two_exponentials(native: ModuleType) -> None:
    """Also where both are infinite, which have no difference, and nan beside nan."""
    ends = torch.tensor([0.0, -0.0, 1.0, 88.0, -104.0, 3e38, torch.inf, -torch.inf, torch.nan])
    a, b = torch.cartesian_prod(ends, ends).T.contiguous()
    torch.manual_seed(0)
    a, b = (torch.cat([t, 8 * torch.randn(100_000), 1e-3 * torch.randn(1000)]) for t in (a, b))
    found, _ = native.log_of_two_forward(a, b)
    exact = torch.logaddexp(a.double(), b.double())
    torch.testing.assert_close(found, exact.float(), rtol=1e-6, atol=1e-6, equal_nan=True)
    mine, theirs = ((t[81:] - exact[81:]).abs() for t in (found, torch.logaddexp(a, b)))
    assert mine.max() <= 2 * theirs.max() and mine.norm() <= 1.1 * theirs.norm(), (mine.max(), theirs.max())
    a, b = a.double(), b.double()
    torch.testing.assert_close(native.log_of_two_forward(a, b)[0], exact, rtol=1e-14, atol=1e-15, equal_nan=True)


def _angle(native: ModuleType, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    found, _ = native.angle_forward(y, x)
    assert isinstance(found, torch.Tensor)
    return found


@pytest.mark.parametrize("name", ["inverse_error", "slope_of_factorial", "bend_of_factorial", "remainder"])
def test_in_double_precision_they_are_pytorchs(native: ModuleType, name: str) -> None:
    x = torch.cat([torch.linspace(-0.999, 0.999, 2000), 1 - torch.logspace(-15, -1, 500, dtype=torch.float64)])
    x = x.double() if name == "inverse_error" else torch.linspace(0.01, 30, 5000, dtype=torch.float64)
    if name == "remainder":
        places = torch.arange(len(x))
        exact = x * (places % 3) + (places - 7) % 4 + places // 5
    else:
        exact = NATIVE[name](x)
    torch.testing.assert_close(_run(native, name, x), exact, rtol=1e-13, atol=1e-14)
