"""Live functions of an op, for notebooks and experiments: rendered, then run as a package in memory alone."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from derive.emit import render, support_files
from derive.equations import Equation, Op
from derive.pipeline import Derivation, derive_op
from derive.recording.spec import OpCall
from derive.typeset import adjoint_names, definition_latex, equation_latex

_PACKAGE = "_handgrad_live"
_numbers = itertools.count(1)  # a number for each module, so that two ops of one name never meet


@dataclass(frozen=True)
class Live:
    """An op that runs. Calling it calls `function`, which `loss.backward()` differentiates.

    `forward` returns the outputs and what is saved, `backward` takes a cotangent for every output and `*saved`, and
    with `needs=` a bool for each real input, of which a gradient that is not needed is None;
    `source` is the text of the module that holds them.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    function: Callable[..., Any]
    source: str
    derivation: Derivation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.derivation.op}\n\n{self.derivation.backward}"

    def _repr_latex_(self) -> str:
        return latex(self.derivation)


def build(op: OpCall | Op, save: str = "cost", workspace: bool = False, proven: bool = True) -> Live:
    """The live functions of an op: what `@op` returned, or its data. Needs PyTorch.

    `save` and `workspace` are those of `derive generate`. Tracebacks and `inspect.getsource` show the
    generated lines. All are held against autograd of the equations first, if `proven`; where that cannot be done, a
    warning says why, as does the first line of the source. Raises DeriveError where the op cannot be derived, or what
    was derived is wrong, TypeError for anything that is no op.
    """
    if not isinstance(op, OpCall | Op):
        raise TypeError(f"build takes an op, what @op returns; got {type(op).__name__}")
    data = op.op if isinstance(op, OpCall) else op
    derivation: Derivation = data.derivation if save == "cost" else derive_op(data, save)
    name = derivation.op.name
    source = render(derivation, workspace=workspace, unproven="" if proven else "proven=False was given")
    if proven:
        from derive.verify.emitted import prove  # which stands above this module, and needs PyTorch

        with module_in_memory(name, source) as module:
            why = prove(data, vars(module))
        if why:
            why = " ".join(why.split())
            warnings.warn(f"{name} is unproven: {why}", stacklevel=2)
            source = render(derivation, workspace=workspace, unproven=why)
    found = vars(_module(f"{name}_{next(_numbers)}", source))
    return Live(found[f"{name}_forward"], found[f"{name}_backward"], found[name], source, derivation)


def latex(derivation: Derivation) -> str:
    """The equations of a derivation and its closed backward as one LaTeX display, for a notebook."""
    adjoints = adjoint_names(derivation.steps)
    forward = [equation_latex(e, adjoints) for e in derivation.shown]
    backward = [definition_latex(d, adjoints) for d in derivation.closed.definitions]
    return _display([r"\textbf{forward}", *forward, r"\textbf{backward}", *backward])


def equation_display(equation: Equation) -> str:
    """One equation as a LaTeX display, for a notebook."""
    return f"$$\n{equation_latex(equation)}\n$$"


def _display(lines: Iterable[str]) -> str:
    """Lines of mathematics under one another, as a notebook shows them."""
    rows = " \\\\[4pt]\n".join(lines)
    return f"$$\n\\begin{{array}}{{l}}\n{rows}\n\\end{{array}}\n$$"


# --- a package in memory ----------------------------------------------------------------------------------


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
    module = _module(f"{name}_{next(_numbers)}", source)
    try:
        yield module
    finally:
        del sys.modules[module.__name__]


def _module(name: str, source: str) -> ModuleType:
    """The module of that text, in the package of all live modules."""
    if f"{_PACKAGE}._support" not in sys.modules:
        _load(_PACKAGE, "", package=True)
        for file, text in sorted(support_files().items()):
            _load(f"{_PACKAGE}.{file.removesuffix('.py')}", text)
    return _load(f"{_PACKAGE}.{name}", source)


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
