"""RMS normalisation that multiplies one of its two terms by the weight twice.

NVIDIA/Megatron-LM, pull request 6859 (2026), https://github.com/NVIDIA/Megatron-LM/pull/6859. The weight stands once
inside the sum over the row and was there once more in front of it, which shows only where weights are not all 1.

    derive judge museum/megatron_6859.py:backward --op rmsnorm
"""

import torch

OP, VERDICT, ERROR = "rmsnorm", "wrong", "extra factor"


def backward(dy, x, gamma, eps):
    rrms = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    xhat, g = x * rrms, gamma * dy
    dx = rrms * (g - gamma * xhat * (g * xhat).mean(-1, keepdim=True))  # the fault: gamma * xhat
    return dx, (dy * xhat).reshape(-1, gamma.numel()).sum(0)
