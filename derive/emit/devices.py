"""Devices of PyTorch: which there are, what they are called, and when they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from derive.errors import DeriveError

CPU = torch.device("cpu")


def device_of(name: str) -> torch.device:
    """The device of that name. Raises DeriveError where PyTorch knows none, or cannot compute on it here."""
    try:
        device = torch.device(name)
        float(torch.ones(1, dtype=torch.float64, device=device))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        fix = "name one that PyTorch can compute on in float64 here, such as cuda or cuda:1"
        raise DeriveError(f"cannot compute on the device {name}: {reason}", fix=fix) from None
    return device


def device_name(device: torch.device) -> str:
    """The device in words, as its maker calls it where PyTorch knows that."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def waiting(device: torch.device) -> Callable[[], object]:
    """A call that returns when a device has done all that it was asked."""
    return partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None


@contextmanager
def float32_in_full() -> Iterator[None]:
    """Products and convolutions in float32 without TF32, which a GPU of NVIDIA's may otherwise round them to."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32
    same = {"enabled": cudnn.enabled, "benchmark": cudnn.benchmark, "deterministic": cudnn.deterministic}
    with cudnn.flags(**same, allow_tf32=False):  # to set it alone may be refused
        matmul.allow_tf32 = False
        try:
            yield
        finally:
            matmul.allow_tf32 = before
