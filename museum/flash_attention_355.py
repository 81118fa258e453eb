"""A backward that reads the incoming gradient as if it were contiguous.

Dao-AILab/flash-attention, issue 355 (2023), https://github.com/Dao-AILab/flash-attention/issues/355; the same in
pytorch/pytorch issue 194719 (2026), where a maintainer adds that gradcheck cannot see it, for it only ever sends
contiguous gradients.

    derive judge museum/flash_attention_355.py:backward --op tanh
"""

import torch

OP, VERDICT, ERROR = "tanh", "right only where", "strides"


def backward(dy, x):
    flat = torch.as_strided(dy, (dy.numel(),), (1,))  # the fault: dy.contiguous() first
    return flat.reshape(x.shape) * (1 - x.tanh().square())
