"""The residual's gradient added before the norm's backward instead of after it.

Dao-AILab/quack, pull request 53 (2025), https://github.com/Dao-AILab/quack/pull/53. The forward adds the residual and
normalises the sum, and returns both. The backward of the norm was applied to the sum of the two incoming gradients,
where the one for the sum itself should be added to what comes out of it.

    derive judge museum/quack_53.py:backward --from museum/quack_53.py
"""

import torch

from derive import axes, mean, op, rsqrt, scalar, tensor

VERDICT, ERROR = "wrong", "added on the wrong side"

d = axes("d")


@op
def prenorm(f, x: tensor[..., d], residual: tensor[..., d], gamma: tensor[d], eps: scalar = 1e-6):
    """The sum of a layer and its residual, normalised; the sum goes on as the next residual."""
    f.r[..., d] = x[..., d] + residual[..., d]
    f.rrms[...] = rsqrt(mean(f.r[..., d] ** 2, over=d) + eps)
    f.y[..., d] = gamma[d] * f.r[..., d] * f.rrms[...]
    return f.y, f.r


def backward(dy, dr, x, residual, gamma, eps):
    r = x + residual
    rrms = torch.rsqrt(r.square().mean(-1, keepdim=True) + eps)
    rhat = r * rrms
    g = gamma * (dy + dr)  # the fault: dr belongs behind the norm
    dx = rrms * (g - rhat * (g * rhat).mean(-1, keepdim=True))
    dgamma = (dy * rhat).reshape(-1, gamma.numel()).sum(0)
    return dx, dx, dgamma
