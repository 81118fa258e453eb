"""Pages of the book as a reader has them before them: in a browser, from files."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.book import looking
from tests.book.conftest import LESSONS, SHOWN

PAGES = [
    "index.html",
    "ops/layernorm.html",
    "ops/embedding.html",
    *(f"lessons/{p.name}" for p in sorted(LESSONS.glob("*.html"))),
]


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_whole(browser: Browser, site: Path, address: str) -> None:
    """On a desk by day and on a phone by night: no complaint, formulas are set, nothing sticks out, all can be used."""
    for size, scheme in ((looking.DESK, "light"), (looking.PHONE, "dark")):
        with looking.opened(browser, site / address, size, scheme) as page:
            looking.unfold(page)
            looking.formulas_are_set(page)
            looking.fits(page)
            looking.is_accessible(page)


def test_a_formula_that_is_not_set_is_noticed(browser: Browser, site: Path) -> None:
    with looking.opened(browser, site / "ops" / "layernorm.html") as page:
        page.evaluate(r"() => { document.querySelector('math').innerHTML = '<mi>\\mathrm{x}</mi>'; }")
        assert len(page.evaluate(looking.RAW)) == 1
        page.evaluate("() => { document.querySelector('math').style.display = 'none'; }")
        assert len(page.evaluate(looking.FORMULAS)) == 1
        page.evaluate("() => { document.querySelector('h1').style.width = '3000px'; }")
        assert len(page.evaluate(looking.WIDE)) == 1


# --- the index --------------------------------------------------------------------------------------------------------


def shown(page: Page) -> list[str]:
    return page.eval_on_selector_all(".card[data-words]:not([hidden]) .name", "all => all.map((e) => e.textContent)")


def test_search_finds_by_name_description_and_family(browser: Browser, site: Path) -> None:
    with looking.opened(browser, site / "index.html") as page:
        assert sorted(shown(page)) == sorted(SHOWN)
        for words, found in (
            ("layernorm", ["layernorm"]),
            ("soft max", ["softmax_cross_entropy"]),
            ("Vaswani", ["causal_attention"]),
            ("index(", ["embedding", "softmax_cross_entropy"]),
            ("normalisation ba", ["layernorm"]),
        ):
            page.fill("#search", words)
            assert sorted(shown(page)) == found, words
        assert page.text_content("#found") == "1 op"
        page.fill("#search", "no such op")
        assert shown(page) == []
        assert page.is_visible("#nothing")


def test_search_from_another_page_and_by_keyboard(browser: Browser, site: Path) -> None:
    with looking.opened(browser, site / "ops" / "add.html") as page:
        page.keyboard.press("/")
        page.keyboard.type("embedding")
        page.keyboard.press("Enter")
        page.wait_for_url("**/index.html?q=embedding")
        assert shown(page) == ["embedding"]
        page.focus("#search")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        page.wait_for_url("**/ops/embedding.html")


# --- the page of an op ------------------------------------------------------------------------------------------------


def lit(page: Page) -> list[str]:
    return page.eval_on_selector_all(".lit", "all => all.map((e) => e.textContent.trim().split('\\n')[0])")


@pytest.mark.parametrize("name", SHOWN)
def test_every_equation_has_its_lines_and_every_line_its_equation(browser: Browser, site: Path, name: str) -> None:
    with looking.opened(browser, site / "ops" / f"{name}.html") as page:
        pairs = page.evaluate(looking.PAIRS)
        assert pairs["equations"] > 1
        assert (pairs["alone"], pairs["strange"]) == ([], [])


def test_an_equation_lights_its_lines_and_a_line_its_equation(browser: Browser, site: Path) -> None:
    with looking.opened(browser, site / "ops" / "layernorm.html") as page:
        page.hover("#backward-dx")
        lines = [text for text in lit(page) if " = " in text]
        assert [line.split(" = ")[0] for line in lines] == ["dy_xhat", "mean_dxhat_xhat", "mean_dxhat", "dx"]
        page.hover("h1")
        assert lit(page) == []
        page.focus(".line[data-eq~='forward-rstd']")
        assert page.eval_on_selector_all(".eq.lit", "all => all.map((e) => e.id)") == ["forward-rstd"]
        page.focus("#forward-xhat")
        assert [text.split(" = ")[0] for text in lit(page) if " = " in text] == ["xhat"]


def test_folds_open_by_click_by_key_and_all_at_once(browser: Browser, site: Path) -> None:
    is_open = "all => all.map((d) => d.open)"
    with looking.opened(browser, site / "ops" / "layernorm.html") as page:
        assert not any(page.eval_on_selector_all("#collapse details", is_open))
        page.click("#collapse summary >> nth=0")
        assert page.is_visible("#collapse .step >> nth=0")
        page.focus("#collapse summary >> nth=1")
        page.keyboard.press("Enter")
        assert page.eval_on_selector_all("#collapse details", is_open)[:3] == [True, True, False]
        page.click("[data-fold=collapse]")
        assert all(page.eval_on_selector_all("#collapse details", is_open))
        page.click("[data-fold=collapse]")
        assert not any(page.eval_on_selector_all("#collapse details", is_open))


def test_the_theme_is_the_systems_until_the_reader_chooses(browser: Browser, site: Path) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with looking.served(browser, site, scheme="dark") as page:
        page.goto(f"{looking.BOOK}index.html")
        dark = page.evaluate(colour)
        page.click("#theme")
        light = page.evaluate(colour)
        assert light != dark
        page.goto(f"{looking.BOOK}ops/add.html")
        assert page.evaluate(colour) == light
        assert page.get_attribute("#theme", "aria-pressed") == "false"
