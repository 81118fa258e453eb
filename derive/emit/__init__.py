"""Programs and a template become a formatted file. Templates hold the shape of a file, never mathematics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import black
from jinja2 import Environment

from derive.backends.torch.instructions import PLAIN
from derive.emit.model import Module
from derive.emit.module import module_of
from derive.emit.pair import LINE_LENGTH
from derive.emit.templating import environment
from derive.pipeline import Derivation
from derive.primitives import in_c


def render(
    derivation: Derivation, backend: str = "torch", workspace: bool = False, unproven: str = "",
    instructions: str = PLAIN,
) -> str:  # fmt: skip
    """The source of one generated module, formatted; with `workspace`, a backward that fills given tensors as well.

    Why it is `unproven`, if it is, its first line says.
    """
    module = replace(module_of(derivation, backend, False, workspace, instructions), unproven=unproven)
    return _formatted(_filled("module.py.j2", m=module))


ORDERS = "orders"
"""The folder of a package's modules of further derivatives."""


@dataclass(frozen=True)
class Rendered:
    """The files of one op by name; `why_no_kernel` where the backend is to print kernels and has none for the op."""

    module: Module
    files: dict[str, str]

    @property
    def why_no_kernel(self) -> str:
        return "" if self.module.native is None else self.module.native.why_none

    @property
    def unproven(self) -> str:
        return self.module.unproven

    def saying(self, unproven: str) -> Rendered:
        """The same, whose first lines say why nothing is proved of it."""
        module = replace(self.module, unproven=" ".join(unproven.split()))
        return Rendered(module, files_of(module))


def rendered(
    derivation: Derivation, backend: str, step: bool = False, workspace: bool = False, instructions: str = PLAIN,
    order: int = 1,
) -> Rendered:  # fmt: skip
    """The files of one op: its module, and its kernels' C where the backend prints some.

    With `step`, a loss gets a function that is a whole step of gradient descent as well; with `workspace`, a backward
    that fills given tensors; of `order` 2, a module of its further derivatives.
    """
    module = module_of(derivation, backend, step, workspace, instructions, order)
    return Rendered(module, files_of(module))


def files_of(module: Module) -> dict[str, str]:
    """The files of one module by name."""
    files = {f"{module.name}.py": _formatted(_filled("module.py.j2", m=module))}
    if module.native is not None and module.native.kernels:
        files[f"{module.name}.c"] = _filled("kernels.c.j2", m=module)
    if module.higher is not None:
        files[f"{ORDERS}/{module.name}.py"] = _formatted(_filled("order.py.j2", m=module, h=module.higher))
    return files


def cheapest(backend: str) -> str:
    """What `save="cost"` is on a backend."""
    return "kernel" if backend == "cpu" else "cost"


def render_shared(backend: str) -> dict[str, str]:
    """The files that every package of a backend has beside its modules and its `__init__`."""
    texts = support_files()
    if backend == "cpu":
        texts |= {f"_{name}.py": _shared(name) for name in ("library", "native", "operators")}
        texts["_native.h"] = _filled("native.h", functions=in_c())
        texts["_products.h"] = _filled("products.h")
        texts["_windows.h"] = _filled("windows.h")
        texts["_tensors.c"] = _filled("tensors.c")
    return texts


def render_orders() -> dict[str, str]:
    """The files that every package has beside its modules of further derivatives."""
    return {
        f"{ORDERS}/__init__.py": _filled("orders.py.j2"),
        f"{ORDERS}/_transforms.py": _shared("transforms"),
    }


def render_init(modules: dict[str, list[str]]) -> str:
    """The package's `__init__`, which re-exports what each of its modules exports."""
    rows = [{"file": name, "names": modules[name]} for name in sorted(modules)]
    everything = sorted({n for names in modules.values() for n in names})
    return _formatted(_filled("init.py.j2", modules=rows, all=everything))


def support_files() -> dict[str, str]:
    """The modules that generated ones import from, by file name."""
    names = ("derivatives", "functions", "support", "workspace")
    return {f"_{name}.py": _shared(name) for name in names}


@lru_cache(maxsize=8)
def _shared(name: str) -> str:
    return _formatted(_filled(f"{name}.py.j2"))


def _filled(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return environment()


def _formatted(source: str) -> str:
    return black.format_str(source, mode=black.Mode(line_length=LINE_LENGTH))
