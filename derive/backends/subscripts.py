"""Two subscripts of views one after the other as one: `x[:, 0][:, None]` is `x[:, 0, None]`."""

from __future__ import annotations

import re

_LAST = re.compile(r"(?<=[\w)\]])\[([^\[\]()]*)\]$")
_PLAIN = re.compile(r":|None|\d+|[\w +*-]*:[\w +*-]*")
"""A dimension as it is, a new one, a place by its number, a slice; by a name it might be a tensor that indexes."""


def subscripted(code: str, call: str) -> str:
    """The code with a subscript behind it, as one with the subscript that it ends in where both are of views."""
    last, more = _LAST.search(code), _LAST.search(f"_{call}")
    if last is None or more is None or f"_{call}" != f"_{more[0]}":
        return code + call
    items = _composed(_items(last[1]), _items(more[1]))
    return code + call if items is None else f"{code[: last.start()]}[{', '.join(items)}]"


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _composed(first: list[str], then: list[str]) -> list[str] | None:
    """What two subscripts select one after the other; None where one cannot say it."""
    if first[0] == then[0] == "...":
        turned = _composed(first[:0:-1], then[:0:-1])
        return None if turned is None else ["...", *turned[::-1]]
    if not all(_PLAIN.fullmatch(i) for i in (*first, *then)):
        return None
    out: list[str] = []
    left = list(first)
    for item in then:
        while left and left[0].isdigit():
            out.append(left.pop(0))
        if item == "None":
            out.append(item)
            continue
        here = left.pop(0) if left else ":"
        if here != ":" and item != ":":
            return None
        out.append(here if item == ":" else item)
    return out + left
