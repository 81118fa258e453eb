"""Numbers of a program as a person writes them: products of decimals, and places of axes of fixed lengths."""

from fractions import Fraction

from derive import axes, exp, op, tensor
from derive.backends.cpu.expressions import number
from derive.backends.torch.scalars import number_code
from derive.emit import render
from derive.ir.program import Num
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived

n, h = axes("n h")
r, q = axes("r=2 q=3")
PRODUCT = Fraction("0.7978845608028654") * Fraction("0.044715")


def test_a_product_of_decimals_is_a_decimal() -> None:
    """The very float that the quotient of both whole numbers is; short quotients stay as they are."""
    assert str(number_code(Num(PRODUCT)).code) == "0.035677408136300125"
    assert str(number_code(Num(-PRODUCT)).code) == "-0.035677408136300125"
    assert number(Num(PRODUCT)).code == "0.035677408136300125"
    assert PRODUCT.numerator / PRODUCT.denominator == 0.035677408136300125
    assert str(number_code(Num(Fraction(2, 3))).code) == "2 / 3"


@op
def turned(f, x: tensor[n, r, h], w: tensor[n, r, h]):
    f.y[n, r, h] = x[n, r, h] + x[n, 1 - r, h] * w[n, r, h]
    return f.y


@op
def turned_in_part(f, x: tensor[n, q]):
    f.y[n, r] = exp(x[n, r + 1]) * x[n, 1 - r]
    return f.y


def test_places_of_axes_of_fixed_lengths_are_numbers() -> None:
    assert "x[:, :2].flip(1)" in render(derivation_of(turned.op)) and "2 - 2" not in render(derivation_of(turned.op))
    assert "x[:, :2].flip(1)" in render(derivation_of(turned_in_part.op))
    assert_derived(turned.op, lambda x, w: x + x.flip(1) * w, {"x": (5, 2, 3), "w": (5, 2, 3)})
    assert_derived(turned_in_part.op, lambda x: x[:, 1:].exp() * x[:, :2].flip(1), {"x": (5, 3)})


def test_a_product_of_numbers_that_no_float_holds_is_infinite_or_0() -> None:
    """As the products of both numbers are, one after the other; a spec may write neither at once."""
    assert str(number_code(Num(Fraction(10) ** 400)).code) == "math.inf"
    assert str(number_code(Num(-(Fraction(10) ** 400))).code) == "-math.inf"
    assert number(Num(Fraction(10) ** 400)).code == "INFINITY"
    assert float(str(number_code(Num(Fraction(10) ** -400)).code)) == 0 == float(number(Num(Fraction(10) ** -400)).code)
