"""The one rule: nothing under `derive/` outside `ops/` knows an op, and no template does."""

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from derive import notation
from derive.catalogue import catalogue

DERIVE = Path(notation.__file__).parents[1]
SHORTEST = 4
"""Op names shorter than this are too common to search for."""

PLAIN_WORDS = {
    "add_column": "a method of the table that a terminal shows",
    "diagonal": "an index read twice; a method of a torch tensor",
    "embedding": "torch's name for a gather of rows",
    "flatten": "a method of a torch tensor",
    "leaky_relu": "torch's name for a line that bends at 0",
    "linear": "torch's name for a product plus a vector",
    "log_softmax": "torch's name for the logarithms of shares of exponentials",
    "matmul": "a sum of products over one axis",
    "outer": "the opposite of inner: what stands in front of a sum",
    "reciprocal": "one over a number",
    "returns": "what a program gives back, an English word",
    "scale": "the number in front of a reduction",
    "softmax": "torch's name for exponentials over their sum",
    "square": "the second power",
    "tril": "a method of a torch tensor",
    "trace": "to record what a function does as it runs",
    "transpose": "a method of a torch tensor",
}
"""Op names that are plain English, mathematics or torch's own, and what they mean outside of the catalogue."""

OPS = [op.name for op in catalogue()]
WORTH = sorted(name for name in OPS if len(name) >= SHORTEST and name not in notation.__all__)
NAMES = [name for name in WORTH if name not in PLAIN_WORDS]
CALLS = DERIVE / "backends" / "torch" / "instructions.py"
"""The table of PyTorch's calls under their own names, each with what it computes: facts of the target, not of ops."""

SOURCES = sorted(p for p in DERIVE.rglob("*.py") if DERIVE / "ops" not in p.parents and p != CALLS)
TEMPLATES = sorted(p for p in (DERIVE.parent / "templates").rglob("*") if p.is_file())


@cache
def words(path: Path) -> list[tuple[int, str]]:
    """Every identifier and string of a file with its line, comments and docstrings left out."""
    out: list[tuple[int, str]] = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        starts_a_statement = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL)
        if (
            token.type == tokenize.NAME
            or token.type == getattr(tokenize, "FSTRING_MIDDLE", -1)
            or (token.type == tokenize.STRING and not starts_a_statement)
        ):
            out.append((token.start[0], token.string))
        if token.type != tokenize.COMMENT:
            before = token.type
    return out


@cache
def whole_word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])")


def holds(text: str, name: str) -> bool:
    """Whether a name stands in a text as whole words: `batchnorm` in `batchnorm_rule`, not `scale` in `rescaled`."""
    return name in text and whole_word(name).search(text) is not None


def mentions(path: Path, names: list[str]) -> list[str]:
    return [f"{path.name}:{line}: {name}" for line, word in words(path) for name in names if holds(word, name)]


def test_the_catalogue_has_names_to_look_for() -> None:
    assert {"batchnorm", "softmax_cross_entropy", "names_step"} <= set(NAMES)


def test_exceptions_are_needed() -> None:
    """An exception that is no op any more, or that no module needs, goes."""
    met = {name for path in SOURCES for _, word in words(path) for name in WORTH if holds(word, name)}
    assert set(PLAIN_WORDS) <= met, set(PLAIN_WORDS) - met


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(DERIVE).as_posix())
def test_no_module_names_an_op(path: Path) -> None:
    assert mentions(path, NAMES) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_no_template_names_an_op(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [name for name in NAMES if holds(text, name)] == []


@pytest.mark.parametrize("path", sorted((DERIVE / "collapse").glob("*.py")), ids=lambda p: p.name)
def test_no_law_holds_an_op_in_a_string(path: Path) -> None:
    """Here the exceptions do not count either: a law has no business with any of these words."""
    quoted = [(line, word) for line, word in words(path) if word[:1] in "\"'" or word[:2] in ('f"', 'r"', "f'", "r'")]
    assert [f"{path.name}:{line}: {name}" for line, word in quoted for name in WORTH if holds(word, name)] == []


def test_a_mention_is_found(tmp_path: Path) -> None:
    """Identifiers and strings count, also inside f-strings; comments and docstrings do not."""
    file = tmp_path / "module.py"
    file.write_text(
        '"""batchnorm is fine here."""\n'
        "# and batchnorm here\n"
        "def f(op):\n"
        '    """batchnorm."""\n'
        '    if op.name == "batchnorm":\n'
        "        batchnorm_rule = 1\n"
        '    return f"the {op} batchnorm", x\n'
    )
    assert mentions(file, ["batchnorm"]) == [
        "module.py:5: batchnorm",
        "module.py:6: batchnorm",
        "module.py:7: batchnorm",
    ]
