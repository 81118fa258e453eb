"""A step that several processes take together: batchnorm's sums and the gradients are added up over all shards.

Batch normalisation stands here cut open at its two sums, for a mean over 32 examples is not known to a process
that has 16. Each piece is an op with a derived gradient; what is added up on the way there is added up on the way back.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from generated import (
    embedding_backward,
    embedding_forward,
    flatten_backward,
    flatten_forward,
    linear_backward,
    linear_forward,
    softmax_cross_entropy_backward,
    softmax_cross_entropy_forward,
    squared_deviations_backward,
    squared_deviations_forward,
    standardise_backward,
    standardise_forward,
    sum_rows_backward,
    sum_rows_forward,
    tanh_backward,
    tanh_forward,
)
from training.group import Group
from training.names.loop import Method
from training.names.network import Network


def shared_method(group: Group) -> Method:
    """The method whose step this process takes together with the others of its group."""

    def step(network: Network, ix: Tensor, y: Tensor, rate: float, eps: float) -> tuple[Tensor, Sequence[Tensor]]:
        loss, *gradients = shared_gradients(group, network, ix, y, eps)
        for parameter, gradient in zip(network, gradients, strict=True):
            parameter.sub_(gradient, alpha=rate)
        return loss, gradients

    return Method("generated", step, tape=False)


def shared_gradients(group: Group, network: Network, ix: Tensor, y: Tensor, eps: float) -> list[Tensor]:
    """The loss [] of the whole batch ix [n, t], y [n] and its gradients, from this process's rows of it."""
    C, W1, b1, bngain, bnbias, W2, b2 = network
    n = len(y)
    ix, y = group.shard(ix), group.shard(y)
    part = len(y) / n

    emb, embedding = embedding_forward(C, ix)
    embcat, flatten = flatten_forward(emb)
    hprebn, linear1 = linear_forward(embcat, W1, b1)
    total, sum_rows = sum_rows_forward(hprebn)
    bnmean = group.sum(total) / n
    squares, deviations = squared_deviations_forward(hprebn, bnmean)
    bnvar = group.sum(squares) / (n - 1)
    hpreact, standardise = standardise_forward(hprebn, bnmean, bnvar, bngain, bnbias, eps)
    h, tanh = tanh_forward(hpreact)
    logits, linear2 = linear_forward(h, W2, b2)
    loss, cross_entropy = softmax_cross_entropy_forward(logits, y)

    # `loss` is the mean over this process's rows, and they are a `part` of the batch.
    dlogits = softmax_cross_entropy_backward(torch.full_like(loss, part), *cross_entropy)
    dh, dW2, db2 = linear_backward(dlogits, *linear2)
    dhpreact = tanh_backward(dh, *tanh)
    dhprebn, dbnmean, dbnvar, dbngain, dbnbias = standardise_backward(dhpreact, *standardise)
    dsquares = group.sum(dbnvar) / (n - 1)
    dhprebn_deviations, dbnmean_deviations = squared_deviations_backward(dsquares, *deviations)
    dtotal = group.sum(dbnmean + dbnmean_deviations) / n
    dhprebn = dhprebn + dhprebn_deviations + sum_rows_backward(dtotal, *sum_rows)
    dembcat, dW1, db1 = linear_backward(dhprebn, *linear1)
    demb = flatten_backward(dembcat, *flatten)
    dC = embedding_backward(demb, *embedding)
    return group.sum_all([loss * part, dC, dW1, db1, dbngain, dbnbias, dW2, db2])
