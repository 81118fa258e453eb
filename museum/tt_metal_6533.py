"""x * 2**o with e for 2, ln 2 in the wrong place, and the incoming gradient nowhere.

tenstorrent/tt-metal, issue 6533 (2024), https://github.com/tenstorrent/tt-metal/issues/6533. 2**o is exp(o * ln 2); the
product with ln 2 was taken after the exponential. And neither gradient was multiplied by what came in, which a test of
ones does not show. The test that was there passed all the same.

    derive judge museum/tt_metal_6533.py:backward --from museum/tt_metal_6533.py
"""

from math import log as ln

import torch

from derive import op, tensor

VERDICT, ERROR = "wrong", "wrong use of the incoming gradient"


@op
def ldexp(f, x: tensor[...], o: tensor[...]):
    """A number times a power of two."""
    f.y[...] = x[...] * 2 ** o[...]
    return f.y


def backward(dy, x, o):
    power = torch.exp(o) * ln(2)  # the fault: torch.exp(o * ln(2))
    return power, x * power * ln(2)  # the fault: dy times each
