"""The gradient of a weight, summed over many rows in half precision.

linkedin/Liger-Kernel, pull request 950 (2025), https://github.com/linkedin/Liger-Kernel/pull/950: one of two kernels
reduced its block of products before it widened them. Once a bfloat16 sum is 256 times as large as what is added,
adding does nothing.

    derive judge museum/liger_950.py:backward --op rmsnorm
"""

import torch

OP, VERDICT, ERROR = "rmsnorm", "right only where", "precision"


def backward(dy, x, gamma, eps):
    wide = x.float() if x.dtype.itemsize < 4 else x
    rrms = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    xhat, g = wide * rrms, (gamma * dy).to(wide.dtype)
    dx = rrms * (g - xhat * (g * xhat).mean(-1, keepdim=True))
    dgamma = torch.zeros_like(gamma)
    for row in (dy * xhat.to(x.dtype)).reshape(-1, gamma.numel()):
        dgamma += row  # the fault: a float32 dgamma
    return dx.to(x.dtype), dgamma
