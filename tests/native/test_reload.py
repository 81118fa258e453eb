"""A module that is generated again and loaded again runs its new kernels, and operators of before run as before."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from derive.catalogue import load_file
from derive.output.package import write_package
from tests.native.running import only_kernels

ONE = """
from derive import *

n, c = axes("n c")


@op
def scaled(f, x: tensor[n, c], w: tensor[c]):
    f.y[n, c] = x[n, c] * w[c]
    return f.y
"""
OTHER = """
from derive import *

n, c = axes("n c")


@op
def scaled(f, x: tensor[n, c], w: tensor[c], b: tensor[n], by: scalar = 3.0):
    f.y[n, c] = by * x[n, c] * w[c] + b[n]
    return f.y
"""


def _written(specs: str, folder: Path) -> None:
    file = folder.parent / f"{folder.name}_specs.py"
    file.write_text(specs)
    write_package(load_file(file), folder, backend="cpu", proven=False)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """The module of the one spec, in a package of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / f"reloaded_{abs(hash(request.node.name))}"
    _written(ONE, folder)
    return importlib.import_module(f"{folder.name}.scaled")


def _again(made: ModuleType, specs: str) -> ModuleType:
    _written(specs, Path(str(made.__file__)).parent)
    importlib.invalidate_caches()
    return importlib.reload(made)


def _runtime(made: ModuleType) -> ModuleType:
    return sys.modules[f"{made.__package__}._native"]


def _check_other(made: ModuleType) -> None:
    """All ways to call the other spec's function: as it is, compiled, as an operator."""
    args = [torch.randn(*shape, requires_grad=True) for shape in ((5, 4), (4,), (5,))]
    x, w, b = args
    right = torch.autograd.grad((2 * x * w + b[:, None]).sin().sum(), args)
    compiled = torch.compile(lambda *a: made.scaled(*a, 2.0).sin(), fullgraph=True, backend="aot_eager")
    with only_kernels(_runtime(made)):
        found = torch.autograd.grad(made.scaled(*args, 2.0).sin().sum(), args)
    traced = torch.autograd.grad(compiled(*args).sum(), args)
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(traced, right)
    torch.library.opcheck(made.FORWARD.op, (*args, 2.0))


def test_a_module_that_is_as_it_was(made: ModuleType) -> None:
    x, w = torch.randn(3, 4), torch.randn(4)
    before = made.scaled_forward
    for _ in range(2):
        made = _again(made, ONE)
        with only_kernels(_runtime(made)):
            for function in (before, made.scaled_forward):
                torch.testing.assert_close(function(x, w)[0], x * w)


def test_a_module_with_other_arguments(made: ModuleType) -> None:
    x, w = torch.randn(3, 4), torch.randn(4)
    compiled = torch.compile(lambda x, w: made.scaled(x, w).sin(), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close((made.scaled(x, w), compiled(x, w)), (x * w, (x * w).sin()))
    first = made.FORWARD.op
    _check_other(_again(made, OTHER))
    torch.testing.assert_close(first(x, w), x * w)  # which a graph may hold


def test_the_runtime_and_the_module(made: ModuleType) -> None:
    importlib.reload(_runtime(made))
    _check_other(_again(made, OTHER))


def test_a_package_that_is_imported_anew(made: ModuleType) -> None:
    name = made.__name__
    _written(OTHER, Path(str(made.__file__)).parent)
    for loaded in [k for k in sys.modules if k.startswith(str(made.__package__))]:
        del sys.modules[loaded]
    _check_other(importlib.import_module(name))


def test_a_kernel_generated_again_is_not_called_by_the_module_of_before(made: ModuleType) -> None:
    """It takes other arguments: the torch form of before runs until the module is loaded again."""
    x, w = torch.randn(3, 4), torch.randn(4)
    _written(OTHER, Path(str(made.__file__)).parent)
    with pytest.warns(UserWarning, match="generated again since this module was imported; reload the module"):
        torch.testing.assert_close(made.scaled_forward(x, w)[0], x * w)
