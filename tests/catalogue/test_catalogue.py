"""Every op of the catalogue against an independent forward and its autograd."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from derive.catalogue import catalogue
from derive.emit import render, support_files
from derive.ir.equations import Op
from derive.pipeline import derive_op
from tests.catalogue.references import REFERENCES, cotangents, sample, takes_one_tensor_twice, variants
from tests.derive.live import as_tuple

OPS = {op.name: op for op in catalogue()}
PACKAGE = "catalogue_under_test"
EXACT = 1e-10  # float64, relative to the largest element
ROUNDING = 4 * torch.finfo(torch.float64).eps  # of terms that cancel: at logits of 1e4 they are 1e4 times a cotangent

Generated = Callable[[str], ModuleType]


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    """The module that the spec of an op gives, derived once a session, when it is first asked for."""
    root = tmp_path_factory.mktemp("generated")
    folder = root / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name, text in support_files().items():
        (folder / name).write_text(text)
    sys.path.insert(0, str(root))

    @cache
    def module(name: str) -> ModuleType:
        _write(folder / f"{name}.py", render(derive_op(OPS[name])))
        return importlib.import_module(f"{PACKAGE}.{name}")

    yield module
    sys.path.remove(str(root))


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    importlib.invalidate_caches()


CASES = [pytest.param(op, variant, id=f"{op.name}-{variant}") for op in OPS.values() for variant in variants(op)]
EACH = [pytest.param(op, id=op.name) for op in OPS.values()]


def test_every_op_has_a_reference() -> None:
    assert sorted(OPS) == sorted(REFERENCES)


@pytest.mark.parametrize("op, variant", CASES)
def test_equals_autograd(generated: Generated, op: Op, variant: str) -> None:
    module = generated(op.name)
    args, numbers = sample(op, 0, torch.float64, variant)
    copies = [a.clone() for a in args]
    outputs, saved = _forward(module, op, args, numbers)
    leaves, expected = _reference(op, args, numbers)
    for name, got, want in zip(op.outputs, outputs, expected, strict=True):
        _same(op, variant, name, got, want.detach())
    for layout, dys in cotangents(expected, 1).items():
        before = [t.clone() for t in (*dys, *(s for s in saved if isinstance(s, Tensor)))]
        wanted = _grad(expected, leaves, dys)
        got = _backward(module, op, dys, saved)
        terms = _largest(args) * _largest(dys) if variant == "extreme" else 0.0
        for name, g, want in zip(leaves, got, wanted, strict=True):
            _same(op, f"{variant}, {layout} gradient", f"d{name}", g, want, terms)
        again = _backward(module, op, dys, saved)
        assert all(
            torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(got, again, strict=True)
        ), "not repeatable"
        after = [*dys, *(s for s in saved if isinstance(s, Tensor))]
        assert all(
            torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(before, after, strict=True)
        ), f"{op.name}, {variant}: the backward writes into its inputs"
        for name, g, want in zip(leaves, _wrapped(module, op, args, numbers, dys), wanted, strict=True):
            _same(op, f"{variant}, {layout} gradient, differentiable", f"d{name}", g, want, terms)
    assert all(torch.equal(a, b) for a, b in zip(args, copies, strict=True)), f"{op.name} writes into its inputs"


@pytest.mark.parametrize("op", EACH)
def test_gradcheck(generated: Generated, op: Op) -> None:
    args, numbers = sample(op, 0, torch.float64, "tiny")
    kinds = [o.kind for o in op.operands if o.is_tensor]
    leaves = [a.requires_grad_(k == "tensor") for a, k in zip(args, kinds, strict=True)]
    assert torch.autograd.gradcheck(partial(getattr(generated(op.name), op.name), **numbers), leaves)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in OPS.values() if takes_one_tensor_twice(op)])
def test_one_tensor_for_several_inputs(generated: Generated, op: Op) -> None:
    tensors = [o for o in op.operands if o.is_tensor]
    args, numbers = sample(op, 0, torch.float64, "odd")
    first = next(o for o in tensors if o.kind == "tensor" and sum(p.axes == o.axes for p in tensors) > 1)
    shared = args[tensors.index(first)].abs().requires_grad_()
    shares = [o.kind == "tensor" and o.axes == first.axes for o in tensors]
    args = tuple(shared if s else a for a, s in zip(args, shares, strict=True))
    outputs = as_tuple(getattr(generated(op.name), op.name)(*args, **numbers))
    wanted = as_tuple(REFERENCES[op.name].forward(*args, **numbers))
    dys = cotangents(wanted, 1)["contiguous"]
    (got,) = torch.autograd.grad(outputs, [shared], dys)
    (want,) = torch.autograd.grad(wanted, [shared], dys)
    _same(op, "one tensor for several inputs", f"d{first.name}", got, want)


@pytest.mark.parametrize("op", EACH)
def test_float32_is_as_accurate_as_the_native_op(generated: Generated, op: Op) -> None:
    """At most twice the error of PyTorch's own forward and autograd in float32, and a few units in the last place."""
    ours: dict[str, float] = {}
    native: dict[str, float] = {}
    for seed in range(4):
        args, numbers = sample(op, seed, torch.float32, "odd")
        truth = _all(op, args, numbers, wide=True)
        for errors, results in (
            (ours, _all(op, args, numbers, module=generated(op.name))),
            (native, _all(op, args, numbers)),
        ):
            for name, want in truth.items():
                errors[name] = max(errors.get(name, 0.0), _error(results[name].double(), want))
    few = 8 * torch.finfo(torch.float32).eps
    for name in ours:
        assert (
            ours[name] <= 2 * native[name] + few
        ), f"{op.name}, {name}: error {ours[name]:.2e}, native {native[name]:.2e}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("op", EACH)
def test_half_precision(generated: Generated, op: Op, dtype: torch.dtype) -> None:
    """Half precision in gives half precision out, computed in float32."""
    args, numbers = sample(op, 0, dtype, "odd")
    truth = _all(op, args, numbers, wide=True)
    results = _all(op, args, numbers, module=generated(op.name))
    for name, want in truth.items():
        got = results[name]
        assert got.dtype == dtype, f"{op.name}, {name}: {got.dtype} from {dtype}"
        assert (
            _error(got.double(), want) <= 2 * torch.finfo(dtype).eps
        ), f"{op.name}, {name}: {_error(got.double(), want):.2e}"


# --- running both --------------------------------------------------------------------------------------------------


def _forward(module: ModuleType, op: Op, args: tuple[Tensor, ...], numbers: dict[str, float]) -> tuple[Any, Any]:
    *outputs, saved = getattr(module, f"{op.name}_forward")(*args, **numbers)
    return tuple(outputs), saved


def _backward(module: ModuleType, op: Op, dys: tuple[Tensor, ...], saved: Any) -> tuple[Tensor, ...]:
    return as_tuple(getattr(module, f"{op.name}_backward")(*dys, *saved))


def _leaves(op: Op, args: tuple[Tensor, ...]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The arguments as fresh tensors, and by name those that want a gradient."""
    fresh = [a.detach().clone() if a.is_contiguous() else a.detach() for a in args]
    kinds = [(o.name, o.kind) for o in op.operands if o.is_tensor]
    wanted = {n: a.requires_grad_() for (n, kind), a in zip(kinds, fresh, strict=True) if kind == "tensor"}
    return fresh, wanted


def _reference(
    op: Op, args: tuple[Tensor, ...], numbers: dict[str, float]
) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
    fresh, leaves = _leaves(op, args)
    return leaves, as_tuple(REFERENCES[op.name].forward(*fresh, **numbers))


def _grad(outputs: tuple[Tensor, ...], leaves: dict[str, Tensor], dys: tuple[Tensor, ...]) -> list[Tensor]:
    found = torch.autograd.grad(outputs, list(leaves.values()), dys, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves.values(), strict=True)]


def _wrapped(
    module: ModuleType, op: Op, args: tuple[Tensor, ...], numbers: dict[str, float], dys: tuple[Tensor, ...]
) -> list[Tensor]:
    fresh, leaves = _leaves(op, args)
    return _grad(as_tuple(getattr(module, op.name)(*fresh, **numbers)), leaves, dys)


def _all(
    op: Op, args: tuple[Tensor, ...], numbers: dict[str, float], *, module: ModuleType | None = None, wide: bool = False
) -> dict[str, Tensor]:
    """Outputs and gradients by name: ours, or without a module the reference's; `wide` runs it in float64."""
    dtype = next(a.dtype for a in args if a.is_floating_point())
    if wide:
        args = tuple(a.double() if a.is_floating_point() else a for a in args)
    leaves, expected = _reference(op, args, numbers)
    dys = tuple(c.to(dtype).to(e.dtype) for c, e in zip(cotangents(expected, 1)["contiguous"], expected, strict=True))
    if module is None:
        outputs, gradients = expected, _grad(expected, leaves, dys)
    else:
        outputs, saved = _forward(module, op, args, numbers)
        gradients = list(_backward(module, op, dys, saved))
    named = dict(zip(op.outputs, outputs, strict=True))
    named |= {f"d{n}": g for n, g in zip(leaves, gradients, strict=True)}
    return {name: t.detach() for name, t in named.items()}


# --- comparing -----------------------------------------------------------------------------------------------------


def _scale(want: Tensor) -> float:
    """The largest finite element, by which errors are measured; 1 where that is next to nothing."""
    finite = want[want.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return largest if largest > 1e-3 else 1.0


def _error(got: Tensor, want: Tensor) -> float:
    both = want.isfinite()
    return float((got - want)[both].abs().max()) / _scale(want) if bool(both.any()) else 0.0


def _largest(tensors: Iterable[Tensor]) -> float:
    return max((float(t.abs().max()) for t in tensors if t.numel() and t.is_floating_point()), default=0.0)


def _same(op: Op, variant: str, name: str, got: Tensor, want: Tensor, terms: float = 0.0) -> None:
    """Equal where PyTorch is finite; a failure names the op, the variant, the tensor and its worst element.

    `terms` is the size of what may cancel in it.
    """
    where = f"{op.name}, {variant}: {name}"
    assert got.shape == want.shape, f"{where} has shape {list(got.shape)}, expected {list(want.shape)}"
    assert got.dtype == want.dtype, f"{where} has dtype {got.dtype}, expected {want.dtype}"
    off = torch.where(want.isfinite(), (got - want).abs().nan_to_num(nan=torch.inf), 0.0)
    if off.numel() == 0 or float(off.max()) <= max(EXACT * _scale(want), ROUNDING * terms):
        return
    index = tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))
    raise AssertionError(f"{where}{list(index)} is {float(got[index])!r}, expected {float(want[index])!r}")
