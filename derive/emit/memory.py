"""A generated package in memory alone: tracebacks and `inspect.getsource` show its lines."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType

from derive.emit import support_files

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
def module_in_memory(name: str, source: str) -> Iterator[ModuleType]:
    """The module of that text, for as long as it is needed."""
    module = module_of_text(name, source)
    try:
        yield module
    finally:
        del sys.modules[module.__name__]


def module_of_text(name: str, source: str) -> ModuleType:
    """The module of that text, in the package of all live modules, under a name of its own."""
    if f"{_PACKAGE}._support" not in sys.modules:
        _load(_PACKAGE, "", package=True)
        for file, text in sorted(support_files().items(), key=lambda f: f[0] != "_support.py"):  # which others import
            _load(f"{_PACKAGE}.{file.removesuffix('.py')}", text)
    return _load(f"{_PACKAGE}.{name}_{next(_numbers)}", source)


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
