"""The Dice coefficient with a plus in its quotient rule.

milesial/Pytorch-UNet, issue 35 (2018), https://github.com/milesial/Pytorch-UNet/issues/35. (u / v)' has a minus between
u' v and u v'. It was a plus, so that a mask that covers more than it should was asked to cover more still. Nobody saw
it, for the coefficient served to evaluate and not to train. (The line also read `/ union * union`; the sign is what was
reported and is rebuilt here.)

    derive judge museum/pytorch_unet_35.py:backward --from museum/pytorch_unet_35.py
"""

from derive import axes, constant, op, scalar, sum, tensor

VERDICT, ERROR = "wrong", "wrong sign"

n = axes("n")


@op
def dice(f, x: tensor[n].positive, t: constant[n].positive, eps: scalar = 1e-4):
    """Twice the overlap of a mask and its target, over the sum of both."""
    f.inter[()] = sum(x[n] * t[n], over=n)
    f.union[()] = sum(x[n] + t[n], over=n) + eps
    f.y[()] = 2 * f.inter[()] / f.union[()]
    return f.y


def backward(dy, x, t, eps):
    inter, union = (x * t).sum(), (x + t).sum() + eps
    return dy * 2 * (t * union + inter) / (union * union)  # the fault: t * union - inter
