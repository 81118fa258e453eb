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

from derive.emit import render_files, render_shared
from derive.pipeline import derive_op
from tests.catalogue.test_catalogue import (  # noqa: F401
    OPS,
    test_equals_autograd,
    test_float32_is_as_accurate_as_the_native_op,
    test_gradcheck,
    test_half_precision,
    test_one_tensor_for_several_inputs,
)

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
        for file, text in render_files(derive_op(OPS[name]), "cpu").items():
            _write(folder / file, text)
        return importlib.import_module(f"{PACKAGE}.{name}")

    yield module
    sys.path.remove(str(root))


@pytest.fixture(autouse=True)
def no_torch_form() -> Iterator[None]:
    """A kernel that gives way to the torch form fails its test, unless it could not be printed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs as PyTorch: (?!the CPU backend has no loop for)")
        yield


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    importlib.invalidate_caches()


def test_what_has_no_kernel_is_known() -> None:
    """Of the catalogue, these alone run as PyTorch; an op that joins them, or leaves, is noticed here."""
    without = {name for name, op in OPS.items() if len(render_files(derive_op(op), "cpu")) == 1}
    assert without == set()
