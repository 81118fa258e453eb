"""KernelBench, level 1: single operators. The specs are ours, from the mathematics; lengths are shorter."""

import torch

from benchmarks.outside.problem import Problem
from derive import *

b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w = axes("b c d e g h i j k l m n o p q r s t u v w")


@op
def matmul(f, a: tensor[i, k], b: tensor[k, j]):
    """A matrix product."""
    f.c[i, j] = sum(a[i, k] * b[k, j], over=k)
    return f.c


MATMUL_BY_HAND = """
da = dc @ b.T
db = a.T @ dc
"""
P1 = Problem(1, "Square matrix multiplication", matmul, torch.matmul, {"i": 512, "k": 512, "j": 512}, MATMUL_BY_HAND)
