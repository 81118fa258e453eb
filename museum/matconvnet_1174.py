"""Batch normalisation of images by moments from outside, differentiated as if they came from inside.

vlfeat/matconvnet, issue 1174 (2018), https://github.com/vlfeat/matconvnet/issues/1174. One function served both cases
of the backward. A reader who made adversarial images, where the gradient of the input is all that counts, took a while
to find it; finite differences with the option `moments` show it at once.

    derive judge museum/matconvnet_1174.py:backward --from museum/matconvnet_1174.py
"""

from derive import axes, constant, op, tensor

VERDICT, ERROR = "wrong", "not held constant"

n, c, h, w = axes("n c h w")


@op
def normalised_images(
    f, x: tensor[n, c, h, w], g: tensor[c], b: tensor[c], mu: constant[c], sigma: constant[c].positive
):
    """Each channel of each image less its given mean, over its given deviation."""
    f.y[n, c, h, w] = g[c] * (x[n, c, h, w] - mu[c]) / sigma[c] + b[c]
    return f.y


def backward(dy, x, g, b, mu, sigma):
    g, mu, sigma = (t[:, None, None] for t in (g, mu, sigma))
    images = (0, 2, 3)
    xhat = (x - mu) / sigma
    through_mean = dy.mean(images, keepdim=True)
    through_deviation = xhat * (dy * xhat).mean(images, keepdim=True)
    dx = g / sigma * (dy - through_mean - through_deviation)  # the fault: g / sigma * dy
    return dx, (dy * xhat).sum(images), dy.sum(images)
