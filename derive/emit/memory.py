"""A generated package in memory alone: tracebacks and `inspect.getsource` show its lines."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from derive.emit import render_orders, support_files

_PACKAGE = "_handgrad_live"
_numbers = itertools.count(1)  # a number for each module, so that two ops of one name never meet


class _Memory(ExecutionLoader):
    """Loads a module from its text; `linecache` and `inspect` ask it for that text again."""

    def __init__(self, source: str, package: bool = False):
        self.source, self.package = source, package

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_filename(self, fullname: str) -> str:
        return f"<handgrad>/{fullname.rpartition('.')[2]}.py"

    def is_package(self, fullname: str) -> bool:
        return self.package


@contextmanager
def modules_in_memory(files: Mapping[str, str]) -> Iterator[dict[str, dict[str, Any]]]:
    """What the modules of these files define, by their names in a package of their own, for as long as it is needed."""
    package = f"{_PACKAGE}_{next(_numbers)}"
    try:
        _load_package(package)
        if any("/" in file for file in files):
            for file, text in render_orders().items():
                _load(f"{package}.{_module(file)}", text, package=file.endswith("__init__.py"))
        names = sorted((f for f in files if f.endswith(".py")), key=lambda f: "/" in f)
        yield {_module(f): vars(_load(f"{package}.{_module(f)}", files[f])) for f in names}
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] == package]:
            del sys.modules[name]


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def module_of_text(name: str, source: str) -> ModuleType:
    """The module of that text, in the package of all live modules, under a name of its own."""
    if f"{_PACKAGE}._support" not in sys.modules:
        _load_package(_PACKAGE)
    return _load(f"{_PACKAGE}.{name}_{next(_numbers)}", source)


def _load_package(name: str) -> None:
    _load(name, "", package=True)
    for file, text in sorted(support_files().items(), key=lambda f: f[0] != "_support.py"):  # which others import
        _load(f"{name}.{_module(file)}", text)


def _load(name: str, source: str, package: bool = False) -> ModuleType:
    loader = _Memory(source, package)
    spec = ModuleSpec(name, loader, origin=loader.get_filename(name), is_package=package)
    spec.has_location = True
    module = module_from_spec(spec)
    sys.modules[name] = module  # before it runs: relative imports and classes look their module up
    with ExitStack() as undo:
        undo.callback(sys.modules.pop, name, None)
        loader.exec_module(module)
        undo.pop_all()  # it runs, so it stays
    return module
