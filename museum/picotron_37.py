"""A false alarm: rowsum(dO * O) in the backward of attention.

huggingface/picotron, issue 37 (2026), https://github.com/huggingface/picotron/issues/37 holds that it should be
rowsum(dP * P). Both are right, and equal: O = P V and dP = dO V^T. The first reads a smaller matrix.

    derive judge museum/picotron_37.py:backward --op attention
"""

OP, VERDICT, ERROR = "attention", "right", ""


def backward(do, q, k, v):
    scale = q.shape[-1] ** -0.5
    p = (q @ k.mT * scale).softmax(-1)
    o = p @ v
    ds = p * (do @ v.mT - (do * o).sum(-1, keepdim=True))
    return ds @ k * scale, ds.mT @ q * scale, p.mT @ do
