"""The README and its neighbours say what is true: outputs, links, files and counts."""

import re
import runpy
from pathlib import Path

import pytest
from typer.main import get_command

from derive import notation
from derive.catalogue import catalogue, load_file
from derive.cli import app
from tests.documents import DOCUMENTS, ROOT, console, renewed

ALL = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{p.name}" for p in sorted(ROOT.glob("docs/*.md"))))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_shown_is_what_is_printed(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert renewed(text) == text, "run `python -m tests.documents`, and read what it changed"


def test_an_old_output_and_a_made_up_one_are_noticed() -> None:
    old = "```text\n$ derive explain bathnorm\nderive: there is no op bathnorm\n```"
    assert renewed(old).endswith("derive: there is no op bathnorm; did you mean batchnorm?\n```")
    code = "<!-- from generated/softmax.py: softmax_backward -->\n\n```python\ndef softmax_backward():\n```"
    assert "dp: Tensor, p: Tensor" in renewed(code)
    assert console("$ a\none\n…\nthree\n", lambda _: "one\ntwo\nthree\n") == "$ a\none\n…\nthree\n"
    with pytest.raises(ValueError, match="does not print\nfour"):
        console("$ a\none\n…\nfour\n", lambda _: "one\ntwo\nthree\n")


@pytest.mark.parametrize("name", ALL)
def test_links_lead_somewhere(name: str) -> None:
    file = ROOT / name
    links = re.findall(r"\]\(([^)#\s]+)", file.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (file.parent / link).exists()] == []


@pytest.mark.parametrize("name", ALL)
def test_commands_and_their_options_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    names = set(get_command(app).commands)
    used = re.findall(r"(?:^|[`$] ?|/)derive ([a-z]+)", text, re.MULTILINE)
    assert set(used) <= names, set(used) - names
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= targets


def test_the_house_names_every_room_and_each_has_a_page_that_names_files_that_exist() -> None:
    derive = ROOT / "derive"
    rooms = {p.name for p in derive.iterdir() if p.is_dir() and p.name != "__pycache__"}
    table = re.findall(r"^\| (?:\[`|`)([a-z_]+)(?:\.py`|/`\])", (ROOT / "docs" / "house.md").read_text(), re.MULTILINE)
    assert set(table) == rooms | {p.stem for p in derive.glob("*.py")} - {"__init__"}
    files = {p.name for p in derive.rglob("*.py")} | {p.name for p in (ROOT / "tests").rglob("*.py")}
    for room in rooms:
        named = set(re.findall(r"\b[a-z_]+\.py\b", (derive / room / "README.md").read_text()))
        assert named - files == set(), (room, named - files)


def test_the_readme_counts_the_catalogue_and_the_museum() -> None:
    verdicts = [runpy.run_path(str(p))["VERDICT"] for p in (ROOT / "museum").glob("*_*.py")]
    wrong = sum(v in ("wrong", "right only where") for v in verdicts)
    assert len(verdicts) >= 40
    assert f"the {len(catalogue())} ops" in README
    for text in (README, (ROOT / "docs" / "verify.md").read_text(), (ROOT / "museum" / "README.md").read_text()):
        assert re.search(rf"\b{wrong} (published )?(errors|backward passes)", text)


def test_the_notation_names_every_word_and_its_examples_are_one_file_of_specs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    table = text[text.index("| kind | words |") : text.index("Beside them:")]
    assert set(re.findall(r"`([a-z0-9_]+)`", table)) == set(notation.__all__)
    file = tmp_path / "words.py"
    file.write_text("".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)), encoding="utf-8")
    assert {op.name for op in load_file(file)} == set(re.findall(r"^@op(?:\(.*\))?\ndef (\w+)", text, re.MULTILINE))
