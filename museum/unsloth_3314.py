"""A false alarm: gradients that are stored in the buffers of other tensors.

unslothai/unsloth, issue 3314 (2025), https://github.com/unslothai/unsloth/issues/3314 reads the names of the buffers
as those of the gradients. Each buffer is read before it is written, and what ends up in them is right.

    derive judge museum/unsloth_3314.py:backward --op swiglu
"""

import torch

OP, VERDICT, ERROR = "swiglu", "right", ""


def backward(dy, gate, up):
    dw, e, g = dy.clone(), gate.clone(), up.clone()  # the kernel's own buffers
    s = torch.sigmoid(e)
    f = e * s
    df = dw * f
    dg = dw * g
    dw.copy_(f * g)  # the forward's output, kept for the layer below
    g.copy_(dg * s * (1 + e * (1 - s)))
    e.copy_(df)
    return g, e
