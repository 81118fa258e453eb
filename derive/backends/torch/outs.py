"""A statement that writes into a tensor of the caller's: `out=` where torch's call has one, a copy where not.

A chain of in-place methods ends in the memory that it starts from, so it is the start that writes into the tensor. What
the chain starts from may be a tensor of ours with a name; then the statement that fills that one does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from derive.backends.code import (
    Called,
    Code,
    Field,
    Infix,
    Item,
    Method,
    Name,
    Pick,
    Prefix,
    as_code,
    below,
    call,
    has_product,
    method,
    put,
)
from derive.backends.torch.products_added import transposed
from derive.backends.values import Line
from derive.primitives import names

_OPERATORS = {"*": "mul", "+": "add", "-": "sub", "/": "div", "@": "matmul"}
_FUNCTIONS = {
    "addcmul", "addmm", "sub", "where", "cat", "stack", "matmul", "lerp", "softmax", "log_softmax",
    *names(lambda r: r.in_place and r.name != "relu"),
}  # fmt: skip
_VIEWS = {
    "mT", "T", "expand", "unflatten", "flatten", "reshape", "view", "movedim", "permute", "transpose", "unsqueeze",
    "squeeze", "sum_to_size", "unfold", "select", "narrow", "diagonal", "contiguous",
}  # fmt: skip
"""What looks at the memory of the tensor that it is called on, always or where it can."""
_IN_PLACE = "fill_diagonal_"
"""The function of the support module that returns what it is given, written over."""
_LOOKS = "skewed"
"""The function of the support module that looks at the memory of its first argument where it can."""
_METHODS = {"sum", "mean", "square", "reciprocal", "tril", "triu", "index_select"}


def into(
    lines: Sequence[Line],
    targets: Mapping[str, str],
    tensors: Collection[str],
    vectors: Collection[str] = (),
    deep: Collection[str] = (),
    given: Callable[[Line, str], str] = lambda line, target: "",
) -> list[Line]:
    """The lines of a function with each name of `targets` computed in the tensor that it maps to.

    `tensors` are the names that hold tensors, as the code has them; of these, `vectors` have one dimension, into which
    `torch.matmul` of PyTorch 2.13 does not write without resizing it, and `deep` have three or more. A line that
    changes a tensor in place stays. `given` is the condition under which a line has its target, as code, if there is
    one: else it is None, of which `out=` makes a new tensor.
    """
    wanted = dict(targets)
    out = []
    for line in reversed(lines):
        name, code = line.made, line.value
        target = wanted.pop(name, None)
        if target is None:
            out.append(line)
            continue
        start = _chain(code)[-1]
        if isinstance(start, Name) and start.id != name and start is not code:
            wanted[start.id] = target  # in whose memory this one is computed
            out.append(line)
            continue
        code = _unfused(code) if name in deep else code
        place = as_code(target)
        copied = name in vectors and has_product(code)
        new = method(place, "copy_", code) if copied else _written(code, place, tensors)
        if any(isinstance(c, Method) and c.on == place for c in below(new)) and (condition := given(line, target)):
            new = Pick(new, as_code(condition), code)
        out.append(replace(line, value=new))
    return out[::-1]


def views_of(inputs: Collection[str], lines: Sequence[Line], tensors: Collection[str]) -> set[str]:
    """The names that may lie in the memory of the inputs, or repeat their elements: nothing is written there.

    To read at one of `tensors` is to gather: an index that may have no dimensions is none of them.
    """
    found = set(inputs)
    for line in lines:
        repeats = any(isinstance(c, Method) and c.name == "expand" for c in below(line.value))
        if line.made and (repeats or _root(line.value, tensors) in found):
            found.add(line.made)
    return found - set(inputs)


def looked_at(lines: Sequence[Line], tensors: Collection[str]) -> dict[str, str]:
    """By the name of what does no more than look at a tensor, the name of that."""
    found: dict[str, str] = {}
    for line in lines:
        root = _root(line.value, tensors) if line.made else None
        if root is not None and root != line.made:
            found[line.made] = found.get(root, root)
    return found


def _root(code: Code, tensors: Collection[str]) -> str | None:
    """The name of the tensor that an expression does no more than look at; None where it computes."""
    if isinstance(code, Called):
        return _root(code.args[0], tensors) if code.function == _LOOKS else None
    if isinstance(code, Method | Field):
        return _root(code.on, tensors) if code.name in _VIEWS else None
    if isinstance(code, Item):  # by tensors it gathers
        return None if any(_holds_tensor(i, tensors) for i in code.items) else _root(code.on, tensors)
    return code.id if isinstance(code, Name) else None


def _chain(code: Code) -> list[Code]:
    """In-place calls one on the result of another, the last one first, and behind them what the first is called on."""
    found = [code]
    while (start := _written_over(found[-1])) is not None:
        found.append(start)
    return found


def _written_over(code: Code) -> Code | None:
    """What a call writes its result over; None for any other code."""
    if isinstance(code, Method) and code.name.endswith("_"):
        return code.on
    if isinstance(code, Called) and code.args:
        in_place = code.function == _IN_PLACE or (code.function.startswith("functional.") and code.function[-1] == "_")
        return code.args[0] if in_place or ("out", code.args[0]) in code.options else None
    return None


def _written(code: Code, target: Code, tensors: Collection[str]) -> Code:
    """The expression computed in `target`: its start where torch can, else its first step, else copied there."""
    *steps, start = _chain(code)
    new = _with_out(start, target, tensors)
    if new is None and steps and isinstance(steps[-1], Method):
        start = steps[-1]
        new = _step_with_out(steps[-1], target)
    return method(target, "copy_", code) if new is None else put(code, lambda c: new if c is start else None)


def _unfused(code: Code) -> Code:
    """`functional.linear`, which has no `out=`, as a product, which has, and what is added to it in place."""
    start = _chain(code)[-1]
    if not isinstance(start, Called) or start.function != "functional.linear":
        return code
    x, w, b = start.args
    made = method(call("torch.matmul", x, transposed(w)), "add_", b)
    return put(code, lambda c: made if c is start else None)


def _step_with_out(step: Method, target: Code) -> Code | None:
    """The first step of a chain as one call that writes into `target`; None where torch has none of it."""
    name = step.name.removesuffix("_")
    if name not in _OPERATORS.values() or step.options:
        return None
    return call(f"torch.{name}", step.on, step.args[0], out=target)


def _with_out(code: Code, target: Code, tensors: Collection[str]) -> Code | None:
    """One call of torch that writes its result into `target`; None where there is none."""
    out = ("out", target)
    if isinstance(code, Infix) and code.sign in _OPERATORS:
        left, right = code.left, code.right
        if not _holds_tensor(left, tensors) and code.sign in "*+":
            left, right = right, left
        if _holds_tensor(left, tensors):
            return call(f"torch.{_OPERATORS[code.sign]}", left, right, out=target)
    if isinstance(code, Prefix) and code.sign == "-":
        return call("torch.neg", code.operand, out=target)
    if isinstance(code, Called):
        name = code.function.removeprefix("torch.")
        numbers = name == "where" and not all(_holds_tensor(a, tensors) for a in code.args)
        known = (name in _FUNCTIONS and name != code.function) or name in ("stacked_last", "where_by_bits")
        return replace(code, options=(*code.options, out)) if known and not numbers else None
    if not isinstance(code, Method):
        return None
    if code.name == "new_zeros":
        return method(target, "zero_")
    if code.name == "new_full":
        return method(target, "fill_", code.args[-1])
    if code.name == "clone" or (code.name == "to" and isinstance(code.args[0], Field)):
        return method(target, "copy_", code.on)
    if code.name in _METHODS and (code.args or code.options or code.name not in ("sum", "mean")):
        return Called(f"torch.{code.name}", (code.on, *code.args), (*code.options, out))
    return None


def _holds_tensor(code: Code, tensors: Collection[str]) -> bool:
    """Whether an expression is a tensor: it names one."""
    return any(isinstance(c, Name) and c.id in tensors for c in below(code))
