"""`1 - sigmoid(u)` is `sigmoid(-u)`, in pairs of terms, and only there."""

import pytest
from sympy import Expr, symbols

from derive.catalogue import find
from derive.collapse.complements import complements
from derive.functions import sigmoid
from derive.pipeline import derive_op

x, y, t = symbols("x y t", real=True)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1 - sigmoid(x), [sigmoid(-x)]),
        (y - t * y - y * sigmoid(-x), [y * sigmoid(x) - t * y]),
        (2 * y * sigmoid(x) - 2 * y, [-2 * y * sigmoid(-x)]),
        (y - 2 * y * sigmoid(x), []),
        (1 + sigmoid(x), []),
        (1 - sigmoid(x) + y - y * sigmoid(t), [sigmoid(-x) + y - y * sigmoid(t), 1 - sigmoid(x) + y * sigmoid(-t)]),
    ],
)
def test_pairs(value: Expr, found: list[Expr]) -> None:
    assert set(complements(value)) == set(found)
    point = {x: 0.3, y: -1.7, t: 0.9}
    for other in found:
        assert abs(float((value - other).subs(point).rewrite("exp").evalf())) < 1e-12


def test_it_is_taken_where_it_is_cheaper_and_says_so() -> None:
    taken = [s.subject.name for s in derive_op(find("bce_with_logits")).closed.steps if s.law == "complement"]
    assert taken == ["dx"]
    assert not [s for s in derive_op(find("silu")).closed.steps if s.law == "complement"]
