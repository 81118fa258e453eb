"""A subject on another device: its calls are taken there, its answers and whatever it wrote are brought back.

What is right is computed on the CPU, whose float64 every device is held against.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from derive.emit.devices import CPU, float32_in_full
from derive.verify.cases import Call
from derive.verify.compare import Answer, Subject


def placed(subject: Subject, device: torch.device) -> Subject:
    """The subject, on another device than the CPU with every call there; as it is on the CPU."""
    return subject if device == CPU else on(device, subject)


def on(device: torch.device, subject: Subject) -> Subject:
    """The subject with every call on the device: strides, shared memory and one tensor given twice are as they were.

    A gradient or an output that lies elsewhere is a TypeError that names it. TF32 is off, which has three digits.
    """

    def moved(call: Call) -> Answer:
        there = _Memory(device)
        with float32_in_full():
            answer = subject(there.call(call))
        there.bring_back()
        gradients = {n: _back(f"d{n}", g, device) for n, g in answer.gradients.items()}
        outputs = None if answer.outputs is None else _all_back(answer.outputs, device)
        return Answer(gradients, outputs)

    return moved


class _Memory:
    """The memory behind the tensors of one call, each piece once, here and on the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pieces: dict[int, tuple[Tensor, Tensor]] = {}  # by address: all of it as one row, here and there
        self.tensors: dict[int, Tensor] = {}

    def call(self, call: Call) -> Call:
        inputs = {name: self.tensor(t) for name, t in call.inputs.items()}
        return replace(call, inputs=inputs, cotangents=tuple(self.tensor(t) for t in call.cotangents))

    def tensor(self, t: Tensor) -> Tensor:
        if id(t) not in self.tensors:
            self.tensors[id(t)] = self._placed(t.detach())
        return self.tensors[id(t)]

    def _placed(self, t: Tensor) -> Tensor:
        if not t.numel():
            return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=self.device)
        memory = t.untyped_storage()
        if memory.data_ptr() not in self.pieces:
            here = torch.empty(0, dtype=t.dtype).set_(memory)
            self.pieces[memory.data_ptr()] = here, here.to(self.device, copy=True)
        _, there = self.pieces[memory.data_ptr()]
        return there.as_strided(t.shape, t.stride(), t.storage_offset())

    def bring_back(self) -> None:
        """Write here whatever was written there."""
        for here, there in self.pieces.values():
            now = there.to(here.device)
            if not torch.equal(now.nan_to_num(), here.nan_to_num()):
                here.copy_(now)


def _all_back(found: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: back for name, t in found.items() if (back := _back(name, t, device)) is not None}


def _back(name: str, t: Tensor | None, device: torch.device) -> Tensor | None:
    if t is None:
        return None
    if t.device.type != device.type:
        raise TypeError(f"{name} lies on {t.device}, expected {device}")
    return t.detach().cpu()
