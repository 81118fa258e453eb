"""A sum over each row, broadcast along the columns.

BobMcDear/attorch, issue 17: https://github.com/BobMcDear/attorch/issues/17. The thread could not be read when this
was written; the function is rebuilt from its one-line description. Where rows and columns differ in number PyTorch
refuses, so it is wrong for square inputs alone, and a test of one row, or of a square of equal rows, sees nothing.

    derive judge museum/attorch_17.py:backward --op softmax
"""

OP, VERDICT, ERROR = "softmax", "right only where", "wrong axis"


def backward(dp, x):
    p = x.softmax(-1)
    return p * (dp - (dp * p).sum(-1))  # the fault: keepdim=True
