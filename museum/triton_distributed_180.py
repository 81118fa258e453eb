"""Every row's gradient written to row 0.

ByteDance-Seed/Triton-distributed, issue 180 (2026), https://github.com/ByteDance-Seed/Triton-distributed/issues/180:
the kernel moved the pointers that it reads from to its row, and not those that it writes to. The last row to be done is
what row 0 holds; the others hold whatever was in memory (here 0). The gradient of the rows' scale, which has a pointer
of its own, is right, and a test of one row sees nothing.

    derive judge museum/triton_distributed_180.py:backward --from museum/triton_distributed_180.py
"""

import torch

from derive import axes, op, sigmoid, tensor

VERDICT, ERROR = "wrong", "written to the wrong place"

n, d = axes("n d")


@op
def scaled_swiglu(f, a: tensor[n, d], b: tensor[n, d], scale: tensor[n]):
    """SwiGLU whose rows are scaled, as by the weights of a mixture of experts."""
    f.y[n, d] = a[n, d] * sigmoid(a[n, d]) * b[n, d] * scale[n]
    return f.y


def backward(dy, a, b, scale):
    da, db, dscale = torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(scale)
    for row in range(len(a)):
        s = torch.sigmoid(a[row])
        g = dy[row] * scale[row]
        da[0] = g * b[row] * s * (1 + a[row] * (1 - s))  # the fault: da[row]
        db[0] = g * a[row] * s  # the fault: db[row]
        dscale[row] = (dy[row] * a[row] * s * b[row]).sum()
    return da, db, dscale
