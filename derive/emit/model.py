"""What a template is filled with: a module, its functions, their fields."""

from __future__ import annotations

from dataclasses import dataclass

from derive.backends.cpu.wrapper import Native


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    note: str


@dataclass(frozen=True)
class Function:
    name: str
    signature: str
    returns: str
    doc: str
    lines: tuple[str, ...]
    title: str = ""
    saved: tuple[Field, ...] | None = None
    decorators: tuple[str, ...] = ("in_float32",)
    compared: str = ""  # its decorator's arguments: where it writes, what it reads, how lengths follow
    copies: bool = False  # whether it writes where its kernel does not
    of_inputs: bool = False  # whether its parameters are the op's inputs


@dataclass(frozen=True)
class Module:
    name: str
    title: str
    source: str
    command: str
    docstring: str
    imports: tuple[str, ...]
    saved: tuple[Field, ...]
    gradients: tuple[Field, ...]
    forward: Function
    backward: Function
    extra: tuple[Function, ...]
    inputs: tuple[str, ...]  # as the caller says them
    parameters: tuple[str, ...]  # as the code does
    set_apart: tuple[str, str]  # lines for what has an input's name: at the end, and first in functions of inputs
    differentiable: tuple[str, ...]
    ranges: tuple[tuple[str, str, str, int, str, bool], ...]
    outputs: tuple[str, ...]
    cotangents: tuple[str, ...]
    linear: bool  # whether the gradients depend on the cotangents alone
    returned: tuple[str, ...]
    function: str  # what autograd's function is called
    context: str  # what autograd's context is called: as everywhere, but for ops that have a tensor of that name
    keeping: tuple[str, ...]  # lines that take out of the saved tuple what only gradients read that are not needed
    asking: str  # the argument of the backward that says which gradients are; none where there is one alone
    plain_returns: str
    wrapper_doc: str
    native: Native | None  # kernels beside the torch form
    rate: str  # what a whole training step calls the number that gradients are multiplied by
    step_signature: str
    unproven: str = ""  # why no one has held its functions against the equations, where that is so
