"""The loop beside its plain-PyTorch twin: same seed, same batches, same losses."""

import math
import os
import re
from pathlib import Path

import pytest
import torch

from training.compare.__main__ import TOLERANCE
from training.compare.measures import Agreement, race
from training.compare.measures import agree as agree_of
from training.compare.sides import NamesSide, contest_of_names
from training.data import BUILT_IN, load_names
from training.errors import NotFinite
from training.names import loop
from training.names.examples import Examples, split_examples
from training.names.loop import BLOCK, GENERATED, Recipe, descend
from training.names.network import Network, initialise
from training.names.settings import Dtype, Settings
from training.names.twin import AUTOGRAD


@pytest.fixture(scope="module")
def train() -> Examples:
    """Of the file that NAMES_FILE names, else of the built-in list; never of a download."""
    torch.set_num_threads(1)
    return split_examples(load_names(Path(os.environ.get("NAMES_FILE") or BUILT_IN)).words).train


def agree(train: Examples, settings: Settings) -> Agreement:
    return agree_of(contest_of_names(settings, train), settings.recipe.steps)


def small(steps: int) -> Settings:
    return Settings(Recipe(steps, batch=8), hidden=16)


@pytest.mark.parametrize("dtype", list(Dtype))
def test_a_thousand_steps_beside_the_twin(train: Examples, dtype: Dtype) -> None:
    agreement = agree(train, Settings(Recipe(1000), dtype=dtype))
    assert agreement.loss <= TOLERANCE[dtype]
    bound = 1e-5 if dtype is Dtype.float32 else 1e-13
    for name, difference in agreement.gradients.items():
        assert difference <= bound, f"d{name} differs by {difference}"


def test_a_gradient_one_percent_off_is_seen(train: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    right = loop.names_step_backward

    def wrong(*arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gradients = right(*arguments)
        return gradients._replace(dW1=gradients.dW1 * 1.01)

    monkeypatch.setattr(loop, "names_step_backward", wrong)
    agreement = agree(train, Settings(Recipe(50)))
    assert agreement.loss > TOLERANCE[Dtype.float32]
    assert agreement.gradients["W1"] > 1e-4


def test_a_gradient_that_is_not_a_number_is_seen(train: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    right = loop.names_step_backward

    def wrong(*arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gradients = right(*arguments)
        return gradients._replace(db2=gradients.db2 * math.nan)

    monkeypatch.setattr(loop, "names_step_backward", wrong)
    agreement = agree(train, small(3))
    assert math.isnan(agreement.loss)
    assert math.isnan(agreement.gradients["b2"])


def test_autograd_has_no_part_in_the_loop(train: Examples) -> None:
    runner = NamesSide.start(GENERATED, small(2), train)
    for _, gradients in runner.trajectory(2):
        assert all(gradient.grad_fn is None for gradient in gradients)
    for parameter in runner.network:
        assert not parameter.requires_grad
        assert parameter.grad is None


def test_gradients_have_the_shapes_of_the_parameters(train: Examples) -> None:
    runner = NamesSide.start(GENERATED, small(1), train)
    ((_, gradients),) = runner.trajectory(1)
    assert [gradient.shape for gradient in gradients] == [parameter.shape for parameter in runner.network]


def descended(train: Examples, method: loop.Method, recipe: Recipe) -> tuple[list[list[float]], Network]:
    generator = torch.Generator().manual_seed(1)
    network = initialise(3, 4, 16, generator, torch.float64)
    return list(descend(network, train, recipe, method, generator)), network


def test_the_loop_hands_out_every_loss_and_repeats_itself(train: Examples) -> None:
    recipe = Recipe(steps=BLOCK + 7, batch=8)
    losses, network = descended(train, GENERATED, recipe)
    assert [len(block) for block in losses] == [BLOCK, 7]
    again, same = descended(train, GENERATED, recipe)
    assert losses == again
    assert all(torch.equal(one, other) for one, other in zip(network, same, strict=True))
    twin, _ = descended(train, AUTOGRAD, recipe)
    assert max(abs(a - b) for a, b in zip(losses[0], twin[0], strict=True)) < 1e-10


def test_the_rate_drops_once() -> None:
    recipe = Recipe(steps=10, lr=0.1, lr_final=0.01, lr_drop=0.5)
    assert [recipe.rate(step) for step in range(10)] == [0.1] * 5 + [0.01] * 5
    assert Recipe(steps=3, lr_drop=1.0).rate(2) == 0.1
    assert Recipe(steps=3, lr_drop=0.0).rate(0) == 0.01


def test_a_loss_that_is_not_a_number_stops_the_run(train: Examples) -> None:
    with pytest.raises(NotFinite) as caught:
        descended(train, GENERATED, Recipe(steps=20, batch=8, lr=1e300))
    began = r"the first gradient that is not finite is d\w+, at step (\d+)"
    found = re.fullmatch(rf"training: the loss is nan at step (\d+); {began}; lower --lr", str(caught.value))
    assert found, str(caught.value)
    step, first = map(int, found.groups())
    assert 0 < first <= step < 20
    assert len(caught.value.losses) == step
    assert all(map(math.isfinite, caught.value.losses))


def test_both_loops_are_timed_as_often(train: Examples) -> None:
    speed = race(contest_of_names(small(10), train), blocks=2)
    assert len(speed.generated) == len(speed.autograd) == 2
    assert speed.ratio > 0
