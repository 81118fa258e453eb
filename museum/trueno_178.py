"""RMS normalisation whose kernel takes a pointer to the weight's gradient and never writes there.

paiml/trueno, pull request 178 (2026), https://github.com/paiml/trueno/pull/178. The buffer was zeroed by the caller and
stayed so: the norms' weights kept their first values, and the training of everything else went on.

    derive judge museum/trueno_178.py:backward --op rmsnorm
"""

import torch

OP, VERDICT, ERROR = "rmsnorm", "wrong", "missing gradient"


def backward(dy, x, gamma, eps):
    rrms = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    xhat, g = x * rrms, gamma * dy
    dx = rrms * (g - xhat * (g * xhat).mean(-1, keepdim=True))
    dgamma = torch.zeros_like(gamma)  # the fault: += dy * xhat, row by row
    return dx, dgamma
