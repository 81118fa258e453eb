"""One browser and one small site for all tests of a worker."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from derive.catalogue import catalogue, find
from derive.show.book.lessons import read_lessons
from derive.show.book.site import book, write_book

ROOT = Path(__file__).parent.parent.parent
LESSONS = ROOT / "docs" / "lessons"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SHOWN = ("layernorm", "causal_attention", "softmax_cross_entropy", "embedding", "add", "max_pool2d")
"""Ops whose pages hold all that a page can: identities, choices, gathers, windows, no collapse, gradients passed on."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium. Without one these tests are left out, unless BROWSER_TESTS=required, as in continuous integration."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        message = f"the book's pages need a browser: none of {', '.join(NAMES)} is installed (apt-get install chromium)"
        if os.environ.get("BROWSER_TESTS") == "required":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book of a few ops, with the lessons."""
    out = tmp_path_factory.mktemp("site")
    ops = catalogue()
    write_book(book([find(name, ops) for name in SHOWN], lessons=read_lessons(LESSONS, ops)), out)
    return out
