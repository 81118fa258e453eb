"""Layers by hand: a forward, and right below it its backward, from the package `generated`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from generated import linear_backward, linear_forward, relu_backward, relu_forward

Saved = tuple[Any, ...]


class Layer(Protocol):
    """A part of a network that holds its parameters and remembers nothing else."""

    @property
    def parameters(self) -> Sequence[Tensor]:
        """What is learned, in the order of the backward's gradients."""

    def forward(self, x: Tensor) -> tuple[Tensor, Saved]:
        """The output, and what the backward needs."""

    def backward(self, dy: Tensor, saved: Saved) -> tuple[Tensor, Sequence[Tensor]]:
        """The gradient of the input, and that of each parameter."""


@dataclass(frozen=True)
class Linear:
    """x [n, i] to x @ w + b [n, o]."""

    w: Tensor
    b: Tensor

    @property
    def parameters(self) -> Sequence[Tensor]:
        return self.w, self.b

    def forward(self, x: Tensor) -> tuple[Tensor, Saved]:
        return linear_forward(x, self.w, self.b)

    def backward(self, dy: Tensor, saved: Saved) -> tuple[Tensor, Sequence[Tensor]]:
        dx, dw, db = linear_backward(dy, *saved)
        return dx, (dw, db)


@dataclass(frozen=True)
class ReLU:
    """The positive part of each element."""

    parameters: Sequence[Tensor] = ()

    def forward(self, x: Tensor) -> tuple[Tensor, Saved]:
        return relu_forward(x)

    def backward(self, dy: Tensor, saved: Saved) -> tuple[Tensor, Sequence[Tensor]]:
        return relu_backward(dy, *saved), ()


@dataclass(frozen=True)
class Chain:
    """Layers one after the other; itself a layer."""

    layers: tuple[Layer, ...]

    @property
    def parameters(self) -> Sequence[Tensor]:
        return [parameter for layer in self.layers for parameter in layer.parameters]

    def forward(self, x: Tensor) -> tuple[Tensor, Saved]:
        passed = []
        for layer in self.layers:
            x, saved = layer.forward(x)
            passed.append(saved)
        return x, tuple(passed)

    def backward(self, dy: Tensor, saved: Saved) -> tuple[Tensor, Sequence[Tensor]]:
        gradients: list[Tensor] = []
        for layer, kept in zip(reversed(self.layers), reversed(saved), strict=True):
            dy, own = layer.backward(dy, kept)
            gradients[:0] = own
        return dy, gradients


def perceptron(sizes: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Chain:
    """Linear layers of the given sizes, a ReLU after each but the last.

    Weights of variance 2 / inputs (He et al., 2015), drawn in float32 and then converted.
    """
    layers: list[Layer] = []
    for inputs, outputs in pairwise(sizes):
        w = torch.randn((inputs, outputs), generator=generator) * (2 / inputs) ** 0.5
        layers += [Linear(w.to(dtype), torch.zeros(outputs, dtype=dtype)), ReLU()]
    return Chain(tuple(layers[:-1]))


def names_of(chain: Chain) -> list[str]:
    """A name for each parameter, counted from 1: W1, b1, W2, ..."""
    linear = [layer for layer in chain.layers if layer.parameters]
    return [f"{letter}{number}" for number, _ in enumerate(linear, start=1) for letter in "Wb"]
