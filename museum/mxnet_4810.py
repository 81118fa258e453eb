"""A vector over its length plus eps, with the gradient of one whose eps is under the root.

apache/mxnet, pull request 4810 (2017), https://github.com/apache/mxnet/pull/4810. The backward is written for y = x / n
where n is the root of a sum, and divides by n. The forward divided by n + eps, whose derivative is another one. The
repair moved eps under the root, so that the forward is now the function that the backward was always of.

    derive judge museum/mxnet_4810.py:backward --from museum/mxnet_4810.py
"""

from derive import axes, op, scalar, sqrt, sum, tensor

VERDICT, ERROR = "wrong", "missing term"

d = axes("d")


@op
def l2_normalised(f, x: tensor[..., d], eps: scalar = 0.1):
    """A vector over its length, which a constant is added to."""
    f.length[...] = sqrt(sum(x[..., d] ** 2, over=d))
    f.y[..., d] = x[..., d] / (f.length[...] + eps)
    return f.y


def backward(dy, x, eps):
    length = x.norm(dim=-1, keepdim=True)
    y = x / (length + eps)
    return (dy - y * (dy * y).sum(-1, keepdim=True)) / length  # right: dy / (length + eps) for the first term
