"""Attention that returns the logarithm of its sums, and takes no gradient for it.

Dao-AILab/flash-attention, issue 1817 (2025), https://github.com/Dao-AILab/flash-attention/issues/1817; asked for in
issues 141, 889 and 1137 too. A loss on that output, such as a penalty on large scores, trained nothing, in silence. Its
gradient joins the sum that is taken off a row: P * (dP - (D - dLSE)).

    derive judge museum/flash_attention_1817.py:backward --from museum/flash_attention_1817.py
"""

import torch

from derive import amax, axes, exp, log, op, size, sqrt, sum, tensor

VERDICT, ERROR = "wrong", "cotangent ignored"

i, j, d, e = axes("i j d e")


@op
def attention_and_lse(f, q: tensor[..., i, d], k: tensor[..., j, d], v: tensor[..., j, e]):
    """Scaled dot-product attention and the log-sum-exp of each row of its scores."""
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.m[..., i] = amax(f.s[..., i, j], over=j)
    f.u[..., i, j] = exp(f.s[..., i, j] - f.m[..., i])
    f.z[..., i] = sum(f.u[..., i, j], over=j)
    f.p[..., i, j] = f.u[..., i, j] / f.z[..., i]
    f.o[..., i, e] = sum(f.p[..., i, j] * v[..., j, e], over=j)
    f.lse[..., i] = f.m[..., i] + log(f.z[..., i])
    return f.o, f.lse


def backward(do, dlse, q, k, v):
    scale = q.shape[-1] ** -0.5
    p = torch.softmax(q @ k.mT * scale, -1)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))  # the fault: + dlse[..., None] inside
    return ds @ k * scale, ds.mT @ q * scale, p.mT @ do
