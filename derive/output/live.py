"""Live functions of an op, proved: for notebooks and experiments."""

from __future__ import annotations

import warnings

from derive.backends.torch.instructions import PLAIN
from derive.emit import render
from derive.emit.live import Live, live
from derive.emit.memory import modules_in_memory
from derive.ir.equations import Op
from derive.notation.spec import OpCall
from derive.pipeline import derivation_of, derive_op


def build(
    op: OpCall | Op, save: str = "cost", workspace: bool = False, proven: bool = True, instructions: str = PLAIN
) -> Live:
    """The live functions of an op: what `@op` returned, or its data. Needs PyTorch.

    `save`, `workspace` and `instructions` are those of `derive generate`. Tracebacks and `inspect.getsource` show the
    generated lines. All are held against autograd of the equations first, if `proven`; where that cannot be done, a
    warning says why, as does the first line of the source. Raises DeriveError where the op cannot be derived, or what
    was derived is wrong, TypeError for anything that is no op.
    """
    if not isinstance(op, OpCall | Op):
        raise TypeError(f"build takes an op, what @op returns; got {type(op).__name__}")
    data = op.op if isinstance(op, OpCall) else op
    made = derivation_of(data) if save == "cost" else derive_op(data, save)
    if not proven:
        return live(made, workspace, "proven=False was given", instructions)
    from derive.verify.emitted import prove  # needs PyTorch, without which ops are derived and explained

    source = render(made, workspace=workspace, instructions=instructions)
    with modules_in_memory({f"{data.name}.py": source}) as modules:
        why = " ".join(prove(data, modules[data.name]).split())
    if why:
        warnings.warn(f"{data.name} is unproven: {why}", stacklevel=2)
    return live(made, workspace, why, instructions)
