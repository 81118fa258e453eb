"""Stopping a run at a step of one's choice, and comparing what it left with another's."""

import os
import signal
from typing import Any

import pytest
import torch


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal to the last bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def signal_at_call(patch: pytest.MonkeyPatch, owner: Any, name: str, call: int, number: signal.Signals) -> None:
    """Send this process a signal when the function `name` of `owner` is called for the `call`-th time."""
    right, calls = getattr(owner, name), 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), number)
        return right(*arguments)

    if isinstance(owner, type) or not hasattr(owner, "__dataclass_fields__"):
        patch.setattr(owner, name, counted)
    else:
        patch.setitem(owner.__dict__, name, counted)  # of a frozen dataclass
