"""Names as examples: the letters so far, and the one that comes next."""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from training.errors import InputError

# "." both starts and ends a name; it is letter 0.
ALPHABET = "." + string.ascii_lowercase
INDEX = {letter: index for index, letter in enumerate(ALPHABET)}


@dataclass(frozen=True)
class Examples:
    """Contexts `ix` [n, t] and the letters that follow them `y` [n], both int64."""

    ix: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Split:
    """80% of the names to learn from, 10% to choose by, 10% to look at once."""

    train: Examples
    validation: Examples
    test: Examples


def build_examples(words: Sequence[str], context: int) -> Examples:
    """Every letter of every name, and the "." after it, with the `context` letters before it."""
    contexts, letters = [], []
    for word in words:
        window = [0] * context
        for letter in word + ".":
            contexts.append(window)
            letters.append(INDEX[letter])
            window = [*window[1:], INDEX[letter]]
    ix = torch.tensor(contexts, dtype=torch.int64).view(-1, context)
    return Examples(ix, torch.tensor(letters, dtype=torch.int64))


def split_words(words: Sequence[str], seed: int = 42) -> tuple[list[str], list[str], list[str]]:
    """Shuffle whole names, so that no name is in two parts, then cut at 80% and 90%."""
    shuffled = list(words)
    random.Random(seed).shuffle(shuffled)
    first, second = int(0.8 * len(words)), int(0.9 * len(words))
    parts = (shuffled[:first], shuffled[first:second], shuffled[second:])
    if not all(parts):
        cause = f"{len(words)} names are too few to split 80/10/10"
        raise InputError("splitting names", cause, "give at least 10")
    return parts


def split_examples(words: Sequence[str], context: int = 3, seed: int = 42) -> Split:
    """The three parts of `split_words`, as examples."""
    return Split(*(build_examples(part, context) for part in split_words(words, seed)))
