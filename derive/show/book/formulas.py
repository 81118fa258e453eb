"""LaTeX of the typesetter as MathML: static, accessible, and nothing to run in the browser.

Rows of an `aligned` display become rows of a table of two columns, left of the sign that is aligned and from it on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import unescape
from xml.etree.ElementTree import Element, SubElement, tostring

from latex2mathml.converter import Converter

_ENVIRONMENT = re.compile(r"^\\begin\{(aligned)\}\n(.*)\n\\end\{\1\}$", re.DOTALL)
_NEW_ROW = " \\\\\n"
_TALL = {"mfrac", "mtable", "msqrt", "∑", "∏"}
"""Elements and operators beside which brackets grow."""

_UPRIGHT = re.compile(r"\\(?:mathrm|operatorname)\{([^{}]*)\}")


def display(latex: str) -> str:
    """A displayed formula, one table row for each of its rows."""
    found = _ENVIRONMENT.match(latex)
    rows = (found[2] if found else latex.replace(" = ", " &= ", 1)).split(_NEW_ROW)
    math = Element("math", {"display": "block"})
    table = SubElement(math, "mtable", {"displaystyle": "true", "class": "rows"})
    for row in rows:
        line = SubElement(table, "mtr")
        left, _, right = row.rpartition("&") if row.count("&") == 1 else ("", "", row)
        if r"\begin{cases}" in row:  # whose own cells are set apart by the same sign
            left, _, right = row.partition("&")
        for side in (left, right):
            _put(SubElement(line, "mtd"), side)
    return _text(math)


def inline(latex: str) -> str:
    """A formula in running text."""
    math = Element("math")
    _put(math, latex)
    return _text(math)


def _put(parent: Element, latex: str) -> None:
    if latex.strip():
        parent.append(_row(latex))


@lru_cache(maxsize=4096)
def _row(latex: str) -> Element:
    """One row as an `mrow`. Never changed once it is made: equal formulas share it."""
    named = _UPRIGHT.sub(lambda m: rf"\text{{{m[1].replace(chr(92) + '_', '_')}}}", latex)
    row = next(iter(Converter(display="block").convert_to_element(named)))
    for element in row.iter():
        element.text = unescape(element.text) if element.text else None
        if element.tag == "mtext" and (element.text or "") != "otherwise":
            element.tag = "mi"
            if len(element.text or "") == 1:
                element.set("mathvariant", "normal")
        if not any(inner.tag in _TALL or inner.text in _TALL for inner in element.iter()):
            for fence in element.findall("mo[@fence='true']"):
                fence.set("stretchy", "false")  # browsers leave room beside a bracket that may stretch
    return row


def _text(math: Element) -> str:
    return tostring(math, encoding="unicode", short_empty_elements=False)
