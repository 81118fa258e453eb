"""A rotation by a quaternion, whose normalisation has no backward.

nerfstudio-project/gsplat, issue 153 (2024), https://github.com/nerfstudio-project/gsplat/issues/153. The forward
normalises the quaternion q to h; the backward does so again and returns M, the gradient of h, for that of q, which is
(M - h <h, M>) / |q|. Along q nothing changes the rotation, but M has a part there, by which the length of q drifts.
Nobody is hurt who normalises q just before: the backward of that cuts the part off again.

    derive judge museum/gsplat_153.py:backward --from museum/gsplat_153.py
"""

import torch

from derive import axes, concat, op, sqrt, sum, tensor

VERDICT, ERROR = "wrong", "derivative left out"

n, p, r = axes("n p=4 r=3")


@op
def rotated(f, q: tensor[n, p], v: tensor[n, r]):
    """Points v, each turned by a quaternion q of any length: v + 2 a (b x v) + 2 b x (b x v) of q / |q| = (a, b)."""
    f.h[n, p] = q[n, p] / sqrt(sum(q[n, p] ** 2, over=p))
    f.c0[n] = 2 * (f.h[n, 2] * v[n, 2] - f.h[n, 3] * v[n, 1])
    f.c1[n] = 2 * (f.h[n, 3] * v[n, 0] - f.h[n, 1] * v[n, 2])
    f.c2[n] = 2 * (f.h[n, 1] * v[n, 1] - f.h[n, 2] * v[n, 0])
    f.y0[n] = v[n, 0] + f.h[n, 0] * f.c0[n] + f.h[n, 2] * f.c2[n] - f.h[n, 3] * f.c1[n]
    f.y1[n] = v[n, 1] + f.h[n, 0] * f.c1[n] + f.h[n, 3] * f.c0[n] - f.h[n, 1] * f.c2[n]
    f.y2[n] = v[n, 2] + f.h[n, 0] * f.c2[n] + f.h[n, 1] * f.c1[n] - f.h[n, 2] * f.c0[n]
    f.y[n, r] = concat(f.y0[n], f.y1[n], f.y2[n], along=r)
    return f.y


def backward(dy, q, v):
    h = q / q.norm(dim=1, keepdim=True)
    a, b = h[:, :1], h[:, 1:]
    c = 2 * torch.linalg.cross(b, v)
    dc = a * dy + torch.linalg.cross(dy, b)
    db = torch.linalg.cross(c, dy) + 2 * torch.linalg.cross(v, dc)
    dv = dy + 2 * torch.linalg.cross(dc, b)
    m = torch.cat(((dy * c).sum(1, keepdim=True), db), 1)
    return m, dv  # the fault: (m - h * (h * m).sum(1, keepdim=True)) / q.norm(dim=1, keepdim=True)
