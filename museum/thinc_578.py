"""Mish with a term missing from the numerator of its derivative.

explosion/thinc, pull request 578 (2022), https://github.com/explosion/thinc/pull/578. The derivative is exp(x) *
omega / delta**2 with omega = 4 (x + 1) + 4 exp(2x) + exp(3x) + exp(x) (4x + 6); the exp(3x) was not there. The closed
form that is derived here has no such numerator, so no single change of it explains the error; the counterexample
stands for itself.

    derive judge museum/thinc_578.py:backward --from museum/thinc_578.py
"""

import torch

from derive import op, softplus, tanh, tensor

VERDICT, ERROR = "wrong", "unexplained"


@op
def mish(f, x: tensor[...]):
    """An element times the hyperbolic tangent of its softplus (Misra, 2019)."""
    f.y[...] = x[...] * tanh(softplus(x[...]))
    return f.y


def backward(dy, x):
    e = torch.exp(x)
    omega = 4 * (x + 1) + 4 * e**2 + e * (4 * x + 6)  # the fault: + e**3
    return dy * e * omega / (2 * e + e**2 + 2) ** 2
