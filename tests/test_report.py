"""The table of backward passes: it counts by one rule, the published forms in it are right, and ours are not longer."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from derive.catalogue import catalogue, find, load_file
from derive.cli import main
from derive.collapse.autograd.kernels import kernels_of_autograd
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from derive.show.explain import explain
from derive.show.report import BETWEEN, Comparison, compare, table, write_table
from tests.derive import evaluate

ROOT = Path(__file__).resolve().parents[1]
HAND = load_file(ROOT / "docs" / "hand_derived.py")
PAGE = ROOT / "docs" / "backward-table.md"

BEHIND = {
    "causal_attention__llm_c": {"passes", "saved"},
    "attention__flash": {"saved"},
}
"""Where a published form is better than ours today, column by column. An entry that no longer holds fails as well."""


def of(form: Op) -> str:
    return form.name.rpartition(BETWEEN)[0]


@cache
def compared(name: str) -> Comparison:
    return compare(derivation_of(find(name)), HAND)


# --- the published forms ----------------------------------------------------------------------------------------------

SIZES = {"n": 3, "c": 4, "d": 5, "e": 2, "i": 3, "j": 4, "g": 2, "k": 2, "s": 3, "o": 2, "...": 3}


@pytest.mark.parametrize("form", HAND, ids=lambda f: f.name)
def test_a_published_form_is_right(form: Op) -> None:
    """It gives what the chain rule gives, element by element, from the tensors that it says it keeps."""
    d = derivation_of(find(of(form)))
    world = evaluate.inputs(d.named, SIZES, np.random.default_rng(0))
    world = evaluate.forward(d.named, world)
    world, _ = evaluate.with_cotangents(d.steps, world, np.random.default_rng(1))
    exact = evaluate.backward(d.steps, world)
    has = world.tensors
    if form.operand("lse") is not None:
        world = world.having(lse=has["m"] + np.log(has["u_sum"]))
    if form.operand("x_minus_t") is not None:
        world = world.having(x_minus_t=has["x"] - has["t"])
    found = evaluate.forward(form, world)
    for adjoint in d.steps.adjoints:
        if d.op.operand(adjoint.of) in d.op.differentiable:
            name = adjoint.target.name
            np.testing.assert_allclose(found.tensors[name], exact.tensors[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("form", HAND, ids=lambda f: f.name)
def test_ours_is_nowhere_worse_than_a_published_form(form: Op) -> None:
    row = compared(of(form))
    hand = next(h for h in row.hand if h.title == form.doc.partition("\n")[0])
    assert set(hand.better_than(row.closed)) == BEHIND.get(form.name, set())


def test_every_entry_names_a_published_form() -> None:
    assert set(BEHIND) <= {form.name for form in HAND}
    assert all(form.doc and of(form) in {op.name for op in catalogue()} for form in HAND)


# --- counting ---------------------------------------------------------------------------------------------------------


def test_counts_of_a_form_that_is_known_by_heart() -> None:
    closed, stepwise, autograd, *_ = compared("softmax").forms
    assert (closed.statements, closed.temporary, [s.label for s in closed.saved]) == (2, ("...",), ["p"])
    assert 4 <= closed.passes < 4.1 and closed.passes < stepwise.passes and closed.passes < autograd.passes
    layernorm = compared("layernorm").closed
    assert (layernorm.statements, layernorm.temporary) == (6, ("...", "d"))


def test_kernels_of_autograd() -> None:
    """`gamma * xhat + beta`: the product gives two gradients, gamma and beta were broadcast, a sum expands."""
    kernels = kernels_of_autograd(find("add_bias"))
    assert [(k.axes, k.final) for k in kernels] == [(("d",), True)]
    kernels = kernels_of_autograd(find("mul_row"))
    full = ({"...", "d"}, False)  # the gain's gradient before it is summed
    assert [(set(k.axes), k.final) for k in kernels] == [full, ({"d"}, True), ({"...", "d"}, True)]
    assert kernels_of_autograd(find("sum_all")) == ()
    assert len(kernels_of_autograd(find("matmul"))) == 2


def test_a_published_form_without_a_gradient_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hand.py"
    file.write_text(
        "from derive import *\n\n\n@op\ndef mul__mine(f, dz: constant[...], y: constant[...]):\n"
        '    """Half of it"""\n    f.dx[...] = dz[...] * y[...]\n    return f.dx\n'
    )
    with pytest.raises(DeriveError, match=r"op mul__mine: does not return dy; return f\.dy as well"):
        compare(derivation_of(find("mul")), load_file(file))


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_is_up_to_date() -> None:
    page = table(
        [compare(derivation_of(find(op.name)), HAND) for op in catalogue()],
        "derive table --against docs/hand_derived.py",
    )
    assert not write_table(page, PAGE, check=True), "run make table"


def test_the_page_holds_a_row_for_each_form() -> None:
    page = table([compared("softmax")], "derive table softmax")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[1] for row in rows[:4]] == ["form", "closed form", "stepwise", "autograd"]
    assert rows[1] == r"| `softmax` | closed form | 2 | 4.0 | `[...]` | `\|...\|*d` |"
    assert "1 op, 1 with a published form; behind none." in page


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["derive", "table", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    assert run("tanh") == 0 and "| `tanh` | closed form | 1 |" in capsys.readouterr().out
    assert run("tanh", "--out", "page.md") == 0 and capsys.readouterr().out == "page.md: written\n"
    assert run("tanh", "--out", "page.md", "--check") == 0
    Path("page.md").write_text("old")
    capsys.readouterr()
    assert run("tanh", "--out", "page.md", "--check") == 1
    assert capsys.readouterr().err == "derive: page.md is not as the specs say; run the same command without --check\n"
    assert Path("page.md").read_text() == "old"
    assert run("tanh", "--check") == 2 and run("nothing_like_it") == 2


# --- alternatives -----------------------------------------------------------------------------------------------------


def test_explain_tells_what_holds_under_a_condition_only() -> None:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(explain(derivation_of(find("layernorm")), "saving"))
    assert "  xhat from y, where gamma[d] != 0:   xhat[..., d] = " in capture.get()
