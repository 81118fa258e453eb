"""Packages of kernels, made from specs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from derive.catalogue import find, load_file
from derive.output.package import write_package

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
