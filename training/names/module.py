"""The drop-in form: the names network as an ordinary module of the generated differentiable functions.

It trains with `loss.backward()` and any optimizer, under `torch.compile` and under `DistributedDataParallel`.
"""

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

from generated import (
    batchnorm,
    embedding,
    flatten,
    linear,
    softmax_cross_entropy,
    squared_deviations,
    standardise,
    sum_rows,
    tanh,
)
from training.names.network import Network


class NamesModule(nn.Module):
    """The network of `Network`, whose parameters it takes over; contexts and labels in, the mean loss out.

    With a process group, batch normalisation is over the batches of all its processes, which are to be equally long.
    """

    def __init__(self, network: Network, eps: float = 1e-5, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        own = (nn.Parameter(parameter.detach().clone()) for parameter in network)
        self.C, self.W1, self.b1, self.bngain, self.bnbias, self.W2, self.b2 = own
        self.eps, self.group = eps, group

    def forward(self, ix: Tensor, y: Tensor) -> Tensor:
        """Contexts ix [n, t] and the letters after them y [n] to the mean cross-entropy []."""
        hprebn = linear(flatten(embedding(self.C, ix)), self.W1, self.b1)
        h = tanh(self.normalise(hprebn))
        return softmax_cross_entropy(linear(h, self.W2, self.b2), y)

    def normalise(self, x: Tensor) -> Tensor:
        """Batch normalisation [n, h], over the group where there is one."""
        if self.group is None:
            return batchnorm(x, self.bngain, self.bnbias, self.eps)
        n = len(x) * self.group.size()
        # PyTorch's own differentiable sum over processes: its gradient is the sum of theirs.
        mean = all_reduce(sum_rows(x), group=self.group) / n
        variance = all_reduce(squared_deviations(x, mean), group=self.group) / (n - 1)
        return standardise(x, mean, variance, self.bngain, self.bnbias, self.eps)
