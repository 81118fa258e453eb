"""Layer normalisation whose backward takes every input for a matrix.

flagos-ai/FlagGems, issue 5392 (2026), https://github.com/flagos-ai/FlagGems/issues/5392. The forward knows how long a
row is from the shape that is normalised. The backward took the first axis for the rows and all that follows for one of
them: right for a matrix, wrong for a batch of sequences, where it also wrote behind the end of both parameters'
gradients. (Here they are cut off instead.)

    derive judge museum/flaggems_5392.py:backward --op layernorm
"""

import torch

OP, VERDICT, ERROR = "layernorm", "right only where", "leading axes"


def backward(dy, x, gamma, beta, eps):
    d = x.shape[-1]
    mu = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((x - mu).square().mean(-1, keepdim=True) + eps)  # what the forward kept
    m = x.shape[0] if x.dim() > 1 else 1  # the fault: x.numel() // d
    mu, rstd = mu.reshape(-1, 1)[:m], rstd.reshape(-1, 1)[:m]
    rows, g = x.reshape(m, -1), dy.reshape(m, -1)
    xhat = (rows - mu) * rstd
    t = g * gamma.repeat(rows.shape[1] // d)
    dx = rstd * (t - t.mean(-1, keepdim=True) - xhat * (t * xhat).mean(-1, keepdim=True))
    return dx.reshape(x.shape), (g * xhat).sum(0)[:d], g.sum(0)[:d]
