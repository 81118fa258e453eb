"""Digits, and no wrong formula: sigmoid's derivative as s * (1 - s), which is 0 as soon as s rounds to 1.

tenstorrent/tt-metal, issue 55724 (2026), https://github.com/tenstorrent/tt-metal/issues/55724. Above 6.25 in bfloat16
and 16.75 in float32 the gradient was exactly 0, where it is an ordinary number up to 87. No digit of 1 - s can be had
from s: it is sigmoid(-x). PyTorch's own backward does the same, and so does the one that is derived here. An error is
measured against the largest gradient of a call, beside which this one is nothing, so it is judged right.

    derive judge museum/tt_metal_55724.py:backward --op sigmoid
"""

import torch

OP, VERDICT, ERROR = "sigmoid", "right", ""


def backward(dy, x):
    s = torch.sigmoid(x)
    return dy * s * (1 - s)  # better: dy * s * torch.sigmoid(-x)
