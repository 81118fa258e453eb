"""Recurrent layers, of which each place reads the state of the one before it, and sums that are discounted."""

from derive import *

n, t, i, d, e = axes("n t i d e")
three, four = axes("g=3"), axes("g=4")


@op
def rnn(f, x: tensor[n, t, i], w: tensor[i, d], b: tensor[d], u: tensor[e, d], h0: tensor[n, d]):
    """A recurrent layer (Elman, 1990), as `torch.nn.RNN` has it with both biases in one."""
    f.z[n, t, d] = sum(x[n, t, i] * w[i, d], over=i) + b[d]
    f.h[n, -1, d] = h0[n, d]
    f.h[n, t, d] = tanh(f.z[n, t, d] + sum(f.h[n, t - 1, e] * u[e, d], over=e))
    return f.h


@op
def gru(
    f,
    x: tensor[n, t, i],
    w: tensor[i, three, d],
    b: tensor[three, d],
    u: tensor[e, three, d],
    c: tensor[three, d],
    h0: tensor[n, d],
):
    """A gated recurrent unit (Cho et al., 2014), as `torch.nn.GRU` has it: gates are reset, update, new."""
    f.z[n, t, three, d] = sum(x[n, t, i] * w[i, three, d], over=i) + b[three, d]
    f.h[n, -1, d] = h0[n, d]
    f.v[n, t, three, d] = sum(f.h[n, t - 1, e] * u[e, three, d], over=e) + c[three, d]
    f.reset[n, t, d] = sigmoid(f.z[n, t, 0, d] + f.v[n, t, 0, d])
    f.update[n, t, d] = sigmoid(f.z[n, t, 1, d] + f.v[n, t, 1, d])
    f.new[n, t, d] = tanh(f.z[n, t, 2, d] + f.reset[n, t, d] * f.v[n, t, 2, d])
    f.h[n, t, d] = f.new[n, t, d] + f.update[n, t, d] * (f.h[n, t - 1, d] - f.new[n, t, d])
    return f.h


@op
def lstm(
    f,
    x: tensor[n, t, i],
    w: tensor[i, four, d],
    b: tensor[four, d],
    u: tensor[e, four, d],
    h0: tensor[n, d],
    c0: tensor[n, d],
):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), as `torch.nn.LSTM` has it: gates i, f, g, o.

    It returns the hidden states and what is remembered at each place.
    """
    f.h[n, -1, d] = h0[n, d]
    f.c[n, -1, d] = c0[n, d]
    f.x_w[n, t, four, d] = sum(x[n, t, i] * w[i, four, d], over=i) + b[four, d]
    f.z[n, t, four, d] = f.x_w[n, t, four, d] + sum(f.h[n, t - 1, e] * u[e, four, d], over=e)
    f.c[n, t, d] = sigmoid(f.z[n, t, 1, d]) * f.c[n, t - 1, d] + sigmoid(f.z[n, t, 0, d]) * tanh(f.z[n, t, 2, d])
    f.h[n, t, d] = sigmoid(f.z[n, t, 3, d]) * tanh(f.c[n, t, d])
    return f.h, f.c


@op
def returns(f, r: tensor[..., t], v: tensor[...], gamma: scalar = 0.99):
    """Discounted sums of rewards from each step on, where `v` is what the rest is worth."""
    f.g[..., size(t)] = v[...]
    f.g[..., t] = r[..., t] + gamma * f.g[..., t + 1]
    return f.g
