"""A false alarm: half the gradient of an element that stands twice.

graphdeco-inria/gaussian-splatting, issue 551 (2023), https://github.com/graphdeco-inria/gaussian-splatting/issues/551,
and half a dozen after it, there and of its rasterizer. The off-diagonal B of a symmetric matrix enters the exponent
twice, as B u v, and its gradient was written with a factor 1/2. It is that of one of the two places; where it is used,
it counts for both. Taken together the two factors are right, and who "repairs" one of them has the wrong gradient.

    derive judge museum/gaussian_splatting_551.py:backward --from museum/gaussian_splatting_551.py
"""

import torch

from derive import axes, constant, exp, op, tensor

VERDICT, ERROR = "right", ""

n = axes("n")


@op
def splat(f, p: tensor[n], q: tensor[n], r: tensor[n], u: constant[n], v: constant[n]):
    """A Gaussian of covariance L L^T + 0.3, for L of rows (p, 0) and (q, r), at (u, v) from its mean."""
    f.a[n] = p[n] ** 2 + 0.3
    f.b[n] = p[n] * q[n]
    f.c[n] = q[n] ** 2 + r[n] ** 2 + 0.3
    f.det[n] = f.a[n] * f.c[n] - f.b[n] ** 2
    f.form[n] = (f.c[n] * u[n] ** 2 - 2 * f.b[n] * u[n] * v[n] + f.a[n] * v[n] ** 2) / f.det[n]
    f.y[n] = exp(-f.form[n] / 2)
    return f.y


def backward(dy, p, q, r, u, v):
    a, b, c = p * p + 0.3, p * q, q * q + r * r + 0.3
    det = a * c - b * b
    inverse = torch.stack((c, -b, -b, a), -1).unflatten(-1, (2, 2)) / det[:, None, None]
    offset = torch.stack((u, v), -1)
    dexponent = dy * torch.exp(-torch.einsum("ni,nij,nj->n", offset, inverse, offset) / 2)
    d_a, d_b, d_c = (-dexponent / 2 * t for t in (u * u, u * v, v * v))  # d_b: of one place of the two
    da = (-c * c * d_a + 2 * b * c * d_b - b * b * d_c) / det**2  # and here it counts twice
    db = 2 * (b * c * d_a - (det + 2 * b * b) * d_b + a * b * d_c) / det**2
    dc = (-b * b * d_a + 2 * a * b * d_b - a * a * d_c) / det**2
    return 2 * p * da + q * db, p * db + 2 * q * dc, 2 * r * dc
