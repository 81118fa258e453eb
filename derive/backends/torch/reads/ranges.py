"""`torch.arange(n, …)` under a name, `n_range`, where it is written more than once; of real numbers, `n_numbers`.

So is one of distances, `distances`, or `i_minus_j` of places on two axes, and so are two ranges compared,
`i_is_not_j`, or `off_diagonal` where both are of one length, and a dimension of an input that is taken apart again and
again, `x_apart`. The place of two indices, `y * w + x`, is `y_x`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from derive.backends.values import Line

_RANGE = re.compile(r"torch\.arange\((\w+), device=[\w.]+(, dtype=[\w.]+)?\)")

_DISTANCES = re.compile(r"torch\.arange\(-(\w+), (\w+), device=[\w.]+, dtype=[\w.]+\)")

_VIEW = r"(?:\[(?:\.\.\.|:|None)(?:, (?:\.\.\.|:|None))*\])?"
_COMPARED = re.compile(rf"(?<=\()(\w+)_range({_VIEW}) (==|!=|<=|>=|<|>) (\w+)_range{_VIEW}(?=[,)])")
_WORDS = {"==": "is", "!=": "is_not", "<": "before", "<=": "up_to", ">": "after", ">=": "from"}
_OF_ROWS = {"==": "on_diagonal", "!=": "off_diagonal", "<": "above_diagonal", "<=": "upper_triangle",
            ">": "below_diagonal", ">=": "lower_triangle"}  # fmt: skip
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}

_OFTEN = 3
"""How often the same view may be written before it gets a name."""

_VIEWS = {
    "apart": re.compile(r"\b(\w+)\.unflatten\(-?\d+, \([\w *]+(?:, [\w *]+)*\)\)"),
    "flat": re.compile(r"\b(\w+)\.flatten\(-?\d+, -?\d+\)"),
}
_PLACE = re.compile(r"\((\w+) \* \w+ \+ (\w+)\)(?:\[[^\]]*\])*(?:\.(?:expand|flatten|reshape)\([^()]*\))*")
"""The place that two indices name among those of two dimensions as one, and what looks at it."""


def repeated_named(
    lines: Sequence[Line], given: Container[str], indices: Container[str], unused: Callable[[str], str]
) -> list[Line]:
    """The lines with all of these under names; `given` is what a function is given, `indices` its integers."""
    made: set[str] = set()

    def free(wanted: str) -> str:
        name = unused(wanted)
        while name in made:  # two views of one comparison are wanted under one name
            name += "_"
        made.add(name)
        return name

    return views_named(places_named(ranges_named(lines, free), indices, free), given, free)


def views_named(lines: Sequence[Line], given: Container[str], unused: Callable[[str], str]) -> list[Line]:
    """The lines with a merged dimension of what is given taken apart once, `x_apart`, where that is written often.

    So are two dimensions as one, `x_flat`.
    """
    out = list(lines)
    for end, view in _VIEWS.items():
        found = Counter((m[0], m[1]) for line in out for m in view.finditer(line.code) if m[1] in given)
        for (code, tensor), count in found.items():
            if count >= _OFTEN:
                out = _named(out, code, unused(f"{tensor}_{end}"))
    return out


def places_named(lines: Sequence[Line], indices: Container[str], unused: Callable[[str], str]) -> list[Line]:
    """The lines with the place that two of these indices name computed once, `y_x`, where it is written twice."""
    out = list(lines)
    places = (m for line in out for m in _PLACE.finditer(line.code) if m[1] in indices and m[2] in indices)
    for (code, name), count in Counter((m[0], f"{m[1]}_{m[2]}") for m in places).items():
        if count > 1:
            out = _named(out, code, unused(name))
    return out


def ranges_named(lines: Sequence[Line], unused: Callable[[str], str]) -> list[Line]:
    """The lines with each such range, and two compared, made once, in front of the first use.

    `unused` makes a name that nothing has.
    """
    out = list(lines)
    counts: dict[tuple[str, str], int] = {}
    for line in out:
        for found in _RANGE.finditer(line.code):
            named = found[0], _name(found[1], "numbers" if found[2] else "range")
            counts[named] = counts.get(named, 0) + 1
        for found in _DISTANCES.finditer(line.code):
            named = found[0], "distances" if found[1] == found[2] else f"{found[2]}_minus_{found[1]}"
            counts[named] = counts.get(named, 0) + 1
    for (code, wanted), count in counts.items():
        if count < 2:
            continue
        out = _named(out, code, unused(wanted))
    compared = Counter((m[0], _comparison(m)) for line in out for m in _COMPARED.finditer(line.code))
    for (code, wanted), count in compared.items():
        if count > 1:
            out = _without_brackets(_named(out, code, name := unused(wanted)), name)
    return out


def _comparison(found: re.Match[str]) -> str:
    """`i_before_j`; of the rows of a square matrix with its columns, where in it the comparison holds."""
    first, view, sign, second = found.groups()
    if first != second:
        return f"{first}_{_WORDS[sign]}_{second}"
    return _OF_ROWS[sign if view.endswith("None]") else _TURNED.get(sign, sign)]


def _without_brackets(lines: list[Line], name: str) -> list[Line]:
    """The lines with no brackets around this name alone, which a comparison needed beside `&`; those of calls stay."""
    return [replace(line, code=re.sub(rf"(?<![\w)\]])\({name}\)", name, line.code)) for line in lines]


def _name(length: str, kind: str) -> str:
    """`n_range`; `range_2` of a length that is a number."""
    return f"{kind}_{length}" if length.isdecimal() else f"{length}_{kind}"


def _named(lines: list[Line], code: str, name: str) -> list[Line]:
    """The lines with this code under a name, made in front of its first use.

    `i == j[:, None]` is no view of `i == j`, and `x.unflatten(…)` not what `max_x.unflatten(…)` ends in.
    """
    ends = "" if code.endswith(")") else r"(?![\w\[])"
    whole = re.compile(rf"(?<![\w.]){re.escape(code)}{ends}")
    first = next(k for k, line in enumerate(lines) if whole.search(line.code))
    while lines[first].code.startswith(" "):  # inside a loop
        first -= 1
    users = frozenset().union(*(line.part_of for line in lines if whole.search(line.code)))
    out = [replace(line, code=whole.sub(name, line.code)) for line in lines]
    return [*out[:first], Line(f"{name} = {code}", part_of=users), *out[first:]]
