"""A loss with its gradients as functions: one kernel, and the torch form where that cannot run."""

from __future__ import annotations

from derive.backends.cpu.wrapper import Together
from derive.emit.model import Function
from derive.emit.pair import Pair
from derive.emit.signatures import signature
from derive.emit.workspace import compared_together, placed


def with_gradients(pair: Pair, together: Together, gradients: tuple[str, ...], workspace: bool) -> tuple[Function, ...]:
    """The function, and with `workspace` the one that writes over what the first returned."""
    op, title = pair.op, pair.title
    name = f"{op.name}_with_gradients"
    cotangent = pair.d.steps.cotangents[0].target.name
    parameters = ", ".join(pair.names.of(o.name) for o in op.operands)
    given = f"{signature(op)}, {cotangent}: float = 1.0"
    several, needs = len(gradients) > 1, pair.needs
    assert needs is not None
    kind = f"tuple[Tensor, {f'{title}Gradients' if several else 'Tensor'}]"
    results = needs.chosen(together.gradients)
    found = f"{title}Gradients({', '.join(results)})" if several else results[0]
    asked = f"{needs.parameter}={needs.parameter}"
    first = Function(
        name, f"{given}, *, {needs.typed}", kind,
        f"Returns {together.loss}, and its gradients times {cotangent}, from one pass over both.",
        (
            *needs.unpacked,
            *together.called.lines((f"return {together.loss}, {found}",)),
            "with torch.no_grad():",
            f"    {together.loss}, saved = {op.name}_forward({parameters})",
            f"    gradients = {op.name}_backward(torch.full_like({together.loss}, {cotangent}), *saved, {asked})",
            f"    return {together.loss}, gradients",
        ),
        of_inputs=True,
    )  # fmt: skip
    if not workspace:
        return (first,)
    out = pair.names.out
    targets, copies = placed(gradients, together.gradients, together.called.outputs, f"{out}[1]")
    targets[together.loss] = f"{out}[0]"
    second = Function(
        f"{name}_out", f"{given}, *, {out}: {kind}, {needs.typed}", kind,
        "The same, written over what an earlier call returned.",
        (
            f"{out} = {out}[0], needed_of({out}[1], {needs.parameter})",
            *needs.unpacked,
            *together.called.lines(
                (*needs.copied(copies), f"return {out}"), targets, [together.gradients[k] for k in copies]
            ),
            f"{together.loss}, gradients = {name}({parameters}, {cotangent}, {asked})",
            f"{out}[0].copy_({together.loss})",
            *(
                (f"for place, gradient in zip({out}[1], gradients):", "    if place is not None:",
                 "        place.copy_(gradient)")
                if several else (f"if {out}[1] is not None:", f"    {out}[1].copy_(gradients)")
            ),
            f"return {out}",
        ),
        decorators=("writes_out",),
        compared=compared_together(pair, gradients),
        copies=bool(copies),
        of_inputs=True,
    )  # fmt: skip
    return first, second
