"""The step's loss as equations: how far a perceptron is from Burgers' equation, and from what is known of it.

`derive generate --from training/pinn/spec.py --order 1 --out burgers` writes what is derived of it, to read.
"""

from derive import axes, constant, derivative, mean, op, scalar, sum, tanh, tensor

n, m, p, h, i, j = axes("n m p=2 h i j")


@op
def perceptron(
    f,
    x: tensor[n, p],
    w1: tensor[p, h],
    b1: tensor[h],
    w2: tensor[h, i],
    b2: tensor[i],
    w3: tensor[i, j],
    b3: tensor[j],
    w4: tensor[j],
    b4: tensor[()],
):
    """Four layers: `u[n]` at the places `x[n, 0]` and the times `x[n, 1]`."""
    f.h1[n, h] = tanh(sum(x[n, p] * w1[p, h], over=p) + b1[h])
    f.h2[n, i] = tanh(sum(f.h1[n, h] * w2[h, i], over=h) + b2[i])
    f.h3[n, j] = tanh(sum(f.h2[n, i] * w3[i, j], over=i) + b3[j])
    f.u[n] = sum(f.h3[n, j] * w4[j], over=j) + b4[()]
    return f.u


@op
def burgers(
    f,
    x: constant[n, p],
    z: constant[m, p],
    known: constant[m],
    w1: tensor[p, h],
    b1: tensor[h],
    w2: tensor[h, i],
    b2: tensor[i],
    w3: tensor[i, j],
    b3: tensor[j],
    w4: tensor[j],
    b4: tensor[()],
    viscosity: scalar,
):
    """The residual of `u_t + u*u_x = viscosity * u_xx` at the points `x`, and the values that are `known` at `z`."""
    f.u = perceptron(x, w1, b1, w2, b2, w3, b3, w4, b4)
    f.ux[n] = derivative(f.u[n], x[n, 0])
    f.ut[n] = derivative(f.u[n], x[n, 1])
    f.uxx[n] = derivative(f.ux[n], x[n, 0])
    f.r[n] = f.ut[n] + f.u[n] * f.ux[n] - viscosity * f.uxx[n]
    f.v = perceptron(z, w1, b1, w2, b2, w3, b3, w4, b4)
    f.loss[()] = mean(f.r[n] ** 2, over=n) + mean((f.v[m] - known[m]) ** 2, over=m)
    return f.loss
