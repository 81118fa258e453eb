"""The module's own package of kernels, for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch

from derive.catalogue import load_file
from derive.ir.equations import Op
from tests.conftest import Package
from tests.native.running import only_kernels


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
