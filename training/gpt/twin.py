"""The twin: the same decoder and step as a person writes them with PyTorch's layers, autograd and AdamW."""

import torch
import torch.nn.functional as F
from torch import Tensor

from training.gpt.examples import Sequences
from training.gpt.loop import Recipe
from training.gpt.network import GPT, MLP, Attention
from training.session import Step


def block(a: Attention, m: MLP, x: Tensor, heads: int) -> Tensor:
    """Attention, then the MLP, x [n, t, d] to y [n, t, d], in plain PyTorch."""
    n, t, d = x.shape
    normed = F.layer_norm(x, (d,), a.gain, a.bias)
    q, k, v = (
        F.linear(normed, W.T, b).view(n, t, heads, -1).transpose(1, 2)
        for W, b in ((a.Wq, a.bq), (a.Wk, a.bk), (a.Wv, a.bv))
    )
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(o.transpose(1, 2).reshape(n, t, d), a.Wo.T, a.bo)
    normed = F.layer_norm(x, (d,), m.gain, m.bias)
    return x + F.linear(F.gelu(F.linear(normed, m.Wup.T, m.bup), approximate="tanh"), m.Wdown.T, m.bdown)


def autograd_loss(gpt: GPT, ix: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """The forward in plain PyTorch: the mean cross-entropy [] over the places whose weight is 1."""
    t, d = ix.shape[1], gpt.C.shape[1]
    x = gpt.C[ix] + gpt.P[:t]
    for attention, mlp in gpt.blocks:
        x = block(attention, mlp, x, gpt.heads)
    head = gpt.head
    normed = F.layer_norm(x, (d,), head.gain, head.bias)
    logits = F.linear(normed, gpt.C if head.W is None else head.W.T, head.b)
    losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
    return (losses * weight.flatten()).sum() / weight.sum()


class ByAutograd:
    """The learner that calls `loss.backward()`, `clip_grad_norm_` and PyTorch's AdamW."""

    def __init__(self, gpt: GPT, recipe: Recipe) -> None:
        self.gpt, self.clip = gpt, recipe.clip
        parameters = [p.requires_grad_() for p in gpt.parameters]
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": recipe.decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))

    def step(self, batch: Sequences, rate: float) -> Step:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = autograd_loss(self.gpt, batch.ix, batch.y, batch.weight)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.gpt.parameters, self.clip).item()
        gradients = [p.grad for p in self.gpt.parameters if p.grad is not None]
        self.optimizer.step()
        return Step(loss.item(), norm, min(norm, self.clip), gradients)
