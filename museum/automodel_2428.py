"""Cross-entropy against soft labels, with the gradient of labels that sum to 1.

NVIDIA-NeMo/Automodel, issue 2428: https://github.com/NVIDIA-NeMo/Automodel/issues/2428. The thread could not be read
when this was written; the function is rebuilt from its one-line description. Each softmax stands for one unit of
probability, so it counts as often as its row of labels sums to: where labels are weighted, masked, or cut to the
likeliest few, that is not once.

    derive judge museum/automodel_2428.py:backward --from museum/automodel_2428.py
"""

from derive import amax, axes, constant, exp, log, op, sum, tensor

VERDICT, ERROR = "wrong", "missing factor"

n, c = axes("n c")


@op
def soft_cross_entropy(f, z: tensor[n, c], p: constant[n, c]):
    """Cross-entropy of softmax(z) against labels of any weight, one loss an example."""
    f.m[n] = amax(z[n, c], over=c)
    f.s[n] = sum(exp(z[n, c] - f.m[n]), over=c)
    f.loss[n] = -sum(p[n, c] * (z[n, c] - f.m[n] - log(f.s[n])), over=c)
    return f.loss


def backward(dloss, z, p):
    return dloss[:, None] * (z.softmax(-1) - p)  # the fault: p.sum(-1, keepdim=True) times the softmax
