"""The trace of a tall matrix, whose diagonal goes on in the next column.

pytorch/pytorch, issue 171704 (2026), https://github.com/pytorch/pytorch/issues/171704, and 76783 (2022) before it. The
places of the diagonal are every (columns + 1)-th of the flat matrix, but only as many as the shorter side is long. All
of them were filled: of 4 rows and 2 columns, place (3, 0) too. Square and wide matrices, and those with one row more
than columns, are right.

    derive judge museum/pytorch_171704.py:backward --from museum/pytorch_171704.py
"""

from derive import axes, eq, op, sum, tensor, where

VERDICT, ERROR = "right only where", "one axis longer than another"

i, j = axes("i j")


@op
def trace_of_any(f, x: tensor[i, j]):
    """The sum of the diagonal of a matrix that need not be square."""
    f.y[()] = sum(where(eq(i, j), x[i, j], 0), over=(i, j))
    return f.y


def backward(dy, x):
    dx = x.new_zeros(x.numel())
    dx[:: x.shape[1] + 1] = dy  # the fault: as many as min(x.shape)
    return dx.reshape(x.shape)
