"""Indices that are computed of places alone are filled in before the loops, as those that integers are read for."""

from derive.notation import axes, constant, log, op, sum, tensor, where
from tests.native.running import assert_right

n, c, t, k = axes("n c t k")


@op
def filter_with_poles(f, x: tensor[n, c, t], w: constant[c, k]):
    """A filter that reads back, of taps that may be infinite: what the condition leaves out is not read."""
    f.taps[c, k] = log(w[c, k])
    f.y[n, c, t] = sum(where(t >= k, f.taps[c, k] * x[n, c, t - k], 0), over=k)
    return f.y


def test_kernels() -> None:
    assert_right(filter_with_poles.op)
