"""RMS normalisation whose input's gradient forgets the weight.

karpathy/llm.c, pull request 763 (2024), https://github.com/karpathy/llm.c/pull/763: a reader compared his own
backward with the one proposed there, found that he had not multiplied by the weight, and had spent days looking for
it.

    derive judge museum/llm_c_763.py:backward --op rmsnorm
"""

import torch

OP, VERDICT, ERROR = "rmsnorm", "wrong", "missing factor"


def backward(dy, x, gamma, eps):
    rrms = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    xhat = x * rrms
    dx = rrms * (dy - xhat * (dy * xhat).mean(-1, keepdim=True))  # the fault: gamma * dy for dy
    return dx, (dy * xhat).reshape(-1, gamma.numel()).sum(0)
