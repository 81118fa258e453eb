"""LaTeX of ours as MathML: rows, names, and nothing left of TeX."""

import re
from html import unescape
from pathlib import Path

import pytest

from derive.catalogue import load_file
from derive.collapse.typeset import adjoint_latex, adjoint_names, definition_latex, equation_latex
from derive.pipeline import derivation_of
from derive.show.book.formulas import display, inline

SPECS = Path(__file__).parent.parent / "specs_to_typeset.py"


def plain(math: str) -> str:
    return re.sub(r"\s", "", unescape(re.sub("<[^>]+>", "", math)))


@pytest.mark.parametrize(
    ("latex", "rows", "text"),
    [
        (r"y_{n} = \gamma\, x_{n}", 1, "yn=γxn"),
        ("\\begin{aligned}\na &= b \\\\\n&\\quad + c\n\\end{aligned}", 2, "a=b+c"),
        (r"y = \begin{cases}x & x > 0 \\ 0 & \text{otherwise}\end{cases}", 1, "y={xx>00otherwise"),
        (r"\mathrm{d}\mathrm{x\_minus\_mu}_{n}", 1, "dx_minus_mun"),
        (r"\Bigl( a \Bigr)", 1, "(a)"),
    ],
)
def test_rows_and_text(latex: str, rows: int, text: str) -> None:
    math = display(latex)
    assert math.startswith('<math display="block"><mtable displaystyle="true" class="rows">')
    assert len(re.findall(r"<mtr>(?=<mtd><mrow>|<mtd></mtd>)", math.split("<mo stretchy")[0])) == rows
    assert plain(math) == text


def test_an_adjoints_d_is_upright_and_an_axis_d_is_not() -> None:
    assert inline(r"\mathrm{d}x_{d}") == (
        '<math><mrow><mi mathvariant="normal">d</mi><msub><mi>x</mi><mrow><mi>d</mi></mrow></msub></mrow></math>'
    )


def test_brackets_grow_beside_what_is_tall_alone() -> None:
    assert inline(r"\log\left(x_{n}\right)").count('stretchy="false"') == 2
    assert inline(r"\left(\frac{x}{y}\right)").count('stretchy="true"') == 2


def test_all_of_the_notation_becomes_mathml() -> None:
    for op in load_file(SPECS):
        d = derivation_of(op)
        names = adjoint_names(d.steps)
        latex = [equation_latex(e, names) for e in d.named.equations]
        latex += [adjoint_latex(a, names) for a in d.steps.adjoints]
        latex += [definition_latex(x, names) for x in d.closed.definitions]
        for each in latex:
            assert not re.search(r"\\|\^\{|_\{|&", plain(display(each))), each
