"""Code of PyTorch as a tree: names, calls, methods, operators. Decisions are taken on it; `str` prints it, and decides
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace

ATOM, POWER, UNARY, PRODUCT, SUM, COMPARISON, CHOICE = 6, 5, 4, 3, 2, 1, 0
"""How strongly code binds."""

_SIGNS = {"**": POWER, "+": SUM, "-": SUM} | dict.fromkeys(("*", "/", "//", "%", "@"), PRODUCT)
_LOGIC = ("&", "|")


@dataclass(frozen=True)
class Code:
    """Part of an expression."""

    @property
    def strength(self) -> int:
        return ATOM

    def inside(self, strength: int) -> str:
        """The text, in parentheses if it binds less strongly than its surroundings."""
        return f"({self})" if self.strength < strength else str(self)

    @property
    def parts(self) -> Iterator[Code]:
        """The code that it is made of, in the order of the text."""
        for f in fields(self):
            value = getattr(self, f.name)
            for part in value if isinstance(value, tuple) else (value,):
                found = part[1] if isinstance(part, tuple) else part
                if isinstance(found, Code):
                    yield found


@dataclass(frozen=True)
class Text(Code):
    """A number, or what Python calculates of numbers, as it is written."""

    text: str
    binds: int = ATOM

    @property
    def strength(self) -> int:
        return self.binds

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Name(Code):
    """A variable of the function."""

    id: str

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True)
class Called(Code):
    """A function of torch's, or of the package's own."""

    function: str
    args: tuple[Code, ...]
    options: tuple[tuple[str, Code], ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({_listed(self.args, self.options)})"


@dataclass(frozen=True)
class Method(Code):
    on: Code
    name: str
    args: tuple[Code, ...] = ()
    options: tuple[tuple[str, Code], ...] = ()

    def __str__(self) -> str:
        return f"{self.on.inside(ATOM)}.{self.name}({_listed(self.args, self.options)})"


@dataclass(frozen=True)
class Field(Code):
    on: Code
    name: str

    def __str__(self) -> str:
        return f"{self.on.inside(ATOM)}.{self.name}"


@dataclass(frozen=True)
class Item(Code):
    """What a subscript selects."""

    on: Code
    items: tuple[Code, ...]

    def __str__(self) -> str:
        return f"{self.on.inside(ATOM)}[{_listed(self.items)}]"


@dataclass(frozen=True)
class Slice(Code):
    """Of one dimension; all of it, where nothing is said."""

    start: str = ""
    stop: str = ""
    step: int = 1

    def __str__(self) -> str:
        return f"{self.start}:{self.stop}" + ("" if self.step == 1 else f":{self.step}")


@dataclass(frozen=True)
class Listed(Code):
    """A list of tensors; in parentheses, a tuple."""

    items: tuple[Code, ...]
    is_tuple: bool = False

    def __str__(self) -> str:
        inner = _listed(self.items)
        return f"({inner}{',' if len(self.items) == 1 else ''})" if self.is_tuple else f"[{inner}]"


@dataclass(frozen=True)
class Infix(Code):
    """Two operands and the sign between them."""

    sign: str
    left: Code
    right: Code

    @property
    def strength(self) -> int:
        return _SIGNS.get(self.sign, COMPARISON)

    def __str__(self) -> str:
        left = right = ATOM if self.sign in _LOGIC else self.strength
        if self.sign == "**":
            left += 1
        elif self.sign not in _LOGIC:
            right += 2 if left == PRODUCT and self.sign != "@" and has_product(self.right) else 1
        if self.sign in _LOGIC and isinstance(self.left, Infix) and self.left.sign == self.sign:
            left = COMPARISON
        return f"{self.left.inside(left)} {self.sign} {self.right.inside(right)}"


@dataclass(frozen=True)
class Prefix(Code):
    """An operand and the sign in front of it; `-(a * b)` where it stands `apart`."""

    sign: str
    operand: Code
    apart: bool = False

    @property
    def strength(self) -> int:
        if self.sign == "not ":
            return COMPARISON
        return UNARY if self.apart else max(PRODUCT, min(self.operand.strength, UNARY))

    def __str__(self) -> str:
        least = COMPARISON if self.sign == "not " else ATOM if self.apart else PRODUCT
        return f"{self.sign}{self.operand.inside(least)}"


@dataclass(frozen=True)
class Pick(Code):
    """One of two by a condition that Python asks."""

    first: Code
    condition: Code
    second: Code

    @property
    def strength(self) -> int:
        return CHOICE

    def __str__(self) -> str:
        return f"{self.first.inside(COMPARISON)} if {self.condition} else {self.second}"


@dataclass(frozen=True)
class Each(Code):
    """The head of a loop over so many places."""

    name: str
    count: str

    def __str__(self) -> str:
        return f"for {self.name} in range({self.count}):"


ALL, REST, NEW = Slice(), Text("..."), Text("None")
"""In a subscript: a dimension as it is, all that are not named, a new one of length 1."""


def _listed(args: tuple[Code, ...], options: tuple[tuple[str, Code], ...] = ()) -> str:
    return ", ".join([*map(str, args), *(f"{name}={value}" for name, value in options)])


def as_code(value: object) -> Code:
    """A value's code; words as a name, any other text or number as it is written."""
    value = getattr(value, "code", value)
    if isinstance(value, Code):
        return value
    text = str(value)
    return Name(text) if text.isidentifier() and text not in ("True", "None") else Text(text)


def call(function: str, *args: object, **options: object) -> Called:
    """A call; options that are None are none."""
    return Called(function, tuple(map(as_code, args)), _options(options))


def method(on: object, name: str, *args: object, **options: object) -> Method:
    return Method(as_code(on), name, tuple(map(as_code, args)), _options(options))


def _options(options: dict[str, object]) -> tuple[tuple[str, Code], ...]:
    return tuple((name, as_code(value)) for name, value in options.items() if value is not None)


def together(lengths: Iterable[object]) -> Listed:
    """Lengths, or dimensions, as one argument."""
    return Listed(tuple(map(as_code, lengths)), is_tuple=True)


def infix(sign: str, left: object, right: object) -> Infix:
    """Two operands and a sign; a sum is added from the left."""
    first, second = as_code(left), as_code(right)
    if sign == "+" and isinstance(second, Infix) and second.strength == SUM:
        return Infix(second.sign, infix("+", first, second.left), second.right)
    return Infix(sign, first, second)


def negative(code: Code) -> Code:
    """Minus some code: of a product, with the sign at its first factor."""
    if isinstance(code, Infix) and code.strength == PRODUCT:
        return Infix(code.sign, negative(code.left), code.right)
    return Prefix("-", code)


def below(code: Code) -> Iterator[Code]:
    """A tree and all that is in it, in the order of the text."""
    yield code
    for part in code.parts:
        yield from below(part)


def has_product(code: Code) -> bool:
    """Whether matrices are multiplied in it with `@`."""
    return any(isinstance(c, Infix) and c.sign == "@" for c in below(code))


def put(code: Code, change: Callable[[Code], Code | None]) -> Code:
    """The tree with what `change` gives in the place of the parts that it gives something for, outer ones first."""
    if (new := change(code)) is not None:
        return new

    def within(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(within, value))
        return put(value, change) if isinstance(value, Code) else value

    return replace(code, **{f.name: within(getattr(code, f.name)) for f in fields(code)})


def selected(on: Code, items: tuple[Code, ...]) -> Item:
    """A subscript; with one of views in front of it as one: `x[:, 0][:, None]` is `x[:, 0, None]`."""
    if isinstance(on, Item) and (both := _composed(on.items, items)) is not None:
        return Item(on.on, both)
    return Item(on, items)


def _composed(first: tuple[Code, ...], then: tuple[Code, ...]) -> tuple[Code, ...] | None:
    """What two subscripts select one after the other; None where one cannot say it."""
    if first[0] == then[0] == REST:
        turned = _composed(first[:0:-1], then[:0:-1])
        return None if turned is None else (REST, *turned[::-1])
    if not all(_is_plain(i) for i in (*first, *then)):
        return None
    out: list[Code] = []
    left = list(first)
    for item in then:
        while left and is_place(left[0]):
            out.append(left.pop(0))
        if item == NEW:
            out.append(item)
            continue
        here = left.pop(0) if left else ALL
        if here != ALL and item != ALL:
            return None
        out.append(here if item == ALL else item)
    return (*out, *left)


def _is_plain(item: Code) -> bool:
    """Whether it is a slice, a new dimension, or a place by its number; by a name it might be a tensor that indexes."""
    return isinstance(item, Slice) or item == NEW or is_place(item)


def is_place(item: Code) -> bool:
    """Whether it is the number of a place."""
    return isinstance(item, Text) and item.text.isdecimal()
