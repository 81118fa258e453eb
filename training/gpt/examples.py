"""Names as padded sequences: what the decoder reads, what it is to say next, and which places count."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from training.names.examples import INDEX


@dataclass(frozen=True)
class Sequences:
    """ix [n, t] and y [n, t], int64, and weight [n, t], 1 where y is a letter or the end and 0 in the padding."""

    ix: Tensor
    y: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.ix)

    def rows(self, rows: Tensor) -> "Sequences":
        """Some of the names, without the columns that are padding for all of them."""
        weight = self.weight[rows]
        used = int(weight.sum(1).max())
        return Sequences(self.ix[rows, :used], self.y[rows, :used], weight[:, :used])


def build_sequences(words: Sequence[str], longest: int, dtype: torch.dtype) -> Sequences:
    """Each name after a ".", to be continued by the name and a "."; `longest` letters and the "." at most."""
    ix = torch.zeros((len(words), longest), dtype=torch.int64)
    y = torch.zeros_like(ix)
    weight = torch.zeros((len(words), longest), dtype=dtype)
    for row, word in enumerate(words):
        letters = torch.tensor([INDEX[letter] for letter in word])
        ix[row, 1 : len(word) + 1] = letters
        y[row, : len(word)] = letters
        weight[row, : len(word) + 1] = 1
    return Sequences(ix, y, weight)
