"""A tensor that remembers how it was made, and finds its way back."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from training.tape import rules
from training.tape.rules import RULES, Backward, Stages

Number = int | float
_recording = contextvars.ContextVar("recording", default=True)


@contextmanager
def no_grad() -> Iterator[None]:
    """Within it, results do not remember how they were made."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def zero_grad(tensors: Iterable[Tensor]) -> None:
    """Forget the gradients of some tensors: the next `backward` starts from nothing."""
    for tensor in tensors:
        tensor.grad = None


@dataclass(frozen=True)
class Node:
    """How a tensor was made: by what, from what, and the way back."""

    name: str
    inputs: tuple[Tensor, ...]
    backward: Backward


class Tensor:
    """Numbers, the gradient that `backward` gave them, and what they were computed from.

    `data` is a floating-point `torch.Tensor`; anything else that PyTorch understands becomes one. As in
    micrograd, intermediates get their gradients too. Raises `TypeError` for integers.
    """

    def __init__(self, data: Any, requires_grad: bool = False, label: str = "") -> None:
        self.data = (
            data.detach() if isinstance(data, torch.Tensor) else torch.tensor(data, dtype=torch.get_default_dtype())
        )
        if not self.data.is_floating_point():
            raise TypeError(f"a tensor of {self.data.dtype} has no gradient; convert it with .float()")
        self.grad: torch.Tensor | None = None
        self.requires_grad = requires_grad
        self.label = label
        self.node: Node | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return tuple(self.data.shape)

    def item(self) -> float:
        """Its one number."""
        return self.data.item()

    def __repr__(self) -> str:
        made = f", made by {self.node.name}" if self.node else ""
        return f"Tensor({self.data.tolist()}{made})"

    # --- the way back -----------------------------------------------------------------------------------------

    def backward(self, gradient: torch.Tensor | None = None) -> None:
        """Add the gradient of this with respect to every tensor behind it to their `grad`.

        `gradient` is what stands above this one; 1 where this is a single number. Raises `RuntimeError` where
        there is nothing to go back to, `ValueError` where `gradient` is missing or of another shape.
        """
        if not self.requires_grad:
            raise RuntimeError("backward: nothing behind this tensor requires a gradient")
        if gradient is None:
            if self.data.numel() != 1:
                raise ValueError(f"backward: a tensor of shape {list(self.shape)} needs a gradient of that shape")
            gradient = torch.ones_like(self.data)
        if gradient.shape != self.data.shape:
            raise ValueError(f"backward: the gradient has shape {list(gradient.shape)}, expected {list(self.shape)}")
        above = {id(self): gradient}
        for tensor in reversed(ordered(self)):
            dy = above.pop(id(tensor))
            # Never in place, and a copy for a leaf: a rule may hand the same memory to two inputs.
            own = dy if tensor.node else dy.clone()
            tensor.grad = own if tensor.grad is None else tensor.grad + dy
            if tensor.node is None:
                continue
            for read, dx in zip(tensor.node.inputs, tensor.node.backward(dy), strict=True):
                if read.requires_grad:
                    above[id(read)] = above[id(read)] + dx if id(read) in above else dx

    # --- arithmetic -------------------------------------------------------------------------------------------

    def __add__(self, other: Tensor | Number) -> Tensor:
        return _both("add", "+", self, other)

    def __sub__(self, other: Tensor | Number) -> Tensor:
        return _both("sub", "-", self, other)

    def __mul__(self, other: Tensor | Number) -> Tensor:
        return _both("mul", "*", self, other)

    def __truediv__(self, other: Tensor | Number) -> Tensor:
        return _both("div", "/", self, other)

    def __pow__(self, other: Tensor | Number) -> Tensor:
        if isinstance(other, Tensor):
            return _both("pow_elementwise", "**", self, other)
        return _apply(f"** {other:g}", RULES["pow"].apply, (self,), float(other))

    def __radd__(self, other: Number) -> Tensor:
        return _both("add", "+", other, self)

    def __rsub__(self, other: Number) -> Tensor:
        return _both("sub", "-", other, self)

    def __rmul__(self, other: Number) -> Tensor:
        return _both("mul", "*", other, self)

    def __rtruediv__(self, other: Number) -> Tensor:
        return _both("div", "/", other, self)

    def __rpow__(self, other: Number) -> Tensor:
        return _both("pow_elementwise", "**", other, self)

    def __neg__(self) -> Tensor:
        return self._each("neg")

    def __matmul__(self, other: Tensor) -> Tensor:
        """The product of two matrices, for each of the leading axes, which are broadcast; of vectors as in PyTorch."""
        a, b = self, other
        if not a.shape or not b.shape:
            raise ValueError(f"@: shapes {list(a.shape)} and {list(b.shape)}; neither may be a single number, use *")
        if len(a.shape) == len(b.shape) == 1:
            return _apply("@", RULES["dot"].apply, (a, b))
        if len(a.shape) == len(b.shape) == 2:
            return _apply("@", RULES["matmul"].apply, (a, b))
        if len(a.shape) == 2 and len(b.shape) == 1:
            return _apply("@", RULES["matvec"].apply, (a, b))
        row, column = len(a.shape) == 1, len(b.shape) == 1
        a = a.reshape(1, *a.shape) if row else a
        b = b.reshape(*b.shape, 1) if column else b
        leading = _together("@", a.shape[:-2], b.shape[:-2])
        a, b = (t.broadcast_to(*leading, *t.shape[-2:]) for t in (a, b))
        product = _apply("@", RULES["batched_matmul"].apply, (a, b))
        kept = (*leading, *([] if row else [a.shape[-2]]), *([] if column else [b.shape[-1]]))
        return product.reshape(*kept)

    # --- functions of each element ----------------------------------------------------------------------------

    def exp(self) -> Tensor:
        return self._each("exp")

    def log(self) -> Tensor:
        return self._each("log")

    def tanh(self) -> Tensor:
        return self._each("tanh")

    def relu(self) -> Tensor:
        return self._each("relu")

    def sigmoid(self) -> Tensor:
        return self._each("sigmoid")

    def _each(self, name: str) -> Tensor:
        return _apply(name, RULES[name].apply, (self,))

    # --- along axes -------------------------------------------------------------------------------------------

    def sum(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The sum over some axes, over all where none is named."""
        return self._reduce("sum", dim, keepdim)

    def mean(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The mean over some axes, over all where none is named."""
        return self._reduce("mean", dim, keepdim)

    def max(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The maximum over some axes, over all where none is named; ties share the gradient, as PyTorch's amax."""
        return self._reduce("amax", dim, keepdim)

    def _reduce(self, name: str, dim: int | Sequence[int] | None, keepdim: bool) -> Tensor:
        named = range(len(self.shape)) if dim is None else [dim] if isinstance(dim, int) else dim
        over = sorted({self._axis(each) for each in named})
        shown = "max" if name == "amax" else name
        return self._through(shown, rules.reducing(name, self.shape, over, keepdim))

    def softmax(self, dim: int = -1) -> Tensor:
        """Exponentials over their sum, along one axis."""
        axis, last = self._axis(dim), len(self.shape) - 1
        there, shape = rules.swapping(self.shape, axis, last)
        back, _ = rules.swapping(shape, axis, last)
        return self._through("softmax", [*there, rules.stage("softmax"), *back])

    # --- shapes -----------------------------------------------------------------------------------------------

    def reshape(self, *shape: int) -> Tensor:
        """The same elements in another shape; one length may be -1. Raises `ValueError` where they do not fit."""
        try:
            wanted = tuple(torch.empty(self.shape, device="meta").reshape(shape).shape)
        except RuntimeError:
            raise ValueError(f"reshape: shape {list(self.shape)} does not fit into {list(shape)}") from None
        return self._through("reshape", rules.reshaping(self.shape, wanted))

    def transpose(self, dim0: int = -2, dim1: int = -1) -> Tensor:
        """Two axes exchanged."""
        stages, _ = rules.swapping(self.shape, self._axis(dim0), self._axis(dim1))
        return self._through("transpose", stages)

    @property
    def T(self) -> Tensor:
        """The last two axes exchanged."""
        return self.transpose()

    def broadcast_to(self, *shape: int) -> Tensor:
        """Repeated along the axes that are missing or 1 long. Raises `ValueError` where the others differ."""
        if _together("broadcast_to", self.shape, shape) != shape:
            raise ValueError(f"broadcast_to: shape {list(self.shape)} cannot become {list(shape)}")
        return self._through("broadcast", rules.broadcasting(self.shape, shape))

    def __getitem__(self, key: Any) -> Tensor:
        """Elements by any index that PyTorch understands; those taken twice add up their gradients."""
        stages, _ = rules.taking(self.shape, key)
        return self._through("[ ]", stages)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def _axis(self, dim: int) -> int:
        if not -len(self.shape) <= dim < len(self.shape):
            raise IndexError(f"axis {dim} of a tensor of shape {list(self.shape)}; it has {len(self.shape)} axes")
        return dim % len(self.shape)

    def _through(self, name: str, stages: Stages) -> Tensor:
        if not stages:
            return self
        return _apply(name, lambda x: rules.run(stages, x), (self,))


def ordered(last: Tensor) -> list[Tensor]:
    """Every tensor behind `last` that requires a gradient, and itself: each after all that it was made from."""
    done: list[Tensor] = []
    seen: set[int] = set()
    # A stack in place of recursion: a graph may be deeper than Python's.
    stack = [(last, False)]
    while stack:
        tensor, finished = stack.pop()
        if finished:
            done.append(tensor)
        elif id(tensor) not in seen and tensor.requires_grad:
            seen.add(id(tensor))
            stack.append((tensor, True))
            stack += [(read, False) for read in (tensor.node.inputs if tensor.node else ())]
    return done


def _apply(
    name: str, rule: Callable[..., tuple[torch.Tensor, Backward]], inputs: tuple[Tensor, ...], *given: Any
) -> Tensor:
    """What a rule makes of some tensors; remembered where one of them requires a gradient."""
    y, back = rule(*(tensor.data for tensor in inputs), *given)
    made = Tensor(y)
    if _recording.get() and any(tensor.requires_grad for tensor in inputs):
        made.requires_grad = True
        made.node = Node(name, inputs, back)
    return made


def _both(name: str, symbol: str, one: Tensor | Number, other: Tensor | Number) -> Tensor:
    """An operation on two tensors, of which one may be a number, broadcast against each other."""
    tensor = one if isinstance(one, Tensor) else other
    assert isinstance(tensor, Tensor)
    x, y = (t if isinstance(t, Tensor) else _constant(t, tensor, symbol) for t in (one, other))
    shape = _together(symbol, x.shape, y.shape)
    return _apply(symbol, RULES[name].apply, (x.broadcast_to(*shape), y.broadcast_to(*shape)))


def _constant(value: Any, like: Tensor, symbol: str) -> Tensor:
    if not isinstance(value, int | float):
        raise TypeError(
            f"{symbol}: {type(value).__name__} is neither a number nor a Tensor; write Tensor(...) around it"
        )
    return Tensor(like.data.new_tensor(float(value)), label=f"{value:g}")


def _together(symbol: str, one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(tuple(one), tuple(other)))
    except RuntimeError:
        raise ValueError(f"{symbol}: shapes {list(one)} and {list(other)} do not broadcast") from None
