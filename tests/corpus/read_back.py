"""`python -m tests.corpus.read_back [NAMES]`: programs printed as specs and read back, and second orders of these.

Of each spec the forward, the backward, the map from inputs and cotangents to gradients and that of the tangents are
printed and read. What is counted: the map computes the gradients that autograd has; its own derivation agrees with
autograd of autograd, by the inputs and by the cotangents; the tangents are what autograd of the gradients by the
cotangents gives; and what is read, lowered, printed and read again is the same op.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import typer
from torch import Tensor

from derive.catalogue import load_text
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.ir.nodes.leftovers import without_unread
from derive.notation.printed import Printable, spec_file
from derive.notation.running import FailedError, Someones
from derive.orders import backward, fixed, gradients, lengths, tangent_op
from derive.output.live import build
from derive.pipeline import Derivation, derivation_of
from derive.schedule.forward import forward_statements
from derive.verify.battery import BATTERY
from derive.verify.cases import EXACT, Call, Case, autograd, executed, scale, worst
from derive.verify.subjects import of_live
from tests.corpus import Spec, corpus

SECOND = 1e-9
"""What two float64 computations of one second derivative may differ by, relative to its largest element."""


def forward(d: Derivation) -> Printable:
    """The outputs, and what is made to be kept of real numbers."""
    made = {s.name for s in d.forward.statements} - {e.name for e in d.named.equations if e.target.is_integer}
    returns = tuple(n for n in d.forward.returns if n in made)
    program = without_unread(replace(d.forward, name=f"{d.op.name}_forward", returns=returns))
    return Printable(program, d.op.operands, lengths(d.named))


def read(text: str) -> Op:
    """The one op of a file of specs with that text."""
    (op,) = load_text(text, "printed")
    return op


def read_back(p: Printable, d: Derivation) -> Op:
    """A program printed and read."""
    return read(spec_file([p], fixed(d.named)))


def again(op: Op) -> Op:
    """An op that was read, lowered without the passes, printed and read once more."""
    program = forward_statements(op, ())
    return read(spec_file([Printable(program, op.operands, lengths(op))], fixed(op)))


def is_same(op: Op) -> bool:
    """Whether lowering and printing lose nothing of an op: its equations are the same once they are read again."""
    other = again(op)
    return (list(map(str, other.equations)), other.outputs) == (list(map(str, op.equations)), op.outputs)


def call_of(op: Op, d: Derivation, case: Case) -> Call:
    """A call of the map from inputs and cotangents to gradients, with those of a case of the op itself."""
    call = case.call.in_dtype(torch.float64)
    given = {**call.inputs, **dict(zip((c.target.name for c in d.steps.cotangents), call.cotangents, strict=True))}
    generator = torch.Generator().manual_seed(case.seed)
    wanted = (torch.randn(case.gradients[o.name].shape, generator=generator).double() for o in d.op.differentiable)
    inputs = {o.name: given[o.name] for o in op.operands if o.is_tensor}
    return Call(op, call.leading, inputs, call.numbers, tuple(wanted))


def first_order(call: Call, d: Derivation, case: Case) -> float:
    """How far the map's values are from autograd's gradients, relative to these."""
    found = executed(call)
    pairs = zip(call.op.outputs, d.op.differentiable, strict=True)
    return max(_relative(found[name], case.gradients[o.name]) for name, o in pairs)


def second_order(call: Call, d: Derivation, case: Case) -> float:
    """How far the map's own derived backward is from autograd of autograd over the op's equations."""
    found = of_live(build(call.op, proven=False))(call).gradients
    return max(_relative(found[name], want) for name, want in _of_autograd(call, d, case).items())


def tangent(call: Call, d: Derivation, case: Case) -> float:
    """How far the derived tangents of the outputs are from autograd's, for a call's tangents of the inputs."""
    op = tangent_op(d.op)
    own = [o.name for o in op.operands if d.op.operand(o.name) is None]
    inputs = {**call.inputs, **dict(zip(own, call.cotangents, strict=True))}
    found = executed(Call(op, call.leading, {o.name: inputs[o.name] for o in op.operands if o.is_tensor}, call.numbers))
    wanted = _of_autograd(call, d, case)
    pairs = zip(found.values(), (wanted[c.target.name] for c in d.steps.cotangents), strict=True)
    return max(_relative(got, want) for got, want in pairs)


def _of_autograd(call: Call, d: Derivation, case: Case) -> dict[str, Tensor]:
    own = case.call.in_dtype(torch.float64)
    leaves = {o.name: call.inputs[o.name].detach().clone().requires_grad_() for o in call.op.differentiable}
    inputs = {n: leaves.get(n, t) for n, t in own.inputs.items()}
    outputs = list(executed(replace(own, inputs=inputs)).values())
    names = (c.target.name for c in d.steps.cotangents)
    cotangents = [leaves.get(n, given) for n, given in zip(names, own.cotangents, strict=True)]
    by = [inputs[o.name] for o in d.op.differentiable]
    found = torch.autograd.grad(outputs, by, cotangents, create_graph=True, allow_unused=True, materialize_grads=True)
    return autograd(found, leaves, call.cotangents)


def _relative(got: Tensor | None, want: Tensor) -> float:
    return math.inf if got is None or got.shape != want.shape else worst(got, want) / scale(want)


def case_of(spec: Spec) -> Case:
    """An ordinary call of a spec. Raises DeriveError where it has none."""
    found = next((c for s in BATTERY if (c := s.make(spec.op, 0)) is not None), None)
    if found is None:
        raise DeriveError("has no inputs", op=spec.name)
    return found


def checked(spec: Spec) -> Iterator[tuple[str, str]]:
    """What is asked of a spec, each with what is wrong, or nothing."""
    d, case = derivation_of(spec.op), case_of(spec)
    for name, p in (("forward", forward(d)), ("backward", backward(d)), ("gradients", gradients(d))):
        yield f"{name} is read back", _wrong(lambda p=p: read_back(p, d) is not None)
        yield f"{name} is the same again", _wrong(lambda p=p: is_same(read_back(p, d)))
    try:
        call = call_of(read_back(gradients(d), d), d, case)
    except DeriveError as error:
        yield "gradients are right", str(error)
        return
    yield "gradients are right", _wrong(lambda: first_order(call, d, case) < EXACT)
    yield "second derivatives are right", _wrong(lambda: second_order(call, d, case) < SECOND)
    yield "tangents are right", _wrong(lambda: tangent(call, d, case) < SECOND)


def _wrong(asked: Callable[[], bool]) -> str:
    """What is wrong, in words; nothing where it is as asked."""
    try:
        with Someones():
            return "" if asked() else "is not so"
    except FailedError as failed:
        return failed.line


def main(names: list[str] = typer.Argument(None, help="These specs alone (default: all).")) -> None:
    """Count what holds of every spec, and name those of which it does not."""
    specs = [s for s in corpus() if not names or s.name in names]
    counts: Counter[str] = Counter()
    for spec in specs:
        for what, wrong in checked(spec):
            counts[what] += not wrong
            if wrong:
                print(f"{spec.name}: {what}: {wrong}", flush=True)
    for what, count in counts.items():
        print(f"{count:4} of {len(specs)}: {what}")


if __name__ == "__main__":
    typer.run(main)
