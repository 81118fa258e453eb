"""Softplus, whose derivative is spelt exp(x) / (exp(x) + 1), and infinity over infinity beyond the last float.

tenstorrent/tt-metal, pull request 56397 (2026), https://github.com/tenstorrent/tt-metal/pull/56397. Where the
exponential overflows, its product with the reciprocal of itself is infinity times 0: 0 on that device, not a number
here, and 1 in truth. A threshold of 20, above which softplus is taken for the identity, hides it; one of 100 does not.

    derive judge museum/tt_metal_56397.py:backward --op softplus
"""

import torch

OP, VERDICT, ERROR = "softplus", "right only where", "overflow"


def backward(dy, x):
    e = torch.exp(x)
    return dy * e * torch.reciprocal(e + 1)  # the fault: torch.sigmoid(x)
