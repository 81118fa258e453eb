"""An op's C kernels, compiled and watched: what `derive verify --backend cpu` holds against autograd.

A kernel gives way to PyTorch without a word for some calls, and PyTorch's form is right as well. So every call is
watched: what a situation says of kernels is said of kernels that ran.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from derive.emit import cheapest, files_of, module_of, render_shared
from derive.emit.model import Module
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.pipeline import Derivation, derive_op
from derive.verify.cases import Case
from derive.verify.compare import Disagreement, Subject, disagreements, told
from derive.verify.subjects import of_descent, of_functions, of_loss_with_gradients, of_workspace

THREADS = (1, 2)
_LOW = "in low tiles"

_numbers = count(1)  # a number for each package, so that the kernels of two never meet


class NoKernel(Exception):
    """Why an op has no kernels."""


# --- whether kernels ran ----------------------------------------------------------------------------------


class GaveWay(NamedTuple):
    """A kernel in whose place PyTorch ran, and the reason, where it has said one."""

    kernel: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kernel} ({self.reason})" if self.reason else self.kernel


@dataclass(frozen=True)
class Watch:
    """The kernels that ran, by name, and those that gave way although none of what they were given is empty."""

    ran: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)  # those that ran over old results
    gave_way: list[GaveWay] = field(default_factory=list)


@contextmanager
def watched(runtime: ModuleType, watch: Watch | None = None) -> Iterator[Watch]:
    """Watches every kernel of a package, whose module `_native` is given."""
    watch = Watch() if watch is None else watch
    reasons: dict[str, str] = {}
    call, torch_form = runtime.Kernel.__call__, runtime.Kernel._torch

    def noted(kernel: Any, *args: Any, out: Any = None) -> Any:
        found = call(kernel, *args, out=out)
        if found is not None:
            (watch.ran if out is None else watch.over).add(kernel.name)
        elif not _is_empty(args[: kernel.first_number]):
            watch.gave_way.append(GaveWay(kernel.name, reasons.get(kernel.name, "")))
        return found

    def said(kernel: Any, reason: str) -> None:
        reasons[kernel.name] = reason
        torch_form(kernel, reason)

    runtime.Kernel.__call__, runtime.Kernel._torch = noted, said
    try:
        yield watch
    finally:
        runtime.Kernel.__call__, runtime.Kernel._torch = call, torch_form


def _is_empty(given: Any) -> bool:
    """Whether one of the tensors or lengths leaves nothing to do."""
    if isinstance(given, Tensor):
        return given.numel() == 0
    return any(map(_is_empty, given)) if isinstance(given, tuple | list) else bool(given == 0)


# --- the kernels of one op --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kernels:
    """The compiled kernels of an op: its forward and backward as one subject, and whatever else computes gradients."""

    derivation: Derivation
    subject: Subject
    others: dict[str, Subject]  # by the function's name: a loss with its gradients, a step of descent
    names: tuple[str, ...]  # of the kernels
    watch: Watch

    def wrong(self, case: Case) -> tuple[Disagreement, ...]:
        """All that is wrong of a case, on one thread and on two; each time the same bits twice."""
        out: list[Disagreement] = []
        for name, subject in {"": self.subject, **self.others}.items():
            if name.endswith(_LOW) and case.call.dtype != torch.float64:
                continue  # so many sums of two rows each are off as no tile's are
            for threads in THREADS:
                found = self._held(case, subject, threads)
                if found:
                    where = [f"by {name}"] * bool(name) + [f"on {threads} threads"] * (threads > 1)
                    out += told(found, *where)
                    break  # more threads would say the same again
        return tuple(out)

    def _held(self, case: Case, subject: Subject, threads: int) -> tuple[Disagreement, ...]:
        before = len(self.watch.gave_way)
        with _on(threads):
            found = disagreements(case, subject, exactly=True)
        gave_way = dict.fromkeys(self.watch.gave_way[before:])
        return (*found, *(Disagreement(case, "gave way", "", f"PyTorch ran in place of {k}") for k in gave_way))

    def ran(self) -> tuple[str, ...]:
        """The kernels that ran. Raises DeriveError where one was never called: then nothing is known of it."""
        gave_way = {g.kernel for g in self.watch.gave_way}
        idle = [name for name in self.names if name not in self.watch.ran | gave_way]
        if f"{self.derivation.op.name}_backward_out" in self.others:
            pair = {f"{self.derivation.op.name}_{part}" for part in ("forward", "backward")}
            idle += [f"{n} with out" for n in self.names if n in pair - self.watch.over - gave_way]
        if idle:
            raise DeriveError(f"nothing called {', '.join(idle)}", op=self.derivation.op.name, fix="please report it")
        return tuple(name for name in self.names if name in self.watch.ran)


@contextmanager
def compiled(op: Op, save: str = "cost") -> Iterator[Kernels]:
    """The kernels of `derive generate --backend cpu --step --workspace`, compiled, for as long as they are needed.

    Raises NoKernel where the op has none, DeriveError where there is no compiler or it does not take them.
    """
    derivation = derive_op(op, cheapest("cpu") if save == "cost" else save)
    module = _printed(derivation)
    with TemporaryDirectory(prefix="handgrad_kernels_") as folder, ExitStack() as stack:
        package = stack.enter_context(_package(Path(folder), module))
        runtime = importlib.import_module(f"{package}._native")
        _compile(op, package)
        made = importlib.import_module(f"{package}.{op.name}")
        names = tuple(k.name for k in vars(made).values() if isinstance(k, runtime.Kernel))
        functions = _functions(made, op)
        others: dict[str, Subject] = {}
        if "with_gradients" in functions:
            others[f"{op.name}_with_gradients"] = of_loss_with_gradients(functions["with_gradients"])
        if "sgd" in functions:
            others[f"{op.name}_sgd"] = of_descent(functions["sgd"])
        if "backward_out" in functions:
            others[f"{op.name}_backward_out"] = of_workspace(functions)
        watch = stack.enter_context(watched(runtime))
        code = files_of(module).get(f"{op.name}.c", "")
        if "tile_of(" in code or "TILE_ROWS" in code:
            low = _functions(stack.enter_context(_in_low_tiles(op, Path(folder), module, watch)), op)
            others[f"{op.name}_backward {_LOW}"] = of_functions(low["forward"], low["backward"])
            if "with_gradients" in low:
                others[f"{op.name}_with_gradients {_LOW}"] = of_loss_with_gradients(low["with_gradients"])
            if "sgd" in low:
                others[f"{op.name}_sgd {_LOW}"] = of_descent(low["sgd"])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* runs as PyTorch: ")  # the watch tells it
            subject = of_functions(functions["forward"], functions["backward"])
            yield Kernels(derivation, subject, others, names, watch)


def _functions(module: ModuleType, op: Op) -> dict[str, Any]:
    """The functions of an op's module by what comes after its name."""
    return {n.removeprefix(f"{op.name}_"): f for n, f in vars(module).items() if n.startswith(f"{op.name}_")}


@contextmanager
def _in_low_tiles(op: Op, folder: Path, module: Module, watch: Watch) -> Iterator[ModuleType]:
    """The op's module with kernels that take few rows at a time, or one, as where many do not fit a cache.

    The watch is told of those that give way; that one of them ran says nothing of the others.
    """
    with _package(folder, module) as package:
        library: Any = importlib.import_module(f"{package}._library")
        library.FLAGS = (*library.FLAGS, "-DFEW_ROWS=2", "-DFAR_OFF=0")
        _compile(op, package)
        with watched(importlib.import_module(f"{package}._native"), Watch(gave_way=watch.gave_way)):
            yield importlib.import_module(f"{package}.{op.name}")


def _printed(derivation: Derivation) -> Module:
    """The module with its kernels, that of a training step too where there is one."""
    reason = ""
    for step in (True, False):
        module = module_of(derivation, "cpu", step, True)
        assert module.native is not None, "that is what this backend prints"
        if module.native.kernels:
            return module
        reason = module.native.why_none
    raise NoKernel(reason)


@contextmanager
def _package(folder: Path, module: Module) -> Iterator[str]:
    """The name of a package in the folder, which can be imported."""
    for name, text in {"__init__.py": "", **_shared(), **files_of(module)}.items():
        (folder / name).write_text(text, encoding="utf-8")
    package = f"_handgrad_kernels_{next(_numbers)}"
    spec = spec_from_file_location(package, folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec is not None, "it is a file of Python"
    sys.modules[package] = module_from_spec(spec)
    try:
        yield package
    finally:
        for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
            del sys.modules[name]


@cache
def _shared() -> dict[str, str]:
    return render_shared("cpu")


def _compile(op: Op, package: str) -> None:
    """Compile for every element type, so that nothing that runs later gives way for want of a library."""
    library = importlib.import_module(f"{package}._library")
    try:
        library.compiler()
    except library.Unavailable as error:
        raise DeriveError(str(error)) from None
    try:
        for dtype in library.TYPES:
            library.library(f"{op.name}.c", dtype)
    except library.Unavailable as error:
        raise DeriveError(str(error), op=op.name, fix="name another compiler in CC, or report it") from None


@contextmanager
def _on(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
