"""Softmax with the diagonal of its Jacobian alone.

deeplearning4j/libnd4j, issue 440 (2017), https://github.com/deeplearning4j/libnd4j/issues/440: output * (1 - output),
as if each output depended on its own input only.

    derive judge museum/libnd4j_440.py:backward --op softmax
"""

OP, VERDICT, ERROR = "softmax", "wrong", "missing term"


def backward(dp, x):
    p = x.softmax(-1)
    return dp * p * (1 - p)  # right: p * (dp - sum(dp * p))
