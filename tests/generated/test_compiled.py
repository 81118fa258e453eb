"""Generated code under torch.compile: one graph, compiled once for batches of every length, and the same numbers."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo import config
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental import _config as symbols

import generated
from derive.catalogue import catalogue
from derive.ir.equations import Op
from tests.catalogue.references import LARGER, sample

QUICK = {"layernorm", "batchnorm", "softmax_cross_entropy", "attention", "bilinear", "conv2d", "rotary", "names_step"}
OPS = [pytest.param(o, id=o.name, marks=() if o.name in QUICK else pytest.mark.slow) for o in catalogue()]
FOLDER = Path(generated.__file__).parent


def module(op: Op) -> Any:
    return importlib.import_module(f"generated.{op.name}")


def arguments(op: Op, variant: str) -> tuple[list[torch.Tensor], dict[str, float]]:
    tensors, numbers = sample(op, 0, torch.float32, variant)
    kinds = [o.kind for o in op.operands if o.is_tensor]
    return [t.clone().requires_grad_(k == "tensor") for t, k in zip(tensors, kinds, strict=True)], numbers


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch.compiler.reset()
    # Otherwise two axes that happen to be equally long the first time are taken to be so always.
    with symbols.patch(use_duck_shape=False):
        yield
    torch.compiler.reset()


@pytest.mark.parametrize("op", OPS)
def test_one_graph_for_batches_of_every_length(op: Op) -> None:
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(getattr(module(op), op.name), fullgraph=True, dynamic=True, backend=counter)
    for variant in ("odd", *LARGER):
        args, numbers = arguments(op, variant)
        outputs = compiled(*args, **numbers)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        cotangents = [torch.randn_like(o) for o in outputs]
        got = torch.autograd.grad(outputs, [a for a in args if a.requires_grad], cotangents)
        plain = getattr(module(op), op.name)(*args, **numbers)
        want = torch.autograd.grad(plain, [a for a in args if a.requires_grad], cotangents)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w)
    assert counter.frame_count == 1


@config.patch(recompile_limit=1)
def test_each_function_is_compiled_for_itself() -> None:
    x, g, b = torch.randn(4, 6), torch.randn(6), torch.randn(6)
    names = ("layernorm", "rmsnorm", "gelu", "silu")
    for args, name in zip(((x, g, b), (x, g), (x,), (x,)), names, strict=True):
        forward, backward = (getattr(generated, f"{name}_{part}") for part in ("forward", "backward"))
        y, saved = torch.compile(forward, fullgraph=True, backend="eager")(*args)
        torch.compile(backward, fullgraph=True, backend="eager")(torch.ones_like(y), *saved)


def test_no_factor_that_inductor_drops() -> None:
    """torch 2.13 compiles `torch.add(a, b @ c, alpha=k)` without its `k`; no generated line has that form."""
    for path in FOLDER.glob("*.py"):
        assert not re.search(r"\badd_?\([^\n]*alpha=", path.read_text()), path.name


@pytest.mark.slow
def test_every_fused_form_keeps_its_factor_when_compiled() -> None:
    """The forms that the printer and the loops use, each next to a matrix product, compiled by inductor."""

    def forms(w: Any, a: Any, b: Any, v: Any) -> tuple[Any, ...]:
        return (
            torch.sub(w, a @ b, alpha=0.25),
            torch.sub(a @ b, w, alpha=0.25),
            torch.sub(a @ b, v, alpha=0.25),
            (a @ b).sub_(v, alpha=0.25),
            torch.addcmul(w, a @ b, b, value=0.25),
            (a @ b).addcmul_(w, b, value=0.25),
            torch.addmm(v, a, b),
            (w + 0).sub_(0.25 * (a @ b)),
            (w + 0).sub_(a @ b, alpha=0.25),
            (w @ a).addmm_(a, b, alpha=0.25),
            torch.addmm(v, w, a).addmm_(a, b, alpha=-0.25),
        )

    given = [torch.randn(8, 8), torch.randn(8, 8), torch.randn(8, 8), torch.randn(8)]
    with torch.no_grad():
        for got, want in zip(torch.compile(forms, fullgraph=True)(*given), forms(*given), strict=True):
            torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batchnorm", "softmax_cross_entropy", "names_step"])
def test_compiled_by_inductor_gives_the_same_gradients(name: str) -> None:
    op = next(o for o in catalogue() if o.name == name)
    forward, backward = (getattr(module(op), f"{name}_{part}") for part in ("forward", "backward"))
    tensors, numbers = sample(op, 0, torch.float32, "odd")
    *outputs, saved = forward(*tensors, **numbers)
    dys = [torch.randn_like(o) for o in outputs]
    *got_outputs, got_saved = torch.compile(forward, fullgraph=True, dynamic=True)(*tensors, **numbers)
    torch.testing.assert_close(got_outputs, outputs)
    got = torch.compile(backward, fullgraph=True, dynamic=True)(*dys, *got_saved)
    torch.testing.assert_close(got, backward(*dys, *saved))
