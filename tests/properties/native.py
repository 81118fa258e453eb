"""The same trial for the C kernels: a package for an example, its functions beside autograd and each other."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from derive.errors import DeriveError
from derive.notation.spec import OpCall
from derive.output.package import write_package
from derive.verify.kernels import watched
from derive.verify.subjects import cotangent_of, tensors_in
from tests.properties.grammar import Example
from tests.properties.judging import Refused, Verdict, cotangent, differences, values

CLOSE = 1e-12  # float64, relative to the largest element: a loss with its gradients sums in another order

_numbers = count()


def judge(example: Example) -> Verdict:
    """Print the kernels, compile them and run every function. Raises what that raises but DeriveError.

    A kernel that gives way to the torch form is a failure, but for a reason that is known when it is printed, and
    where the torch form refuses as well.
    """
    names: dict[str, Any] = {}
    exec(compile(example.source, "<spec>", "exec", dont_inherit=True), names)
    op: OpCall = names[example.name]
    with TemporaryDirectory(prefix="random_kernels_") as folder:
        try:
            package = f"random_kernels_{next(_numbers)}"
            write_package([op.op], Path(folder) / package, backend="cpu", workspace=True, save=example.save,
                          proven=False)  # which is judged here
        except DeriveError as error:
            return Verdict("refused", str(error))
        sys.path.insert(0, folder)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*runs as PyTorch: (?!the CPU backend has no loop for)")
                module = importlib.import_module(f"{package}.{op.op.name}")
                library: Any = importlib.import_module(f"{package}._library")
                library.FLAGS = (*library.FLAGS, "-DFEW_ROWS=2")  # chains of products have several tiles then
                with watched(importlib.import_module(f"{package}._native")) as watch:
                    wrong = _wrong(example, module, op.op.name)
                wrong += [f"{kernel} gave way" for kernel in dict.fromkeys(watch.gave_way)]
        except Refused as refusal:
            return Verdict("rightly refused", str(refusal))
        except UserWarning as warning:
            return Verdict("wrong", str(warning))
        finally:
            sys.path.remove(folder)
    return Verdict("wrong", "; ".join(wrong)) if wrong else Verdict("right")


def _wrong(example: Example, module: ModuleType, name: str) -> list[str]:
    class Kernels:
        forward = staticmethod(getattr(module, f"{name}_forward"))
        backward = staticmethod(getattr(module, f"{name}_backward"))

    wrong = differences(example, Kernels)
    tensors, numbers = values(example)
    waiting = iter(t for _, t in tensors)
    args = [numbers[i.name] if i.kind in ("scalar", "length") else next(waiting) for i in example.inputs]
    first = Kernels.forward(*args)
    dys = [cotangent(y, example, k) for k, y in enumerate(first[:-1])]
    gradients = Kernels.backward(*dys, *first[-1])
    again = getattr(module, f"{name}_forward_out")(*args, out=_copy(first))
    over = getattr(module, f"{name}_backward_out")(*dys, *again[-1], out=_copy(gradients))
    if not all(map(_is_close, tensors_in((again, over)), tensors_in((first, gradients)))):
        wrong.append("over the memory of an earlier call it differs")
    both: Callable[..., Any] | None = getattr(module, f"{name}_with_gradients", None)
    if both is not None:
        found = both(*args, **{cotangent_of(both): float(dys[0])})
        if not all(map(_is_close, tensors_in(found), tensors_in((first[0], gradients)))):
            wrong.append("the loss with its gradients differs")
    return wrong


def _copy(value: Any) -> Any:
    if isinstance(value, tuple):
        return type(value)(*map(_copy, value)) if hasattr(value, "_fields") else tuple(map(_copy, value))
    return value.clone() if isinstance(value, Tensor) else value


def _is_close(one: Tensor, other: Tensor) -> bool:
    if other.dtype == torch.bool:  # a mask that is kept
        return torch.equal(one, other)
    largest = float(other.abs().max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=CLOSE, atol=CLOSE * largest, equal_nan=True)
