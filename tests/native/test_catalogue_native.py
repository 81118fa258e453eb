"""Every op of the catalogue again, run by its C kernels: the same samples, references and tolerances."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch

from derive.emit import cheapest, render_shared, rendered
from derive.pipeline import derive_op
from derive.verify.subjects import cotangent_of, tensors_in
from tests.catalogue.references import REFERENCES, sample
from tests.catalogue.test_catalogue import (  # noqa: F401
    OPS,
    test_equals_autograd,
    test_float32_is_as_accurate_as_the_native_op,
    test_gradcheck,
    test_half_precision,
    test_one_tensor_for_several_inputs,
)
from tests.native.running import only_kernels

PACKAGE = "catalogue_in_c"
pytestmark = pytest.mark.slow  # every op is compiled twice


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """The native module of an op, derived once a session, when it is first asked for."""
    root = tmp_path_factory.mktemp("native")
    folder = root / PACKAGE
    folder.mkdir()
    for name, text in ({"__init__.py": ""} | render_shared("cpu")).items():
        (folder / name).write_text(text)
    sys.path.insert(0, str(root))

    @cache
    def module(name: str) -> ModuleType:
        for file, text in rendered(derive_op(OPS[name], cheapest("cpu")), "cpu", workspace=True).files.items():
            _write(folder / file, text)
        return importlib.import_module(f"{PACKAGE}.{name}")

    yield module
    sys.path.remove(str(root))


@pytest.fixture(autouse=True)
def no_torch_form(generated: Callable[[str], ModuleType]) -> Iterator[None]:
    """A kernel that gives way to the torch form fails its test, unless it could not be printed."""
    with warnings.catch_warnings(), only_kernels(importlib.import_module(f"{PACKAGE}._native")):
        warnings.filterwarnings("error", message=".*runs as PyTorch: (?!the CPU backend has no loop for)")
        yield


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    importlib.invalidate_caches()


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_memory_that_is_used_again(name: str, dtype: torch.dtype, generated: Callable[[str], ModuleType]) -> None:
    """The functions of `--workspace` compute what the others do, in the tensors that they are given."""
    module = generated(name)
    forward, backward = getattr(module, f"{name}_forward"), getattr(module, f"{name}_backward")
    tensors, numbers = sample(OPS[name], 0, dtype, "odd")
    first = forward(*tensors, **numbers)
    dys = [torch.randn_like(y) for y in first[:-1]]
    made = backward(*dys, *first[-1])
    over = [t for t in tensors_in((*first[:-1], made)) if not any(_shares(t, x) for x in (*tensors, *dys))]
    tensors, numbers = sample(OPS[name], 1, dtype, "odd")
    want = forward(*tensors, **numbers)
    wanted = backward(*dys, *want[-1])
    got = getattr(module, f"{name}_forward_out")(*tensors, **numbers, out=first)
    gradients = getattr(module, f"{name}_backward_out")(*dys, *got[-1], out=made)
    for g, w in zip(tensors_in((got, gradients)), tensors_in((want, wanted)), strict=True):
        assert torch.equal(g, w) or torch.allclose(g, w, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert {t.data_ptr() for t in over} <= {t.data_ptr() for t in tensors_in((got, gradients))}


def _shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


LOSSES = [n for n, op in OPS.items() if len(op.outputs) == 1 and not op.equation(op.outputs[0]).index]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_loss_with_its_gradients(name: str, dtype: torch.dtype, generated: Callable[[str], ModuleType]) -> None:
    """One call gives the loss and the cotangent times its gradients, and does so again over what it returned."""
    module = generated(name)
    both = getattr(module, f"{name}_with_gradients")
    for variant in (v for v in ("odd", "strided", "coincident") if v not in REFERENCES[name].without):
        tensors, numbers = sample(OPS[name], 0, dtype, variant)
        loss, gradients = both(*tensors, **numbers, **{cotangent_of(both): -0.75})
        want, saved = getattr(module, f"{name}_forward")(*tensors, **numbers)
        wanted = getattr(module, f"{name}_backward")(torch.full_like(want, -0.75), *saved)
        tolerance = {torch.float32: 1e-6, torch.float64: 2e-15, torch.bfloat16: 2**-7}[dtype]  # of the largest element
        _close(tensors_in((loss, gradients)), tensors_in((want, wanted)), tolerance)
        kept = [t.clone() for t in tensors_in((loss, gradients))]
        for t in tensors_in((loss, gradients)):
            t.fill_(7)
        over = {cotangent_of(both): -0.75, "out": (loss, gradients)}
        again = getattr(module, f"{name}_with_gradients_out")(*tensors, **numbers, **over)
        assert [t.data_ptr() for t in tensors_in(again)] == [t.data_ptr() for t in tensors_in((loss, gradients))]
        _close(tensors_in(again), kept, tolerance)


def _close(got: list[torch.Tensor], want: list[torch.Tensor], tolerance: float) -> None:
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        assert not g.numel() or (g - w).abs().max() <= tolerance * w.abs().max()


def test_every_op_has_a_kernel() -> None:
    without = {name for name, op in OPS.items() if rendered(derive_op(op, cheapest("cpu")), "cpu").why_no_kernel}
    assert without == {name for name, op in OPS.items() if op.recurrences}  # of which C has no loop yet
