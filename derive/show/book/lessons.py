"""Lessons: pages by hand that let a reader move something, with the derivations of the ops that they name.

A lesson is a folder's `name.html`, beside a script `name.js` if it has one. It opens with lines `title:`, `says:` and
`ops:`, then an empty line, then HTML in which `{{ forward("op") }}` and `{{ gradient("op") }}` stand for formulas. The
programs of its ops reach the script as `LESSON.ops`: what moves is computed by the derived backward.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jinja2 import Environment, StrictUndefined, TemplateError
from markupsafe import Markup

from derive.catalogue import find
from derive.collapse.typeset import adjoint_names, definition_latex, equation_latex
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from derive.show.book.formulas import display
from derive.show.book.programs import op_data
from derive.show.book.render import Place, page_html


@dataclass(frozen=True)
class Lesson:
    """One lesson as it was read: its key is the name of its page."""

    key: str
    title: str
    says: str
    ops: tuple[Op, ...]
    body: str
    script: str


def read_lessons(folder: Path, ops: list[Op]) -> tuple[Lesson, ...]:
    """The lessons of a folder, by name. Raises DeriveError for one that is damaged or names an unknown op."""
    if not folder.is_dir():
        raise DeriveError(f"{folder} is not a folder", fix="name a folder of lessons")
    return tuple(_lesson(path, ops) for path in sorted(folder.glob("*.html")))


def _lesson(path: Path, ops: list[Op]) -> Lesson:
    head, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    said = {k.strip(): v.strip() for k, colon, v in (line.partition(":") for line in head.splitlines()) if colon}
    missing = [k for k in ("title", "says") if not said.get(k)]
    if missing:
        raise DeriveError(f"{path} has no {missing[0]}", fix=f"begin it with a line {missing[0]}: ...")
    script = path.with_suffix(".js")
    code = script.read_text(encoding="utf-8") if script.is_file() else ""
    used = tuple(find(name, ops) for name in said.get("ops", "").split())
    return Lesson(path.stem, said["title"], said["says"], used, body, code)


def lesson_html(lesson: Lesson, place: Place) -> str:
    """The page of a lesson. Raises DeriveError where its text asks for what it does not have."""
    words = {"forward": partial(_forward, lesson), "gradient": partial(_gradient, lesson)}
    environment = Environment(undefined=StrictUndefined, autoescape=True)
    try:
        body = environment.from_string(lesson.body).render(words)
    except TemplateError as error:
        fix = "use forward(...) and gradient(...) of its ops"
        raise DeriveError(f"lesson {lesson.key}: {error}", fix=fix) from None
    data = json.dumps({op.name: op_data(derivation_of(op)) for op in lesson.ops}, separators=(",", ":"), sort_keys=True)
    values = {
        "lesson": lesson,
        "body": Markup(body),
        "data": Markup(data.replace("<", r"\u003c")),
        "script": Markup(lesson.script),
    }
    return page_html("lesson.html.j2", place, values)


def _forward(lesson: Lesson, name: str) -> Markup:
    """The equations of an op."""
    d = derivation_of(find(name, list(lesson.ops)))
    return _shown((equation_latex(e, adjoint_names(d.steps)) for e in d.named.equations), "equations")


def _gradient(lesson: Lesson, name: str) -> Markup:
    """Its closed form, boxed."""
    d = derivation_of(find(name, list(lesson.ops)))
    return _shown((definition_latex(x, adjoint_names(d.steps)) for x in d.closed.definitions), "equations boxed")


def _shown(formulas: Iterable[str], kind: str) -> Markup:
    box = Markup('<div class="formula scroll" tabindex="0" role="group" aria-label="equation">{}</div>')
    rows = Markup("").join(box.format(Markup(display(latex))) for latex in formulas)
    return Markup('<div class="{}">{}</div>').format(kind, rows)
