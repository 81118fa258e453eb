"""What is wrong is never written: errors planted in what is printed, each found and named before there is a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from derive import build, emit
from derive.catalogue import find, load_file
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.output.package import write_package
from derive.verify.emitted import cases_of, first_wrong, subjects_of

SPECS = """
from derive import *

d, e, n, v = axes("d e n v")


@op
def scaled(f, x: tensor[n, d], w: tensor[d]):
    f.y[n, d] = tanh(x[n, d]) * w[d]
    return f.y


@op
def rows(f, x: tensor[..., d], w: tensor[d]):
    f.y[..., d] = tanh(x[..., d]) * w[d]
    return f.y


@op
def peaks(f, x: tensor[n, d]):
    f.y[n] = amax(x[n, d], over=d)
    return f.y


@op
def looked_up(f, c: tensor[v, e], i: index(v)[n]):
    f.y[n, e] = c[i[n], e]
    return f.y


@op
def squares(f, x: tensor[n, d], w: tensor[d], scale: scalar = 1.0):
    f.loss[()] = scale * mean((x[n, d] * w[d])**2, over=(n, d))
    return f.loss


@op
def nowhere(f, x: tensor[n, d]):
    f.y[n, d] = sqrt(-1 - x[n, d]**2)
    return f.y
"""

ROOT = Path(__file__).resolve().parents[2]
Plant = Callable[..., None]


@pytest.fixture
def ops(tmp_path: Path) -> dict[str, Op]:
    (tmp_path / "mine.py").write_text(SPECS)
    return {op.name: op for op in load_file(tmp_path / "mine.py")}


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Has the printer write one text for another, in modules or in kernels, after the beginning of a function."""
    filled = emit._filled

    def planted(right: str, wrong: str, of: str = "module.py.j2", within: str = "") -> None:
        def changed(template: str, **values: object) -> str:
            text = filled(template, **values)
            if template != of:
                return text
            before, begins, rest = text.partition(within) if within else ("", "", text)
            assert right in rest, f"nothing to plant in:\n{rest}"
            return before + begins + rest.replace(right, wrong, 1)

        monkeypatch.setattr(emit, "_filled", changed)

    return planted


def told(op: Op, out: Path, **options: object) -> str:
    """What the error says; nothing is there afterwards, neither as a package nor live."""
    with pytest.raises(DeriveError) as error:
        write_package([op], out, **options)  # type: ignore[arg-type]
    assert not out.exists() and error.value.op == op.name
    return str(error.value)


# --- PyTorch's form -----------------------------------------------------------------------------------------


def test_one_wrong_gradient_is_named_with_its_values(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return ScaledGradients(dx, dw)", "dw[2] += 0.5\n    return ScaledGradients(dx, dw)")
    line = told(ops["scaled"], tmp_path / "out")
    assert line.startswith("op scaled: what was derived is wrong, so that nothing is written: dw[2] is ")
    assert ", expected " in line and "(odd lengths: x [3, 5], w [5], seed 0)" in line and "--unproven" in line
    found, expected = (float(part.split()[0]) for part in line.split("dw[2] is ")[1].split(", expected "))
    assert found - expected == pytest.approx(0.5, abs=1e-6)
    with pytest.raises(DeriveError, match=r"dw\[2\] is .*, expected "):
        build(ops["scaled"])


def test_a_wrong_forward(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return y, ScaledSaved", "y = 1.000001 * y\n    return y, ScaledSaved")
    assert "nothing is written: y[" in told(ops["scaled"], tmp_path / "out")


def test_wrong_in_long_rows_alone(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return ScaledGradients", "dx = 2 * dx if dy.shape[1] > 200 else dx\n    return ScaledGradients")
    assert "(a long row with ties: x [3, 301], w [301], seed 0)" in told(ops["scaled"], tmp_path / "out")


def test_wrong_at_ties_alone(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return dx if", "dx = torch.zeros_like(x).scatter_(1, x.argmax(1)[:, None], dy[:, None])\n    return dx if",
          within="def peaks_backward")  # fmt: skip
    assert "nothing is written: dx[" in told(ops["peaks"], tmp_path / "out")


def test_wrong_at_repeated_indices_alone(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    wrong = "dc = dy.new_zeros(v, e).index_copy_(0, i, dy)\n    return dc if"
    plant("return dc if", wrong, within="def looked_up_backward")
    assert "nothing is written: dc[" in told(ops["looked_up"], tmp_path / "out")


def test_a_default_that_was_printed_for_a_number(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return loss, ", "scale = 1.0\n    return loss, ", within="def squares_forward(")
    assert "(a long row" in told(ops["squares"], tmp_path / "out")


def test_wrong_over_old_results_alone(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return out\n", "out.dw.add_(1)\n    return out\n", within="def scaled_backward_out(")
    assert "by scaled_backward_out (odd lengths" in told(ops["scaled"], tmp_path / "out", workspace=True)


def test_gradients_handed_to_autograd_in_another_order(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return dx, dw\n", "return dx, -dw\n", within="class _Scaled(")
    assert "nothing is written: dw[" in told(ops["scaled"], tmp_path / "out")


def test_a_wrong_stepwise_form(plant: Plant, tmp_path: Path) -> None:
    plant("return NamesStepStepwiseGradients(", "db2 = -db2\n    return NamesStepStepwiseGradients(")
    assert "by names_step_stepwise_backward" in told(find("names_step"), tmp_path / "out")


def test_what_does_not_run(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return dc if", "return not_there if", within="def looked_up_backward")
    assert "NameError: name 'not_there'" in told(ops["looked_up"], tmp_path / "out")


def test_nothing_of_several_is_written_where_the_last_is_wrong(
    ops: dict[str, Op], plant: Plant, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_package([ops["scaled"]], out)
    before = {p.name: p.read_text() for p in out.glob("*.py")}
    plant("return ", "raise ValueError\n    return ")
    with pytest.raises(DeriveError, match=r"^op peaks: "):
        write_package([ops["peaks"], ops["scaled"]], out)
    assert {p.name: p.read_text() for p in out.glob("*.py")} == before


# --- further derivatives --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong", "within", "by", "at"),
    [
        ("return ddy, grad_x, grad_w", "return ddy, grad_x, 1.001 * grad_w", "", "scaled_double_backward", ""),
        ("append((ddy, grad_x, dw))", "append((ddy, 0 * grad_x, dw))", "", "scaled_double_backward", ", of dx alone"),
        ("append((ddy, dx, None))", "append((ddy, -dx, None))", "", "scaled_double_backward", ", of dw alone"),
        ("return added(1, *parts)[0]", "return added(1, *parts)[0] + tw", "def scaled_jvp", "scaled_jvp", ""),
        ("ty = tw", "ty = 2 * tw", "def scaled_jvp", "scaled_jvp", ""),
        ("real=(0, 1)", "real=(1, 0)", "", "scaled differentiated twice", ""),
        ("saved=(3, 1)", "saved=(3, 2)", "", "scaled differentiated twice", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_a_wrong_second_derivative(
    ops: dict[str, Op], plant: Plant, tmp_path: Path, backend: str, right: str, wrong: str, within: str,
    by: str, at: str,
) -> None:  # fmt: skip
    plant(right, wrong, "order.py.j2", within)
    line = told(ops["scaled"], tmp_path / "out", order=2, backend=backend)
    assert f"by {by}" in line and f"(odd lengths{at}" in line


def test_places_of_leading_axes_that_are_not_apart(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant('"double_backward": (True, True, False)', '"double_backward": (True, True, True)', "order.py.j2")
    assert "by rows differentiated twice and mapped" in told(ops["rows"], tmp_path / "out", order=2)


# --- kernels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong", "within", "named"),
    [
        ("return 0;", "dw[1] += 1;\n    return 0;", "int squares_backward(", "dw[1] is "),
        ("return 0;", "if (n_d > 200) dx[7] += 1;\n    return 0;", "int squares_backward(", "in C (a long row"),
        ("return 0;", "w[0] -= 1;\n    return 0;", "int squares_sgd(", "by squares_sgd in C"),
        ("{", "{\n    *(volatile char *)8 = 0;", "int squares_backward(", "the process ends (SIGSEGV"),
        ("{", "{\n    for (int k = 0; k < 1 << 26; k++) dw[n_d + k] = 1;", "int squares_backward(", "ends (SIG"),
    ],
)  # fmt: skip
def test_a_wrong_kernel_beside_right_lines_of_pytorch(
    ops: dict[str, Op], plant: Plant, tmp_path: Path, right: str, wrong: str, within: str, named: str
) -> None:
    plant(right, wrong, "kernels.c.j2", within)
    line = told(ops["squares"], tmp_path / "out", backend="cpu", step=True, workspace=True)
    assert line.startswith("op squares: what was derived is wrong") and named in line


def test_wrong_lines_of_pytorch_beside_a_right_kernel(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return SquaresGradients(dx, dw)", "dw = -dw\n    return SquaresGradients(dx, dw)", within="dloss / ")
    assert " in PyTorch (odd lengths" in told(ops["squares"], tmp_path / "out", backend="cpu")


def test_kernels_that_no_compiler_has_taken_are_called_unproven(
    ops: dict[str, Op], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    write_package([ops["squares"]], tmp_path / "out", backend="cpu")
    for file in ("squares.py", "squares.c"):
        first = (tmp_path / "out" / file).read_text().partition("\n")[0]
        assert first.endswith(" in CC."), first
        assert "Unproven: no C compiler was found (no-such-compiler)" in first


# --- what is not proved says so -----------------------------------------------------------------------------


def test_unproven_is_written_and_says_so(ops: dict[str, Op], plant: Plant, tmp_path: Path) -> None:
    plant("return ScaledGradients", "dw = -dw\n    return ScaledGradients")
    write_package([ops["scaled"]], tmp_path / "out", proven=False)
    first = (tmp_path / "out" / "scaled.py").read_text().partition("\n")[0]
    assert first.startswith("# Generated by Handgrad from ") and first.endswith("Unproven: --unproven was given.")
    source = build(ops["scaled"], proven=False).source
    assert source.partition("\n")[0].endswith("Unproven: proven=False was given.")


def test_an_op_of_which_nothing_can_be_said(ops: dict[str, Op], tmp_path: Path) -> None:
    write_package([ops["nowhere"]], tmp_path / "out")
    first = (tmp_path / "out" / "nowhere.py").read_text().partition("\n")[0]
    assert first.endswith("Unproven: found no inputs at which the op is finite.")
    assert write_package([ops["nowhere"]], tmp_path / "out", check=True) == ()
    with pytest.warns(UserWarning, match=r"^nowhere is unproven: found no inputs"):
        assert "Unproven: found no inputs" in build(ops["nowhere"]).source.partition("\n")[0]


def test_the_command_says_it_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SPECS)

    def derive(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "derive.cli", "generate", "--from", "mine.py", "--out", "out", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert derive().stdout.splitlines()[1:] == ["nowhere is unproven: found no inputs at which the op is finite"]
    assert derive("--check").returncode == 0
    assert derive("--check", "--unproven").returncode == 1, "all first lines would change"
    assert derive("--unproven").stdout == "out: 12 files written\n"  # the orders of each as well
    assert derive("--check").returncode == 1


def test_what_is_equal_to_the_folder_is_not_proved_again(
    ops: dict[str, Op], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_package([ops["scaled"]], tmp_path / "out")
    monkeypatch.setattr("derive.verify.emitted.prove", None)
    assert write_package([ops["scaled"]], tmp_path / "out", check=True) == ()


@pytest.mark.parametrize("command", [["list"], ["explain", "tanh"], ["generate", "tanh", "--check"]])
def test_torch_is_imported_for_a_proof_alone(command: list[str]) -> None:
    script = "import sys; sys.modules['torch'] = None; from derive.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- what it is proved by -----------------------------------------------------------------------------------


def test_the_cases_hold_ties_repeated_indices_and_a_long_row(ops: dict[str, Op]) -> None:
    _, odd, long = cases_of(ops["peaks"])
    assert list(odd.call.inputs["x"].shape) == [3, 5] and 301 in long.call.inputs["x"].shape
    for case in (odd, long):
        x = case.call.inputs["x"]
        assert int((x == x.amax(1, keepdim=True)).sum()) > len(x)
    for case in cases_of(ops["looked_up"])[1:]:
        i = case.call.inputs["i"]
        assert len(i.unique()) < len(i)


def test_right_functions_are_right() -> None:
    for name in ("layernorm", "softmax_cross_entropy", "max_pool2d"):
        live = build(find(name), workspace=True, proven=False)
        assert first_wrong(cases_of(live.derivation.op), subjects_of(find(name), live.function.__globals__)) is None
