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
class Higher:
    """What the templates need of an op's further derivatives."""

    saved: tuple[Field, ...]
    more: tuple[str, ...]  # what is saved beside what the first order saves, as the forward has it
    lengths: tuple[str, ...]  # lines that say lengths among these
    functions: tuple[Function, ...]
    formulas: tuple[str, ...]
    imports: tuple[str, ...]
    derivatives: tuple[tuple[str, str], ...]  # the arguments of `Derivatives`
    kept: tuple[str, ...]  # what the op keeps, as its autograd function's forward has it
    kept_lengths: tuple[str, ...]  # lines that say lengths among these
    first: int  # how many of these the first order's backward takes
    flags: str  # the line of that forward that says which gradients are needed, if it asks
    keeps: tuple[str, ...]  # tensors of which the op holds the values
    edges: tuple[tuple[int, str], ...]  # which of these are kept for the graph's sake alone, and of what input


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
    higher: Higher | None = None  # its further derivatives, where the package has them
    unproven: str = ""  # why no one has held its functions against the equations, where that is so
