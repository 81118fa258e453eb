"""A gradient penalty as one spec: a critic of three layers with layer norms, whose slope is to have norm 1."""

from derive import axes, constant, derivative, mean, op, scalar, sqrt, sum, tensor
from derive.ops.activations import silu
from derive.ops.normalisation import layernorm

n, d, h, k = axes("n d h k")


@op
def gradient_penalty(
    f,
    x: constant[n, d],
    side: constant[n],
    w1: tensor[d, h],
    b1: tensor[h],
    gamma1: tensor[h],
    beta1: tensor[h],
    w2: tensor[h, k],
    b2: tensor[k],
    gamma2: tensor[k],
    beta2: tensor[k],
    w3: tensor[k],
    weight: scalar = 10.0,
):
    """What the critic says of both `side`s, 1 and -1, and `weight` times how far its slope is from norm 1."""
    f.z1[n, h] = sum(x[n, d] * w1[d, h], over=d) + b1[h]
    f.y1 = layernorm(f.z1, gamma1, beta1)
    f.a1 = silu(f.y1)
    f.z2[n, k] = sum(f.a1[n, h] * w2[h, k], over=h) + b2[k]
    f.y2 = layernorm(f.z2, gamma2, beta2)
    f.a2 = silu(f.y2)
    f.u[n] = sum(f.a2[n, k] * w3[k], over=k)
    f.g[n, d] = derivative(f.u[n], x[n, d])
    f.slope[n] = sqrt(sum(f.g[n, d] ** 2, over=d))
    f.loss[()] = mean(side[n] * f.u[n], over=n) + weight * mean((f.slope[n] - 1) ** 2, over=n)
    return f.loss
