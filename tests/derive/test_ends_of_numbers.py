"""Which numbers a value lies between."""

from sympy import Integer, oo

from derive.bounded import ends_of
from derive.terms.functions import sigmoid, softplus


def test_a_function_of_ours_of_a_number_has_no_known_ends() -> None:
    """SymPy has no value to compare: `softplus(2) <= 60` is no answer."""
    assert ends_of(softplus(Integer(2)), {}) == (-oo, oo)
    assert ends_of(Integer(2), {}) == (2, 2)
    assert ends_of(sigmoid(softplus(Integer(2))), {})[1] <= oo
