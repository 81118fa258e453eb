"""RMS normalisation whose weight never receives a gradient.

unslothai/unsloth, issue 4533 (2026), https://github.com/unslothai/unsloth/issues/4533; asked first in issue 45
(2023). The backward returned None for the weight. Autograd takes that for "does not depend on it", and nothing
complains.

    derive judge museum/unsloth_4533.py:RMSNorm --op rmsnorm
"""

import torch

OP, NAME, VERDICT, ERROR = "rmsnorm", "RMSNorm", "wrong", "missing gradient"


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, eps):
        rrms = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, gamma, rrms)
        return gamma * (x * rrms)

    @staticmethod
    def backward(ctx, dy):
        x, gamma, rrms = ctx.saved_tensors
        xhat, g = x * rrms, gamma * dy
        dx = rrms * (g - xhat * (g * xhat).mean(-1, keepdim=True))
        return dx, None, None  # the fault: (dy * xhat) summed over the rows
