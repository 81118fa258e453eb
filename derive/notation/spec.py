"""Reading a spec: its function runs once with a frame that records the equations it writes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from derive.errors import DeriveError
from derive.facts.lengths.prefixes import read_prefixes
from derive.facts.lengths.requirements import deltas_chosen, requirements
from derive.facts.lengths.sizes import size_rules
from derive.ir.equations import Op, Operand
from derive.ir.terms.axes import Size
from derive.ir.terms.elements import Scalar
from derive.notation.annotations import operand
from derive.notation.bound_axes import over_own_axes
from derive.notation.decimals import exact_from_the_start
from derive.notation.handles import RECORDING, Frame, Handle
from derive.notation.inline import inline_call
from derive.notation.local_axes import apart_by_length
from derive.notation.mistakes import (
    check_options,
    check_signature,
    names_near,
    no_attribute,
    no_number,
    too_much,
    undeclared,
    wrong_type,
)
from derive.notation.questions import refused
from derive.notation.recorder import Recorder
from derive.notation.returned import outputs_of
from derive.notation.sums_first import taken_first
from derive.notation.values import printable
from derive.rules.index.selections import selected
from derive.rules.order import ENDS, said_in_full
from derive.rules.splitting import places_apart


class OpCall:
    """An op as the spec's author holds it: `op` is its data; calling it inside another spec inlines its equations.

    `line` is where its function stands in the file.
    """

    def __init__(self, op: Op, line: int = 0):
        self.op, self.line = op, line
        self.__doc__, self.__name__ = op.doc, op.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = RECORDING.get()
        if recorder is None:
            raise DeriveError(
                f"{self.op.name} is called outside a spec",
                fix="import the generated function, or call derive.build(op) for live functions",
            )
        prefix = f"{self.op.name}_call{recorder.calls}__"
        recorder.calls += 1
        try:
            inlined, outputs, lengths, recurrences = inline_call(
                self.op, args, kwargs, recorder.tensors, recorder.operands, prefix
            )
        except DeriveError as error:
            raise error.within(recorder.name) from None
        recorder.lengths = {**lengths, **recorder.lengths}
        return recorder.bind(inlined, outputs, recurrences)

    def __repr__(self) -> str:
        return str(self.op)

    def _repr_latex_(self) -> str:
        return self.op._repr_latex_()


def op(function: Callable[..., Any] | None = None, *, stepwise: bool = False, **unknown: Any) -> Any:
    """Read a function of equations as an op. `stepwise=True` also emits the backward that returns every adjoint."""
    if function is None:
        return lambda f: op(f, stepwise=stepwise, **unknown)
    code = getattr(function, "__code__", None)
    return OpCall(_trace(function, stepwise, unknown), 0 if code is None else code.co_firstlineno)


def _trace(function: Callable[..., Any], stepwise: bool, unknown: Collection[str]) -> Op:
    name = getattr(function, "__name__", "")
    try:
        check_options(stepwise, unknown)
        return _traced(function, name, stepwise)
    except DeriveError as error:
        raise error.within(name) from None


def _traced(function: Callable[..., Any], name: str, stepwise: bool) -> Op:
    operands = _operands(function, name)
    recorder = Recorder(name)
    returned = _run(function, recorder, operands)
    recurrences = recorder.recurrences()
    outputs = outputs_of(returned, recorder)
    inputs, operands = operands, (*operands, *(o for r in recurrences for o in (r.before, r.last)))
    recorder.guard((*outputs, *(n for r in recurrences for n in (r.state, r.start))))
    apart = places_apart(recorder.equations, operands)
    recorder.hold(apart_by_length(apart, operands, recorder.tensors, recorder.lengths))
    recorder.hold(over_own_axes(recorder.equations, operands, recorder.tensors))
    sizes = size_rules(operands, tuple(recorder.equations), name, recorder.written, recorder.lengths)
    declared = {key: dims for key, (_, dims) in recorder.tensors.items()}
    equations = read_prefixes(tuple(recorder.equations), declared, sizes, recorder.lengths)
    needs = requirements(operands, equations, sizes, recorder.lengths)
    made = Op(
        name=name,
        doc=printable(inspect.getdoc(function) or ""),
        operands=operands,
        equations=deltas_chosen(operands, equations, sizes),
        outputs=outputs,
        sizes=sizes,
        requirements=needs,
        stepwise=stepwise,
        source=_source(function),
        tensors=declared,
    )
    within = said_in_full(made, ENDS)
    there = selected(replace(made, sizes=within.sizes, requirements=within.requirements))
    return replace(
        made, operands=inputs, sizes=there.sizes, requirements=there.requirements, recurrences=recurrences
    )  # fmt: skip


def _operands(function: Callable[..., Any], name: str) -> tuple[Operand, ...]:
    """What the signature declares."""
    try:
        check_signature(function)
        given = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        return tuple(operand(p) for p in given)
    except NameError as error:
        raise undeclared(error, names_near(function, (), ())) from None


def _run(function: Callable[..., Any], recorder: Recorder, operands: tuple[Operand, ...]) -> Any:
    """What the function returns, its equations recorded; Python's complaints in the notation's words."""
    args = [_argument(o, recorder) for o in operands]
    file = function.__code__.co_filename
    token = RECORDING.set(recorder)
    try:
        with refused(file), taken_first(file, recorder.added), exact_from_the_start():
            return function(Frame(recorder), *args)
    except NameError as error:
        if error.name == recorder.name:
            fix = "carry a state along an axis: f.h[…, t] of f.h[…, t - 1]"
            raise DeriveError(f"{recorder.name} calls itself", fix=fix) from None
        inputs = [o.name for o in operands]
        known = names_near(function, inputs, set(recorder.tensors) - set(inputs))
        raise undeclared(error, known, recorder.tensors) from None
    except TypeError as error:
        raise wrong_type(error) from None
    except (OverflowError, RecursionError) as error:
        raise too_much(error) from None
    except (AttributeError, RuntimeError, ValueError) as error:
        mistake = no_attribute(error) if isinstance(error, AttributeError) else no_number(error)
        if mistake is None:
            raise
        raise mistake from None
    finally:
        RECORDING.reset(token)


def _argument(o: Operand, recorder: Recorder) -> Any:
    """An operand as the function has it."""
    recorder.operands[o.name] = o
    if o.kind == "length":
        assert o.ranges_over is not None
        return Size(o.ranges_over)
    if o.kind == "scalar":
        return Scalar(o.name)
    recorder.tensors[o.name] = (o.tensor, o.axes)
    return Handle(recorder, o.name)


def _source(function: Callable[..., Any]) -> str:
    """The spec's file, named from the package it stands in, so that it is the same on every machine."""
    path = Path(inspect.getsourcefile(function) or "?")
    return f"derive/ops/{path.name}" if path.parent.name == "ops" and path.parent.parent.name == "derive" else path.name
