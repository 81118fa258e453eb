"""The Python around a module's kernels: what they take and give, and the lines that call them before torch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sympy import Expr

from derive.backends.cpu.kernel import Kernel, kernel
from derive.backends.cpu.merges import Parts, taken_apart
from derive.backends.cpu.normal import Unsupported
from derive.backends.cpu.step import descent
from derive.backends.values import Dims
from derive.equations import Op
from derive.pipeline import Derivation
from derive.terms.axes import Size


@dataclass(frozen=True)
class Native:
    """What a module has beside its torch form. `reason` says why a kernel is missing."""

    kernels: tuple[Kernel, ...]
    definitions: tuple[str, ...]
    forward: tuple[str, ...]  # the first lines of the forward
    backward: tuple[str, ...]
    registration: tuple[str, ...]
    step: tuple[str, ...]  # the first lines of the training step, where there is one
    imports: tuple[str, ...]


@dataclass(frozen=True)
class Shapes:
    """How the torch form's functions say dimensions, lengths and names: the kernels keep to them."""

    forward: Mapping[str, Dims]
    backward: Mapping[str, Dims]
    names: Callable[[str], str]
    lengths: Mapping[str, str]  # axes whose length is an argument of the forward, and its name there
    backward_lengths: Mapping[str, str]  # the same for the backward
    saved: tuple[str, ...]  # the fields of the saved tuple
    code: Callable[[Expr], str]  # how a length is computed from others


def native(d: Derivation, shapes: Shapes, title: str, step: bool) -> Native:
    """The kernels of an op and the lines around them; with `step`, a training step's where the op is a loss."""
    op = d.op
    integers = frozenset(o.name for o in op.operands if o.kind == "index")
    conditions = frozenset(c.name for c in d.conditions)
    try:
        forward = kernel(f"{op.name}_forward", d.forward, integers, conditions)
        backward = kernel(f"{op.name}_backward", d.backward, integers, conditions)
        program = descent(d) if step else None
        whole = None if program is None else kernel(program.name, program, integers, conditions)
        return _around(d, shapes, title, integers, forward, backward, whole)
    except Unsupported as error:
        said = f'torch_only("{op.name}", "the CPU backend has no loop for {error}")'
        return Native((), (), (said,), (), (), (), ("torch_only",))


def _around(
    d: Derivation, shapes: Shapes, title: str, integers: frozenset[str], forward: Kernel, backward: Kernel,
    whole: Kernel | None,
) -> Native:  # fmt: skip
    op = d.op
    kernels = [("FORWARD", forward, shapes.forward, shapes.lengths)]
    if backward.outputs:
        kernels.append(("BACKWARD", backward, shapes.backward, shapes.backward_lengths))
    registration = [f"register({n})" for n, *_ in kernels]
    if whole is not None:
        kernels.append(("STEP", whole, shapes.forward, shapes.lengths))
    definitions = [_definition(n, k, dims, given, d, integers, shapes) for n, k, dims, given in kernels]
    cotangents = {c.of: c.target.name for c in d.steps.cotangents}
    targets = {o.name: r for o, r in zip(op.differentiable, d.backward.returns, strict=True)}
    second = "BACKWARD" if backward.outputs else "None"
    registration.append(f"differentiable(FORWARD, {second}, {cotangents!r}, {targets!r})")
    saved = [f"{title}Saved({', '.join(shapes.saved)})"]
    outputs = [shapes.names(o) for o in op.outputs]
    head = _call("FORWARD", forward, shapes.lengths, shapes, f"{', '.join([*outputs, *saved])}")
    returned = [shapes.names(r) for r in d.backward.returns]
    result = returned[0] if len(returned) == 1 else f"{title}Gradients({', '.join(returned)})"
    back = _call("BACKWARD", backward, shapes.backward_lengths, shapes, result) if backward.outputs else ()
    imports = ("Kernel", "differentiable", "register")
    made = tuple(k for _, k, *_ in kernels)
    lines = () if whole is None else _call("STEP", whole, shapes.lengths, shapes, shapes.names(op.outputs[0]))
    return Native(made, tuple(definitions), head, back, tuple(registration), lines, imports)


def _call(name: str, k: Kernel, given: Mapping[str, str], shapes: Shapes, result: str) -> tuple[str, ...]:
    args = [shapes.names(n) for n in k.inputs] + list(given.values()) + [shapes.names(n) for n in k.numbers]
    outputs = [shapes.names(n) for n in k.outputs]
    left = f"({outputs[0]},)" if len(outputs) == 1 else ", ".join(outputs)
    return (
        f"found = {name}({', '.join(args)})",
        "if found is not None:",
        f"    {left} = found",
        f"    return {result}",
    )


def _definition(
    name: str, k: Kernel, dims: Mapping[str, Dims], given: Mapping[str, str], d: Derivation, integers: frozenset[str],
    shapes: Shapes,
) -> str:  # fmt: skip
    op = d.op
    known = {x for n in k.inputs for x in dims[n] if x is not None} | set(given)
    program = d.backward if name == "BACKWARD" else d.forward
    wanted = [*k.lengths, *(x for n in k.outputs for x in dims[n] if x)]
    derived = _derived(op, taken_apart(program), known, wanted, shapes)
    parts = [
        f'"{op.name}.c"',
        f'"{k.name}"',
        _tuple(f"{n}: {_axes(dims[n])}".rstrip() for n in k.inputs),
        _tuple(f"{n}: {_axes(dims[n])}".rstrip() for n in k.outputs),
        _tuple(k.lengths),
    ]
    if given:
        parts.append(f"given={_tuple(given)}")
    if k.numbers:
        parts.append(f"numbers={_tuple(k.numbers)}")
    if set(k.inputs) & integers:
        parts.append(f"indices={_tuple(n for n in k.inputs if n in integers)}")
    conditions = {c.name for c in d.conditions}
    if conditions & {*k.inputs, *k.outputs}:
        parts.append(f"booleans={_tuple(n for n in (*k.inputs, *k.outputs) if n in conditions)}")
    if name == "STEP":
        parts.append(f"changed={_tuple(o.name for o in op.differentiable)}")
    if derived:
        parts.append(f"derived=({''.join(derived)})")
    return f"{name} = Kernel({', '.join(parts)})"


def _derived(op: Op, parts: Parts, known: set[str], wanted: list[str], shapes: Shapes) -> list[str]:
    """Lengths that follow from others, in order."""
    out: list[str] = []
    pending = [a for w in wanted for a in w.strip("()").split(", ")]
    while pending:
        axis = pending.pop(0)
        rule = next((r for r in op.sizes if r.axis.base == axis), None)
        if axis in known or rule is None:
            continue
        if rule.formula is None and axis in parts and {a for a in parts[axis] if not a.isdecimal()} <= known:
            known.add(axis)
            product = " * ".join(a if a.isdecimal() else f's["{a}"]' for a in parts[axis])
            out.append(f'("{axis}", lambda s: {product}), ')
            continue
        if rule.formula is None:
            raise Unsupported(f"the length of {axis}, which no tensor has")
        missing = [s.axis.base for s in rule.formula.atoms(Size) if s.axis.base not in known]
        if missing:
            raise Unsupported(f"the length of {axis}, which follows from {', '.join(sorted(missing))}")
        known.add(axis)
        out.append(f'("{axis}", lambda s: {shapes.code(rule.formula)}), ')
    return out


def _axes(dims: Dims) -> str:
    return " ".join("1" if d is None else d.strip("()").replace(", ", "*") for d in dims)


def _tuple(items: object) -> str:
    texts = [f'"{i}"' for i in items]  # type: ignore[attr-defined]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
