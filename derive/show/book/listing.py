"""The generated code as a reader meets it: highlighted, each line paired with the equations that it computes."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from derive.adjoint.recurrences import reversed_steps
from derive.emit import render
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import tensor_names
from derive.pipeline import Derivation
from derive.schedule.definitions import Definition

FORWARD, BACKWARD = "forward", "backward"

Keys = tuple[str, ...]
"""Equations by pass and tensor: `forward-mu`, `backward-dx`."""


@dataclass(frozen=True)
class CodeLine:
    """One line of a listing: its HTML, the equations it belongs to, and the tensors that it computes."""

    html: str
    keys: Keys = ()
    computes: Keys = ()


@dataclass(frozen=True)
class Listing:
    """One function of a generated module."""

    title: str
    lines: tuple[CodeLine, ...]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(k for line in self.lines for k in line.keys)


def key(way: str, name: str) -> str:
    """What ties an equation to its lines."""
    return f"{way}-{name}"


def listings(d: Derivation) -> tuple[Listing, Listing]:
    """The forward and the backward function of the generated module, comments and decorators left out."""
    source = render(d)
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    forward = {e.name: key(FORWARD, e.name) for e in d.named.equations}
    backward = {name: key(BACKWARD, name) for _, name in in_code(d)}
    name = d.op.name
    return (
        _listing("forward", source, functions[f"{name}_forward"], forward, {}),
        _listing("backward", source, functions[f"{name}_backward"], forward | backward, _written_out(d)),
    )


def in_code(d: Derivation) -> tuple[tuple[Definition, str], ...]:
    """The definitions of the closed form, and what code calls them: a state's start has a name of its own there."""
    starts = {r.state: r.start for r in reversed_steps(d.steps).recurrences} if d.op.recurrences else {}

    def name(x: Definition) -> str:
        return x.name if all(isinstance(i, Axis) for i in x.axes) else starts.get(x.name, x.name)

    return tuple((x, name(x)) for x in d.closed.definitions)


def _written_out(d: Derivation) -> dict[str, Keys]:
    """For each equation of the backward those that have no line of their own and are written out in its lines."""
    own = {s.name for s in d.backward.statements} | set(d.backward.returns)
    absent = [x for x in d.closed.definitions if x.name not in own and x.name not in _gradients(d)]
    return {
        key(BACKWARD, x.name): tuple(key(BACKWARD, a.name) for a in absent if a.name in tensor_names(x.value))
        for x in d.closed.definitions
    }


def _gradients(d: Derivation) -> set[str]:
    """The gradients that the backward returns, under the names of their equations."""
    return {a.target.name for a in d.steps.adjoints if a.of in {o.name for o in d.op.differentiable}}


def highlighted(source: str) -> str:
    """Python as HTML, one `span` a token."""
    return str(highlight(source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)))


def _listing(
    title: str, source: str, function: ast.FunctionDef, known: Mapping[str, str], inside: Mapping[str, Keys]
) -> Listing:
    first = function.lineno  # decorators are left out: what they do is the same for every op
    text = _without_comments(source).splitlines()[first - 1 : function.end_lineno]
    html = highlighted("\n".join(text)).rstrip("\n").split("\n")
    pairs = {line: (keys, made) for at, keys, made in _pairs(function, known, inside) for line in at}
    lines = [CodeLine(each, *pairs.get(k, ((), ()))) for k, each in enumerate(html, first)]
    return Listing(title, tuple(lines))


def _without_comments(source: str) -> str:
    """The source less its comments, every other character in its place."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return "\n".join(lines)


def _pairs(
    function: ast.FunctionDef, known: Mapping[str, str], inside: Mapping[str, Keys]
) -> Iterator[tuple[range, Keys, Keys]]:
    """For each statement its lines, the equations that it serves, and those whose tensors it computes.

    A statement serves the equation of the tensor that it sets. One that sets a helper serves every equation that is
    computed from it. The return serves the equations whose tensors have another name in the code. Equations `inside`
    another one's lines are served by what sets that.
    """
    statements = list(_statements(function))
    computed = {known[n] for s in statements for n in _sets(s, known)}
    computed |= {k for e in computed for k in inside.get(e, ())}
    serves: list[Keys] = [()] * len(statements)
    for k in reversed(range(len(statements))):
        own = [known[n] for n in _sets(statements[k], known)]
        if isinstance(statements[k], ast.Return):
            own = [e for e in known.values() if e.startswith(function.name.rpartition("_")[2]) and e not in computed]
        if not own:
            later = zip(statements[k + 1 :], serves[k + 1 :], strict=True)
            own = [e for s, keys in later if _targets(statements[k]) & _loads(s) for e in keys]
        serves[k] = tuple(dict.fromkeys(own))
    for statement, keys in zip(statements, serves, strict=True):
        made = tuple(known[n] for n in _sets(statement, known))
        more = tuple(k for e in made for k in inside.get(e, ()))
        yield range(statement.lineno, (statement.end_lineno or statement.lineno) + 1), (*keys, *more), made


def _statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """The statements that compute something, also those under an `if` that asks whether a gradient is needed."""
    flags = {n for s in function.body if _says_needs(s) for n in _targets(s)}
    for s in function.body:
        if isinstance(s, ast.If) and _loads(s.test) and _loads(s.test) <= flags:
            yield from s.body
        elif not _is_preamble(s):
            yield s


def _says_needs(statement: ast.stmt) -> bool:
    """`need_dx, need_dw = needs or (True,) * 2`, and `dx = dw = None`."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.BoolOp) or (isinstance(value, ast.Constant) and value.value is None)


def _is_preamble(statement: ast.stmt) -> bool:
    """A docstring, a check of shapes, the reading of a length, what is said of gradients that are not needed."""
    if _says_needs(statement):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) or (
            isinstance(statement.value, ast.Call) and isinstance(statement.value.func, ast.Name)
        )
    return any(isinstance(n, ast.Attribute) and n.attr == "shape" for n in ast.walk(statement)) and not any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) for n in ast.walk(statement)
    )


def _targets(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement sets, or changes by a method in place."""
    found = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found |= _roots([node.value.func])
        if isinstance(node, ast.Assign | ast.AugAssign):
            places = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= _roots(t for t in places if not isinstance(t, ast.Tuple))
    return frozenset(found)


def _roots(nodes: Iterable[ast.expr]) -> set[str]:
    """The variables that `a.b[c].d(...)` and the like start from."""
    out = set()
    for node in nodes:
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Name):
            out.add(node.id)
    return out


def _sets(statement: ast.stmt, known: Mapping[str, str]) -> list[str]:
    """The known tensors among a statement's targets; a name that Python reserves has an underscore behind it."""
    plain = [n if n in known else n.removesuffix("_") for n in sorted(_targets(statement))]
    return [n for n in plain if n in known]


def _loads(statement: ast.stmt | ast.expr) -> frozenset[str]:
    names = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
    return frozenset(n.id for n in names if isinstance(n.ctx, ast.Load))
