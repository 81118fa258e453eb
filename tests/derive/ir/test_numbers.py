"""Numbers as a person writes them."""

from fractions import Fraction

import pytest

from derive.ir.program import Call, Num, Read
from derive.ir.terms.numbers import as_decimal, as_quotient


@pytest.mark.parametrize(
    ("number", "top", "bottom"),
    [
        (1 / Fraction("1.702"), "1", "1.702"),
        (3 / Fraction("8.314"), "3", "8.314"),
        (1 / Fraction("1.7"), "1", "1.7"),
        (2 / Fraction("1.23e-5"), "1", "6.15e-6"),
        (Fraction("0.7978845608") / Fraction("1.702") / 2, "199.4711402", "851"),
        (Fraction(10, 3), "10", "3"),
        (Fraction(3, 10), "3", "10"),
        (Fraction(1, 100), "1", "100"),
        (Fraction(17), "17", "1"),
    ],
)
def test_a_quotient_has_the_digits_that_were_written(number: Fraction, top: str, bottom: str) -> None:
    assert tuple(map(as_decimal, as_quotient(number))) == (top, bottom)


def test_a_quotient_stands_in_brackets_where_it_is_divided_by() -> None:
    x = Read("x", ("n",))
    assert str(Call("div", (x, Num(3 / Fraction("8.314"))))) == "x[n] / (3/8.314)"
    assert str(Call("div", (x, Num(Fraction("1.702"))))) == "x[n] / 1.702"
