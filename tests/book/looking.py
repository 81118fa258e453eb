"""A page of the book in a browser, and what must hold of every one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

PHONE = {"width": 375, "height": 812}
DESK = {"width": 1280, "height": 900}

FORMULAS = """() => [...document.querySelectorAll("math")].filter((m) => {
  const fold = m.closest("details:not([open])");
  if (fold && !m.closest("summary")) return false;
  const box = m.getBoundingClientRect();
  return !(box.width > 0 && box.height > 0);
}).map((m) => m.outerHTML)"""

RAW = r"""() => [...document.querySelectorAll("math")].map((m) => m.textContent)
  .filter((t) => /\\|[_^]\{|\}|&|mathrm|operatorname|aligned/.test(t))"""

WIDE = """() => {
  const clipped = (e) => { for (let p = e.parentElement; p; p = p.parentElement)
    if (p !== document.body && ["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX)) return true;
    return false; };
  return [...document.body.querySelectorAll("*")]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 && !clipped(e) && !e.closest(".hidden"))
    .map((e) => e.outerHTML.slice(0, 120));
}"""

PAIRS = """() => {
  const keys = (selector) => [...document.querySelectorAll(selector)].flatMap((e) => e.dataset.eq.split(" "));
  const equations = new Set(keys(".pair .eq")), lines = new Set(keys(".pair .line[data-eq]"));
  return { equations: equations.size, alone: [...equations].filter((k) => !lines.has(k)),
           strange: [...lines].filter((k) => !equations.has(k)) };
}"""


MAKE = """() => {
  const kind = (e) => [e.tagName, e.getAttribute("class"), e.getAttribute("role"), e.parentElement.tagName].join(" ");
  const all = [...document.body.querySelectorAll("*")].filter((e) => !e.closest("math, code"));
  return [...new Set(all.map(kind))].sort().join();
}"""
"""Which kinds of elements a page has, and in which they stand."""

TWICE = (
    """() => [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, k, all) => all.indexOf(id) !== k)"""
)


BOOK = "http://book.test/"


@contextmanager
def served(browser: Browser, site: Path, scheme: str) -> Iterator[Page]:
    """A page for those under ``BOOK``: what a page from a file keeps, Chromium loses one time in thirty or so."""
    context = browser.new_context(color_scheme=scheme)
    context.route(f"{BOOK}**", lambda route: route.fulfill(path=site / route.request.url.removeprefix(BOOK)))
    yield context.new_page()
    context.close()


@contextmanager
def opened(browser: Browser, path: Path, size: dict[str, int] = DESK, scheme: str = "light") -> Iterator[Page]:
    """A page from its file; leaving it fails if the page complained, or asked for anything but files."""
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else said.append(request.url))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert said == []


def unfold(page: Page) -> None:
    page.evaluate("() => { for (const d of document.querySelectorAll('details')) d.open = true; }")


def formulas_are_set(page: Page) -> None:
    assert page.evaluate(FORMULAS) == []
    assert page.evaluate(RAW) == []


def fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert page.evaluate(WIDE) == []


def is_accessible(page: Page) -> None:
    """What axe finds wrong. Formulas and whole files are left out: slow, and all in them stands in the rest as well."""
    options = {"preload": False, "resultTypes": ["violations"]}
    found = Axe().run(page, context={"exclude": ["math", ".code.whole"]}, options=options)
    assert found.violations_count == 0, found.generate_report()
