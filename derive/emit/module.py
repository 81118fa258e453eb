"""A derivation as a module: its functions, what is checked of shapes and indices, what it imports."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable
from dataclasses import replace

from derive.backends.cpu.step import rate
from derive.backends.cpu.wrapper import Native
from derive.backends.dependence import is_linear
from derive.backends.torch.instructions import PLAIN, of_sets
from derive.backends.torch.selection import with_instructions
from derive.emit.checks import ranges, shape
from derive.emit.header import docstring, escaped, summary
from derive.emit.model import Field, Function, Module
from derive.emit.names import CALLED, Names
from derive.emit.orders import higher
from derive.emit.pair import Pair
from derive.emit.signatures import signature
from derive.emit.together import with_gradients
from derive.emit.workspace import backward_out, forward_out
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.ir.terms.names import free_name
from derive.notation.annotations import title as title_of
from derive.pipeline import Derivation

KERNELS = ("FORWARD", "BACKWARD", "WITH_GRADIENTS", "STEP")
"""What the kernels are called in a module."""


def module_of(
    d: Derivation, backend: str = "torch", step: bool = False, workspace: bool = False, instructions: str = PLAIN,
    order: int = 1,
) -> Module:  # fmt: skip
    """What a template needs of a derivation. Raises DeriveError where the module needs a name that the op has."""
    op, d = d.op, with_instructions(d, of_sets(instructions)) if instructions != PLAIN else d
    names = Names(d, workspace)
    title = title_of(op.name)
    pair = Pair(d, names, d.forward, d.backward, d.kept, title, f"{op.name}_forward", f"{op.name}_backward")
    gradients = _gradients(d)
    kernels = pair.native(title, step) if backend == "cpu" else None
    stepwise = _stepwise(d, names, title)
    forward, backward, *extra = _functions(pair, kernels, tuple(g.name for g in gradients), stepwise, workspace)
    widening = {d for f in (forward, backward, *extra) if f.saved is None for d in f.decorators}
    told = {d for d in widening if d.startswith("kernel_")}
    of_kernels = set() if kernels is None else {*kernels.imports, *told}
    inputs, outputs = tuple(o.name for o in op.operands), tuple(map(names.of, op.outputs))
    parameters = tuple(map(names.of, inputs))
    cotangents = tuple(c.target.name for c in d.steps.cotangents)
    context = free_name("ctx", {*parameters, *outputs, *cotangents, *(g.name for g in gradients)})
    further = higher(d, pair, {} if kernels is None else kernels.live, context) if order > 1 else None
    keeping = _keeping(pair, inputs, context, kernels) if further is None else further.kept
    called = {"without_values"} if any("without_values(" in line for line in keeping) else set()
    if further is not None:
        called |= {"derivatives_of", "is_transformed", "twice_differentiable"}
        called |= {"edges_alone"} if further.edges else set()
    imports = _imports(op, (pair.forward, pair.backward, *extra), (widening - told) | of_kernels | called)
    _check_name(op.name, imports, () if kernels is None else KERNELS)
    defined = {f.name for f in (forward, backward, *extra)} | {f"{title}Saved"}
    defined |= {f"{title}Gradients"} if len(gradients) > 1 else set()
    defined |= {line.partition(" = ")[0] for line in kernels.definitions} if kernels else set()
    set_apart = names.set_apart({*dir(builtins), *_imported(imports), *defined})
    forward, backward, *extra = (_opened(f, set_apart[1]) for f in (forward, backward, *extra))
    gradient_of = {o.name: g.name for o, g in zip(op.differentiable, gradients, strict=True)}
    tensors = ", ".join("Tensor" for _ in op.outputs)
    return Module(
        name=op.name,
        title=title,
        source=op.source,
        command=_command(op, backend, step, workspace, instructions),
        docstring=docstring(d, [f"{f.name} {f.note}" for f in pair.saved]),
        imports=imports,
        saved=pair.saved,
        gradients=gradients,
        forward=forward,
        backward=backward,
        extra=tuple(extra),
        inputs=inputs,
        parameters=parameters,
        set_apart=set_apart,
        differentiable=tuple(names.of(o.name) for o in op.differentiable),
        ranges=ranges(op),
        outputs=outputs,
        cotangents=cotangents,
        linear=is_linear(d),
        returned=tuple(gradient_of.get(p, "None") for p in inputs),
        function=free_name(f"_{title}", inputs, "_"),
        context=context,
        keeping=keeping,
        asking=_asking(pair, inputs, context),
        plain_returns=tensors if len(op.outputs) == 1 else f"tuple[{tensors}]",
        wrapper_doc=f"{escaped(summary(op))} Differentiable by `loss.backward()`.",
        native=kernels,
        rate=rate(d),
        higher=further,
        step_signature=signature(op, f"{rate(d)}: float"),
    )


def _gradients(d: Derivation) -> tuple[Field, ...]:
    """What the backward returns, a field for each input that has a gradient."""
    targets = {a.of: a.target.name for a in d.steps.adjoints}
    return tuple(Field(targets[o.name], "Tensor", shape(tuple(a.name for a in o.axes))) for o in d.op.differentiable)


def _asking(pair: Pair, parameters: tuple[str, ...], context: str) -> str:
    """How the op's autograd function says to the backward which gradients are needed."""
    needs, of = pair.needs, [parameters.index(o.name) for o in pair.d.op.differentiable]
    if needs is None or len(of) == 1:
        return ""
    asked = f"{context}.needs_input_grad"
    if of != list(range(len(of))):
        asked = f"tuple({asked}[k] for k in ({', '.join(map(str, of))}))"
    elif len(of) < len(parameters):
        asked += f"[:{len(of)}]"
    return f"{needs.parameter}={asked}"


def _keeping(pair: Pair, parameters: tuple[str, ...], context: str, kernels: Native | None) -> tuple[str, ...]:
    """The lines that take out of the saved tuple what only gradients read that are not needed.

    The shape stays of what the backward asks for its lengths as well. A kernel takes all of them as tensors, and its
    loops may make several gradients at once: what these read is kept for each.
    """
    needs, left_out, flags = pair.needs, dict[str, list[str]](), dict[str, str]()
    if needs is None:
        return ()
    for name in pair.kept:
        code, read_by = pair.names.tensors.get(name, name), needs.live.tensors[name]
        in_kernel = {} if kernels is None else kernels.live
        read_by |= in_kernel.get(name, frozenset())
        if condition := needs.condition(read_by):
            value = f"without_values(saved.{code})" if name in pair.shapes_read or name in in_kernel else "None"
            left_out.setdefault(condition, []).append(f"{code}={value}")
            flags |= {pair.d.op.differentiable[k].name: needs.flags[k] for k in read_by}
    lines = [f"{', '.join(flags.get(p, '_') for p in parameters)} = {context}.needs_input_grad"] if left_out else []
    for condition, fields in left_out.items():
        denied = f"({condition})" if " " in condition else condition
        lines += [f"if not {denied}:", f"    saved = saved._replace({', '.join(fields)})"]
    return tuple(lines)


def _functions(
    pair: Pair, kernels: Native | None, gradients: tuple[str, ...], stepwise: tuple[Function, ...], workspace: bool
) -> tuple[Function, ...]:
    """The forward, the backward, and what else the module has; each calls its kernel first, where there is one."""
    extra = stepwise
    if kernels is not None and kernels.together is not None:
        extra += with_gradients(pair, kernels.together, gradients, workspace)
    if workspace:
        extra += (forward_out(pair, kernels), backward_out(pair, list(gradients), kernels))
    if kernels is None:
        return pair.forward, pair.backward, *extra
    forward = _led(pair.forward, kernels.forward, pair.lengths_read)
    unpacked = 0 if pair.needs is None else len(pair.needs.unpacked)
    every = (forward, _led(pair.backward, pair.of_something(kernels.backward), unpacked), *extra)
    return tuple(map(_told, every)) if kernels.take_all else every


def _command(op: Op, backend: str, step: bool, workspace: bool, instructions: str) -> str:
    """What a user runs to have the module made anew."""
    what = op.name if op.source.startswith("derive/ops") else f"--from {op.source}"
    options = [f"--backend {backend}"] if backend != "torch" else []
    options += ["--step"] if step else []
    options += ["--workspace"] if workspace else []
    options += [f"--instructions {instructions}"] if instructions != PLAIN else []
    return " ".join(["derive generate", what, *options])


def _check_name(op: str, imports: Iterable[str], native: Iterable[str]) -> None:
    """An op has no name that its module needs. Raises DeriveError."""
    if op in {*_imported(imports), *native, f"_{title_of(op)}"}:
        raise DeriveError("its module uses that name itself", op=op, fix="give the op another name")


def _imported(imports: Iterable[str]) -> set[str]:
    return {word for line in imports for word in re.split(r"\W+", line.partition("import ")[2])}


def _opened(function: Function, line: str) -> Function:
    """The function with the line that it begins with where its parameters are inputs called as something of ours."""
    return _led(function, (line,)) if line and function.of_inputs else function


def _led(function: Function, lines: tuple[str, ...], at: int = 0) -> Function:
    """The function with more lines, first or after some of its own."""
    return replace(function, lines=(*function.lines[:at], *lines, *function.lines[at:]))


def _told(function: Function) -> Function:
    """The same, which learns from its kernel whether a tensor is half precision, if it calls one first."""
    if function.copies or not any(line.startswith("found = ") for line in function.lines):
        return function
    return replace(function, decorators=tuple(f"kernel_{d}" for d in function.decorators))


_HOMES = {
    **dict.fromkeys(CALLED, "_functions"),
    **dict.fromkeys(("Kernel", "kernel_in_float32", "kernel_writes_out", "torch_only"), "_native"),
    **dict.fromkeys(("differentiable", "register"), "_operators"),
    **dict.fromkeys(("needed_of", "writes_out"), "_workspace"),
    **dict.fromkeys(("derivatives_of", "edges_alone", "is_transformed", "twice_differentiable"), "_derivatives"),
}
"""Of which of the package's own modules: of `_support` all the rest."""


def _imports(op: Op, functions: Iterable[Function], names: set[str]) -> tuple[str, ...]:
    """The module's import lines, of the package's own modules these names and no more than the functions use."""
    used = " ".join([*(line for f in functions for line in f.lines), signature(op)])
    lines = ["import math"] if "math." in used else []
    lines += ["from typing import NamedTuple", "", "import torch"]
    lines += ["from torch.nn import functional"] if "functional." in used else []
    lines += ["from torch import Tensor", ""]
    names = names | {"check_shapes", "gradients_of", "keep_in", "kept_in"}
    names |= set() if "twice_differentiable" in names else {"once_differentiable"}
    checks = ("check_given", "check_index", "check_length", "needed_of")
    names |= {name for name in (*CALLED, *checks) if f"{name}(" in used}
    names |= {"explains_index"} if ranges(op) else set()
    homes = {_HOMES.get(name, "_support") for name in names}
    for home in sorted(homes):
        lines.append(f"from .{home} import {', '.join(sorted(n for n in names if _HOMES.get(n, '_support') == home))}")
    return tuple(lines)


def _stepwise(d: Derivation, names: Names, title: str) -> tuple[Function, ...]:
    """The uncollapsed backward beside the closed one, with a saved tuple of its own, if the op asks for it."""
    if d.stepwise_forward is None or d.stepwise_backward is None:
        return ()
    kept = tuple(n for n, _ in d.stepwise_backward.given if n not in {c.target.name for c in d.steps.cotangents})
    long = f"{title}Stepwise"
    pair = Pair(
        d, names, d.stepwise_forward, d.stepwise_backward, kept, long,
        f"{d.op.name}_stepwise_forward", f"{d.op.name}_stepwise_backward", fuse=False,
    )  # fmt: skip
    saved = Function("", "", "", "What the stepwise backward needs.", (), f"{long}Saved", pair.saved)
    fields = tuple(Field(g, "Tensor", shape(pair.backward_layouts[g])) for g in d.stepwise_backward.returns)
    gradients = Function("", "", "", "The gradient of every tensor of the forward.", (), f"{long}Gradients", fields)
    return saved, gradients, pair.forward, pair.backward
