"""Max-pooling over windows that overlap, where each place remembers its last window only.

ahrefs/ocannl, issue 512 (2026), https://github.com/ahrefs/ocannl/issues/512. Whether a place is the largest of its
window was kept a place, not a window and place, so that the last window that holds it decides for all. Of x = [5, 3, 1,
2, 5], windows of 2 and a gradient of ones, what is right is [1, 1, 0, 1, 1]; it was [1, 2, 0, 0, 1]. All tests had
windows that do not overlap.

    derive judge museum/ocannl_512.py:backward --from museum/ocannl_512.py
"""

import torch

from derive import amax, axes, length, op, tensor

VERDICT, ERROR = "right only where", "overwritten instead of accumulated"

n, t, u, k = axes("n t u k")


@op
def max_slide(f, x: tensor[n, t], width: length(k) = 2):
    """The largest of each `width` neighbours."""
    f.y[n, u] = amax(x[n, u + k], over=k)
    return f.y


def backward(dy, x, width):
    dx, wins = torch.zeros_like(x), torch.zeros_like(x)
    for u in range(dy.shape[1]):
        window = x[:, u : u + width]
        largest = (window == window.amax(1, keepdim=True)).to(x.dtype)
        wins[:, u : u + width] = largest / largest.sum(1, keepdim=True)  # the fault: the window before is forgotten
    for u in range(dy.shape[1]):
        dx[:, u : u + width] += wins[:, u : u + width] * dy[:, u : u + 1]
    return dx
