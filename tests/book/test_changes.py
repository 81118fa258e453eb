"""What a step changed is marked, and nothing else is."""

import re

import pytest
from sympy import Expr, symbols

from derive.catalogue import find
from derive.collapse.chain import Step
from derive.ir.algebra import sigma
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Tensor
from derive.pipeline import derivation_of
from derive.show.book.changes import changed, step_rows

n, d = Axis("n"), Axis("d")
a, b, c = (At(Tensor(name), n) for name in "abc")
x, y = symbols("x y", positive=True)


@pytest.mark.parametrize(
    ("before", "after", "gone", "new"),
    [
        (a + b, a + b, set(), set()),
        (a + b, a + c, {b}, {c}),
        (a + b, a, {b}, set()),
        (a * b, a * c, {b}, {c}),
        (a + b * c, a + c, {b}, set()),
        (a, b, {a}, {b}),
        (a * b, a * b / x, set(), {1 / x}),
        (x + y, a, {x, y}, {a}),
    ],
)
def test_the_smallest_parts_that_differ(before: Expr, after: Expr, gone: set[Expr], new: set[Expr]) -> None:
    assert changed(before, after) == (gone, new)


def test_a_sum_is_looked_into() -> None:
    before, after = (x + sigma(a * other, (n,)) for other in (b, c))
    latex = step_rows(Step("law", At(Tensor("t")), before, after, "why"), frozenset())
    assert r"\, \class{gone}{b_{n'}}" in latex[0] and r"\, \class{new}{c_{n'}}" in latex[1]


def test_marks_stand_in_the_latex() -> None:
    step = Step("law", At(Tensor("t"), n), a * b + x, a * c + x, "why")
    before, after = step_rows(step, frozenset())
    assert r"\class{gone}{b_{n}}" in before and r"\class{new}{c_{n}}" in after
    assert before.count("class") == after.count("class") == 1


def test_a_factor_below_the_line_is_marked_there() -> None:
    before, _ = step_rows(Step("law", At(Tensor("t"), n), a / x**2, a / x, "why"), frozenset())
    assert r"}{\class{gone}{x^{2}}}" in before


@pytest.mark.parametrize("name", ["causal_attention", "groupnorm", "log_softmax"])
def test_every_step_of_an_op_shows_its_change(name: str) -> None:
    for step in derivation_of(find(name)).closed.steps:
        before, after = step_rows(step, frozenset())
        assert "class{gone}" in before or "class{new}" in after
        unmarked = [re.sub(r"\\class\{(gone|new)\}", "", latex) for latex in (before, after)]
        assert unmarked[0] != unmarked[1]
