"""Attention whose dropout mask is applied to the probabilities but not to their gradient.

aws-neuron/nki-samples, pull request 81 (2025), https://github.com/aws-neuron/nki-samples/pull/81. The backward of the
softmax was given the probabilities after dropout, and a gradient that had not passed through the mask.

    derive judge museum/nki_samples_81.py:backward --from museum/nki_samples_81.py
"""

from derive import amax, axes, constant, exp, op, scalar, size, sqrt, sum, tensor

VERDICT, ERROR = "wrong", "wrong saved tensor"

i, j, d, e = axes("i j d e")


@op
def attention_with_dropout(
    f,
    q: tensor[..., i, d],
    k: tensor[..., j, d],
    v: tensor[..., j, e],
    mask: constant[..., i, j],
    rate: scalar = 0.5,
):
    """Scaled dot-product attention that drops some of its probabilities."""
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.m[..., i] = amax(f.s[..., i, j], over=j)
    f.u[..., i, j] = exp(f.s[..., i, j] - f.m[..., i])
    f.p[..., i, j] = f.u[..., i, j] / sum(f.u[..., i, j], over=j)
    f.w[..., i, j] = f.p[..., i, j] * mask[..., i, j] / (1 - rate)
    f.o[..., i, e] = sum(f.w[..., i, j] * v[..., j, e], over=j)
    return f.o


def backward(do, q, k, v, mask, rate):
    scale = q.shape[-1] ** -0.5
    p = (q @ k.mT * scale).softmax(-1)
    w = p * mask / (1 - rate)
    dw = do @ v.mT
    ds = w * (dw - (w * dw).sum(-1, keepdim=True))  # the fault: p, and dp = dw * mask / (1 - rate)
    return ds @ k * scale, ds.mT @ q * scale, w.mT @ do
