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

_TEMPORARY = tempfile.TemporaryDirectory(prefix="specs_")  # removed when the tests end


@lru_cache(maxsize=1)
def _folder() -> Path:
    package = Path(_TEMPORARY.name) / "rendered_specs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_support.py").write_text(emit.render_support())
    sys.path.insert(0, _TEMPORARY.name)
    return package


_NUMBERS = count()


@cache
def module(op: Op) -> ModuleType:
    """The generated module of an op, under a name that no other spec of the same name has."""
    name = f"{op.name}_{next(_NUMBERS)}"
    (_folder() / f"{name}.py").write_text(emit.render(op.derivation))
    importlib.invalidate_caches()
    return importlib.import_module(f"rendered_specs.{name}")
