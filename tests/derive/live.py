"""A spec as running PyTorch: rendered, written beside its support module, imported under a name of its own."""

import importlib
import sys
import tempfile
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from types import ModuleType

from derive import emit
from derive.equations import Op
from derive.pipeline import Derivation, derive_op


@cache
def derived(op_key: "Keyed") -> Derivation:
    return derive_op(op_key.op)


class Keyed:
    """An op as a dictionary key: by identity, since ops hold what cannot be hashed."""

    def __init__(self, op: Op):
        self.op = op

    def __hash__(self) -> int:
        return id(self.op)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and other.op is self.op


def derivation(op: Op) -> Derivation:
    """The derivation of an op, made once in a test run."""
    return derived(Keyed(op))


_TEMPORARY = tempfile.TemporaryDirectory(prefix="specs_")  # removed when the tests end


@lru_cache(maxsize=1)
def _folder() -> Path:
    package = Path(_TEMPORARY.name) / "rendered_specs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_support.py").write_text(emit.render_support())
    sys.path.insert(0, _TEMPORARY.name)
    return package


def module(op: Op) -> ModuleType:
    """The generated module of an op, under a name that no other spec of the same name has."""
    return _imported(Keyed(op))


_NUMBERS = count()


@cache
def _imported(key: Keyed) -> ModuleType:
    name = f"{key.op.name}_{next(_NUMBERS)}"
    (_folder() / f"{name}.py").write_text(emit.render(derivation(key.op)))
    importlib.invalidate_caches()
    return importlib.import_module(f"rendered_specs.{name}")
