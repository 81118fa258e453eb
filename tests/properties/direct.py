"""The words of the notation with another meaning: a file of specs runs on PyTorch tensors, equation by equation.

It shares nothing with `derive`: no reading of specs, no splitting, no inlining, no lengths. Every read is PyTorch's
own indexing by integer tensors, every operation elementwise over all axes in sight, so that `torch.autograd` of what
it computes is the gradient of the equations as they stand.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

_frames: ContextVar[tuple[Frame, ...]] = ContextVar("_frames", default=())


class Unfit(ValueError):
    """The lengths that were given do not fit the equations, which an op must refuse."""


# --- values over named axes ---------------------------------------------------------------------------------


class Term:
    """What stands in an expression: a value, or an axis as the number it counts."""

    def value(self) -> Value:
        raise NotImplementedError

    def __add__(self, other: Any) -> Value:
        return _both(operator.add, self, other)

    def __radd__(self, other: Any) -> Value:
        return _both(operator.add, other, self)

    def __sub__(self, other: Any) -> Value:
        return _both(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Value:
        return _both(operator.sub, other, self)

    def __mul__(self, other: Any) -> Value:
        return _both(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Value:
        return _both(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Value:
        return _both(operator.truediv, self, other, real=True)

    def __rtruediv__(self, other: Any) -> Value:
        return _both(operator.truediv, other, self, real=True)

    def __pow__(self, other: Any) -> Value:
        if isinstance(other, int | float):
            return _each(lambda x: x**other, self)
        return _both(torch.pow, self, other, real=True)

    def __rpow__(self, other: Any) -> Value:
        return _both(torch.pow, other, self, real=True)

    def __neg__(self) -> Value:
        return _each(operator.neg, self)

    def __abs__(self) -> Value:
        return _each(torch.abs, self)

    def __lt__(self, other: Any) -> Value:
        return _both(operator.lt, self, other)

    def __le__(self, other: Any) -> Value:
        return _both(operator.le, self, other)

    def __gt__(self, other: Any) -> Value:
        return _both(operator.gt, self, other)

    def __ge__(self, other: Any) -> Value:
        return _both(operator.ge, self, other)

    def __and__(self, other: Any) -> Value:
        return _both(operator.and_, self, other)

    def __or__(self, other: Any) -> Value:
        return _both(operator.or_, self, other)

    def __invert__(self) -> Value:
        old = self.value()
        return Value(~old.data, old.axes)


@dataclass(frozen=True, eq=False)
class Value(Term):
    """A tensor whose dimensions are named."""

    data: Tensor
    axes: tuple[str, ...]

    def value(self) -> Value:
        return self

    def over(self, axes: tuple[str, ...]) -> Tensor:
        """The tensor with these dimensions, in this order, those that it lacks of length 1."""
        kept = [a for a in axes if a in self.axes]
        data = self.data.permute([self.axes.index(a) for a in kept])
        return data[tuple(slice(None) if a in self.axes else None for a in axes)]


@dataclass(frozen=True, eq=False)
class Axis(Term):
    """A named index; as a value, the numbers from 0."""

    name: str

    def value(self) -> Value:
        return Value(torch.arange(_frame().sizes[self.name]), (self.name,))


def _frame() -> Frame:
    return _frames.get()[-1]


def _value(x: Any) -> Value:
    if isinstance(x, Term):
        return x.value()
    return Value(torch.tensor(x, dtype=torch.float64 if isinstance(x, float) else None), ())


def _real(t: Tensor) -> Tensor:
    return t if t.is_floating_point() else t.double()


def _union(values: Iterable[Value]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a for v in values for a in v.axes))


def _both(function: Callable[..., Tensor], a: Any, b: Any, *, real: bool = False) -> Value:
    pair = (_value(a), _value(b))
    axes = _union(pair)
    data = [v.over(axes) for v in pair]
    if real or any(t.is_floating_point() for t in data):
        data = [_real(t) for t in data]
    return Value(function(*data), axes)


def _each(function: Callable[[Tensor], Tensor], x: Any) -> Value:
    old = _value(x)
    return Value(function(_real(old.data)), old.axes)


# --- the words --------------------------------------------------------------------------------------------------


def axes(names: str) -> Any:
    made = tuple(Axis(name) for name in names.replace(",", " ").split())
    return made if len(made) > 1 else made[0]


def size(axis: Any) -> int:
    return math.prod(_frame().sizes[a.name] for a in _expanded(axis))


def _expanded(axis: Any) -> tuple[Axis, ...]:
    return _frame().pack if axis is Ellipsis else (axis,)


def _bound(over: Any) -> tuple[str, ...]:
    return tuple(a.name for o in (over if isinstance(over, tuple) else (over,)) for a in _expanded(o))


def _reduce(function: Callable[[Tensor, tuple[int, ...]], Tensor], body: Any, over: Any) -> Value:
    old, bound = _value(body), _bound(over)
    kept = tuple(a for a in old.axes if a not in bound)
    axes = (*kept, *bound)
    whole = _real(old.over(axes)).expand([_frame().sizes[a] for a in axes])
    if not bound:  # `over=...` where `...` stands for nothing
        return Value(whole, kept)
    return Value(function(whole, tuple(range(len(kept), len(axes)))), kept)


def sum(body: Any, *, over: Any) -> Value:
    return _reduce(lambda t, dims: t.sum(dims), body, over)


def mean(body: Any, *, over: Any) -> Value:
    return _reduce(lambda t, dims: t.mean(dims), body, over)


def amax(body: Any, *, over: Any) -> Value:
    return _reduce(lambda t, dims: t.amax(dims), body, over)


def amin(body: Any, *, over: Any) -> Value:
    return _reduce(lambda t, dims: t.amin(dims), body, over)


def where(condition: Any, a: Any, b: Any) -> Value:
    three = [_value(condition), _value(a), _value(b)]
    axes = _union(three)
    test, first, second = (v.over(axes) for v in three)
    return Value(torch.where(test, _real(first), _real(second)), axes)


def eq(a: Any, b: Any) -> Value:
    return _both(operator.eq, a, b)


def ne(a: Any, b: Any) -> Value:
    return _both(operator.ne, a, b)


def delta(a: Any, b: Any) -> Value:
    return where(eq(a, b), 1, 0)


def maximum(a: Any, b: Any) -> Value:
    return _both(torch.maximum, a, b, real=True)


def minimum(a: Any, b: Any) -> Value:
    return _both(torch.minimum, a, b, real=True)


@dataclass(frozen=True)
class Pieces:
    """What `concat` joins, once it is known which axes stand on the left."""

    along: Axis
    pieces: tuple[Value, ...]

    def joined(self, left: tuple[str, ...]) -> Value:
        others = tuple(a for a in left if a != self.along.name)
        sizes = _frame().sizes
        parts = []
        for piece in self.pieces:
            (own,) = (a for a in piece.axes if a not in others)
            shape = [sizes[a] for a in (*others, own)]
            parts.append(_real(piece.over((*others, own))).expand(shape))
        return Value(torch.cat(parts, -1), (*others, self.along.name))


def concat(*pieces: Any, along: Axis) -> Pieces:
    return Pieces(along, tuple(_value(p) for p in pieces))


def _softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "softplus": _softplus, "relu": torch.relu, "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos, "sign": torch.sign,
}  # fmt: skip


# --- inputs, equations, ops --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """An annotation, of which only the axes matter here."""

    name: str
    axes: tuple[Any, ...] = ()
    of: Axis | None = None

    def __getitem__(self, key: Any) -> Kind:
        made = key if isinstance(key, tuple) else (key,)
        return Kind(self.name, made, self.of)

    @property
    def positive(self) -> Kind:
        return self

    nonzero = positive


@dataclass(frozen=True)
class Handle:
    """A tensor of a frame, read by giving its indices."""

    frame: Frame
    name: str

    def __getitem__(self, key: Any) -> Value:
        data = self.frame.tensors[self.name]
        index = [_position(k) for k in _flat(key)]
        assert len(index) == data.dim(), f"{self.name} has {data.dim()} dimensions and is given {len(index)} indices"
        for i, n in zip(index, data.shape, strict=True):
            inside = i.data.numel() == 0 or (i.data.min() >= 0 and i.data.max() < n)
            if not inside:
                raise Unfit(f"{self.name} is read outside its length {n}")
        over = _union(index)
        where = tuple(i.over(over) for i in index)
        whole = data[where] if where else data
        return Value(whole, over)

    def __setitem__(self, key: Any, value: Any) -> None:
        indices = _flat(key)
        left = tuple(a.name for k in indices for a in (_flat(k) if isinstance(k, tuple) else (k,)))
        made = value.joined(left) if isinstance(value, Pieces) else _value(value)
        assert set(made.axes) <= set(left), f"{self.name} leaves {set(made.axes) - set(left)} over"
        sizes = self.frame.sizes
        data = _real(made.over(left)).expand([sizes[a] for a in left])
        shape = [math.prod(sizes[a.name] for a in _flat(k)) if isinstance(k, tuple) else sizes[k.name] for k in indices]
        self.frame.tensors[self.name] = data.reshape(shape)


def _flat(key: Any) -> tuple[Any, ...]:
    """The indices of a key, `...` as the axes that it stands for; merges stay together."""
    return tuple(k for part in (key if isinstance(key, tuple) else (key,)) for k in _expanded_index(part))


def _expanded_index(part: Any) -> tuple[Any, ...]:
    return _frame().pack if part is Ellipsis else (part,)


def _position(k: Any) -> Value:
    """An index as integers; a merge counts its first axis slowest."""
    if not isinstance(k, tuple):
        return _value(k)
    out: Any = 0
    for axis in _flat(k):
        out = out * _frame().sizes[axis.name] + axis
    return _value(out)


@dataclass
class Frame:
    """The tensors, and the lengths of the axes, of one op as it runs."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    pack: tuple[Axis, ...] = ()


class Equations:
    """The `f` of a spec."""

    def __init__(self, frame: Frame):
        super().__setattr__("_frame", frame)

    def __getattr__(self, name: str) -> Handle:
        return Handle(super().__getattribute__("_frame"), name)

    def __setattr__(self, name: str, value: Handle) -> None:
        frame: Frame = super().__getattribute__("_frame")
        frame.tensors[name] = value.frame.tensors[value.name]


@dataclass(frozen=True)
class DirectOp:
    """A spec that runs. Inside another spec it takes tensors of that spec, and gives back its own."""

    function: Callable[..., Any]
    lengths: Mapping[str, int]  # of axes that no input carries

    def run(self, *args: Any, **numbers: Any) -> tuple[Tensor, ...]:
        """The outputs for these tensors, and numbers by name."""
        frame = Frame(sizes=dict(self.lengths))
        given: list[Any] = []
        tensors = iter(args)
        for parameter in list(inspect.signature(self.function).parameters.values())[1:]:
            kind: Kind = parameter.annotation
            if kind.name in ("scalar", "length"):
                number = numbers.get(parameter.name, parameter.default)
                assert number is not inspect.Parameter.empty
                if kind.of is not None:
                    frame.sizes[kind.of.name] = number
                given.append(number)
                continue
            tensor = next(tensors)
            frame.tensors[parameter.name] = tensor
            _bind(frame, kind, tensor)
            given.append(Handle(frame, parameter.name))
        assert next(tensors, None) is None, "more tensors than inputs"
        token = _frames.set((*_frames.get(), frame))
        try:
            returned = self.function(Equations(frame), *given)
        finally:
            _frames.reset(token)
        return tuple(r.frame.tensors[r.name] for r in (returned if isinstance(returned, tuple) else (returned,)))

    def __call__(self, *args: Any, **numbers: Any) -> Any:
        tensors = [a.frame.tensors[a.name] for a in args if isinstance(a, Handle)]
        outputs = self.run(*tensors, **numbers)
        inner = Frame({f"output{k}": t for k, t in enumerate(outputs)})
        handles = tuple(Handle(inner, name) for name in inner.tensors)
        return handles if len(handles) > 1 else handles[0]


def _bind(frame: Frame, kind: Kind, tensor: Tensor) -> None:
    """Read the lengths of the axes off an input."""
    axes = [a for a in kind.axes if a != ()]
    spare = tensor.dim() - len(axes) + (Ellipsis in axes)
    position = 0
    for axis in axes:
        if axis is Ellipsis:
            frame.pack = tuple(Axis(f"...{k}") for k in range(spare))
            run = frame.pack
        else:
            run = (axis,)
        for a in run:
            assert frame.sizes.setdefault(a.name, tensor.shape[position]) == tensor.shape[position], a.name
            position += 1


def words(lengths: Mapping[str, int]) -> dict[str, Any]:
    """What `from derive import *` means here; `lengths` are those of the axes that no input carries."""
    out: dict[str, Any] = {name: _function(torch_function) for name, torch_function in _FUNCTIONS.items()}
    for word in (axes, size, sum, mean, amax, amin, where, eq, ne, delta, maximum, minimum, concat):
        out[word.__name__] = word
    return out | {
        "oo": math.inf,
        "pi": math.pi,
        "tensor": Kind("tensor"),
        "constant": Kind("constant"),
        "scalar": Kind("scalar"),
        "index": lambda axis: Kind("index", of=axis),
        "length": lambda axis: Kind("length", of=axis),
        "op": lambda function: DirectOp(function, lengths),
    }


def _function(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Value]:
    return lambda x: _each(function, x)


def load(source: str, lengths: Mapping[str, int]) -> dict[str, DirectOp]:
    """The ops of a file of specs, by name."""
    names = words(lengths)
    text = source.replace("from derive import *\n", "")
    exec(compile(text, "<spec>", "exec", dont_inherit=True), names)
    return {name: value for name, value in names.items() if isinstance(value, DirectOp)}
