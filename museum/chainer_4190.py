"""A vector over its length plus eps, where the backward takes the length plus eps for the length.

chainer/chainer, pull request 4190 (2018), https://github.com/chainer/chainer/pull/4190: wrong "for non-negligible eps".
The length's own derivative is x over the length, without eps. The backward has eps in there too, which would be right
of x / sqrt(sum(x**2) + eps**2), of which the norm and the thing that is differentiated are the same root.

    derive judge museum/chainer_4190.py:backward --from museum/chainer_4190.py
"""

from derive import axes, op, scalar, sqrt, sum, tensor

VERDICT, ERROR = "wrong", "extra term"

n, d = axes("n d")


@op
def normalised_rows(f, x: tensor[n, d], eps: scalar = 0.1):
    """Each row over its length, which a constant is added to."""
    f.y[n, d] = x[n, d] / (sqrt(sum(x[n, d] ** 2, over=d)) + eps)
    return f.y


def backward(dy, x, eps):
    norm = x.norm(dim=1, keepdim=True) + eps
    along = (x * dy).sum(1, keepdim=True)
    return dy / norm - x * along / norm**3  # the fault: norm**2 * (norm - eps) in the second term
