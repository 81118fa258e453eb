"""LaTeX: all of the catalogue's parses strictly, says what the terms mean, and compiles where pdflatex is."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from pylatexenc.latexwalker import (
    LatexCharsNode,
    LatexEnvironmentNode,
    LatexMacroNode,
    LatexMathNode,
    LatexNode,
    LatexSpecialsNode,
    LatexWalker,
    LatexWalkerParseError,
)
from sympy import Integer, Rational, Symbol, latex, sqrt
from sympy.core.alphabets import greeks

from derive.catalogue import catalogue, find, load_file
from derive.collapse.typeset import (
    Printer,
    adjoint_latex,
    adjoint_names,
    aligned,
    definition_latex,
    equation_latex,
    equation_rows,
    name_latex,
    relation_latex,
    step_rows,
)
from derive.ir.algebra import normal
from derive.ir.lowering.reading import factored
from derive.ir.program import Num
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.ir.terms.reductions import Reduce, Sigma
from derive.ir.words import text
from derive.pipeline import derivation_of, derive_op
from derive.show.document import document, escaped

OPS = [op.name for op in catalogue()]
SPECS = Path(__file__).parent / "specs_to_typeset.py"

# Everything the typesetter may write; a command that is not here is a slip, and pdflatex would not know it.
COMMANDS = {"omicron", "lamda"} ^ {*greeks} | {
    *re.findall(
        r"\S+",
        r"""documentclass usepackage setlength parindent raggedright allowdisplaybreaks linewidth begin end
        section subsection paragraph texttt textbf text displaystyle resizebox textbackslash textasciitilde
        textasciicircum textless textgreater textbar textquotedbl mathrm operatorname left right Bigl Bigr
        frac sqrt sum max min prod log exp tanh sin cos hat bar tilde infty quad qquad leq geq neq wedge vee
        neg ldots varepsilon lambda Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
        \ , & % $ # _ { }""",
    )
}


# --- a strict reading -------------------------------------------------------------------------------------------------


def parse(source: str) -> list[LatexNode]:
    """The nodes of a piece of LaTeX; raises where braces, environments, arguments or scripts do not hold."""
    nodes, _, length = LatexWalker(source, tolerant_parsing=False).get_latex_nodes()
    assert length == len(source), f"stops at {source[length : length + 40]!r}"
    for siblings in lists(nodes):
        check_commands(siblings)
        check_delimiters(siblings)
    return nodes


def lists(nodes: list[LatexNode]) -> Iterator[list[LatexNode]]:
    """Every list of sibling nodes, outermost first."""
    yield nodes
    for node in nodes:
        inner = getattr(node, "nodelist", None)
        if inner is not None:
            yield from lists(inner)
        arguments = getattr(node, "nodeargd", None)
        for argument in getattr(arguments, "argnlist", None) or []:
            if argument is not None:
                yield from lists([argument])


def check_commands(nodes: list[LatexNode]) -> None:
    for node in nodes:
        if isinstance(node, LatexMacroNode):
            assert node.macroname in COMMANDS or node.macroname == "\\", f"\\{node.macroname}"


def check_delimiters(nodes: list[LatexNode]) -> None:
    """`\\left` and `\\right` pair off within one cell of one row."""
    depth = 0
    for node in nodes:
        new_cell = isinstance(node, LatexSpecialsNode) and node.specials_chars == "&"
        if new_cell or (isinstance(node, LatexMacroNode) and node.macroname == "\\"):
            assert depth == 0, f"a bracket stays open at {node}"
        if isinstance(node, LatexMacroNode) and node.macroname in ("left", "right"):
            depth += 1 if node.macroname == "left" else -1
            assert depth >= 0, f"a bracket closes before it opens at {node}"
    assert depth == 0, "a bracket stays open"


def check_scripts(nodes: list[LatexNode]) -> None:
    """No base carries two subscripts or two superscripts; primes are superscripts, and may come first."""
    for siblings in lists(nodes):
        seen, expects = "", False
        for token in tokens(siblings):
            if token in ("_", "^"):
                assert token not in seen, f"double {token} in {''.join(n.latex_verbatim() for n in siblings)}"
                seen, expects = seen + token, True
            elif token == "'":
                assert "^" not in seen, "a prime after a superscript"
            elif expects:
                expects = False  # this is the script itself
            else:
                seen = ""


def tokens(nodes: list[LatexNode]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, LatexCharsNode):
            yield from (c for c in node.chars if not c.isspace())
        else:
            yield node.latex_verbatim()


def formulas(nodes: list[LatexNode]) -> Iterator[list[LatexNode]]:
    """The contents of everything set as mathematics."""
    for siblings in lists(nodes):
        for node in siblings:
            named = getattr(node, "environmentname", "") in ("align*", "aligned", "cases")
            if isinstance(node, LatexMathNode) or (isinstance(node, LatexEnvironmentNode) and named):
                yield node.nodelist


@pytest.mark.parametrize("source", [r"\frac{a}{b", r"x_{n}_{d}", r"\left( x", r"\begin{aligned} x", r"\nosuch x"])
def test_the_reading_refuses_what_latex_refuses(source: str) -> None:
    with pytest.raises((AssertionError, LatexWalkerParseError)):
        check_scripts(parse(source))


# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_every_document_and_every_part_of_it_parses(name: str) -> None:
    d = derivation_of(find(name))
    nodes = parse(document(d))
    found = list(formulas(nodes))
    assert len(found) >= 3  # forward, chain rule, closed form
    for formula in found:
        check_scripts(formula)

    adjoints = adjoint_names(d.steps)
    parts = [equation_latex(e) for e in d.named.equations]
    parts += [f(a) for a in d.steps.adjoints for f in (adjoint_latex, lambda a: adjoint_latex(a, adjoints))]
    parts += [definition_latex(x, adjoints) for x in d.closed.definitions]
    parts += [aligned(step_rows(s, Printer(adjoints))) for s in d.closed.steps]
    parts += [relation_latex(r) for r in d.closed.relations]
    for part in parts:
        check_scripts(parse(part))


def test_a_document_shows_every_stage() -> None:
    source = document(derivation_of(find("batchnorm")))
    for section in ("Forward", "Chain rule", "Collapse", "Closed form", "Kept from the forward"):
        assert rf"\subsection*{{{section}}}" in source
    assert r"\textbf{relation}: $\sum_{n'} \hat{x}_{n',d} = 0$, by the equations of $\mu$" in source


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on this machine")
@pytest.mark.parametrize("op", [*catalogue(), *load_file(SPECS)], ids=lambda op: op.name)
def test_every_document_compiles_and_fits_the_page(op, tmp_path: Path) -> None:
    (tmp_path / "op.tex").write_text(document(derive_op(op)), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "op.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


@pytest.mark.parametrize("op", load_file(SPECS), ids=lambda op: op.name)
def test_what_the_catalogue_lacks_parses_too(op) -> None:
    for formula in formulas(parse(document(derive_op(op)))):
        check_scripts(formula)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x", "x"),
        ("W", "W"),
        ("gamma", r"\gamma"),
        ("Sigma", r"\Sigma"),
        ("eps", r"\varepsilon"),
        ("xhat", r"\hat{x}"),
        ("mubar", r"\bar{\mu}"),
        ("what", r"\hat{w}"),
        ("rstd", r"\mathrm{rstd}"),
        ("bnvar_inv", r"\mathrm{bnvar\_inv}"),
        ("W1", r"\mathrm{W1}"),
        ("omicron", r"\mathrm{omicron}"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert name_latex(name) == expected
    check_scripts(parse(expected))


n, d, k = Axis("n"), Axis("d"), Axis("k")
x, y, dx, delta2 = Tensor("x"), Tensor("y"), Tensor("dx"), Tensor("delta2")
printer = Printer(frozenset({"dx"}))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (At(dx, n, d), r"\mathrm{d}x_{n,d}"),
        (At(delta2, n), r"\mathrm{delta2}_{n}"),
        (At(x), "x"),
        (At(x, Axis("..."), d.copied(1)), r"x_{\ldots,d'}"),
        (At(x, n) ** 2, r"x_{n}^{2}"),
        (Scalar("eps") * At(x, n), r"\varepsilon\, x_{n}"),
        (At(y, n) - At(x, n, d), r"y_{n} - x_{n,d}"),
        (At(x, n) * At(y, n) ** -1 / 2, r"\frac{x_{n}}{2\, y_{n}}"),
        (1 / sqrt(At(x, n)), r"\frac{1}{\sqrt{x_{n}}}"),
        (Sigma(At(x, k), k) ** 2, r"\left(\sum_{k} x_{k}\right)^{2}"),
        (Sigma(At(x, k), k) * At(y, n), r"y_{n}\, \sum_{k} x_{k}"),
        (Sigma(At(x, k), k) * Sigma(At(y, k), k), r"\left(\sum_{k} x_{k}\right)\, \sum_{k} y_{k}"),
        (-Reduce("mean", At(x, n), n), r"- \frac{1}{N_{n}}\sum_{n} x_{n}"),
        (Where(At(x, n) > 0, Integer(1), Integer(0)) * At(y, n), r"y_{n}\, \left[x_{n} > 0\right]"),
    ],
    ids=str,
)
def test_expressions(expr, expected: str) -> None:
    assert printer.doprint(expr) == expected
    check_scripts(parse(expected))


def test_sums_in_a_product_never_take_in_what_follows() -> None:
    chosen = Where(At(x, n) > 0, At(x, n), At(y, n))
    text = printer.doprint(chosen * At(y, n) * Sigma(At(x, k), k))
    assert text.startswith(r"y_{n}\, \left(\begin{cases}") and text.endswith(r"\right)\, \sum_{k} x_{k}")


def test_sympys_own_printer_sets_elements_as_well() -> None:
    assert latex(At(Tensor("gamma"), d) + Symbol("q")) in (r"\gamma_{d} + q", r"q + \gamma_{d}")


def test_factoring_changes_the_reading_and_not_the_value() -> None:
    for definition in derivation_of(find("batchnorm")).closed.definitions:
        assert normal(factored(definition.value).doit()) == definition.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50% & $x_1", r"50\% \& \$x\_1"),
        ("{a}^~\\", r"\{a\}\textasciicircum{}\textasciitilde{}\textbackslash{}"),
        ("élan ∑", "élan [N-ARY SUMMATION]"),
    ],
)
def test_text_is_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected
    parse(expected)


@pytest.mark.parametrize(
    ("written", "words", "tex"),
    [
        ("3/10", "3/10", r"\frac{3}{10}"),
        ("0.044715", "0.044715", "0.044715"),
        ("0.0015", "0.0015", "0.0015"),
        ("1e-12", "1e-12", "10^{-12}"),
        ("2.5e-6", "2.5e-6", r"2.5 \cdot 10^{-6}"),
        ("-1e-5", "-1e-5", "-10^{-5}"),
        ("1/300", "1/300", r"\frac{1}{300}"),
    ],
)
def test_a_number_reads_as_a_person_writes_it(written: str, words: str, tex: str) -> None:
    number = Rational(written)
    assert text(number) == str(Num(Fraction(written))) == words
    assert Printer().doprint(number).replace("- ", "-") == tex
    assert Rational(words) == number


def test_a_bracket_that_fits_on_a_line_stands_there_once() -> None:
    """What is before it may be longer than a line: only a sum is broken."""
    n = Axis("n")
    head = [At(Tensor(f"a_long_name_of_factor_{k}"), n) for k in "abcdef"]
    a, b = (At(Tensor(name), n) for name in ("first_term", "second_term"))
    rows = equation_rows("y", (a - b) * head[0] * head[1] * head[2] * head[3] * head[4] * head[5], Printer())
    assert len(rows) == 1 and rows[0].count("first") == 1 and rows[0].endswith(r"\Bigr)"), rows
    terms = [At(Tensor(f"a_very_long_name_of_a_term_{k}"), n) for k in "ab"]
    broken = equation_rows("y", (terms[0] - terms[1]) * head[0] * head[1], Printer())
    assert len(broken) == 2 and broken[1].endswith(r"\Bigr)"), broken
