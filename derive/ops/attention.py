"""Attention: plain, causal, biased, with shared keys and values."""

from derive import *

g, h, i, j, d, e = axes("g h i j d e")


@op
def attention(f, q: tensor[..., i, d], k: tensor[..., j, d], v: tensor[..., j, e]):
    """Scaled dot-product attention (Vaswani et al., 2017)."""
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.m[..., i] = amax(f.s[..., i, j], over=j)
    f.u[..., i, j] = exp(f.s[..., i, j] - f.m[..., i])
    f.p[..., i, j] = f.u[..., i, j] / sum(f.u[..., i, j], over=j)
    f.o[..., i, e] = sum(f.p[..., i, j] * v[..., j, e], over=j)
    return f.o


@op
def causal_attention(f, q: tensor[..., i, d], k: tensor[..., j, d], v: tensor[..., j, e]):
    """Scaled dot-product attention under a causal mask (Vaswani et al., 2017)."""
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.w[..., i, j] = where(j <= i, f.s[..., i, j], -oo)
    f.m[..., i] = amax(f.w[..., i, j], over=j)
    f.u[..., i, j] = exp(f.w[..., i, j] - f.m[..., i])
    f.p[..., i, j] = f.u[..., i, j] / sum(f.u[..., i, j], over=j)
    f.o[..., i, e] = sum(f.p[..., i, j] * v[..., j, e], over=j)
    return f.o


@op
def attention_with_bias(
    f, q: tensor[..., h, i, d], k: tensor[..., h, j, d], v: tensor[..., h, j, e], bias: tensor[h, i, j]
):
    """Attention with a learned bias a head and a pair of positions (Raffel et al., 2020); -inf masks a pair."""
    f.s[..., h, i, j] = sum(q[..., h, i, d] * k[..., h, j, d], over=d) / sqrt(size(d)) + bias[h, i, j]
    f.m[..., h, i] = amax(f.s[..., h, i, j], over=j)
    f.u[..., h, i, j] = exp(f.s[..., h, i, j] - f.m[..., h, i])
    f.p[..., h, i, j] = f.u[..., h, i, j] / sum(f.u[..., h, i, j], over=j)
    f.o[..., h, i, e] = sum(f.p[..., h, i, j] * v[..., h, j, e], over=j)
    return f.o


@op
def grouped_query_attention(f, q: tensor[..., g, h, i, d], k: tensor[..., g, j, d], v: tensor[..., g, j, e]):
    """Attention in which the heads h of a group g share their keys and values (Ainslie et al., 2023)."""
    f.s[..., g, h, i, j] = sum(q[..., g, h, i, d] * k[..., g, j, d], over=d) / sqrt(size(d))
    f.m[..., g, h, i] = amax(f.s[..., g, h, i, j], over=j)
    f.u[..., g, h, i, j] = exp(f.s[..., g, h, i, j] - f.m[..., g, h, i])
    f.p[..., g, h, i, j] = f.u[..., g, h, i, j] / sum(f.u[..., g, h, i, j], over=j)
    f.o[..., g, h, i, e] = sum(f.p[..., g, h, i, j] * v[..., g, j, e], over=j)
    return f.o
