"""`torch.arange(n, …)` under a name, `n_range`, where it is written more than once; of real numbers, `n_numbers`.

So is one of distances, `distances`, or `i_minus_j` of places on two axes, and so are two ranges compared,
`i_is_not_j`, or `off_diagonal` where both are of one length, and a dimension of an input that is taken apart again and
again, `x_apart`. The place of two indices, `y * w + x`, is `y_x`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace

from derive.backends.code import ALL, NEW, REST, Called, Code, Infix, Item, Method, Name, Prefix, below, put
from derive.backends.values import Line

_WORDS = {"==": "is", "!=": "is_not", "<": "before", "<=": "up_to", ">": "after", ">=": "from"}
_OF_ROWS = {"==": "on_diagonal", "!=": "off_diagonal", "<": "above_diagonal", "<=": "upper_triangle",
            ">": "below_diagonal", ">=": "lower_triangle"}  # fmt: skip
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}

_OFTEN = 3
"""How often the same view may be written before it gets a name."""

_VIEWS = {"unflatten": "apart", "flatten": "flat"}
_LOOKS = ("expand", "flatten", "reshape")


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
    for method, end in _VIEWS.items():
        found = Counter(c for c in _every(out) if isinstance(c, Method) and c.name == method and len(c.args) == 2)
        for code, count in found.items():
            if count >= _OFTEN and isinstance(code.on, Name) and code.on.id in given:
                out = _named(out, code, unused(f"{code.on.id}_{end}"))
    return out


def places_named(lines: Sequence[Line], indices: Container[str], unused: Callable[[str], str]) -> list[Line]:
    """The lines with the place that two of these indices name computed once, `y_x`, where it is written twice."""
    out = list(lines)
    for code, count in Counter(p for line in out for p in _places(line.value, indices)).items():
        if count > 1:
            out = _named(out, code, unused(_of_two(code, indices)))
    return out


def _places(code: Code, indices: Container[str]) -> Iterator[Code]:
    """The places that two indices name among those of two dimensions as one, each with all that looks at it."""
    if _of_two(code, indices):
        yield code
        return
    for part in code.parts:
        yield from _places(part, indices)


def _of_two(code: Code, indices: Container[str]) -> str:
    """`y_x` for a view of `y * w + x`; nothing for other code."""
    while isinstance(code, Item) or (isinstance(code, Method) and code.name in _LOOKS):
        code = code.on
    times = code.left if isinstance(code, Infix) and code.sign == "+" else None
    first = times.left if isinstance(times, Infix) and times.sign == "*" else None
    both = (first, code.right) if isinstance(code, Infix) else ()
    return "_".join(n.id for n in both if isinstance(n, Name)) if all(_is_of(n, indices) for n in both) else ""


def _is_of(code: Code | None, names: Container[str]) -> bool:
    return isinstance(code, Name) and code.id in names


def ranges_named(lines: Sequence[Line], unused: Callable[[str], str]) -> list[Line]:
    """The lines with each such range, and two compared, made once, in front of the first use.

    `unused` makes a name that nothing has.
    """
    out = list(lines)
    ranges: dict[str, str] = {}  # of which length those are that have names
    for code, count in Counter(c for c in _every(out) if isinstance(c, Called) and _range(c)).items():
        if count > 1:
            name = unused(_range(code))
            if len(code.options) == len(code.args) == 1 and isinstance(code.args[0], Name):
                ranges[name] = code.args[0].id
            out = _named(out, code, name)
    compared = Counter(c for line in out for p in line.value.parts for c in below(p) if _comparison(c, ranges))
    for asked, count in compared.items():
        if count > 1:
            out = _named(out, asked, unused(_comparison(asked, ranges)))
    return out


def _range(code: Called) -> str:
    """What a range over an axis is called, or one of distances; nothing for other calls."""
    if code.function != "torch.arange" or not all(str(_apart(a)).isidentifier() or _is_number(a) for a in code.args):
        return ""
    if len(code.args) == 1:
        length, kind = str(code.args[0]), "numbers" if len(code.options) > 1 else "range"
        return f"{kind}_{length}" if length.isdecimal() else f"{length}_{kind}"
    first, second = _apart(code.args[0]), code.args[1]
    return "distances" if first == second else f"{second}_minus_{first}"


def _apart(code: Code) -> Code:
    return code.operand if isinstance(code, Prefix) else code


def _is_number(code: Code) -> bool:
    return str(_apart(code)).isdecimal()


def _comparison(code: Code, ranges: Mapping[str, str]) -> str:
    """`i_before_j`; of the rows of a square matrix with its columns, where in it the comparison holds."""
    if not isinstance(code, Infix) or code.sign not in _WORDS:
        return ""
    (first, items), (second, others) = map(_viewed, (code.left, code.right))
    if first not in ranges or second not in ranges or not {*items, *others} <= {ALL, NEW, REST}:
        return ""
    if ranges[first] != ranges[second]:
        return f"{ranges[first]}_{_WORDS[code.sign]}_{ranges[second]}"
    return _OF_ROWS[code.sign if items[-1:] == (NEW,) else _TURNED.get(code.sign, code.sign)]


def _viewed(code: Code) -> tuple[str, tuple[Code, ...]]:
    """The name of what is looked at, and at what of it."""
    on, items = (code.on, code.items) if isinstance(code, Item) else (code, ())
    return (on.id if isinstance(on, Name) else ""), items


def _every(lines: Sequence[Line]) -> Iterator[Code]:
    """All code in some lines, in the order of the text."""
    return (c for line in lines for c in below(line.value))


def _named(lines: list[Line], code: Code, name: str) -> list[Line]:
    """The lines with this code under a name, made in front of its first use."""
    using = [k for k, line in enumerate(lines) if code in below(line.value)]
    first = using[0]
    while lines[first].depth:
        first -= 1
    out = [replace(line, value=put(line.value, lambda c: Name(name) if c == code else None)) for line in lines]
    users = frozenset().union(*(lines[k].part_of for k in using))
    return [*out[:first], Line(code, Name(name), part_of=users), *out[first:]]
