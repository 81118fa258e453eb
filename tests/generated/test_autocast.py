"""Under `torch.autocast` an op gives what it gives outside of it, forwards and backwards, in the dtype of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from derive.catalogue import catalogue, find
from derive.ir.equations import Op
from derive.output.live import build
from derive.verify.subjects import parts
from tests.catalogue.references import LARGER
from tests.generated.test_compiled import arguments, fresh, module  # noqa: F401  (a fixture)

VARIANT = next(iter(LARGER))


def autocast(on: bool) -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=on)


def computed(function: Any, args: Sequence[Tensor], numbers: dict[str, float], on: bool) -> list[Tensor]:
    """Outputs and gradients; the whole in autocast, as where `backward` is called in it."""
    with autocast(on):
        outputs = function(*args, **numbers)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        seeded = torch.Generator().manual_seed(0)
        cotangents = [torch.randn(o.shape, generator=seeded) for o in outputs]
        leaves = [a for a in args if a.requires_grad]
        return [*outputs, *torch.autograd.grad(outputs, leaves, cotangents)]


@pytest.mark.parametrize("op", catalogue(), ids=lambda op: op.name)
def test_the_same_numbers_in_the_same_dtypes(op: Op) -> None:
    function, (args, numbers) = getattr(module(op), op.name), arguments(op, VARIANT)
    for inside, outside in zip(*(computed(function, args, numbers, on) for on in (True, False)), strict=True):
        torch.testing.assert_close(inside, outside, rtol=0, atol=0)


def test_what_writes_into_given_memory_too() -> None:
    op = find("linear")
    functions, tensors = parts(build(op, workspace=True, proven=False)), [t.detach() for t in arguments(op, VARIANT)[0]]
    want = functions["forward"](*tensors)[0].clone()
    with autocast(True):
        got = functions["forward_out"](*tensors, out=functions["forward"](*tensors))[0]
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["layernorm", "attention"])
def test_compiled_in_one_graph(name: str) -> None:
    op = find(name)
    function, (args, numbers) = getattr(module(op), name), arguments(op, VARIANT)
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for inside, outside in zip(computed(compiled, args, numbers, True), computed(function, args, numbers, False), strict=True):
        torch.testing.assert_close(inside, outside)
