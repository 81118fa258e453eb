"""`derive new`: a spec to start from, which works as it stands."""

import importlib
import sys
from pathlib import Path

import black
import pytest
import torch

from derive.catalogue import load_file
from derive.cli import main
from derive.cli.starter import starter, write_starter
from derive.errors import DeriveError


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The command's exit status."""
    monkeypatch.setattr(sys, "argv", ["derive", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_it_generates_a_package_whose_gradient_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(monkeypatch, "new", "my_norm") == 0
    said = "my_norm.py: written; next, derive generate --from my_norm.py --out my_norm_package\n"
    assert capsys.readouterr().out == said
    assert "derive generate --from my_norm.py --out my_norm_package" in Path("my_norm.py").read_text()
    assert run(monkeypatch, "generate", "--from", "my_norm.py", "--out", "my_norm_package") == 0

    function = importlib.import_module("my_norm_package").my_norm
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, dtype=torch.float64, requires_grad=True)
    expected = w * x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    cotangent = torch.randn_like(expected)
    ours = torch.autograd.grad(function(x, w), (x, w), cotangent)
    for got, wanted in zip(ours, torch.autograd.grad(expected, (x, w), cotangent), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_it_is_formatted_and_tells_the_file_it_stands_in(tmp_path: Path) -> None:
    path = write_starter("my_norm", tmp_path / "specs.py")
    text = path.read_text(encoding="utf-8")
    assert black.format_str(text, mode=black.Mode(line_length=120)) == text
    assert max(map(len, starter("a_rather_long_name_for_an_op").splitlines())) <= 120
    assert f"derive generate --from {path.as_posix()} --out my_norm_package" in text
    assert [op.name for op in load_file(path)] == ["my_norm"]


def test_an_existing_file_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("precious")
    assert run(monkeypatch, "new", "mine") == 2
    assert capsys.readouterr().err == "derive: mine.py exists already; give another file with --out\n"
    assert Path("mine.py").read_text() == "precious"
    assert run(monkeypatch, "new", "mine", "--out", "missing/mine.py") == 2
    assert capsys.readouterr().err.startswith("derive: cannot write missing/mine.py: ")


@pytest.mark.parametrize("name", ["2d", "my-op", "class", "_mine", "a b", "", "sum", "torch", "derive", "random", "x"])
def test_a_name_that_no_op_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DeriveError, match=r"cannot name an op|has a meaning already"):
        write_starter(name, tmp_path / "spec.py")
    assert list(tmp_path.iterdir()) == []
