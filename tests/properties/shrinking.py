"""A failing example made small: fewer and plainer choices, as long as it fails in the same way."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.properties.grammar import Draw, Example, example

Fails = Callable[[Example], bool]


class Choices:
    """Whole numbers on request: those of a list, then the plainest (or random ones); all that were given are kept."""

    def __init__(self, start: list[int], rest: random.Random | None = None):
        self.start, self.rest, self.given = start, rest, list[int]()

    def __call__(self, low: int, high: int) -> int:
        at = len(self.given)
        if at < len(self.start):
            number = min(max(low, low + self.start[at]), high)
        else:
            number = low if self.rest is None else self.rest.randint(low, high)
        self.given.append(number - low)
        return number


def numbered(seed: int, number: int) -> tuple[Example, list[int]]:
    """The random example of that number, and the choices that make it."""
    draw = Choices([], random.Random(f"{seed} {number}"))
    return example(draw), draw.given


def shrunk(choices: list[int], fails: Fails, tries: int = 400) -> Example:
    """The plainest example found that still fails. `tries` bounds how often one is judged."""
    best, left = choices, tries

    def accepts(candidate: list[int]) -> bool:
        nonlocal best, left
        if left <= 0:
            return False
        left -= 1
        draw: Draw = Choices(candidate)
        made = example(draw)
        given = draw.given  # type: ignore[attr-defined]
        while given and given[-1] == 0:
            given.pop()
        if (len(given), sum(given)) >= (len(best), sum(best)) or not fails(made):
            return False
        best = given
        return True

    before = None
    while before != best and left > 0:
        before = best
        for width in (32, 16, 8, 4, 2, 1):
            at = 0
            while at < len(best) and left > 0:
                if not accepts(best[:at] + best[at + width :]):
                    zeroed = best[:at] + [0] * min(width, len(best) - at) + best[at + width :]
                    if not any(best[at : at + width]) or not accepts(zeroed):
                        at += width
        for at in range(len(best)):
            if at < len(best) and best[at] > 1:
                accepts([*best[:at], best[at] // 2, *best[at + 1 :]]) or accepts(
                    [*best[:at], best[at] - 1, *best[at + 1 :]]
                )
    return example(Choices(best))
