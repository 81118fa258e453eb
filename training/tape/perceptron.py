"""The perceptron of digits on the tape: the forward alone is written, and the tape finds the way back."""

import torch

from training.digits.data import Digits
from training.digits.layers import Chain
from training.digits.loop import OPTIMIZERS, Recipe
from training.optimizers import clip_global_norm
from training.session import Step
from training.tape.tensor import Tensor, zero_grad


def cross_entropy(logits: Tensor, y: torch.Tensor) -> Tensor:
    """The mean cross-entropy of softmax(logits [n, c]) against labels y [n]."""
    shifted = logits - logits.max(1, keepdim=True)
    return (shifted.exp().sum(1).log() - shifted[torch.arange(len(y)), y]).mean()


class ByTape:
    """The learner that calls the tape's `backward`; its tensors and the network's share their memory."""

    def __init__(self, network: Chain, recipe: Recipe) -> None:
        self.network, self.clip = network, recipe.clip
        self.optimizer = OPTIMIZERS[recipe.optimizer][0]()
        self.parameters = [Tensor(parameter, requires_grad=True) for parameter in network.parameters]

    def loss(self, batch: Digits) -> Tensor:
        """The loss of a batch, which remembers how it was made."""
        x = Tensor(batch.x)
        *hidden, (w, b) = zip(self.parameters[::2], self.parameters[1::2], strict=True)
        for weights, biases in hidden:
            x = (x @ weights + biases).relu()
        return cross_entropy(x @ w + b, batch.y)

    def step(self, batch: Digits, rate: float) -> Step:
        zero_grad(self.parameters)
        loss = self.loss(batch)
        loss.backward()
        gradients = [tensor.grad for tensor in self.parameters if tensor.grad is not None]
        norm, clipped = clip_global_norm(gradients, self.clip)
        self.optimizer.step(self.network.parameters, gradients, rate)
        return Step(loss.item(), norm, clipped, gradients)
