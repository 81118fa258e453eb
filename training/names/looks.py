"""What flows through the network at a step: its activations, its gradients, and how far an update goes."""

from collections.abc import Mapping

import torch
from torch import Tensor

from generated import names_step_stepwise_backward, names_step_stepwise_forward
from training.monitor import GRADIENTS, UPDATES, Monitor, Scale, beside_spread
from training.names.examples import Examples
from training.names.loop import Recipe
from training.names.network import Network

LOOKS = 100  # over a run
SCALES = {
    "activations/embcat": Scale(-4.0, 4.0),
    "activations/hpreact": Scale(-6.0, 6.0),
    "activations/h": Scale(-1.0, 1.0),
    "activations/logits": Scale(-15.0, 10.0),
    "gradients": GRADIENTS,
    "updates": UPDATES,
}


def monitor() -> Monitor:
    """An empty one with the scales of this network."""
    return Monitor(SCALES)


def batch_of(train: Examples, recipe: Recipe, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """A batch to look at; drawn apart from those of the training, which it therefore leaves as they are."""
    generator = torch.Generator().manual_seed((seed + 7919 * (step + 1)) % 2**63)
    rows = torch.randint(0, len(train), (recipe.batch,), generator=generator)
    return train.ix[rows], train.y[rows]


@torch.no_grad()
def flow(
    network: Network, ix: Tensor, y: Tensor, rate: float, eps: float
) -> tuple[Mapping[str, Mapping[str, Tensor]], Tensor]:
    """Tensors by group and name, and dlogits [n, c]; the gradients are the stepwise backward's."""
    loss, saved = names_step_stepwise_forward(*network, ix, y, eps)
    gradients = names_step_stepwise_backward(torch.ones_like(loss), *saved)
    activations = {
        "embcat": saved.embcat,
        "hpreact": network.bngain * saved.bnraw + network.bnbias,
        "h": saved.h,
        "logits": saved.logits,
    }
    named = gradients._asdict()
    shown = ("logits", "h", "hpreact", "hprebn", "embcat", *Network._fields)
    changes = [rate * named[f"d{name}"] for name in Network._fields]
    groups = {
        "activations": activations,
        "gradients": {f"d{name}": named[f"d{name}"] for name in shown},
        "updates": beside_spread(network._asdict(), changes),
    }
    return groups, gradients.dlogits
