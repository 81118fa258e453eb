"""A spec as running PyTorch: rendered, written beside its support module, imported under a name of its own."""

import importlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from derive import emit
from derive.ir.equations import Op
from derive.pipeline import derivation_of

_TEMPORARY = tempfile.TemporaryDirectory(prefix="specs_")  # removed when the tests end


@lru_cache(maxsize=1)
def _folder() -> Path:
    package = Path(_TEMPORARY.name) / "rendered_specs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in emit.support_files().items():
        (package / name).write_text(text)
    sys.path.insert(0, _TEMPORARY.name)
    return package


_NUMBERS = count()


@cache
def module(op: Op) -> ModuleType:
    """The generated module of an op, under a name that no other spec of the same name has."""
    name = f"{op.name}_{next(_NUMBERS)}"
    (_folder() / f"{name}.py").write_text(emit.render(derivation_of(op)))
    importlib.invalidate_caches()
    return importlib.import_module(f"rendered_specs.{name}")


def chooses(code: str) -> bool:
    """Whether code chooses between two values, element by element."""
    return "torch.where(" in code or "where_by_bits(" in code


def as_tuple(value: object) -> tuple:
    """The results of a function that returns one or several."""
    return tuple(value) if isinstance(value, tuple) else (value,)


def inputs_of(op: Op, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Normal numbers in float64 for every tensor of an op, of these shapes, with gradients where it has them."""
    generator = torch.Generator().manual_seed(0)
    tensors = (o for o in op.operands if o.is_tensor)
    made = ((o, torch.randn(shapes[o.name], generator=generator, dtype=torch.float64)) for o in tensors)
    return {o.name: t.requires_grad_(o.differentiable) for o, t in made}


def assert_derived_at(made: Op, reference: Callable[..., Tensor], lengths: Mapping[str, int]) -> None:
    """The same as `assert_derived` for tensors of these lengths, which the reference takes in their order."""
    inputs = inputs_of(made, {o.name: tuple(lengths[a.base] for a in o.axes) for o in made.operands})
    leaves = list(inputs.values())
    assert_alike(getattr(module(made), made.name)(*leaves), reference(*leaves), leaves)


def assert_alike(ours: Tensor, expected: Tensor, leaves: Sequence[Tensor], tolerance: float = 1e-12) -> None:
    """That two values made of the same leaves are alike in float64, and their gradients under one cotangent."""
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)
    cotangent = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=expected.dtype)
    found, right = (torch.autograd.grad(y, leaves, cotangent, retain_graph=True) for y in (ours, expected))
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def assert_derived(made: Op, reference: Callable[..., Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """That what is derived of an op has the values and gradients of a plain forward."""
    inputs = inputs_of(made, shapes)
    leaves = [t for t in inputs.values() if t.requires_grad]
    assert_alike(getattr(module(made), made.name)(**inputs), reference(**inputs), leaves)
