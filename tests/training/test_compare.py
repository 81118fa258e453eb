"""The comparisons: every loop has one, a wrong gradient is seen in it, memory is counted."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from training.compare.measures import agree, peak, race, weigh
from training.compare.sides import Ask, Model, contest
from training.data import BUILT_IN
from training.digits import layers
from training.gpt import network
from training.names.settings import Dtype

STEPS = {Model.names: 20, Model.digits: 20, Model.tape: 10, Model.gpt: 10, Model.pinn: 10}


@pytest.mark.parametrize("model", list(Model))
def test_every_loop_beside_its_twin(model: Model) -> None:
    both = contest(model, Ask(Dtype.float64, batch=4, names=BUILT_IN))
    agreement = agree(both, STEPS[model])
    assert agreement.loss < 1e-10
    for name, difference in agreement.gradients.items():
        assert difference < 1e-9 * max(agreement.sizes[name], 1e-3), name
    assert sum(size > 1e-6 for size in agreement.sizes.values()) >= 0.8 * len(both.parameters)


@pytest.mark.parametrize(("model", "module"), [(Model.digits, layers), (Model.gpt, network)])
def test_a_gradient_one_percent_off_is_seen(model: Model, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = module.linear_backward

    def wrong(*arguments: Any) -> Any:
        gradients = right(*arguments)
        return gradients._replace(db=gradients.db * 1.01)

    monkeypatch.setattr(module, "linear_backward", wrong)
    assert agree(contest(model, Ask(Dtype.float64, batch=4, names=BUILT_IN)), 5).loss > 1e-8


class Known:
    """A side whose third step has two tensors of a megabyte at once, and hands out one of half a megabyte."""

    def trajectory(self, steps: int) -> Iterator[tuple[float, Sequence[Tensor]]]:
        for _ in range(steps):
            one = torch.ones(250_000)
            two = one + 1
            del one
            yield 0.0, [two[:10].clone(), torch.ones(125_000)]

    def block(self, steps: int) -> None:
        pass


def test_memory_is_that_of_the_peak() -> None:
    assert 2_000_000 <= peak(Known()) < 2_100_000
    both: Any = SimpleNamespace(ours=lambda steps: Known(), twin=lambda steps: Known())
    assert weigh(both).generated == weigh(both).autograd


def test_speed_is_measured_in_pairs() -> None:
    speed = race(contest(Model.tape, Ask(batch=2)), blocks=2)
    assert len(speed.generated) == len(speed.autograd) == 2
    assert speed.ratio > 0
