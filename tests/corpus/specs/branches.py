"""Choices between values, and what flows through the side that is taken."""

from derive import *

n, d = axes("n d")


@op
def larger_of_two_in_a_tanh(f, x: tensor[n, d], w: tensor[n]):
    """A maximum inside a function: one side is read at a fixed place."""
    f.y[n, d] = tanh(maximum(w[n], x[n, 0]))
    return f.y


HOSTILE = {"larger_of_two_in_a_tanh": "ties"}
