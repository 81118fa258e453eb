"""A learned step of quantisation, with the mask of the one gradient on the other.

pytorch/pytorch, pull request 41968 (2020), https://github.com/pytorch/pytorch/pull/41968. Inside the range x passes its
gradient on and the step has the rounding error's; outside x has none and the step has the bound's. The incoming
gradient went to x without the mask, and with it, instead of as it came, into the sum for the step: what saturates moves
x for ever and never widens the step. (The rounding error is an input here, since rounding has no derivative.)

    derive judge museum/pytorch_41968.py:backward --from museum/pytorch_41968.py
"""

from derive import axes, constant, op, scalar, tensor, where

VERDICT, ERROR = "wrong", "mask on the wrong gradient"

n = axes("n")


@op
def learned_step(
    f, x: tensor[n], step: tensor[()].positive, error: constant[n], low: scalar = -1.0, high: scalar = 1.0
):
    """Quantised values whose gradients go straight through the rounding (LSQ, Esser et al., 2020)."""
    f.q[n] = x[n] / step[()]
    f.inside[n] = x[n] + step[()] * error[n]
    f.above[n] = where(f.q[n] > high, step[()] * high, f.inside[n])
    f.y[n] = where(f.q[n] < low, step[()] * low, f.above[n])
    return f.y


def backward(dy, x, step, error, low, high):
    inside = (x / step >= low) & (x / step <= high)
    dx = dy  # the fault: dy * inside
    dstep = (dy * inside * error).sum()  # the fault: low and high count where x is outside
    return dx, dstep
