"""Shapes: heads, transposes, diagonals, gathers. They move elements and compute nothing."""

from derive import *

n, t, h, k, d, i, j, r = axes("n t h k d i j r")


@op
def merge_heads(f, x: tensor[..., h, t, k]):
    """Heads back into one axis of features, the head slowest."""
    f.y[..., t, (h, k)] = x[..., h, t, k]
    return f.y


@op
def split_heads(f, x: tensor[..., t, d], heads: length(h)):
    """The features as heads, the head slowest."""
    f.y[..., h, t, k] = x[..., t, (h, k)]
    return f.y


@op
def transpose(f, x: tensor[..., i, j]):
    """The last two axes, exchanged."""
    f.y[..., j, i] = x[..., i, j]
    return f.y


@op
def diagonal(f, x: tensor[..., i, i]):
    """The diagonal of a square matrix."""
    f.y[..., i] = x[..., i, i]
    return f.y


@op
def trace(f, x: tensor[i, i]):
    """The sum of the diagonal of a square matrix."""
    f.y[()] = sum(x[i, i], over=i)
    return f.y


@op
def tril(f, x: tensor[..., i, j]):
    """The lower triangle of a matrix, zeros above it."""
    f.y[..., i, j] = where(j <= i, x[..., i, j], 0)
    return f.y


@op
def gather_rows(f, x: tensor[n, d], ix: index(d)[n, r]):
    """From each row the elements at given places; repeated places accumulate their gradients."""
    f.y[n, r] = x[n, ix[n, r]]
    return f.y


a, b, c = axes("a b c")


@op
def concatenate(f, x: tensor[..., a], z: tensor[..., b]):
    """Two tensors one after the other along the last axis."""
    f.y[..., c] = concat(x[..., a], z[..., b], along=c)
    return f.y
