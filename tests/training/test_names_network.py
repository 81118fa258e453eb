"""The network: how it starts, how it is calibrated, what it makes up."""

import math

import torch
import torch.nn.functional as F

from training.data import BUILT_IN, load_names
from training.names.examples import ALPHABET, Examples, split_examples
from training.names.loop import batches
from training.names.network import Network, calibrate, initialise, logits_of, mean_loss, sample

SEED = 2147483647
EPS = 1e-5


def built_in_split() -> tuple[Examples, Examples]:
    split = split_examples(load_names(BUILT_IN).words)
    return split.train, split.validation


def fresh(dtype: torch.dtype = torch.float32) -> Network:
    return initialise(3, 10, 200, torch.Generator().manual_seed(SEED), dtype)


def test_parameters_are_drawn_in_the_order_of_the_notebook() -> None:
    generator, notebook = torch.Generator().manual_seed(SEED), torch.Generator().manual_seed(SEED)
    network = initialise(3, 10, 200, generator, torch.float32)
    assert torch.equal(network.C, torch.randn((27, 10), generator=notebook))
    assert torch.equal(network.W1, torch.randn((30, 200), generator=notebook) * (5 / 3) / (30**0.5))
    assert torch.equal(network.b1, torch.randn(200, generator=notebook) * 0.1)
    assert torch.equal(network.W2, torch.randn((200, 27), generator=notebook) * 0.1)
    assert torch.equal(network.b2, torch.randn(27, generator=notebook) * 0.1)
    # What comes next from either generator is the first batch.
    assert torch.equal(generator.get_state(), notebook.get_state())
    assert network.bngain.shape == network.bnbias.shape == (200,)
    assert network.size == 12_297


def test_both_precisions_start_from_the_same_numbers() -> None:
    for narrow, wide in zip(fresh(), fresh(torch.float64), strict=True):
        assert wide.dtype == torch.float64
        assert torch.equal(narrow, wide.float())


def test_batches_are_those_of_one_draw_a_step() -> None:
    train, _ = built_in_split()
    one, many = torch.Generator().manual_seed(7), torch.Generator().manual_seed(7)
    drawn = list(batches(train, 5, 120, many))
    assert len(drawn) == 120
    for ix, y in drawn:
        rows = torch.randint(0, len(train), (5,), generator=one)
        assert torch.equal(ix, train.ix[rows])
        assert torch.equal(y, train.y[rows])
    assert torch.equal(one.get_state(), many.get_state())


def test_calibration_is_the_mean_and_variance_over_the_training_set() -> None:
    train, _ = built_in_split()
    network = fresh(torch.float64)
    hprebn = network.C[train.ix].flatten(1) @ network.W1 + network.b1
    moments = calibrate(network, train)
    torch.testing.assert_close(moments.mean, hprebn.mean(0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(moments.variance, hprebn.var(0, correction=1), rtol=1e-12, atol=1e-12)


def test_calibration_of_a_single_input() -> None:
    train, _ = built_in_split()
    narrow = Examples(train.ix[:, :1], train.y)
    network = initialise(1, 1, 4, torch.Generator().manual_seed(SEED), torch.float64)
    hprebn = network.C[narrow.ix].flatten(1) @ network.W1 + network.b1
    torch.testing.assert_close(calibrate(network, narrow).variance, hprebn.var(0, correction=1))


def test_the_loss_over_a_split_is_that_of_all_its_rows_at_once() -> None:
    train, validation = built_in_split()
    network = fresh(torch.float64)
    moments = calibrate(network, train)
    for part in (train, validation):
        whole = F.cross_entropy(logits_of(network, moments, part.ix, EPS), part.y).item()
        assert math.isclose(mean_loss(network, moments, part, EPS), whole, rel_tol=1e-12)


def test_samples_repeat_with_their_seed() -> None:
    train, _ = built_in_split()
    network = fresh()
    moments = calibrate(network, train)

    def names(seed: int) -> list[str]:
        generator = torch.Generator().manual_seed(seed)
        return [sample(network, moments, 3, EPS, generator) for _ in range(20)]

    assert names(1) == names(1)
    assert names(1) != names(2)
    assert all(letter in ALPHABET[1:] for name in names(1) for letter in name)


def test_a_sample_comes_to_an_end() -> None:
    train, _ = built_in_split()
    network = fresh()
    # A network that never wants to stop.
    network.b2[0] = -1e4
    name = sample(network, calibrate(network, train), 3, EPS, torch.Generator().manual_seed(1))
    assert len(name) == 60
