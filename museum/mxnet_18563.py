"""A maximum that gives its whole gradient to each of several equal elements.

apache/mxnet, issue 18563 (2020), https://github.com/apache/mxnet/issues/18563: every element equal to the maximum
received all of it, so that the gradients of a tie add up to more than came in.

    derive judge museum/mxnet_18563.py:backward --op amax
"""

OP, VERDICT, ERROR = "amax", "right only where", "singular point"


def backward(dy, x):
    is_largest = x == x.amax(-1, keepdim=True)
    return is_largest * dy.unsqueeze(-1)  # the fault: divide by the number of ties
