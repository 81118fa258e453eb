"""The samples of an OpInfo, each with the call of ours that it maps to, or the reason why it is outside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from tests.opinfo.table import TABLE, Call, Outside, Row


@dataclass(frozen=True)
class Tried:
    """One sample: what to call ours with, or why not, and PyTorch's own op on it."""

    info: OpInfo
    row: Row
    sample: SampleInput
    call: Call | None
    reason: str = ""

    def native(self) -> Tensor:
        """PyTorch's output, in our shape."""
        result = self.info.op(self.sample.input, *self.sample.args, **self.sample.kwargs)
        return self.row.alters(result)

    @property
    def leaves(self) -> list[Tensor]:
        """The sample's tensors that want a gradient and that ours is given."""
        found = [t for t in _tensors((self.sample.input, self.sample.args, self.sample.kwargs)) if t.requires_grad]
        assert self.call is not None
        return [t for t in found if t is not self.call.constant]

    @property
    def smooth(self) -> bool:
        """Whether no value lies where the function has a corner or a pole, where differences say nothing."""
        assert self.call is not None
        return all(bool((t.detach().abs() > 1e-4).all()) for t in self.call.tensors if t.requires_grad)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, tuple | list) else []


@cache
def _infos() -> dict[tuple[str, str], OpInfo]:
    return {(info.name, info.variant_test_name): info for info in op_db}


@cache
def samples(name: str) -> tuple[Tried, ...]:
    """Every sample of the op's OpInfo in float64, drawn from one seed."""
    row = TABLE[name]
    info = _infos()[row.info, row.variant]
    torch.manual_seed(0)
    out = []
    for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
        try:
            out.append(Tried(info, row, sample, row.fit(sample)))
        except Outside as reason:
            out.append(Tried(info, row, sample, None, str(reason)))
    return tuple(out)
