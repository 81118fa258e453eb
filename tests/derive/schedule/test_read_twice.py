"""A place that is read in two indices has no name of its own, and is looked up in each; what is copied is so once."""

import inspect

import torch

from derive import axes, concat, index, length, op, sum, tensor, where
from tests.derive.live import assert_alike, inputs_of, module

c, h, i, n, o, q = axes("c h i n o q")
two = axes("two=2")


@op
def through_two(f, x: tensor[i], z: tensor[i], y: index(i)[n], w: index(n)[o]):
    f.s[o] = x[y[w[o]]] * z[y[w[o]]]
    return f.s


@op
def asked_and_read(f, x: tensor[i], y: index(i)[n], w: index(n)[o]):
    f.s[o] = where(y[w[o]] > 1, x[y[w[o]]] ** 2, 0)
    return f.s


Y, W = torch.tensor([3, 0, 0, 2]), torch.tensor([1, 1, 3, 0, 2])


def test_of_two_tensors() -> None:
    inputs = inputs_of(through_two.op, {"x": (4,), "z": (4,), "y": (4,), "w": (5,)})
    x, z = inputs["x"], inputs["z"]
    assert_alike(module(through_two.op).through_two(x, z, Y, W), x[Y[W]] * z[Y[W]], [x, z])


def test_of_a_condition_and_a_tensor() -> None:
    x = inputs_of(asked_and_read.op, {"x": (4,), "y": (4,), "w": (5,)})["x"]
    expected = torch.where(Y[W] > 1, x[Y[W]] ** 2, 0)
    assert_alike(module(asked_and_read.op).asked_and_read(x, Y, W), expected, [x])


@op
def shuffled(f, x: tensor[n, c, h], w: tensor[o, c], b: tensor[o], many: length(q)):
    """Half of the channels are places: all of the backward reads them as channels again."""
    f.z[n, o, h] = sum(w[o, c] * x[n, c, h], over=c) + b[o]
    f.t[n, q, two, h] = f.z[n, (q, two), h]
    f.y[n, q, (h, two)] = f.t[n, q, two, h]
    return f.y


def test_what_is_brought_together_is_so_once() -> None:
    inputs = inputs_of(shuffled.op, {"x": (3, 4, 5), "w": (6, 4), "b": (6,)})
    x, w, b = inputs.values()
    z = w @ x + b[:, None]
    expected = z.unflatten(1, (3, 2)).transpose(2, 3).flatten(2)
    assert_alike(module(shuffled.op).shuffled(x, w, b, 3), expected, [x, w, b])
    backward = inspect.getsource(module(shuffled.op)).partition("def shuffled_backward")[2]
    assert backward.count("dy_apart = ") == backward.count(".unflatten(") == backward.count(".flatten(1, 2)") == 1


@op
def edges(f, x: tensor[n, i], start: index(n)[h], end: index(n)[h]):
    """Rows at the end of an edge, beside their differences, which have an axis of their own."""
    f.y[h, q] = concat(x[end[h], i], x[start[h], c] - x[end[h], c], along=q)
    return f.y


def test_rows_that_an_index_chooses_are_copied_once_whatever_their_axes_are_called() -> None:
    x = inputs_of(edges.op, {"x": (4, 3), "start": (5,), "end": (5,)})["x"]
    start, end = torch.tensor([1, 1, 3, 0, 2]), torch.tensor([0, 3, 3, 1, 2])
    expected = torch.cat([x[end], x[start] - x[end]], 1)
    assert_alike(module(edges.op).edges(x, start, end), expected, [x])
    forward = inspect.getsource(module(edges.op)).partition("def edges_backward")[0]
    assert forward.count("functional.embedding(end, x)") == forward.count("functional.embedding(start, x)") == 1
