"""What a spec's body works with: the frame `f`, and handles of tensors that are read by giving their axes."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Protocol

from sympy import Expr, sympify
from sympy.logic.boolalg import Boolean

from derive.errors import DeriveError
from derive.ir.equations import Equation, Operand, Recurrence
from derive.ir.terms.axes import PACK, Axis
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.indices import Merge, blocks
from derive.notation.methods import instead_of


class Recorder(Protocol):
    """What handles tell of: what a spec has said so far."""

    name: str
    operands: dict[str, Operand]
    tensors: dict[str, tuple[Tensor, tuple[Expr, ...]]]
    results: set[str]
    lengths: dict[Axis, Expr]
    calls: int

    def read(self, name: str, key: tuple[Expr, ...]) -> Expr | Boolean: ...

    def define(self, name: str, key: tuple[Expr, ...], value: Any) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def say_length(self, axis: Axis, places: Any) -> None: ...

    def derivative(self, y: Any, x: Any) -> Expr: ...

    def bind(
        self, inlined: list[Equation], outputs: tuple[str, ...], recurrences: tuple[Recurrence, ...]
    ) -> Any: ...


RECORDING: ContextVar[Recorder | None] = ContextVar("RECORDING", default=None)
"""What records the spec that is being read, for words that stand in its body by themselves."""


class Handle:
    """A tensor, read by giving its axes: `x[..., d]`."""

    def __init__(self, recorder: Recorder, name: str):
        super().__setattr__("_recorder", recorder)
        super().__setattr__("_name", name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise DeriveError(
            f"{name} of {self._name} is set", op=self._recorder.name,
            fix="write an equation, f.y[…] = …: dtypes, devices and gradients are those of the caller's tensors",
        )  # fmt: skip

    def __getitem__(self, key: Any) -> Expr | Boolean:
        return self._recorder.read(self._name, _indices(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._recorder.define(self._name, _indices(key), value)

    def __repr__(self) -> str:
        return self._name

    def _sympy_(self) -> Any:
        op = self._recorder.name
        if self._name in self._recorder.results:
            called = self._name.partition("_call")[0]
            raise DeriveError(
                f"{called}(…) is a whole tensor, used as if it were one element", op=op,
                fix=f"name it without axes first, f.a = {called}(…), and read f.a[…]",
            )  # fmt: skip
        raise DeriveError(f"{self._name} is used without its axes", op=op, fix=f"read one element: {self._read()}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DeriveError(f"{self._name} has no {name}", op=self._recorder.name, fix=instead_of(name, self._read()))

    def _read(self) -> str:
        """How an element of it is read; with its own axes, where it is known."""
        known = self._recorder.tensors.get(self._name)
        index = "…" if known is None else ", ".join(map(str, known[1])) or "()"
        return f"{'' if self._name in self._recorder.operands else 'f.'}{self._name}[{index}]"

    def _bare(self, *other: Any) -> Any:
        self._sympy_()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _bare
    __pow__ = __rpow__ = __neg__ = __lt__ = __gt__ = __le__ = __ge__ = __abs__ = _bare
    __bool__ = __eq__ = __ne__ = _bare
    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Any:
        factors = [h._read() for h in (self, other) if isinstance(h, Handle)]
        raise DeriveError(
            f"{self._name} @ … multiplies whole tensors", op=self._recorder.name,
            fix=f"write the sum of products, sum({' * '.join(factors)}, over=…)",
        )  # fmt: skip

    def __iter__(self) -> Iterator[At]:
        """None: Python would read x[0], x[1] and so on, without end."""
        if self._name in self._recorder.results:
            called = self._name.partition("_call")[0]
            raise DeriveError(f"{called}(…) is one tensor", op=self._recorder.name, fix=f"write f.a = {called}(…)")
        raise TypeError("'Handle' object is not iterable")


class Frame:
    """The `f` of a spec: assigning `f.name[axes] = expression` writes an equation, `f.name[axes]` reads it back.

    It has no other attributes, so that every name is free for a tensor.
    """

    def __init__(self, recorder: Recorder):
        super().__setattr__("_recorder", recorder)

    def __getattr__(self, name: str) -> Handle:
        return Handle(super().__getattribute__("_recorder"), name)

    def __delattr__(self, name: str) -> None:
        raise DeriveError(
            f"f.{name} is deleted", op=super().__getattribute__("_recorder").name, fix="leave its equation out"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        recorder: Recorder = super().__getattribute__("_recorder")
        if isinstance(value, tuple) and value and all(isinstance(v, Handle) for v in value):
            called, first = value[0]._name.partition("_call")[0], [v._name.rpartition("__")[2] for v in value]
            raise DeriveError(
                f"f.{name} is given {len(value)} tensors",
                op=recorder.name,
                fix=f"give each a name: {', '.join(f'f.{n}' for n in first)} = {called}(…)",
            )
        if not isinstance(value, Handle):
            raise DeriveError(
                f"f.{name} is given something that is no tensor",
                op=recorder.name,
                fix=f"write its axes: f.{name}[…] = …, or f.{name}[()] = … where it is one number",
            )
        if value._name in recorder.operands:
            raise DeriveError(
                f"f.{name} is given the input {value._name}",
                op=recorder.name,
                fix=f"write an equation, f.{name}[…] = {value._name}[…]",
            )
        recorder.rename(value._name, name)


def _indices(key: Any) -> tuple[Expr, ...]:
    key = key if isinstance(key, tuple) else (key,)
    out = []
    for k in key:
        if k is Ellipsis:
            out.append(PACK)
        elif isinstance(k, tuple):
            inside = tuple(PACK if a is Ellipsis else a for a in k)
            if len(inside) < 2 or not all(isinstance(a, Axis) for a in inside):
                fix = "write two axes or more in brackets of their own: (t, e)"
                if len(inside) > 1:  # such as (0, h)
                    fix = "take it apart before, f.z[…, p, h] = x[…, (p, h)], and read a place of that: f.z[…, 0, h]"
                raise DeriveError(f"{k} merges no axes", fix=fix)
            out.append(Merge(*inside))
        elif isinstance(k, slice):
            raise DeriveError("a slice `:` is not an index", fix="name the axis: x[n, d]")
        elif isinstance(k, Handle):
            fix = "index by axes, whole numbers, or an index(…) with its axes; an input with an axis's name hides it"
            raise DeriveError(f"{k!r} is a tensor here, and no index", fix=fix)
        elif k is None or isinstance(k, str | bool):
            raise DeriveError(f"{k!r} is no index", fix="index by axes, whole numbers, or an index(…) with its axes")
        else:
            index = sympify(k)
            if isinstance(index, Boolean) and not isinstance(index, Expr):
                raise DeriveError(
                    f"{index} is a condition, and a mask is no index",
                    fix="use where: sum(where(x[n, d] > 0, x[n, d], 0), over=d)",
                )
            out.append(blocks(index) if isinstance(index, Expr) else index)
    return tuple(out)
