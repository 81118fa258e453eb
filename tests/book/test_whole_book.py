"""The whole catalogue as a book, page by page in a browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from derive.catalogue import catalogue
from derive.show.book.lessons import read_lessons
from derive.show.book.site import book, write_book
from tests.book import looking
from tests.book.conftest import LESSONS

LARGEST = 300_000
"""Bytes of a page."""


@pytest.mark.slow
def test_every_page_of_the_catalogue_is_whole(browser: Browser, tmp_path: Path) -> None:
    ops = catalogue()
    texts = book(ops, lessons=read_lessons(LESSONS, ops))
    write_book(texts, tmp_path)
    assert {n for n, text in texts.items() if n.startswith("ops/") and len(text.encode()) > LARGEST} == set()
    assert {n for n in texts if n.startswith("ops/")} == {f"ops/{op.name}.html" for op in ops}
    makes: set[str] = set()
    with looking.opened(browser, tmp_path / "index.html", looking.PHONE) as page:
        for name in sorted(n for n in texts if n.endswith(".html")):
            page.goto((tmp_path / name).as_uri())
            looking.unfold(page)
            looking.formulas_are_set(page)
            looking.fits(page)
            pairs = page.evaluate(looking.PAIRS)
            assert (pairs["alone"], pairs["strange"]) == ([], []), name
            dead = page.eval_on_selector_all(
                "a[href^='#']", "all => all.map((a) => a.hash).filter((h) => !document.getElementById(h.slice(1)))"
            )
            assert dead == [], name
            if (make := page.evaluate(looking.MAKE)) not in makes:  # pages of one make are as accessible as each other
                makes.add(make)
                page.evaluate("() => { for (const e of document.querySelectorAll('math, code')) e.replaceChildren(); }")
                looking.is_accessible(page)  # less what is slow to look at: tests of single pages see it
            assert page.evaluate(looking.TWICE) == [], name
            links = page.eval_on_selector_all("a[href]", "all => all.map((a) => a.href.split(/[#?]/)[0])")
            assert [link for link in links if not Path(link.removeprefix("file://")).is_file()] == [], name
