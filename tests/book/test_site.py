"""A book as a folder: what is in it, that it follows the spec, and that nothing of another's is lost."""

import re
from pathlib import Path

import pytest

from derive.catalogue import find, load_file
from derive.emit import render
from derive.errors import DeriveError
from derive.pipeline import derivation_of
from derive.show.book.lessons import read_lessons
from derive.show.book.render import ASSETS
from derive.show.book.site import book, lone_page, write_book
from tests.shell import derive, files

SPEC = '''"""A family of mine."""

from derive import *

n, d = axes("n d")


@op
def scaled(f, x: tensor[n, d], w: tensor[d]):
    """A product & <more>."""
    f.y[n, d] = x[n, d] * w[d]
    return f.y
'''


def spec(folder: Path, text: str = SPEC) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_site_of_a_users_file_the_same_each_time(tmp_path: Path) -> None:
    spec(tmp_path)
    done = derive("book", "--from", "mine.py", "--out", "site", cwd=tmp_path, PYTHONHASHSEED="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "site/index.html: 6 files written\n", "")
    first = files(tmp_path / "site")
    assert set(first) == {"index.html", "ops/scaled.html", *(f"assets/{name}" for name in ASSETS)}
    assert b"http://" not in first["ops/scaled.html"] and b"https://" not in first["ops/scaled.html"]
    derive("book", "--from", "mine.py", "--out", "again", cwd=tmp_path, PYTHONHASHSEED="2")
    assert files(tmp_path / "again") == first
    done = derive("book", "--from", "mine.py", "--out", "site", cwd=tmp_path)
    assert done.stdout == "site/index.html: up to date\n"


def test_the_index_and_the_page_say_what_the_file_says(tmp_path: Path) -> None:
    file = spec(tmp_path)
    texts = book(load_file(file), file)
    assert "A product &amp; &lt;more&gt;." in texts["index.html"] and "A family of mine." in texts["index.html"]
    page = plain(texts["ops/scaled.html"])
    assert "def scaled(f, x: tensor[n, d], w: tensor[d]):" in page  # the spec, as it was written
    assert "def scaled_backward(" in page
    assert "w has the axis d; is broadcast along the axis n, so the backward sums over it." in page


def test_a_changed_spec_changes_its_page_and_its_code_together(tmp_path: Path) -> None:
    def made(text: str) -> tuple[str, str]:
        file = spec(tmp_path, text)
        ops = load_file(file)
        return book(ops, file)["ops/scaled.html"], render(derivation_of(ops[0]))

    page, code = made(SPEC)
    other_page, other_code = made(SPEC.replace("x[n, d] * w[d]", "x[n, d] ** 3 * w[d]"))
    cube = "<msubsup><mi>x</mi><mrow><mi>n</mi><mo>,</mo><mi>d</mi></mrow><mrow><mn>3</mn></mrow></msubsup>"
    square = cube.replace(">3<", ">2<")
    assert cube in other_page and square in other_page  # of the forward, and of its derivative
    assert cube not in page and square not in page
    assert ("**3" in other_code, "**3" in code) == (True, False)
    for made_page, made_code in ((page, code), (other_page, other_code)):
        (line,) = (line for line in made_code.splitlines() if line.startswith("        dx = "))
        assert line.partition("#")[0].strip() in plain(made_page)


def test_a_page_alone_has_all_that_it_needs_inside() -> None:
    page = lone_page(find("tanh"))
    assert '<link rel="stylesheet"' not in page and "<script src" not in page and 'href="../' not in page
    assert "--paper:" in page and "addEventListener" in page


def test_explain_prints_that_page(tmp_path: Path) -> None:
    done = derive("explain", "tanh", "--html", cwd=tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", lone_page(find("tanh")))


# --- the folder -------------------------------------------------------------------------------------------------------


def test_a_page_of_an_op_that_is_gone_goes_and_anothers_stays(tmp_path: Path) -> None:
    out = tmp_path / "site"
    texts = {"index.html": book([find("tanh")])["index.html"]}
    old = texts | {"ops/old.html": texts["index.html"]}
    assert write_book(old, out) == ("index.html", "ops/old.html")
    (out / "ops" / "notes.html").write_text("mine")
    assert write_book(texts, out) == ("ops/old.html",)
    assert set(files(out)) == {"index.html", "ops/notes.html"}


def test_a_page_of_another_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(DeriveError) as refused:
        write_book(book([find("tanh")]), tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / 'index.html'} was not written by Handgrad; give another folder with --out"
    )
    assert files(tmp_path) == {"index.html": b"mine"}
    with pytest.raises(DeriveError, match=r"index\.html is not a folder; give another folder with --out"):
        write_book({}, tmp_path / "index.html")


# --- lessons ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("says: b\n\nbody", "{path} has no title; begin it with a line title: ..."),
        ("title: a\nsays: b\nops: tanhh\n\nbody", "there is no op tanhh; did you mean tanh?"),
    ],
)
def test_a_damaged_lesson_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "one.html"
    path.write_text(text)
    with pytest.raises(DeriveError) as refused:
        read_lessons(tmp_path, [find("tanh")])
    assert str(refused.value) == message.format(path=path)


def test_a_lesson_asks_for_the_formulas_of_its_ops_alone(tmp_path: Path) -> None:
    ops = [find("tanh"), find("exp")]
    (tmp_path / "one.html").write_text('title: a\nsays: b\nops: tanh\n\n{{ gradient("tanh") }}')
    page = book(ops, lessons=read_lessons(tmp_path, ops))["lessons/one.html"]
    assert "equations boxed" in page and '"tanh":{' in page
    (tmp_path / "one.html").write_text("title: a\nsays: b\n\n{{ nothing }}")
    with pytest.raises(DeriveError, match=r"lesson one: 'nothing' is undefined; use forward"):
        book(ops, lessons=read_lessons(tmp_path, ops))
    with pytest.raises(DeriveError, match="is not a folder; name a folder of lessons"):
        read_lessons(tmp_path / "none", ops)
