"""The perceptron's parameters, how they start, and what it says."""

from typing import NamedTuple

import torch
from torch import Tensor


class Network(NamedTuple):
    """Four layers from place and time to one number."""

    w1: Tensor  # [p, h]
    b1: Tensor  # [h]
    w2: Tensor  # [h, i]
    b2: Tensor  # [i]
    w3: Tensor  # [i, j]
    b3: Tensor  # [j]
    w4: Tensor  # [j]
    b4: Tensor  # []


def initialise(hidden: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Network:
    """Weights by Glorot's rule, drawn in float64 whatever they are kept in; biases are 0."""

    def drawn(inputs: int, outputs: int) -> Tensor:
        spread = (2 / (inputs + outputs)) ** 0.5
        return (spread * torch.randn(inputs, outputs, generator=generator, dtype=torch.float64)).to(dtype)

    zeros = torch.zeros(hidden, dtype=dtype)
    first, second, third, last = (drawn(*s) for s in ((2, hidden), (hidden, hidden), (hidden, hidden), (hidden, 1)))
    return Network(first, zeros, second, zeros.clone(), third, zeros.clone(), last[:, 0].clone(), zeros.sum())


def values(network: Network, x: Tensor) -> Tensor:
    """What the network says [n] of places and times [n, p]."""
    h = torch.tanh(torch.addmm(network.b1, x, network.w1))
    h = torch.tanh(torch.addmm(network.b2, h, network.w2))
    h = torch.tanh(torch.addmm(network.b3, h, network.w3))
    return h @ network.w4 + network.b4
