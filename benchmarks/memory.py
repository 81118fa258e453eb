"""Bytes: the most that a call holds at once, and what a forward hands to its backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from derive.emit.devices import CPU


def peak_bytes(way: Callable[[], object], device: torch.device = CPU) -> int:
    """The most that PyTorch's allocator held during a call beyond what it held before, results included."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        way()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        way()
    held = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def saved_by_tape(forward: Callable[..., Any], args: Iterable[Tensor], **numbers: Any) -> int:
    """The bytes of all memory that autograd's tape keeps of a forward, inputs included."""
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        forward(*args, **numbers)
    return distinct_bytes(kept)


def distinct_bytes(tensors: Iterable[Any]) -> int:
    """The bytes of the memory behind some tensors, each piece once; numbers count nothing."""
    storages = [t.untyped_storage() for t in tensors if isinstance(t, Tensor)]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())
