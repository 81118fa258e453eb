"""Programs and a template become a formatted file. Templates hold the shape of a file, never mathematics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import black
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from derive.emit.model import Module
from derive.emit.module import module_of
from derive.emit.pair import LINE_LENGTH
from derive.pipeline import Derivation


def render(derivation: Derivation, backend: str = "torch", workspace: bool = False) -> str:
    """The source of one generated module, formatted; with `workspace`, a backward that fills given tensors as well."""
    return _formatted(
        _environment().get_template("module.py.j2").render(m=module_of(derivation, backend, False, workspace))
    )


@dataclass(frozen=True)
class Rendered:
    """The files of one op by name; `why_no_kernel` where the backend is to print kernels and has none for the op."""

    files: dict[str, str]
    why_no_kernel: str = ""


def rendered(derivation: Derivation, backend: str, step: bool = False, workspace: bool = False) -> Rendered:
    """The files of one op: its module, and its kernels' C where the backend prints some.

    With `step`, a loss gets a function that is a whole step of gradient descent as well; with `workspace`, a backward
    that fills given tensors.
    """
    module = module_of(derivation, backend, step, workspace)
    return Rendered(files_of(module), "" if module.native is None else module.native.why_none)


def files_of(module: Module) -> dict[str, str]:
    """The files of one module by name."""
    template = _environment().get_template
    files = {f"{module.name}.py": _formatted(template("module.py.j2").render(m=module))}
    if module.native is not None and module.native.kernels:
        files[f"{module.name}.c"] = template("kernels.c.j2").render(m=module)
    return files


def render_files(derivation: Derivation, backend: str, step: bool = False, workspace: bool = False) -> dict[str, str]:
    """The files of one op alone, as `rendered` has them."""
    return rendered(derivation, backend, step, workspace).files


def render_shared(backend: str) -> dict[str, str]:
    """The files that every package of a backend has beside its modules and its `__init__`."""
    texts = {"_support.py": render_support()}
    if backend == "cpu":
        texts["_native.py"] = _formatted(_environment().get_template("native.py.j2").render())
        texts["_native.h"] = _environment().get_template("native.h").render()
        texts["_products.h"] = _environment().get_template("products.h").render()
        texts["_tensors.c"] = _environment().get_template("tensors.c").render()
    return texts


def render_init(derivations: list[Derivation]) -> str:
    """The package's `__init__`, which re-exports every module's functions."""
    names = [d.op.name for d in derivations]
    return render_init_names({n: public_names(n, d.op.stepwise) for n, d in zip(names, derivations, strict=True)})


def render_init_names(modules: dict[str, list[str]]) -> str:
    """The package's `__init__` for modules known by what they export."""
    rows = [{"file": name, "names": modules[name]} for name in sorted(modules)]
    everything = sorted({n for names in modules.values() for n in names})
    return _formatted(_environment().get_template("init.py.j2").render(modules=rows, all=everything))


def render_support() -> str:
    """The support module of a generated package."""
    return _formatted(_environment().get_template("support.py.j2").render())


def public_names(op: str, stepwise: bool = False) -> list[str]:
    """What a generated module offers."""
    names = [op, f"{op}_backward", f"{op}_forward"]
    return names + ([f"{op}_stepwise_backward", f"{op}_stepwise_forward"] if stepwise else [])


@lru_cache(maxsize=1)
def _environment() -> Environment:
    folder = Path(__file__).parent.parent / "templates"
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _formatted(source: str) -> str:
    return black.format_str(source, mode=black.Mode(line_length=LINE_LENGTH))
