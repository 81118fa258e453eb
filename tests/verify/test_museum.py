"""Every piece of the museum gets the verdict it is labelled with; the engine is caught at each of its faults."""

import runpy
from pathlib import Path

import pytest

from derive.catalogue import find, load_file
from derive.verify.candidates import load
from derive.verify.judge import Verdict, judge

MUSEUM = Path(__file__).parents[2] / "museum"
PIECES = sorted(p for p in MUSEUM.glob("*.py") if p.stem != "engine")


def judged(path: Path, name: str, op_name: str | None) -> Verdict:
    op = find(op_name) if op_name else load_file(path)[0]
    return judge(op, load(f"{path}:{name}", op))


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in PIECES])
def test_a_piece_is_judged_as_labelled(path: Path) -> None:
    label = runpy.run_path(str(path))
    verdict = judged(path, label.get("NAME", "backward"), label.get("OP"))
    assert (verdict.word, verdict.error) == (label["VERDICT"], label["ERROR"])
    assert verdict.right == (verdict.counterexample is None)
    text = path.read_text()
    assert "https://github.com/" in text and f"derive judge museum/{path.name}:" in text


def test_the_guide_lists_every_piece() -> None:
    guide = (MUSEUM / "README.md").read_text()
    for path in PIECES:
        label = runpy.run_path(str(path))
        row = next(line for line in guide.splitlines() if f"({path.name})" in line)
        assert f"| {label['VERDICT']} |" in row and label["ERROR"] in row


FAULTS = {
    "right": ("right", ""),
    "overwrites": ("wrong", "overwritten instead of accumulated"),
    "wrong_reduction": ("wrong", "wrong scale"),
    "wrong_order": ("wrong", "overwritten instead of accumulated"),
    "never_zeroed": ("wrong", "state kept between calls"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_four_classic_errors_of_an_engine_are_caught(name: str) -> None:
    verdict = judged(MUSEUM / "engine.py", name, None)
    assert (verdict.word, verdict.error) == FAULTS[name]
