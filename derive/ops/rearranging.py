"""Rearranging: from these few, a tensor of any shape is broadcast, reshaped, transposed or indexed."""

from derive import *

i, j, k, p, q, v = axes("i j k p q v")


@op
def repeat_axis(f, x: tensor[i, k], times: length(j)):
    """The same values at each place of a new axis: what broadcasting does to one axis."""
    f.y[i, j, k] = x[i, k]
    return f.y


@op
def repeat_number(f, a: tensor[()], times: length(j)):
    """One number at each place of a new axis."""
    f.y[j] = a[()]
    return f.y


@op
def merge_axes(f, x: tensor[..., i, j]):
    """The last two axes as one, the first of them slowest."""
    f.y[..., (i, j)] = x[..., i, j]
    return f.y


@op
def split_axis(f, x: tensor[..., k], inner: length(j)):
    """The last axis as two, of which the second is `inner` long."""
    f.y[..., i, j] = x[..., (i, j)]
    return f.y


@op
def swap_axes(f, x: tensor[p, i, k, j, q]):
    """Two axes exchanged, whatever stands before, between and after them."""
    f.y[p, j, k, i, q] = x[p, i, k, j, q]
    return f.y


@op
def take_elements(f, x: tensor[v], ix: index(v)[...]):
    """The elements at given places; repeated places accumulate their gradients."""
    f.y[...] = x[ix[...]]
    return f.y
