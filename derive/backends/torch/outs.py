"""A printed statement that writes into a tensor of the caller's: `out=` where torch's call has one, a copy where not.

A chain of in-place methods ends in the memory that it starts from, so it is the start that writes into the tensor. What
the chain starts from may be a tensor of ours with a name; then the statement that fills that one does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from derive.backends.values import Line
from derive.primitives import names

_OPERATORS = {ast.Mult: "mul", ast.Add: "add", ast.Sub: "sub", ast.Div: "div", ast.MatMult: "matmul"}
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
        name, equals, code = line.code.partition(" = ")
        target = wanted.pop(name, None) if equals else None
        if target is None:
            out.append(line)
            continue
        start = _start(ast.parse(code, mode="eval").body)
        if isinstance(start, ast.Name) and start.id != name and _is_chain(code, start.id):
            wanted[start.id] = target  # in whose memory this one is computed
            out.append(line)
            continue
        code = _unfused(code) if name in deep else code
        copied = name in vectors and " @ " in code
        new = f"{target}.copy_({code})" if copied else _written(code, target, tensors)
        if f"{target}." in new and (condition := given(line, target)):
            new = f"{new} if {condition} else {code}"
        out.append(replace(line, code=f"{name} = {new}"))
    return out[::-1]


def views_of(inputs: Collection[str], lines: Sequence[Line], tensors: Collection[str]) -> set[str]:
    """The names that may lie in the memory of the inputs, or repeat their elements: nothing is written there.

    To read at one of `tensors` is to gather: an index that may have no dimensions is none of them.
    """
    found = set(inputs)
    for line in lines:
        name, equals, code = line.code.partition(" = ")
        if equals and (".expand(" in code or _root(ast.parse(code, mode="eval").body, tensors) in found):
            found.add(name)
    return found - set(inputs)


def looked_at(lines: Sequence[Line], tensors: Collection[str]) -> dict[str, str]:
    """By the name of what does no more than look at a tensor, the name of that."""
    found: dict[str, str] = {}
    for line in lines:
        name, equals, code = line.code.partition(" = ")
        root = _root(ast.parse(code, mode="eval").body, tensors) if equals else None
        if root is not None and root != name:
            found[name] = found.get(root, root)
    return found


def _root(node: ast.expr, tensors: Collection[str]) -> str | None:
    """The name of the tensor that an expression does no more than look at; None where it computes."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == _LOOKS:
        return _root(node.args[0], tensors)
    if isinstance(node, ast.Call):
        node = node.func
        if not isinstance(node, ast.Attribute):
            return None
    if isinstance(node, ast.Attribute):
        return _root(node.value, tensors) if node.attr in _VIEWS else None
    if isinstance(node, ast.Subscript):  # by tensors it gathers
        return None if _holds_tensor(node.slice, tensors) else _root(node.value, tensors)
    return node.id if isinstance(node, ast.Name) else None


def _is_chain(code: str, name: str) -> bool:
    """Whether code does no more than write over the tensor of this name, by in-place methods one after another."""
    node = ast.parse(code, mode="eval").body
    begins = rf"{name}\.|({_IN_PLACE}|functional\.\w+_)\({name},|torch\.\w+\({name}, .*\bout={name}\)"
    return _start(node) is not node and re.match(begins, code) is not None


def _start(node: ast.expr) -> ast.expr:
    """What a chain of in-place methods is called on; the node itself where there is none."""
    while isinstance(node, ast.Call):
        function = node.func
        of_torch = isinstance(function, ast.Attribute) and ast.unparse(function.value) == "functional"
        if ast.unparse(function) == _IN_PLACE or (of_torch and function.attr.endswith("_")):  # type: ignore[attr-defined]
            node = node.args[0]
        elif isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.endswith("__"):
            node = function.value
        elif any(k.arg == "out" and ast.unparse(k.value) == ast.unparse(node.args[0]) for k in node.keywords):
            node = node.args[0]
        else:
            break
    return node


def _written(code: str, target: str, tensors: Collection[str]) -> str:
    """The expression computed in `target`: its start where torch can, else its first step, else copied there."""
    tree = ast.parse(code, mode="eval")
    start = _start(tree.body)
    new = _with_out(start, target, tensors)
    if new is None and (step := _first_step(tree.body)) is not None:
        start, new = step, _step_with_out(step, target)
    if new is None:
        return f"{target}.copy_({code})"
    if start is tree.body:
        return new
    return code.replace(_source(code, start), new, 1)


def _unfused(code: str) -> str:
    """`functional.linear`, which has no `out=`, as a product, which has, and what is added to it in place."""
    start = _start(ast.parse(code, mode="eval").body)
    if not isinstance(start, ast.Call) or ast.unparse(start.func) != "functional.linear":
        return code
    x, w, b = map(ast.unparse, start.args)
    turned = w.removesuffix(".T") if w.endswith(".T") else f"{w}.T"
    return code.replace(_source(code, start), f"torch.matmul({x}, {turned}).add_({b})", 1)


def _first_step(node: ast.expr) -> ast.Call | None:
    """The first method of a chain of in-place methods; None where there is none."""
    start = _start(node)
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    return next((n for n in calls if n.func.value is start), None)  # type: ignore[attr-defined]


def _step_with_out(step: ast.Call, target: str) -> str | None:
    """The first step of a chain as one call that writes into `target`; None where torch has none of it."""
    assert isinstance(step.func, ast.Attribute)
    name = step.func.attr.removesuffix("_")
    if name not in _OPERATORS.values() or step.keywords:
        return None
    return f"torch.{name}({ast.unparse(step.func.value)}, {ast.unparse(step.args[0])}, out={target})"


def _source(code: str, node: ast.expr) -> str:
    """The node's text in the code, with the parentheses around it."""
    end = node.end_col_offset or 0
    text = code[node.col_offset : end]
    return f"({text})" if code[:1] == "(" and code[end : end + 1] == ")" and node.col_offset == 1 else text


def _with_out(node: ast.expr, target: str, tensors: Collection[str]) -> str | None:
    """One call of torch that writes its result into `target`; None where there is none."""
    out = f"out={target}"
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = node.left, node.right
        if not _holds_tensor(left, tensors) and isinstance(node.op, ast.Mult | ast.Add):
            left, right = right, left
        if _holds_tensor(left, tensors):
            return f"torch.{_OPERATORS[type(node.op)]}({ast.unparse(left)}, {ast.unparse(right)}, {out})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"torch.neg({ast.unparse(node.operand)}, {out})"
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("stacked_last", "where_by_bits"):
        return f"{ast.unparse(node.func)}({', '.join(map(ast.unparse, node.args))}, {out})"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    method, on = node.func.attr, node.func.value
    arguments = [ast.unparse(a) for a in node.args] + [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords]
    if isinstance(on, ast.Name) and on.id == "torch":
        takes_numbers = method != "where" or all(_holds_tensor(a, tensors) for a in node.args)
        return f"torch.{method}({', '.join([*arguments, out])})" if method in _FUNCTIONS and takes_numbers else None
    if method == "new_zeros":
        return f"{target}.zero_()"
    if method == "new_full":
        return f"{target}.fill_({arguments[-1]})"
    if method == "clone" or (method == "to" and ast.unparse(node).endswith(".dtype)")):
        return f"{target}.copy_({ast.unparse(on)})"
    if method in _METHODS and (arguments or method not in ("sum", "mean")):
        return f"torch.{method}({', '.join([ast.unparse(on), *arguments, out])})"
    return None


def _holds_tensor(node: ast.expr, tensors: Collection[str]) -> bool:
    """Whether an expression is a tensor: it names one outside of what only asks for its lengths."""
    return any(isinstance(n, ast.Name) and n.id in tensors for n in ast.walk(node)) and ".shape" not in ast.unparse(
        node
    )
