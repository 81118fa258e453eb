"""A book as a folder: all pages are rendered before any is written, and nothing of another's is overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.emit.files import put
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.pipeline import Derivation, derivation_of, derive_op
from derive.show.book.lessons import Lesson, lesson_html
from derive.show.book.page import OpPage, op_page
from derive.show.book.render import ASSETS, GENERATOR, Place, asset, op_html, page_html
from derive.show.book.sources import Family, families
from derive.verify.measured import Measured

TITLE = "The Handgrad book"


@dataclass(frozen=True)
class ShownFamily:
    """A family as the index shows it."""

    key: str
    title: str
    says: str
    ops: tuple[OpPage, ...]


def book(
    ops: Iterable[Op],
    file: Path | None = None,
    *,
    save: str = "cost",
    title: str = TITLE,
    measured: Mapping[str, Measured] | None = None,
    lessons: Iterable[Lesson] = (),
    done: Callable[[Op], None] | None = None,
) -> dict[str, str]:
    """The files of a book by their paths: an index, a page an op, the lessons, styles and scripts.

    `file` is where the ops were loaded from, if not the catalogue. Raises DeriveError where an op cannot be derived.
    """
    texts: dict[str, str] = {}
    shown = []
    found = families(ops, file)
    order = [op.name for family in found for op in family.ops]
    for family in found:
        pages = []
        for op in family.ops:
            page = _page(op, family, save, (measured or {}).get(op.name), file)
            texts[f"ops/{op.name}.html"] = op_html(page, _place(order, op.name, title))
            pages.append(page)
            if done is not None:
                done(op)
        shown.append(ShownFamily(family.key, family.title, family.says, tuple(pages)))
    lessons = list(lessons)
    for lesson in lessons:
        texts[f"lessons/{lesson.key}.html"] = lesson_html(lesson, Place("../", title))
    values = {"families": shown, "lessons": lessons}
    texts["index.html"] = page_html("index.html.j2", Place("", title), values)
    return texts | {f"assets/{name}": asset(name) for name in ASSETS}


def lone_page(op: Op, file: Path | None = None, save: str = "cost") -> str:
    """The page of one op as one file, with its styles and scripts inside."""
    family = families([op], file)[0]
    return op_html(_page(op, family, save, None, file), Place("", TITLE, alone=True))


def _page(op: Op, family: Family, save: str, measured: Measured | None, file: Path | None) -> OpPage:
    derivation: Derivation = derivation_of(op) if save == "cost" else derive_op(op, save)
    name = None if file is None else op.source
    return op_page(derivation, family.title, family.specs.get(op.name, ""), measured, name)


def _place(order: list[str], name: str, title: str) -> Place:
    at = order.index(name)
    before, after = ((order[k], f"{order[k]}.html") if 0 <= k < len(order) else None for k in (at - 1, at + 1))
    return Place("../", title, before, after)


def write_book(texts: Mapping[str, str], out: Path) -> tuple[str, ...]:
    """Bring a folder up to date with the files of a book; return the paths of those that differed.

    Pages of ours that the book no longer has are removed. Raises DeriveError where the folder cannot be written, or
    where a page that is not ours is in the way.
    """
    if out.exists() and not out.is_dir():
        raise DeriveError(f"{out} is not a folder", fix="give another folder with --out")
    try:
        old = {p.relative_to(out).as_posix(): p.read_bytes().decode("utf-8", "replace") for p in _pages(out, texts)}
        foreign = [n for n, t in old.items() if n in texts and n.endswith(".html") and t.strip() and GENERATOR not in t]
        if foreign:
            raise DeriveError(f"{out / foreign[0]} was not written by Handgrad", fix="give another folder with --out")
        stale = [n for n, t in old.items() if n not in texts and GENERATOR in t]
        changed = [n for n, t in texts.items() if old.get(n) != t]
        for name in changed:
            put(out / name, texts[name])
        for name in stale:
            (out / name).unlink()
    except OSError as error:
        why = error.strerror or str(error)
        raise DeriveError(f"cannot write to the folder {out}: {why}", fix="make it writable, or give another") from None
    return tuple(sorted([*changed, *stale]))


def _pages(out: Path, texts: Mapping[str, str]) -> list[Path]:
    """The files in the folder that may be ours: those that the book has, and every page where it puts pages."""
    found = {out / name for name in texts} | {p for sub in ("ops", "lessons") for p in (out / sub).glob("*.html")}
    return sorted(p for p in found if p.is_file())
