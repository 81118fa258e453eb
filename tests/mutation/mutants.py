"""Mechanical mistakes in a generated backward, one at a time, made on its syntax tree.

No mutant is made that is the same by arithmetic alone: operands of `+` and `*` are never exchanged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations

Change = tuple[str, ast.AST]  # the kind of mistake, and what then stands in the place of a node

KINDS = (
    "sign", "dropped term", "dropped factor", "wrong dim", "keepdim", "swapped operands", "= for accumulate",
    "saved tensor exchanged",
)  # fmt: skip

_ACCUMULATING = {"index_add_": "index_copy_", "scatter_add_": "scatter_", "add_": "copy_"}
_REDUCTIONS = {"sum", "mean", "amax", "amin"}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.GtE: ast.LtE, ast.LtE: ast.GtE}


@dataclass(frozen=True)
class Mutant:
    """One mistake: what kind, the statement before and after, and the whole module with it."""

    kind: str
    before: str
    after: str
    source: str


def mutants(source: str, name: str, alike: Sequence[tuple[str, str]] = ()) -> list[Mutant]:
    """Every mutant of the backward of an op; `alike` are pairs of its arguments of one shape."""
    tree = ast.parse(source)
    function = _function(tree, f"{name}_backward")
    out: dict[str, Mutant] = {}
    for at, statement in enumerate(function.body):
        if isinstance(statement, ast.Return) or _is_text(statement):
            continue
        for kind, changed in _changed(statement):
            body = [*function.body[:at], changed, *function.body[at + 1 :]]
            made = _module(tree, function, body)
            out.setdefault(made, Mutant(kind, ast.unparse(statement), ast.unparse(changed), made))
    for one, other in alike:
        swapped = _exchanged(function, one, other)
        made = _module(tree, function, swapped.body, swapped.args)
        before, after = (ast.unparse(f.args) for f in (function, swapped))
        out.setdefault(made, Mutant("saved tensor exchanged", before, after, made))
    out.pop(ast.unparse(tree), None)
    return list(out.values())


def pairs(arguments: dict[str, tuple[int, ...]]) -> list[tuple[str, str]]:
    """The pairs of tensors that have one shape."""
    return [(a, b) for a, b in combinations(arguments, 2) if arguments[a] == arguments[b]]


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    return next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _module(tree: ast.Module, function: ast.FunctionDef, body: list, args: ast.arguments | None = None) -> str:
    changed = ast.FunctionDef(
        function.name, args or function.args, body, function.decorator_list, function.returns, lineno=function.lineno
    )
    whole = ast.Module([changed if n is function else n for n in tree.body], [])
    return ast.unparse(ast.fix_missing_locations(whole))


def _exchanged(function: ast.FunctionDef, one: str, other: str) -> ast.FunctionDef:
    """The function with two of its arguments in each other's place."""
    out = deepcopy(function)
    for arg in out.args.args:
        arg.arg = {one: other, other: one}.get(arg.arg, arg.arg)
    return out


def _changed(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """The statement with one node of it changed, in every way."""
    if isinstance(statement, ast.AugAssign):
        yield "= for accumulate", ast.Assign([statement.target], statement.value, lineno=statement.lineno)
    if isinstance(statement, ast.Assign) and _is_real(statement.value):
        yield "sign", ast.Assign(statement.targets, ast.UnaryOp(ast.USub(), statement.value), lineno=statement.lineno)
    for number, node in enumerate(ast.walk(statement)):
        for kind, new in _changes(node):
            copy = deepcopy(statement)
            old = next(n for k, n in enumerate(ast.walk(copy)) if k == number)
            yield kind, _Put(old, new).visit(copy)


class _Put(ast.NodeTransformer):
    """One node replaced by another."""

    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return deepcopy(self.new) if node is self.old else self.generic_visit(node)


def _is_real(value: ast.expr) -> bool:
    """Whether a statement computes a real tensor: no length, no condition, no empty start."""
    if isinstance(value, ast.Compare | ast.Subscript | ast.Attribute | ast.Name | ast.UnaryOp):
        return False
    return not (isinstance(value, ast.Call) and getattr(value.func, "attr", "").startswith("new_zeros"))


def _changes(node: ast.AST) -> list[Change]:
    """What could stand in the place of a node by mistake."""
    if isinstance(node, ast.BinOp):
        return _of_operator(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        return [("sign", node.operand)]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OPPOSITE:
        return [("swapped operands", ast.Compare(node.left, [_OPPOSITE[type(node.ops[0])]()], node.comparators))]
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        return [("wrong dim", node.value)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _of_call(node, node.func)
    return []


def _of_operator(node: ast.BinOp) -> list[Change]:
    left, right = node.left, node.right
    if isinstance(node.op, ast.Add):
        return [("sign", ast.BinOp(left, ast.Sub(), right)), ("dropped term", left), ("dropped term", right)]
    if isinstance(node.op, ast.Sub):
        return [
            ("sign", ast.BinOp(left, ast.Add(), right)), ("dropped term", left),
            ("dropped term", ast.UnaryOp(ast.USub(), right)), ("swapped operands", ast.BinOp(right, ast.Sub(), left)),
        ]  # fmt: skip
    if isinstance(node.op, ast.Mult):
        return [("dropped factor", left), ("dropped factor", right)]
    if isinstance(node.op, ast.Div):
        return [("dropped factor", left), ("swapped operands", ast.BinOp(right, ast.Div(), left))]
    if isinstance(node.op, ast.MatMult):
        return [("swapped operands", ast.BinOp(right, ast.MatMult(), left))]
    return [("dropped factor", left)] if isinstance(node.op, ast.Pow) else []


def _of_call(node: ast.Call, function: ast.Attribute) -> list[Change]:
    name, out = function.attr, list[Change]()
    of_torch = isinstance(function.value, ast.Name) and function.value.id in ("torch", "functional")
    if of_torch and name in ("addcmul", "sub", "add"):
        first, *rest = node.args
        out.append(("dropped term", first))
        out += [("dropped factor", ast.BinOp(first, ast.Add(), r)) for r in rest if name == "addcmul"]
        out += [("dropped factor", ast.Call(function, node.args, [])) for _ in node.keywords[:1]]
        if name == "sub":
            out.append(("swapped operands", ast.Call(function, [rest[0], first], node.keywords)))
    if of_torch and name == "where":
        test, a, b = node.args
        out.append(("swapped operands", ast.Call(function, [test, b, a], node.keywords)))
    if name in _ACCUMULATING and not of_torch:
        out.append(("= for accumulate", ast.Call(ast.Attribute(function.value, _ACCUMULATING[name]), node.args, [])))
    if not of_torch:
        out += _in_place(node, function)
    if name == "index_put_":
        out.append(("= for accumulate", ast.Call(function, node.args, [])))
    if name == "square" and not of_torch:
        out.append(("dropped factor", function.value))
    if name in _REDUCTIONS and not of_torch:
        out += _of_reduction(node, function)
    return out


def _in_place(node: ast.Call, function: ast.Attribute) -> list[Change]:
    """The mistakes of operators, where they are written as methods: `(1 - y).mul_(x)`."""
    name, value = function.attr, function.value
    if name in ("mul_", "div_"):
        return [("dropped factor", value)]
    if name in ("add_", "sub_"):
        other = ast.Attribute(value, "sub_" if name == "add_" else "add_")
        return [("sign", ast.Call(other, node.args, node.keywords)), ("dropped term", value)]
    if name == "addcmul_":
        plus = ast.Attribute(value, "add")
        short = [("dropped factor", ast.Call(plus, [factor], [])) for factor in node.args]
        return [("dropped term", value), *short]
    return [("sign", value)] if name == "neg_" else []


def _of_reduction(node: ast.Call, function: ast.Attribute) -> list[Change]:
    out = list[Change]()
    if node.keywords:
        out.append(("keepdim", ast.Call(function, node.args, [])))
    elif node.args:
        kept = ast.keyword("keepdim", ast.Constant(True))
        out.append(("keepdim", ast.Call(function, node.args, [kept])))
    for dim in node.args[:1]:
        try:
            value = ast.literal_eval(dim)
        except ValueError:
            continue
        several = list(value) if isinstance(value, tuple) else [value]
        wrong = [{-1: -2}.get(d, d + 1) for d in several[:1]] + several[1:]
        if len(set(wrong)) == len(wrong):
            new = wrong[0] if len(wrong) == 1 else tuple(wrong)
            out.append(("wrong dim", ast.Call(function, [ast.Constant(new)], node.keywords)))
        if len(several) > 1:
            fewer = several[0] if len(several) == 2 else tuple(several[:-1])
            out.append(("wrong dim", ast.Call(function, [ast.Constant(fewer)], node.keywords)))
    return out
