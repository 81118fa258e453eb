"""The network's parameters, and what a trained one is used for: its loss over a split, and new names."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training.names.examples import ALPHABET, Examples

EVALUATION_ROWS = 8192
LONGEST_SAMPLE = 60


class Network(NamedTuple):
    """The parameters, in the order of the generated forward: C[v, e] W1[i, h] b1[h] ... with i = t * e."""

    C: Tensor
    W1: Tensor
    b1: Tensor
    bngain: Tensor
    bnbias: Tensor
    W2: Tensor
    b2: Tensor

    @property
    def size(self) -> int:
        """How many numbers are learned."""
        return sum(parameter.numel() for parameter in self)

    def cpu(self) -> "Network":
        """The same parameters, without a gradient of their own and where the examples are."""
        return Network(*(parameter.detach().cpu() for parameter in self))


@dataclass(frozen=True)
class Moments:
    """Mean and variance [h] that stand in for a batch's own once training is over."""

    mean: Tensor
    variance: Tensor


def initialise(context: int, embedding: int, hidden: int, generator: torch.Generator, dtype: torch.dtype) -> Network:
    """Parameters drawn as in the last exercise of the public notebook makemore_part4_backprop.

    They are drawn in float32 and then converted, so that runs in either dtype start from the same numbers.
    """
    inputs, letters = context * embedding, len(ALPHABET)
    C = torch.randn((letters, embedding), generator=generator)
    W1 = torch.randn((inputs, hidden), generator=generator) * (5 / 3) / math.sqrt(inputs)
    b1 = torch.randn(hidden, generator=generator) * 0.1
    W2 = torch.randn((hidden, letters), generator=generator) * 0.1
    b2 = torch.randn(letters, generator=generator) * 0.1
    # The notebook draws these two from PyTorch's unseeded generator. A stream of their own makes them
    # repeatable and still leaves `generator` where the notebook's stands when it draws its first batch.
    other = torch.Generator().manual_seed(generator.initial_seed() + 1)
    bngain = torch.randn(hidden, generator=other) * 0.1 + 1.0
    bnbias = torch.randn(hidden, generator=other) * 0.1
    drawn = Network(C, W1, b1, bngain, bnbias, W2, b2)
    return Network(*(parameter.to(dtype) for parameter in drawn))


def embed(network: Network, ix: Tensor) -> Tensor:
    """The embeddings [n, t * e] of contexts [n, t], side by side."""
    return network.C[ix].flatten(1)


@torch.no_grad()
def calibrate(network: Network, train: Examples) -> Moments:
    """The moments of the hidden layer before normalisation over the whole training set, Bessel-corrected.

    That layer is linear, so its moments follow from those of its few inputs, without its [n, h] activations.
    """
    embcat = embed(network, train.ix)
    covariance = torch.cov(embcat.T).view(embcat.shape[1], embcat.shape[1])
    mean = embcat.mean(0) @ network.W1 + network.b1
    return Moments(mean, (network.W1 * (covariance @ network.W1)).sum(0))


def logits_of(network: Network, moments: Moments, ix: Tensor, eps: float) -> Tensor:
    """Scores [n, v] of the next letter after contexts [n, t]."""
    hprebn = embed(network, ix) @ network.W1 + network.b1
    hpreact = network.bngain * (hprebn - moments.mean) * torch.rsqrt(moments.variance + eps) + network.bnbias
    return torch.tanh(hpreact) @ network.W2 + network.b2


@torch.no_grad()
def mean_loss(network: Network, moments: Moments, examples: Examples, eps: float) -> float:
    """The mean cross-entropy over a split, a few thousand rows at a time."""
    total = 0.0
    for ix, y in zip(examples.ix.split(EVALUATION_ROWS), examples.y.split(EVALUATION_ROWS), strict=True):
        total += F.cross_entropy(logits_of(network, moments, ix, eps), y, reduction="sum").item()
    return total / len(examples)


@torch.no_grad()
def sample(network: Network, moments: Moments, context: int, eps: float, generator: torch.Generator) -> str:
    """One new name, a letter at a time until ".", cut at 60 letters."""
    window, name = [0] * context, ""
    while len(name) < LONGEST_SAMPLE:
        probabilities = F.softmax(logits_of(network, moments, torch.tensor([window]), eps), dim=1)
        letter = int(torch.multinomial(probabilities, 1, generator=generator).item())
        if letter == 0:
            break
        window = [*window[1:], letter]
        name += ALPHABET[letter]
    return name
