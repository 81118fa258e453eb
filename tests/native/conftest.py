"""Packages of kernels, made from specs for the tests of this folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
import torch

from derive.catalogue import find, load_file
from derive.ir.equations import Op
from derive.output.package import write_package
from tests.native.running import only_kernels

Package = Callable[..., ModuleType]


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Package]:
    """A native package of ops of the catalogue, or of a file of specs given as text; its modules are attributes."""
    root = tmp_path_factory.mktemp("packages")
    sys.path.insert(0, str(root))
    numbers = count()

    def make(*names: str, specs: str = "", step: bool = False, workspace: bool = False) -> ModuleType:
        folder = root / f"native_{next(numbers)}"
        if specs:
            file = Path(f"{folder}_specs.py")
            file.write_text(specs)
            ops = load_file(file)
        else:
            ops = [find(name) for name in names]
        write_package(ops, folder, backend="cpu", step=step, workspace=workspace, proven=False)
        importlib.invalidate_caches()
        made = importlib.import_module(folder.name)
        for op in ops:
            made.__dict__[f"{op.name}_module"] = importlib.import_module(f"{folder.name}.{op.name}")
        return made

    yield make
    sys.path.remove(str(root))


@pytest.fixture(scope="module")
def native(request: pytest.FixtureRequest, package: Package) -> ModuleType:
    """The package of the specs that the tests' module has as text; a module that wants another one makes it."""
    return package(specs=request.module.SPECS)


@pytest.fixture(scope="module")
def ops(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Op]:
    """The ops of the specs that the tests' module has as text, by name."""
    file = tmp_path_factory.mktemp("specs") / "specs.py"
    file.write_text(request.module.SPECS)
    return {op.name: op for op in load_file(file)}


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads PyTorch has, until the test ends."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def kernels(native: ModuleType) -> Iterator[None]:
    """Every call of the module's package `native` runs a kernel."""
    with only_kernels(sys.modules[f"{native.__name__}._native"]):
        yield
