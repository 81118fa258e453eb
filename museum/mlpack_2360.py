"""Log-softmax whose Jacobian adds the probabilities and forgets what to multiply them by.

mlpack, issue 2360 (2020), closed unanswered, and issue 3468 (2023), fixed by pull request 3469:
https://github.com/mlpack/mlpack/issues/2360. For the input (0.1, 0.9) and a gradient of ones it returned (1.31,
1.69), which is the incoming gradient plus the probabilities. Its Jacobian test passed, since it was given the wrong
argument as well.

    derive judge museum/mlpack_2360.py:backward --op log_softmax
"""

import torch

OP, VERDICT, ERROR = "log_softmax", "wrong", "wrong sign"


def backward(dy, x):
    return dy + torch.log_softmax(x, -1).exp()  # right: dy - p * sum(dy)
