"""The twin: the same residual as a person writes it with autograd's double backward, and `torch.optim`."""

import torch
from torch import Tensor

from training.pinn.loop import Recipe
from training.pinn.network import Network, values
from training.pinn.problem import Points
from training.session import Step


def autograd_loss(network: Network, points: Points, viscosity: float) -> Tensor:
    """The loss [] in plain PyTorch."""
    x = points.x.detach().requires_grad_()
    u = values(network, x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    ux, ut = du[:, 0], du[:, 1]
    (dux,) = torch.autograd.grad(ux.sum(), x, create_graph=True)
    residual = ut + u * ux - viscosity * dux[:, 0]
    return residual.square().mean() + (values(network, points.z) - points.known).square().mean()


class ByAutograd:
    """The learner that calls `loss.backward()`, `clip_grad_norm_` and PyTorch's Adam."""

    def __init__(self, network: Network, recipe: Recipe) -> None:
        self.network, self.recipe = Network(*(p.requires_grad_() for p in network)), recipe
        self.optimizer = torch.optim.Adam(self.network)

    def step(self, points: Points, rate: float) -> Step:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = autograd_loss(self.network, points, self.recipe.viscosity)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.network, self.recipe.clip).item()
        gradients = [p.grad for p in self.network if p.grad is not None]
        self.optimizer.step()
        return Step(loss.item(), norm, min(norm, self.recipe.clip), gradients)
