"""The four classic errors of a hand-made engine, each a switch: a gradient overwritten where a value is used twice,
gradients kept from the step before, a broadcast whose gradient is not reduced as it should be, nodes visited in a
wrong order.

The first two are in the record of karpathy/micrograd, the engine that most are made after: its lecture first wrote
`=` for `+=` (karpathy/nn-zero-to-hero, issue 52), and pull request 102 asks for the zeroing that a second backward
needs; issue 2 there is the order, for values used more than once.

    derive judge museum/engine.py:overwrites --from museum/engine.py
"""

import torch

from derive import axes, op, tanh, tensor

n, d = axes("n d")


@op
def twice_used(f, x: tensor[n, d], w: tensor[d]):
    """A product that goes two ways, one of them longer than the other."""
    f.h[n, d] = x[n, d] * w[d]
    f.t[n, d] = tanh(f.h[n, d])
    f.p[n, d] = f.h[n, d] * f.t[n, d]
    f.y[n, d] = f.h[n, d] + f.p[n, d]
    return f.y


class Node:
    def __init__(self, value, parents=(), pull=None):
        self.value, self.parents, self.pull, self.grad = value, parents, pull, None

    def __add__(self, other):
        return Node(self.value + other.value, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        return Node(self.value * other.value, (self, other), lambda g: (g * other.value, g * self.value))

    def tanh(self):
        t = self.value.tanh()
        return Node(t, (self,), lambda g: (g * (1 - t * t),))


def backpropagate(root, dy, fault=""):
    root.grad = dy
    for node in by_levels(root) if fault == "wrong order" else topological(root):
        for parent, g in zip(node.parents, node.pull(node.grad) if node.parents else (), strict=True):
            if g.shape != parent.value.shape:
                g = g.mean(0) if fault == "wrong reduction" else g.sum(0)
            parent.grad = g if parent.grad is None or fault == "overwrites" else parent.grad + g


def topological(root):
    """The nodes so that each stands before those it was computed from."""
    order = []

    def visit(node):
        if node not in order:
            for parent in node.parents:
                visit(parent)
            order.append(node)

    visit(root)
    return order[::-1]


def by_levels(root):
    """The nodes by their distance from the root: too early for one that a longer way leads to as well."""
    order = [root]
    for node in order:
        order += [p for p in node.parents if p not in order]
    return order


def run(dy, x, w, fault="", leaves=None):
    x, w = leaves or (Node(x), Node(w))
    h = x * w
    backpropagate(h + h * h.tanh(), dy, fault)
    return x.grad, w.grad


def right(dy, x, w):
    return run(dy, x, w)


def overwrites(dy, x, w):
    return run(dy, x, w, "overwrites")


def wrong_reduction(dy, x, w):
    return run(dy, x, w, "wrong reduction")


def wrong_order(dy, x, w):
    return run(dy, x, w, "wrong order")


_before: dict[tuple[int, ...], torch.Tensor] = {}


def never_zeroed(dy, x, w):
    """The gradients of the step before are still there, as in parameters that live on."""
    leaves = Node(x), Node(w)
    for leaf in leaves:
        leaf.grad = _before.get(tuple(leaf.value.shape))
    run(dy, x, w, leaves=leaves)
    for leaf in leaves:
        _before[tuple(leaf.value.shape)] = leaf.grad
    return leaves[0].grad, leaves[1].grad
