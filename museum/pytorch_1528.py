"""Rows read more than once, whose gradients overwrite one another.

pytorch/pytorch, issue 1528 (2017), https://github.com/pytorch/pytorch/issues/1528: indexing by a tensor of positions
kept the gradient of the last copy of an element only. Issue 1631 reports the same of gather.

    derive judge museum/pytorch_1528.py:backward --op embedding
"""

import torch

OP, VERDICT, ERROR = "embedding", "right only where", "overwritten instead of accumulated"


def backward(demb, table, ix):
    dtable = torch.zeros_like(table)
    dtable[ix] = demb  # the fault: index_put_(..., accumulate=True)
    return dtable
