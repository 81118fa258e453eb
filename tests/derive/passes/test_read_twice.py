"""A place that is read in two indices has no name of its own, and is looked up in each."""

import torch

from derive import axes, index, op, tensor, where
from tests.derive.live import assert_alike, inputs_of, module

i, n, o = axes("i n o")


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
