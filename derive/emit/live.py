"""Live functions of a derivation: rendered, then run as a package in memory alone. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from derive.backends.torch.instructions import PLAIN
from derive.emit import render
from derive.emit.memory import module_of_text
from derive.ir.display import display
from derive.ir.equations import Op
from derive.pipeline import Derivation, derivation_of, derive_op


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

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.derivation.op}\n\n{self.derivation.backward}"

    def _repr_latex_(self) -> str:
        return display(self.derivation)


def live(derivation: Derivation, workspace: bool, unproven: str, instructions: str = PLAIN) -> Live:
    """What was derived as functions. `unproven` says why nothing was held against autograd, "" that it was."""
    name = derivation.op.name
    source = render(derivation, workspace=workspace, unproven=unproven, instructions=instructions)
    found = vars(module_of_text(name, source))
    return Live(found[f"{name}_forward"], found[f"{name}_backward"], found[name], source, derivation)


def live_of(op: Op, save: str = "cost", workspace: bool = False, instructions: str = PLAIN) -> Live:
    """What is derived of an op as functions that nothing was held against: for comparisons, and for measuring."""
    made = derivation_of(op) if save == "cost" else derive_op(op, save)
    return live(made, workspace, "for a comparison", instructions)
