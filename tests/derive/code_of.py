"""Code of PyTorch as the tree that it is the text of, for tests that say what code is by its text."""

import ast

from derive.backends.code import (
    REST,
    Called,
    Code,
    Field,
    Infix,
    Listed,
    Method,
    Name,
    Pick,
    Prefix,
    Slice,
    Text,
    negative,
    selected,
)
from derive.backends.values import Line

_MODULES = ("torch", "functional", "math")
_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**", ast.FloorDiv: "//",
    ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def code_of(text: str) -> Code:
    return _code(ast.parse(text, mode="eval").body)


def line_of(text: str) -> Line:
    """Of an assignment, or a call."""
    (statement,) = ast.parse(text).body
    if isinstance(statement, ast.Assign):
        return Line(_code(statement.value), _code(statement.targets[0]))
    assert isinstance(statement, ast.Expr), text
    return Line(_code(statement.value))


def _code(node: ast.expr) -> Code:
    match node:
        case ast.Name():
            return Name(node.id)
        case ast.Attribute():
            return Text(ast.unparse(node)) if _is_of_a_module(node) else Field(_code(node.value), node.attr)
        case ast.Call():
            args = tuple(map(_code, node.args))
            options = tuple((str(k.arg), _code(k.value)) for k in node.keywords)
            if isinstance(node.func, ast.Name) or _is_of_a_module(node.func):
                return Called(ast.unparse(node.func), args, options)
            assert isinstance(node.func, ast.Attribute)
            return Method(_code(node.func.value), node.func.attr, args, options)
        case ast.Subscript():
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return selected(_code(node.value), tuple(map(_code, items)))
        case ast.Slice():
            start, stop, step = (ast.unparse(n) if n else "" for n in (node.lower, node.upper, node.step))
            return Slice(start, stop, int(step or 1))
        case ast.BinOp():
            return Infix(_SIGNS[type(node.op)], _code(node.left), _code(node.right))
        case ast.Compare():
            return Infix(_SIGNS[type(node.ops[0])], _code(node.left), _code(node.comparators[0]))
        case ast.UnaryOp(op=ast.USub()) if not isinstance(node.operand, ast.Constant):
            return negative(_code(node.operand))
        case ast.UnaryOp(op=ast.Invert()):
            return Prefix("~", _code(node.operand), apart=True)
        case ast.List():
            return Listed(tuple(map(_code, node.elts)))
        case ast.IfExp():
            return Pick(_code(node.body), _code(node.test), _code(node.orelse))
        case ast.Constant() if node.value is ...:
            return REST
        case _:
            return Text(ast.unparse(node))


def _is_of_a_module(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES
