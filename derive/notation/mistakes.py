"""What Python itself says of a mistake in a spec, in the words of the notation."""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sympy import Basic

from derive.errors import DeriveError
from derive.ir.terms.axes import Size
from derive.notation.methods import ABSENT, instead_of
from derive.notation.values import AS_INPUT
from derive.primitives import names

USAGE = {
    "amax": "amax(x[n, d], over=d)",
    "amin": "amin(x[n, d], over=d)",
    "concat": "concat(x[n, i], z[n, j], along=k)",
    "delta": "delta(i, j)",
    "eq": "eq(a, b)",
    "max": "amax(x[n, d], over=d), or maximum(a, b) of two values",
    "mean": "mean(x[n, d], over=d)",
    "min": "amin(x[n, d], over=d), or minimum(a, b) of two values",
    "ne": "ne(a, b)",
    "size": "size(d), of one axis",
    "sum": "sum(x[n, d], over=d)",
    "where": "where(condition, a, b)",
}
"""How the words that take more than one value are written."""

_FUNCTIONS = "use the functions of derive, which take elements: exp, log, sqrt, abs and the others"

_PYTHON: tuple[tuple[str, str, str], ...] = (
    (
        "truth value",
        "asks for one answer where each element has its own",
        "use where() for a choice, (0 < x) & (x < 1) in conditions, maximum() and minimum(), eq() and ne()",
    ),
    (
        "round symbolic",
        "round has no derivative that a backward could use",
        "pass what it adds as an input without gradient, r: constant[n, d], and write x[n, d] + r[n, d]",
    ),
    (
        "to float|to int|loop of ufunc|must be Tensor, not|must be real number",
        "takes numbers",
        _FUNCTIONS,
    ),
    (r"for \^", "^ is no power", "write x[…] ** 2"),
    (r"for @", "@ multiplies whole tensors", "write a sum: sum(a[i, k] * b[k, j], over=k)"),
    (
        "'(Handle|Scalar|At|Axis|Size)' object is not callable",
        "a tensor or a number is called like a function",
        "read an element with […], and call no input by a word of the notation",
    ),
    (r"'Scalar' object is not subscriptable", "a number is read like a tensor", "write its name without brackets"),
    ("'At' object is not subscriptable", "an element is read like a tensor", "give all indices at once: x[n, d]"),
    (
        "'(Reduce|Add|Mul|Pow|Where|Delta)' object is not subscriptable",
        "an expression is read like a tensor",
        "write it as an equation, f.a[n] = …, and read f.a[n]",
    ),
    ("is not subscriptable", "a function is read like a tensor", "write round brackets: exp(x[n, d])"),
    ("unhashable type", "a list stands where indices do", "write them without brackets of their own: x[n, d]"),
    (
        "'Frame' object",
        "f holds the equations and is no tensor",
        "name the tensor: write f.y[n] = …, and read f.y[n]",
    ),
    (
        "unary ~",
        "~ stands before what is no condition",
        "compare it first: ~(x[n, d] > 0)",
    ),
    (
        "multiply sequence|(for|between) .*'(str|bytes|list|tuple|dict|set|NoneType|ellipsis)'",
        "calculates with what is no number",
        "write elements, axes and numbers",
    ),
    ("object of type '(Axis|Size)' has no len", "an axis is no list", "the length of an axis is size(d)"),
    (
        r"for [&|]: '(int|float|At)' and|for [&|]: .* and '(int|float|At)'",
        "& and | bind before comparisons do",
        "put each comparison in brackets: (a > 0) & (b < 1)",
    ),
    (
        "'(Axis|Size)' object (cannot be interpreted|is not iterable)",
        "an axis is no number here",
        "an equation holds at all places of its axes: write no loop",
    ),
    (
        "'(At|Reduce|Where|Add|Mul|Pow)' object is not iterable",
        "an element is used like a list",
        "write sum(x[n, d], over=d), or mean, amax, amin; maximum(a, b) of two values",
    ),
    (
        "object of type 'Handle' has no len|object is not iterable|argument of type",
        "a tensor is used like a list",
        "the length of an axis is size(d)",
    ),
    (
        "Can only compare|'Relational'|Less|Greater|Equality|Unequality|Boolean|'(Above|NotAbove|Alike|Unlike)'",
        "calculates with a condition",
        "write where(condition, 1, 0)",
    ),
)
"""What a TypeError's text holds, what that means in a spec, and what to write."""


def wrong_type(error: TypeError) -> DeriveError:
    """Python cannot do this with an expression."""
    text = str(error)
    if re.match(r"\w+\(\) received an invalid combination of arguments|\w+\(\): argument .* must be Tensor", text):
        name = text.split("(")[0]
        fix = f"write {USAGE[name]}" if name in USAGE else _FUNCTIONS
        return DeriveError(f"{name} of PyTorch takes tensors of numbers", fix=fix)
    called = re.match(r"(\w+)\(\) (?:missing|got|takes)|.* keyword argument for (\w+)\(\)", text)
    if called and (called[1] or called[2]) in USAGE:
        return DeriveError(text, fix=f"write {USAGE[called[1] or called[2]]}")
    function = re.match(r"(\w+) takes exactly (one|1|2) arguments? \(\d+ given\)", text)
    if function:
        name, values = function[1], "a, b" if function[2] == "2" else "x[n, d]"
        more = f"; of more, {name}(a, {name}(b, c))" if name in ("maximum", "minimum") else ""
        return DeriveError(text, fix=f"write {name}({values}){more}")
    for pattern, cause, fix in _PYTHON:
        if re.search(pattern, text):
            return DeriveError(f"{cause} ({text})", fix=fix)
    return DeriveError(
        f"Python cannot do this with an expression ({text})",
        fix="use & and | for conditions, where() for a choice, maximum() and minimum(), and functions from derive",
    )


def too_much(error: OverflowError | RecursionError) -> DeriveError:
    """A number that Python cannot calculate, or a helper that does not end."""
    if isinstance(error, OverflowError):
        return DeriveError("a number is larger than any that a tensor holds", fix="write a smaller one")
    cause = "a function calls itself without end, or an expression is nested too deeply"
    return DeriveError(cause, fix="end the recursion, or give steps names of their own: f.a[…] = …")


def no_number(error: Exception) -> DeriveError | None:
    """PyTorch's complaint of many numbers where SymPy wants one; None where the error is about something else."""
    if not re.search(r"only one element tensors|Tensor with \d+ elements", str(error)):
        return None
    return DeriveError("a tensor of numbers stands in an expression", fix=AS_INPUT)


def no_attribute(error: AttributeError) -> DeriveError | None:
    """A method that elements do not have; None where the error is not about them."""
    nothing = error.obj is None and str(error).startswith("'NoneType'")  # Python does not always say of what
    if nothing or isinstance(error.obj, str | list | tuple | dict | set):  # SymPy asks what its functions are given
        return DeriveError(f"{error.obj!r} stands where an element or a number does", fix="write elements and numbers")
    if not isinstance(error.obj, Basic):
        return None
    kind = "an axis" if type(error.obj).__name__ == "Axis" else "an element"
    return DeriveError(f"{kind} has no {error.name}", fix=instead_of(str(error.name), "x[n, d]"))


FROM_SYMPY = names(lambda r: r.word == "sympy") | {"Max", "Min", "Piecewise"}
"""What a spec may use beside the words of the notation, from where it has them."""


_SHORT = 2
"""Letters that the name of an axis has; a longer name may be that of a number."""


def undeclared(error: NameError, known: dict[str, str], tensors: Collection[str] | None = None) -> DeriveError:
    """A name that Python does not know. `known` maps what the spec knows to how it is written, its `tensors` among it.

    In the signature, where kinds and axes stand and no tensor is yet, it is not the name of a number.
    """
    name = error.name or str(error)
    if name in known:
        return DeriveError(f"{name} is not defined", fix=f"an equation is read back as {known[name]}")
    if tensors is not None and re.search(rf"\b{name}\s*\[", _line_of(error)):
        return _no_tensor(name, {n: known[n] for n in tensors}, _line_of(error))
    if name in ABSENT:
        return DeriveError(f"{name} is no part of the notation", fix=ABSENT[name])
    if name in FROM_SYMPY:
        return DeriveError(f"{name} is not defined", fix=f"write `from sympy import {name}`")
    family = _family(name)
    if family:
        fix = f"write `from derive.ops.{family} import {name}`, and name its result: f.a = {name}(x)"
        return DeriveError(f"{name} is not defined", fix=fix)
    close = get_close_matches(name, known, 1, 0.75)
    if close:
        return DeriveError(f"{name} is not defined", fix=f"did you mean {known[close[0]]}?")
    line = _line_of(error)
    if (found := re.search(rf"\b{name}\.(\w+)", line)) is not None:
        word = found[1]
        instead = word if word in known else f"`from sympy import {word}`" if word in FROM_SYMPY else ""
        fix = f"{f'write {instead}: ' if instead else ''}equations are written in the words of the notation"
        return DeriveError(f"{name} is not defined", fix=fix)
    if re.search(rf"\b{name}\s*\(", line):
        return DeriveError(f"{name} is not defined", fix=f"define the function {name} before, or import it")
    fix = f'declare an axis with {name} = axes("{name}"), or import the function'
    if len(name) > _SHORT and tensors is not None:
        fix = f"declare a number as an input, {name}: scalar = 1e-5, {fix.removeprefix('declare ')}"
    return DeriveError(f"{name} is not defined", fix=fix)


def _line_of(error: NameError) -> str:
    """The line of the spec where it went wrong; the innermost: a helper of the spec's may have asked."""
    step = error.__traceback__
    linecache.checkcache()
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return linecache.getline(step.tb_frame.f_code.co_filename, step.tb_lineno) if step is not None else ""


def _no_tensor(name: str, tensors: dict[str, str], line: str) -> DeriveError:
    """A name in front of square brackets, which the spec gives to no tensor."""
    if re.match(rf"\s*{name}\s*\[[^=]*\]\s*=(?!=)", line):
        return DeriveError(f"{name} is not defined", fix=f"an equation begins with the frame: write f.{name}[…] = …")
    same = [n for n in tensors if n.lower() == name.lower()]
    close = same or get_close_matches(name, tensors, 1)  # the names of tensors are short: x for xx
    fix = f"declare it as an input, {name}: tensor[…], or write f.{name}[…] = … before and read f.{name}[…]"
    if close:
        fix = f"did you mean {tensors[close[0]]}?"
    return DeriveError(f"{name} is not defined", fix=fix)


def _family(name: str) -> str | None:
    """The file of the catalogue that defines an op of that name."""
    files = sorted((Path(__file__).parent.parent / "ops").glob("*.py"))
    return next((f.stem for f in files if f"\ndef {name}(f, " in f.read_text(encoding="utf-8")), None)


def names_near(function: Callable[..., Any], inputs: Iterable[str], equations: Iterable[str]) -> dict[str, str]:
    """What a name in a spec may have meant: words in reach, inputs, equations."""
    words = {n: n for n in function.__globals__ if len(n) > 2 and not n.startswith("_")}
    return words | {n: n for n in inputs} | {n: f"f.{n}[…]" for n in equations}


def check_options(stepwise: object, unknown: Collection[str]) -> None:
    """What stands in brackets behind @op. Raises DeriveError."""
    for name in unknown:
        close = get_close_matches(name, ["stepwise"], 1)
        raise DeriveError(
            f"@op has no option {name}", fix="did you mean stepwise?" if close else "it has one, @op(stepwise=True)"
        )
    if not isinstance(stepwise, bool):
        raise DeriveError(f"stepwise is {stepwise!r}", fix="write @op(stepwise=True), or @op")


def check_signature(function: Callable[..., Any]) -> None:
    """A spec is a plain function of the frame and its inputs. Raises DeriveError."""
    if not inspect.isfunction(function):
        raise DeriveError(f"@op is given {function!r}", fix="write @op above a function of equations")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise DeriveError("it is an async function", fix=f"write def {function.__name__}(f, …): a spec runs at once")
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].annotation is not inspect.Parameter.empty:
        raise DeriveError("its first parameter is not the frame", fix=f"write def {function.__name__}(f, …)")
    for p in parameters:
        if p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise DeriveError(
                f"parameter {p.name} is no plain one", fix="write each input by its name, without * and /"
            )


def hidden_axis(length: Size) -> str:
    """What to write where the length of an axis stands for the axis: an argument has taken its name."""
    axis = length.axis
    return f"call the argument otherwise, {axis}_length: length({axis}), so that {axis} is the axis"
