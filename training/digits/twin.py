"""The twin: the same perceptron and step as a person writes them with autograd and `torch.optim`."""

import torch
import torch.nn.functional as F
from torch import Tensor

from training.digits.data import Digits
from training.digits.layers import Chain
from training.digits.loop import Descent, Recipe
from training.session import Step


def autograd_loss(parameters: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The forward in plain PyTorch: the mean cross-entropy [] of a batch."""
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    for w, b in pairs[:-1]:
        x = F.relu(x @ w + b)
    w, b = pairs[-1]
    return F.cross_entropy(x @ w + b, y)


def optimizer_of(descent: Descent, parameters: list[Tensor]) -> torch.optim.Optimizer:
    """PyTorch's own optimizer of that name."""
    match descent:
        case Descent.sgd:
            return torch.optim.SGD(parameters)
        case Descent.momentum:
            return torch.optim.SGD(parameters, momentum=0.9)
        case Descent.rmsprop:
            return torch.optim.RMSprop(parameters)
        case Descent.adam:
            return torch.optim.Adam(parameters)


class ByAutograd:
    """The learner that calls `loss.backward()`, `clip_grad_norm_` and an optimizer of PyTorch's."""

    def __init__(self, network: Chain, recipe: Recipe) -> None:
        self.parameters, self.clip = [p.requires_grad_() for p in network.parameters], recipe.clip
        self.optimizer = optimizer_of(recipe.optimizer, self.parameters)

    def step(self, batch: Digits, rate: float) -> Step:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = autograd_loss(self.parameters, batch.x, batch.y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip).item()
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        self.optimizer.step()
        return Step(loss.item(), norm, min(norm, self.clip), gradients)
