"""The twin: the same network and step as a person writes them when autograd does the backward."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from training.names.loop import Method
from training.names.network import Network


def autograd_loss(network: Network, ix: Tensor, y: Tensor, eps: float) -> Tensor:
    """The forward in plain PyTorch: the mean cross-entropy [] of a batch."""
    C, W1, b1, bngain, bnbias, W2, b2 = network
    emb = C[ix]
    hprebn = emb.view(emb.shape[0], -1) @ W1 + b1
    mean = hprebn.mean(0, keepdim=True)
    variance = hprebn.var(0, keepdim=True, unbiased=True)
    hpreact = bngain * (hprebn - mean) * torch.rsqrt(variance + eps) + bnbias
    h = torch.tanh(hpreact)
    return F.cross_entropy(h @ W2 + b2, y)


def autograd_step(network: Network, ix: Tensor, y: Tensor, rate: float, eps: float) -> tuple[Tensor, Sequence[Tensor]]:
    """One step by `loss.backward()`; the parameters require gradients."""
    for parameter in network:
        parameter.grad = None
    loss = autograd_loss(network, ix, y, eps)
    loss.backward()
    gradients = [parameter.grad for parameter in network if parameter.grad is not None]
    with torch.no_grad():
        for parameter, gradient in zip(network, gradients, strict=True):
            parameter.sub_(gradient, alpha=rate)
    return loss, gradients


AUTOGRAD = Method("autograd", autograd_step, tape=True)
