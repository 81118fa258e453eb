"""What a page says of the law behind a step."""

import re
from pathlib import Path

import pytest

from derive.collapse import chain
from derive.show.book.page import law_says

SOURCES = [file.read_text(encoding="utf-8") for file in Path(chain.__file__).parent.glob("*.py")]
NAMED = {law for text in SOURCES for law in re.findall(r'Step\(\s*"(\w+)"', text)}
TOLD = {"complement", "denominator", "eliminate", "magnitude", "open", "product", "relation", "side", "whole"}
"""Those that a step has by a variable."""


@pytest.mark.parametrize("law", sorted(NAMED | TOLD))
def test_every_law_is_stated(law: str) -> None:
    assert law_says(law)
