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
    parameters = ", ".join(o.name for o in op.operands)
    given = f"{signature(op)}, {cotangent}: float = 1.0"
    several = len(gradients) > 1
    kind = f"tuple[Tensor, {f'{title}Gradients' if several else 'Tensor'}]"
    found = f"{title}Gradients({', '.join(together.gradients)})" if several else together.gradients[0]
    first = Function(
        name, given, kind, f"Returns {together.loss}, and its gradients times {cotangent}, from one pass over both.",
        (
            *together.called.lines((f"return {together.loss}, {found}",)),
            "with torch.no_grad():",
            f"    {together.loss}, saved = {op.name}_forward({parameters})",
            f"    return {together.loss}, {op.name}_backward(torch.full_like({together.loss}, {cotangent}), *saved)",
        ),
    )  # fmt: skip
    if not workspace:
        return (first,)
    targets, copies = placed(gradients, together.gradients, together.called.outputs, "out[1]")
    targets[together.loss] = "out[0]"
    second = Function(
        f"{name}_out", f"{given}, *, out: {kind}", kind, "The same, written over what an earlier call returned.",
        (
            *together.called.lines((*copies.values(), "return out"), targets),
            f"{together.loss}, gradients = {name}({parameters}, {cotangent})",
            f"out[0].copy_({together.loss})",
            *(
                ("for place, gradient in zip(out[1], gradients):", "    place.copy_(gradient)")
                if several else ("out[1].copy_(gradients)",)
            ),
            "return out",
        ),
        decorators=("writes_out",),
        compared=compared_together(pair, gradients),
        copies=bool(copies),
    )  # fmt: skip
    return first, second
