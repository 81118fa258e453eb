"""A bias whose gradient is summed over the first axis only.

ooples/AiDotNet.Tensors, issue 234 (2026), https://github.com/ooples/AiDotNet.Tensors/issues/234: right for a batch of
vectors, of the wrong shape for a batch of sequences.

    derive judge museum/aidotnet_234.py:backward --op linear
"""

OP, VERDICT, ERROR = "linear", "right only where", "leading axes"


def backward(dy, x, w, b):
    rows = (-1, x.shape[-1])
    dw = x.reshape(rows).T @ dy.reshape(-1, dy.shape[-1])
    return dy @ w.T, dw, dy.sum(0)  # the fault: a sum over all axes but the last
