"""What a spec returns: the tensors that are the op's outputs."""

from __future__ import annotations

import inspect
from typing import Any

from sympy import Basic

from derive.errors import ReturnedError
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At
from derive.notation.handles import Frame, Handle
from derive.notation.recorder import Recorder


def outputs_of(returned: Any, recorder: Recorder) -> tuple[str, ...]:
    """The names of the tensors that a spec returns. Raises ReturnedError where that is anything else."""
    if returned is None or (isinstance(returned, tuple) and not returned):
        raise ReturnedError("the spec returns nothing", op=recorder.name, fix="end it with return f.y")
    returned = returned if isinstance(returned, tuple) else (returned,)
    names = []
    for value in returned:
        if isinstance(value, At) and value.name not in recorder.operands:
            raise ReturnedError(
                f"returns one element, {value}", op=recorder.name, fix=f"return the whole tensor: return f.{value.name}"
            )
        if not isinstance(value, Handle):
            raise ReturnedError(f"returns {_shown(value)}", op=recorder.name, fix=_return_instead(value))
        name = value._name
        if name in recorder.operands:
            raise ReturnedError(
                f"returns its input {name}", op=recorder.name, fix="return what an equation defines, such as f.y"
            )
        if name in recorder.conditions:
            raise ReturnedError(
                f"returns {name}, a condition", op=recorder.name, equation=name,
                fix="return real tensors only, such as f.y[…] = where(condition, 1, 0)",
            )  # fmt: skip
        if name not in recorder.tensors:
            raise ReturnedError(
                f"returns {name}, which no equation defines", op=recorder.name, fix=f"write f.{name}[…] = …"
            )
        if name in names:
            raise ReturnedError(f"returns {name} twice", op=recorder.name, fix="return each tensor once")
        right = next(e.right for e in recorder.equations if e.name == name)
        if right.atoms(At) and right.is_integer:
            raise ReturnedError(
                f"returns {name}, which holds integers and has no gradient", op=recorder.name, equation=name,
                fix="return real tensors only",
            )  # fmt: skip
        names.append(name)
    return tuple(names)


def _shown(value: Any) -> str:
    """What was returned, in words."""
    kinds = {list: "a list", tuple: "a tuple inside a tuple", dict: "a dictionary", Frame: "the frame f itself"}
    if isinstance(value, Basic):
        return f"an expression, {value}"
    return kinds.get(type(value)) or ("a generator" if inspect.isgenerator(value) else f"{value!r}, which is no tensor")


def _return_instead(value: Any) -> str:
    """What a spec could return in place of this."""
    if isinstance(value, Axis):
        return "return what an equation defines, such as f.y"
    if isinstance(value, Basic):
        return "name it by an equation, f.y[…] = …, and return f.y"
    if isinstance(value, list) and value and all(isinstance(v, Handle) for v in value):
        return f"return {', '.join(f'f.{v._name}' for v in value)}"
    return "return f.y, or several: return f.y, f.z"
