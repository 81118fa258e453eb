"""Expressions in C: values, indices, and the addresses of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from derive.backends.cpu.names import Sizes, length, tensor_name, variable
from derive.backends.cpu.statements.normal import Normal, Unsupported
from derive.backends.cpu.statements.signs import never_positive
from derive.backends.cpu.work import MOST_FACTORS, whole_exponent
from derive.backends.cpu.writer import Count
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.walking import index_axes, walk
from derive.ir.program import (
    COMPARISONS,
    AxisValue,
    Call,
    Index,
    Merged,
    Node,
    Num,
    PartOf,
    Place,
    Read,
    Scal,
    SizeOf,
    Window,
)
from derive.ir.terms.numbers import as_float, held
from derive.primitives import names

_COMMA, _ANY, _SUM, _PRODUCT, _UNARY, _ATOM = 0, 1, 5, 6, 7, 9
"""How strongly parts of an expression hold together in C: `a & b | c` is `(a & b) | c`."""

_BINARY = {"add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "div": ("/", _PRODUCT), "lt": ("<", 4),
           "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4), "eq": ("==", 3), "ne": ("!=", 3), "and": ("&", 2),
           "or": ("|", _ANY)}  # fmt: skip
_FUNCTIONS = names(lambda r: r.name != "polygamma" and (r.units is not None or r.means)) | {"rounded"}
_EXTREMA = {"maximum": "larger", "minimum": "smaller"}


@dataclass(frozen=True)
class Text:
    """Source text and how strongly it binds; `kind` is "real", "int", "bool", or "number" (known before any loop)."""

    code: str
    strength: int = _ATOM
    kind: str = "real"

    def inside(self, strength: int) -> str:
        return f"({self.code})" if self.strength < strength else self.code

    @property
    def real(self) -> Text:
        """The same as a real: numbers are rounded once, as torch rounds Python's."""
        if self.kind == "number" and not self.code.isdecimal():
            return Text(f"R({self.code})")
        return Text(f"(real){self.inside(_UNARY)}", _UNARY) if self.kind in ("int", "bool") else self


@dataclass
class Expressions:
    """Prints nodes. `element` says how a tensor's element is read where it is no plain memory."""

    normal: Normal
    element: Callable[[Read], str | None] = lambda read: None
    size: Sizes = length

    def name(self, tensor: str) -> str:
        """A tensor's name in C."""
        return tensor_name(tensor)

    # --- values --------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Text:
        if isinstance(node, Read):
            return self.read(node)
        if isinstance(node, Num):
            return number(node)
        if isinstance(node, Scal):
            return Text(self.name(node.name), kind="number")
        if isinstance(node, SizeOf):
            return Text(f"(double){length(node.axis)}", _UNARY, "number")
        if isinstance(node, AxisValue):
            start, here = self.normal.places.get(node.axis), variable(node.axis)
            return Text(f"{start} + {here}", _SUM, "int") if start else Text(here, kind="int")
        if isinstance(node, Call):
            return self.call(node)
        raise Unsupported(f"{type(node).__name__.lower()} inside an expression")

    def real(self, node: Node) -> str:
        return self.value(node).real.code

    def read(self, node: Read) -> Text:
        kind = "int" if node.name in self.normal.integers else "bool" if node.name in self.normal.booleans else "real"
        found = f"{self.name(node.name)}_here" if node.name in self.normal.numbers else self.element(node)
        return Text(found if found is not None else f"{self.name(node.name)}[{self.offset(node)}]", kind=kind)

    def call(self, node: Call) -> Text:
        """A function or an operator of its arguments; of numbers alone it is a number, known before any loop."""
        args = self.arguments(node)
        known = all(a.kind == "number" for a in args)
        if node.fn in _BINARY:
            return _binary(node.fn, args, known)
        if node.fn == "not":
            return Text(f"!{args[0].inside(_UNARY)}", _UNARY, "bool")
        if node.fn == "neg":
            arg = args[0] if known else args[0].real
            return Text(f"-{arg.inside(_UNARY)}", _UNARY, "number" if known else "real")
        if node.fn == "where":
            return _chosen(args, known)
        if node.fn in ("pi", "e"):
            return Text(repr(getattr(math, node.fn)), kind="number")
        if node.fn == "pow":
            return self.power(node, args, known)
        return self.function(node, args, known)

    def arguments(self, node: Call) -> list[Text]:
        """What a function takes: a comparison whole numbers, where both sides are; `and` and `or` what holds, of a
        comparison that waits in a row of numbers whether it is not 0.
        """
        args = [self.value(a) for a in node.args]
        if node.fn in ("and", "or"):
            sign, strength = _BINARY["ne"]
            rows = [isinstance(a, Read) for a in node.args]
            args = [Text(f"{a.inside(strength + 1)} {sign} 0", strength, "bool") if row else a
                    for a, row in zip(args, rows, strict=True)]  # fmt: skip
            return args
        if node.fn in COMPARISONS:
            counted = [self.counted(a) for a in node.args]
            return args if None in counted else counted  # type: ignore[return-value]
        return args

    def function(self, node: Call, args: list[Text], known: bool) -> Text:
        """A function by its name in C, of numbers in double precision. Raises Unsupported for one that C has not."""
        name = node.fn
        if name == "polygamma" and node.args[0] == ONE:
            name, args = "trigamma", args[1:]
        elif name not in _FUNCTIONS:
            raise Unsupported(f"the function {name}")
        if known:
            return Text(f"number_{name}({', '.join(a.code for a in args)})", kind="number")
        if name == "exp" and never_positive(node.args[0], self.normal):
            name = "exp_up_to_0"
        name = _EXTREMA.get(name, f"real_{name}")
        return Text(f"{name}({', '.join(a.real.code for a in args)})")

    def counted(self, node: Node) -> Text | None:
        """Places, lengths and integers, added and multiplied as such: a real holds no larger ones than 2**24.

        The caller's numbers among them are what C makes of both: doubles, which are whole or not.
        """
        if isinstance(node, Call) and node.fn == "neg":
            node = Call("sub", (ZERO, *node.args))
        if isinstance(node, Call) and node.fn == "pow" and whole_exponent(node) == 2:
            node = Call("mul", (node.args[0], node.args[0]))
        if isinstance(node, Call) and node.fn == "maximum":
            found = [t.inside(_SUM) for t in map(self.counted, node.args) if t is not None]
            return Text(f"({found[0]} > {found[1]} ? {found[0]} : {found[1]})", kind="int") if len(found) == 2 else None
        if isinstance(node, Call) and node.fn in ("add", "sub", "mul"):
            left, right = (self.counted(a) for a in node.args)
            sign, strength = _BINARY[node.fn]
            if left is None or right is None:
                return None
            return Text(f"{left.inside(strength)} {sign} {right.inside(strength + 1)}", strength, "int")
        whole = isinstance(node, Num) and isinstance(node.value, Fraction) and node.value.denominator == 1
        counts = whole or isinstance(node, AxisValue | SizeOf | Scal | Read)
        text = self.value(node) if counts else None
        return text if text is not None and text.kind in ("int", "number") else None

    def power(self, node: Call, args: list[Text], known: bool) -> Text:
        exponent = node.args[1]
        if known and isinstance(exponent, Num) and exponent.value == 2 and args[0].strength == _ATOM:
            return Text(f"{args[0].code} * {args[0].code}", 5, "number")
        if known:
            return Text(f"number_pow({args[0].code}, {args[1].code})", kind="number")
        if (whole := whole_exponent(node)) is not None:
            inner, x = node.args[0], args[0].real.code
            below = whole_exponent(inner) if isinstance(inner, Call) and inner.fn == "pow" else None
            if below is not None and below * whole <= MOST_FACTORS:  # the square of a square: rounded once
                whole, x = below * whole, self.real(inner.args[0])  # type: ignore[union-attr]
            known_as = {2: "square", 3: "cube"}.get(whole)
            return Text(f"{known_as}({x})" if known_as else f"whole_power({x}, {whole})")
        if (places := self.counted(exponent)) is not None and places.kind == "int" and not _has_scalars(exponent):
            return Text(f"power_by_place({args[0].real.code}, {places.code})")
        return Text(f"real_pow({args[0].real.code}, {args[1].real.code})")

    # --- indices -------------------------------------------------------------------------------------------

    def offset(self, read: Read, skip: frozenset[str] = frozenset()) -> str:
        """The number of an element in memory, the last dimension fastest; `skip` leaves dimensions out."""
        code, strength = "", _ATOM
        for dim, index in self._places(read, skip):
            at = self.index(index)
            if not code:
                code, strength = at.code, at.strength
                continue
            left = code if strength >= _PRODUCT else f"({code})"
            code, strength = f"{left} * {self.extent(dim)} + {at.inside(_SUM)}", _SUM
        return code or "0"

    def _places(self, read: Read, skip: frozenset[str]) -> list[tuple[Index, Index]]:
        """Dimensions and the places on them, without the dimensions over the axes to skip."""
        out: list[tuple[Index, Index]] = []
        for dim, index in zip(self.normal.dims[read.name], read.index, strict=True):
            if isinstance(dim, Merged) and isinstance(index, Merged) and skip & set(index_axes(dim)):
                out += [(a, a) for a in index.axes if a not in skip]
            elif dim not in skip:
                out.append((dim, index))
        return out

    def extent(self, dim: Index) -> str:
        """The length of a dimension."""
        if isinstance(dim, str):
            return self.size(dim)
        if isinstance(dim, Place):
            return self.integer(dim.length)
        if not isinstance(dim, Merged):
            raise Unsupported("one place inside a merge")
        return f"({' * '.join(self.extent(a) for a in dim.axes)})"

    def count(self, dims: tuple[Index, ...]) -> str:
        """How many elements a tensor of these dimensions has."""
        return " * ".join(self.extent(d) for d in dims) or "1"

    def memory(self, dims: tuple[Index, ...]) -> Count:
        """The same for scratch memory."""
        return lambda size, _: replace(self, size=size).count(dims)

    def index(self, i: Index) -> Text:
        if isinstance(i, str):
            return Text(variable(i))
        if isinstance(i, Place):
            return self.index(i.index)
        if isinstance(i, Merged):
            out = self.index(i.axes[0])
            for a in i.axes[1:]:
                out = Text(f"{out.inside(_PRODUCT)} * {self.extent(a)} + {self.index(a).inside(_SUM)}", _SUM)
            return out
        if isinstance(i, PartOf):
            whole = self.index(i.whole).inside(_PRODUCT)
            tail = [self.integer(n) for n in i.lengths[i.position + 1 :]]
            code = f"{whole} / ({' * '.join(tail)})" if tail else whole
            return Text(code if i.position == 0 else f"({code}) % ({self.integer(i.lengths[i.position])})", _PRODUCT)
        if isinstance(i, Window):
            parts = [variable(a) if s == 1 else f"{s} * {variable(a)}" for a, s in i.steps]
            if i.offset != ZERO or not parts:
                parts.append(self.integer(i.offset))
            return Text(" + ".join(parts), _SUM if len(parts) > 1 or "*" in parts[0] else _ATOM)
        if not isinstance(i, Read):
            raise Unsupported("one place inside a merge")
        found = self.element(i)
        return Text(found if found is not None else f"{self.name(i.name)}[{self.offset(i)}]")

    def integer(self, node: Node) -> str:
        """Whole-number arithmetic on lengths; quotients are whole, too."""
        if isinstance(node, SizeOf):
            return self.size(node.axis)
        if isinstance(node, Scal) and node.name in self.normal.starts:
            return node.name
        if isinstance(node, Num) and Fraction(node.value).denominator == 1:
            return str(int(node.value))
        if isinstance(node, Call) and node.fn in ("add", "sub", "mul", "div"):
            return f"({f' {_BINARY[node.fn][0]} '.join(self.integer(a) for a in node.args)})"
        if isinstance(node, Call) and node.fn == "neg":
            return f"(-{self.integer(node.args[0])})"
        raise Unsupported(f"the offset {node}")


def _chosen(args: list[Text], known: bool) -> Text:
    """One of two values by a condition."""
    condition, a, b = (x.inside(_ANY) for x in (args[0], *(x if known else x.real for x in args[1:])))
    if not known and a.isdecimal() and b.isdecimal():
        a = f"R({a})"  # else both are whole numbers to C, which divides them as such
    return Text(f"{condition} ? {a} : {b}", _COMMA, "number" if known else "real")


def _has_scalars(node: Node) -> bool:
    """Whether it is made of the caller's numbers, which need not be whole."""
    return any(isinstance(n, Scal) for n in walk(node))


def _binary(fn: str, args: list[Text], known: bool) -> Text:
    """An operator between two, whole numbers compared and numbers calculated as such, all else as reals."""
    sign, strength = _BINARY[fn]
    compares = fn in COMPARISONS
    logic = fn in ("and", "or")
    if compares:
        whole = all(a.kind in ("int", "number") for a in args)
        args = args if whole else [a.real for a in args]
    elif not logic and not known:
        args = [a.real for a in args]
    elif known and fn == "div":
        args = [Text(f"(double){args[0].inside(_UNARY)}", _UNARY), args[1]]
    right = strength + 1 if fn in ("sub", "div", "mul") or compares else strength
    code = f" {sign} ".join([args[0].inside(strength), *(a.inside(right) for a in args[1:])])
    return Text(code, strength, "bool" if compares or logic else "number" if known else "real")


def number(node: Num) -> Text:
    """A constant: whole numbers as they are, others in double precision."""
    value = held(node.value)
    if isinstance(value, float):
        if math.isinf(value):
            return Text("-INFINITY" if value < 0 else "INFINITY", _UNARY if value < 0 else _ATOM, "number")
        return Text(repr(value), _ATOM if value >= 0 else _UNARY, "number")
    negative = value < 0
    strength = _UNARY if negative else _ATOM
    if value.denominator == 1 and abs(value) < 2**24:
        return Text(str(value.numerator), strength, "number")
    if (decimal := as_float(value)) is not None:
        return Text(decimal, strength, "number")
    return Text(f"{value.numerator}.0 / {value.denominator}.0", _PRODUCT, "number")
