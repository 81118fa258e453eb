"""Someone's backward, found by `FILE.py:function`."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload

from derive.emit.devices import CPU
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation.running import FailedError, Someones, run, text_of
from derive.verify.compare import Subject
from derive.verify.orders import gradient_map, of_forward_mode, of_twice, tangent_map
from derive.verify.subjects import of_backward, of_forward, of_function_class


def load(where: str, op: Op, device: torch.device = CPU) -> Subject:
    """The candidate that `FILE.py:function` names: a backward, a `torch.autograd.Function`, or `namespace::op`.

    Runs the file, kernels in Triton by its interpreter unless they are for a device. An op of `torch.library` is a
    forward, with what it has registered for autograd, where it takes the op's inputs; else a backward. Raises
    DeriveError for whatever goes wrong on the way.
    """
    found = opened(where, device=device).found
    if isinstance(found, type) and issubclass(found, torch.autograd.Function):
        return of_function_class(found, op)
    if isinstance(found, OpOverload) and len(found._schema.arguments) in (
        len(op.operands),
        sum(o.is_tensor for o in op.operands),
    ):
        return of_forward(found, op)
    return of_backward(found, op)


def load_further(where: str, op: Op, tangents: bool, device: torch.device = CPU) -> Subject:
    """The double backward of an op that `FILE.py:function` names, or its JVP if `tangents`.

    A function `double_backward(ddx, …, *inputs, dy, …)` or `jvp(tx, …, *inputs)`; or a `torch.autograd.Function` that
    is differentiable twice, or in forward mode. Raises DeriveError as `load` does.
    """
    found, of = opened(where, device=device).found, tangent_map(op) if tangents else gradient_map(op)
    if isinstance(found, type) and issubclass(found, torch.autograd.Function):
        return of_forward_mode(op, found.apply) if tangents else of_twice(op, found.apply)
    return of_backward(found, of, [o.name for o in of.differentiable] if tangents else ())


@dataclass(frozen=True, eq=False)
class Opened:
    """A file that was run, with what was found in it: the candidate, a forward, what `example_inputs()` returned."""

    found: Callable[..., Any] | type[torch.autograd.Function]
    forward: Callable[..., Any] | None = None
    example: tuple[Any, ...] | None = None


def opened(where: str, forward: str = "", device: torch.device = CPU) -> Opened:
    """The function, the `torch.autograd.Function` or the op of `torch.library` that `FILE.py:name` names, and more.

    Runs the file, once. Raises DeriveError where there is no such thing.
    """
    file, name = _file_and_name(where)
    module = _module(Path(file), device)
    other = forward.removeprefix(f"{file}:") if forward.startswith(f"{file}:") else ""
    return Opened(
        _candidate(module, file, name),
        _candidate(module, file, other) if other else function(forward) if forward else None,
        _example(module, file),
    )


def _candidate(
    module: ModuleType, file: str, name: str
) -> Callable[..., Any] | type[torch.autograd.Function]:
    if "::" in name:
        return _library_op(file, name)
    found = getattr(module, name, None)
    if found is None:
        known = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__]
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(known) or 'no functions'}"
        raise DeriveError(f"{file} has no {name}", fix=hint)
    if isinstance(found, CustomOpDef):
        return found._opoverload
    if inspect.isclass(found) and issubclass(found, torch.autograd.Function):
        return found
    if inspect.isclass(found) or not callable(found):
        kind = "class" if inspect.isclass(found) else type(found).__name__
        raise DeriveError(f"{file}:{name} is a {kind}", fix="give a function, or a torch.autograd.Function")
    return found


def _example(module: ModuleType, file: str) -> tuple[Any, ...] | None:
    """What `example_inputs()` of the file returns, one call's arguments; None where there is none."""
    found = getattr(module, "example_inputs", None)
    if found is None:
        return None
    try:
        with Someones():
            example = found()
    except FailedError as failed:
        raise DeriveError(f"example_inputs of {file} fails: {failed.line}", fix="correct the file") from None
    return tuple(example) if isinstance(example, tuple | list) else (example,)


def _file_and_name(where: str) -> tuple[str, str]:
    """`FILE.py` and `name` or `namespace::op`."""
    file, mark, name = where.partition(".py:")
    file, name = (f"{file}.py", name) if mark else where.rpartition(":")[::2]
    if not file or not name:
        raise DeriveError(f"{where} names no function in a file", fix="write it as FILE.py:function")
    return file, name


def _library_op(file: str, name: str) -> OpOverload:
    """The op that a file has registered under `namespace::op`, the overload "default" unless one is named."""
    namespace, _, own = name.partition("::")
    own, _, overload = own.partition(".")
    found = getattr(getattr(torch.ops, namespace), own, None)
    if found is None:
        raise DeriveError(f"{file} registers no op {name}", fix="register it with torch.library, as namespace::op")
    overload = overload or "default"
    if overload not in found.overloads():
        raise DeriveError(f"{name} has no overload {overload}", fix=f"it has {', '.join(found.overloads())}")
    return getattr(found, overload)


def function(where: str) -> Callable[..., Any]:
    """The function that a dotted name, as `torch.nn.functional.silu`, or `FILE.py:function` stands for.

    Raises DeriveError where there is none.
    """
    if ":" in where:
        file, name = _file_and_name(where)
        found = getattr(_module(Path(file)), name, None)
    else:
        module, _, name = where.rpartition(".")
        try:
            with Someones():
                found = getattr(importlib.import_module(module), name, None) if module else None
        except FailedError as failed:
            raise DeriveError(f"cannot import {module}: {failed}", fix="name what is installed") from None
    if not callable(found):
        raise DeriveError(f"there is no function {where}", fix="write it as torch.nn.functional.NAME or FILE.py:NAME")
    return found


def _module(path: Path, device: torch.device = CPU) -> ModuleType:
    if device == CPU:
        os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton asks for it as it is imported
    text = text_of(path, fix="write it as FILE.py:function")
    try:
        return run(path, text, f"_candidates_in_{path.stem}")
    except FailedError as failed:
        error = failed.error
        if isinstance(error, SyntaxError):
            raise DeriveError(f"{path}, line {error.lineno}: {error.msg}", fix="correct the file") from None
        raise DeriveError(f"{path} cannot be run: {failed.line}", fix="correct the file") from None
