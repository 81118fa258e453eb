"""Every gradient scaled by the first incoming gradient.

linkedin/Liger-Kernel, issue 968 (2025), https://github.com/linkedin/Liger-Kernel/issues/968. With one loss a token, a
kernel meant for one number read the first element of the incoming gradient for all of them: right under a plain mean
or sum, wrong under any weights, and 0 throughout where the first token is ignored.

    derive judge museum/liger_968.py:backward --from museum/liger_968.py
"""

import torch.nn.functional as F

from derive import amax, axes, exp, index, log, op, sum, tensor

VERDICT, ERROR = "right only where", "wrong use of the incoming gradient"

n, c = axes("n c")


@op
def token_cross_entropy(f, z: tensor[n, c], y: index(c)[n]):
    """Cross-entropy of softmax(z) against integer labels, one loss an example."""
    f.m[n] = amax(z[n, c], over=c)
    f.s[n] = sum(exp(z[n, c] - f.m[n]), over=c)
    f.logp[n, c] = z[n, c] - f.m[n] - log(f.s[n])
    f.loss[n] = -f.logp[n, y[n]]
    return f.loss


def backward(dloss, z, y):
    dz = z.softmax(-1) - F.one_hot(y, z.shape[-1])
    return dz * dloss[0]  # the fault: dloss[:, None]
