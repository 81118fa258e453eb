"""Names as examples: contexts, letters, and the three parts."""

import hashlib
import os
from pathlib import Path

import pytest
import torch

from training.data import BUILT_IN, PUBLIC_SHA256, load_names
from training.errors import InputError
from training.names.examples import ALPHABET, build_examples, split_examples


def spelled(row: torch.Tensor) -> str:
    return "".join(ALPHABET[index] for index in row)


def test_every_letter_has_the_letters_before_it() -> None:
    examples = build_examples(["emma", "al"], context=3)
    pairs = [(spelled(row), ALPHABET[y]) for row, y in zip(examples.ix, examples.y, strict=True)]
    assert pairs == [
        ("...", "e"),
        ("..e", "m"),
        (".em", "m"),
        ("emm", "a"),
        ("mma", "."),
        ("...", "a"),
        ("..a", "l"),
        (".al", "."),
    ]
    assert examples.ix.dtype == examples.y.dtype == torch.int64
    assert len(examples) == 8


@pytest.mark.parametrize("context", [1, 2, 7])
def test_a_context_of_any_length(context: int) -> None:
    examples = build_examples(["ab"], context)
    assert examples.ix.shape == (3, context)
    assert spelled(examples.ix[2]) == ("." * 5 + "ab")[-context:]


def test_names_are_shuffled_whole_and_cut_at_80_and_90_percent() -> None:
    words = load_names(BUILT_IN).words
    split, again, other = (split_examples(words, seed=seed) for seed in (42, 42, 43))
    assert torch.equal(split.train.ix, again.train.ix)
    assert not torch.equal(split.train.ix[:100], other.train.ix[:100])
    # A name ends once, so the ends count the names.
    ends = [int((part.y == 0).sum()) for part in (split.train, split.validation, split.test)]
    first, second = int(0.8 * len(words)), int(0.9 * len(words))
    assert ends == [first, second - first, len(words) - second]
    letters = sum(len(word) + 1 for word in words)
    assert len(split.train) + len(split.validation) + len(split.test) == letters


def test_the_public_list_gives_the_reference_sizes() -> None:
    file = os.environ.get("NAMES_FILE")
    if not file or hashlib.sha256(Path(file).read_bytes()).hexdigest() != PUBLIC_SHA256:
        pytest.skip("NAMES_FILE is not the public names.txt")
    split = split_examples(load_names().words)
    assert (len(split.train), len(split.validation), len(split.test)) == (182_625, 22_655, 22_866)


def test_too_few_names() -> None:
    with pytest.raises(InputError) as caught:
        split_examples(["ada", "bob", "eve"])
    assert str(caught.value) == "splitting names: 3 names are too few to split 80/10/10; give at least 10"
    assert len(split_examples(["ada"] * 10).validation) == 4
