"""Kernels pass over the loops of gradients that are not needed, and read nothing that is kept for these alone."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from derive.ir.equations import Op
from derive.verify.battery import situation
from tests.derive.live import as_tuple
from tests.native.running import only_kernels

SPECS = """
from derive import *

n, d, e, c, o, t, k, u = axes("n d e c o t k u")


@op
def hidden(f, x: tensor[n, d], w: tensor[d, e], b: tensor[e], v: tensor[e, o]):
    f.h[n, e] = tanh(sum(x[n, d] * w[d, e], over=d) + b[e])
    f.y[n, o] = sum(f.h[n, e] * v[e, o], over=e)
    return f.y


@op
def in_one_loop(f, x: tensor[n, d], y: tensor[n, d], g: tensor[d]):
    f.z[n, d] = exp(x[n, d]) * y[n, d] * g[d]
    return f.z


@op
def filtered(f, x: tensor[n, c, t], w: tensor[o, c, k], b: tensor[o]):
    f.y[n, o, u] = sum(x[n, c, u + k] * w[o, c, k], over=(c, k)) + b[o]
    return f.y


@op
def table_loss(f, table: tensor[k, d], w: tensor[d], ix: index(k)[n], t_: tensor[n]):
    f.p[n] = sum(table[ix[n], d] * w[d], over=d)
    f.loss[()] = mean((f.p[n] - t_[n]) ** 2, over=n)
    return f.loss
"""

NAMES = ("hidden", "in_one_loop", "filtered", "table_loss")
SITUATIONS = ("ordinary", "stride-0 cotangent", "ties")


@pytest.fixture(scope="module")
def native(package: Any) -> ModuleType:
    return package(specs=SPECS, workspace=True)


def subsets(count: int) -> list[tuple[bool, ...]]:
    return list(itertools.product((True, False), repeat=count))


def assert_asked(got: Any, want: Any, needs: tuple[bool, ...]) -> None:
    for g, w, need in zip(as_tuple(got), as_tuple(want), needs, strict=True):
        assert (g is not None) == need
        if need:
            torch.testing.assert_close(g, w, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unusual", SITUATIONS)
def test_every_subset_is_as_all_of_them(native: ModuleType, ops: dict[str, Op], name: str, unusual: str) -> None:
    op, functions = ops[name], vars(getattr(native, f"{name}_module"))
    case = situation(unusual).make(op, 0)
    assert case is not None
    call = case.call
    *_, saved = functions[f"{name}_forward"](*call.arguments())
    want = functions[f"{name}_backward"](*call.cotangents, *saved)
    for needs in subsets(len(want)):
        with only_kernels(native._native):
            got = functions[f"{name}_backward"](*call.cotangents, *saved, needs=needs)
        assert_asked(got, want, needs)
        own = [torch.full_like(w, 7.0) for w in want]
        over = functions[f"{name}_backward_out"](*call.cotangents, *saved, out=type(want)(*own), needs=needs)
        assert_asked(over, want, needs)
        assert all(g is o if need else bool((o == 7).all()) for g, o, need in zip(over, own, needs, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_frozen_inputs(native: ModuleType, ops: dict[str, Op], name: str) -> None:
    """What takes the place of a tensor that is not kept is not read by any loop that runs."""
    op, functions = ops[name], vars(getattr(native, f"{name}_module"))
    case = situation("ordinary").make(op, 0)
    assert case is not None
    call = case.call
    *_, saved = functions[f"{name}_forward"](*call.arguments())
    want = functions[f"{name}_backward"](*call.cotangents, *saved)
    for needs in subsets(len(want))[:-1]:
        asked = dict(zip((o.name for o in op.differentiable), needs, strict=True))
        leaves = {n: call.inputs[n].detach().requires_grad_(need) for n, need in asked.items()}
        operands = zip(op.operands, call.arguments(), strict=True)
        output = functions[name](*(leaves.get(o.name, a) for o, a in operands))
        wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
        with only_kernels(native._native):
            found = torch.autograd.grad(output, wanted, call.cotangents[0])
        assert_asked(found, tuple(w for w, need in zip(want, needs, strict=True) if need), (True,) * len(found))


def test_a_loss_with_some_of_its_gradients(native: ModuleType, ops: dict[str, Op]) -> None:
    case = situation("ordinary").make(ops["table_loss"], 0)
    assert case is not None
    arguments = case.call.arguments()
    loss, want = native.table_loss_with_gradients(*arguments, 2.0)
    for needs in subsets(3):
        with only_kernels(native._native):
            again, got = native.table_loss_with_gradients(*arguments, 2.0, needs=needs)
        torch.testing.assert_close(again, loss)
        assert_asked(got, want, needs)
        own = [torch.full_like(w, 7.0) for w in want]
        place = torch.zeros_like(loss)
        again, over = native.table_loss_module.table_loss_with_gradients_out(
            *arguments, 2.0, out=(place, type(want)(*own)), needs=needs
        )
        assert again is place and torch.equal(place, loss)
        assert_asked(over, want, needs)
        assert all(need or bool((o == 7).all()) for o, need in zip(own, needs, strict=True))


def test_loops_of_one_gradient_stand_under_an_if(native: ModuleType) -> None:
    source = Path(native.__path__[0], "filtered.c").read_text()
    assert [source.count(f"    if (need_{g}) {{") for g in ("dx", "dw", "db")] == [1, 1, 1]
    fused = Path(native.__path__[0], "in_one_loop.c").read_text()
    assert "if (need_dx) {" not in fused


def kept(function: Any, *args: Tensor) -> int:
    held: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        function(*args)
    return sum(held.values())


def test_a_frozen_filter_keeps_no_signal(native: ModuleType) -> None:
    x, w, b = torch.randn(2, 3, 9, requires_grad=True), torch.randn(4, 3, 2), torch.randn(4)
    assert kept(native.filtered, x, w, b) == w.nbytes + 4
    assert kept(native.in_one_loop, x[0], x[1], b.new_ones(9)) >= 2 * x[0].nbytes


def test_compiled_as_one_graph(native: ModuleType) -> None:
    torch.compiler.reset()
    x, w, b = torch.randn(2, 3, 9, requires_grad=True), torch.randn(4, 3, 2), torch.randn(4, requires_grad=True)
    want = torch.autograd.grad(native.filtered(x, w, b).square().sum(), (x, b))
    compiled = torch.compile(lambda *a: native.filtered(*a).square().sum(), fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(x, w, b), (x, b))
    torch.testing.assert_close(got, want)
