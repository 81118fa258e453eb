"""Pages from data and templates. The templates hold the shape of a page, never mathematics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from derive.emit.templating import TEMPLATES, environment
from derive.primitives import in_javascript
from derive.show.book.drawing import LEGEND
from derive.show.book.page import OpPage, name_math

STYLES, SCRIPTS = ("book.css",), ("book.js",)
ASSETS = (*STYLES, *SCRIPTS, "evaluate.js", "figure.js")

GENERATOR = '<meta name="generator" content="Handgrad">'
"""What every page of ours holds; a page without it is never overwritten or removed."""


@dataclass(frozen=True)
class Place:
    """Where a page stands in its site: the way up to its root, the site's title, and its neighbours (name, address)."""

    root: str
    title: str
    before: tuple[str, str] | None = None
    after: tuple[str, str] | None = None
    alone: bool = False  # one file for itself, with styles and scripts inside


def op_html(page: OpPage, place: Place) -> str:
    """The page of an op."""
    return _rendered("op.html.j2", place, page=page)


def page_html(template: str, place: Place, values: Mapping[str, Any]) -> str:
    """Another page: the index, or a lesson."""
    return _rendered(template, place, **values)


def asset(name: str) -> str:
    """The text of a style sheet or a script."""
    text = (TEMPLATES / "book" / name).read_text(encoding="utf-8")
    return text.replace("/* functions of one number */", in_javascript())


def _rendered(template: str, place: Place, **values: Any) -> str:
    return str(_environment().get_template(template).render(place=place, **values))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    book = environment("book", autoescape=True)
    book.globals |= {
        "generator": Markup(GENERATOR),
        "styles": STYLES,
        "scripts": SCRIPTS,
        "asset": lambda name: Markup(asset(name)),
        "axis_words": LEGEND,
    }
    book.filters |= {"math": lambda name: Markup(name_math(name)), "number": number, "ticked": ticked}
    return book


def ticked(text: str) -> Markup:
    """Plain text in which `ticks` are code."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(p) if k % 2 else p for k, p in enumerate(parts))


def number(value: float) -> str:
    """A number as a reader likes it: three digits, thousands apart, tiny ones as a power of ten."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.2e}" if abs(value) < 1e-3 else f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
