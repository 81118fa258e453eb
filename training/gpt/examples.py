"""Names as padded sequences: what the decoder reads, what it is to say next, and which places count."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from training.names.examples import ALPHABET


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
    ix = letters(["." + word for word in words], longest)
    y = letters(words, longest)
    lengths = torch.tensor([len(word) + 1 for word in words])
    weight = torch.arange(longest) < lengths[:, None]
    return Sequences(ix, y, weight.to(dtype))


def letters(words: Sequence[str], longest: int) -> Tensor:
    """The places of letters in the alphabet [n, longest], those of "." after the end of a word.

    By way of bytes: a million Python numbers would take seconds to become a tensor.
    """
    text = "".join(word.ljust(longest, ALPHABET[0]) for word in words).encode("ascii")
    places = torch.zeros(256, dtype=torch.int64)
    places[torch.tensor(list(ALPHABET.encode("ascii")))] = torch.arange(len(ALPHABET))
    return places[torch.frombuffer(bytearray(text), dtype=torch.uint8).long()].view(len(words), longest)
