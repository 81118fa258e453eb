"""Processes that train one network together: each a shard of the batch, sums added up over all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """This process among `world` of them; they hold equal parameters and draw equal batches."""

    rank: int
    world: int
    device: torch.device

    def shard(self, batch: Tensor) -> Tensor:
        """This process's rows of a batch: as even as can be, the first ones to the first process."""
        return batch.tensor_split(self.world)[self.rank].to(self.device)

    def sum(self, part: Tensor) -> Tensor:
        """The sum of every process's tensor, the same bits everywhere; in place."""
        dist.all_reduce(part)
        return part

    def any(self, flag: bool) -> bool:
        """Whether it holds in any process: what one of them was told, all of them hear at the same step."""
        told = torch.tensor(float(flag), device=self.device)
        return bool(self.sum(told).item())

    def sum_all(self, parts: list[Tensor]) -> list[Tensor]:
        """The sums of several tensors, in one message."""
        flat = self.sum(torch.cat([part.flatten() for part in parts]))
        sizes = [part.numel() for part in parts]
        return [piece.view(part.shape) for piece, part in zip(flat.split(sizes), parts, strict=True)]


def launched() -> bool:
    """Whether `torchrun` started this process."""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


@contextmanager
def joined() -> Iterator[Group]:
    """The group that `torchrun` started this process in: nccl with a GPU a process, gloo otherwise."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local = int(os.environ.get("LOCAL_RANK", rank))
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    on_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= here and dist.is_nccl_available()
    device = torch.device("cuda", local) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    try:
        yield Group(rank, world, device)
    finally:
        dist.destroy_process_group()
