"""Common subexpressions: a pointwise node that stands in two places is computed once, under a name of its own."""

from __future__ import annotations

from dataclasses import replace

from derive.cost import is_tensor
from derive.program import (
    Assign,
    AxisValue,
    Call,
    Index,
    Join,
    Node,
    Num,
    Program,
    Read,
    Reduce,
    Scal,
    Scan,
    Scatter,
    SizeOf,
    Statement,
    base,
    check,
    node_axes,
    walk,
)

_LONGEST_NAME = 24
_NUMBERS = {"0": "zero", "1": "one", "2": "two", "1/2": "half"}


def share(program: Program) -> Program:
    """The same program with repeated tensor work named, largest first."""
    statements = list(program.statements)
    taken = {n for n, _ in program.given} | set(program.scalars) | {s.name for s in statements}
    while True:
        node = _largest_repeated(statements)
        if node is None:
            return check(replace(program, statements=tuple(statements)))
        added_to = {s.name for s in statements if isinstance(s, Scatter)}
        named = next((s for s in statements if _is_definition(s, node) and s.name not in added_to), None)
        if named is None:
            named = Assign(_name(node, taken), _axes(node), node)
            taken.add(named.name)
        read = Read(named.name, named.axes)
        first = next(k for k, s in enumerate(statements) if _occurs(s, node))
        rest = [replace(s, value=put(s.value, node, read)) for s in statements[first:] if s is not named]
        statements = [*statements[:first], named, *rest]


def _is_definition(s: Statement, node: Node) -> bool:
    """Whether the node has this statement's name already."""
    return isinstance(s, Assign) and s.value == node and set(s.axes) == set(node_axes(node))


def without_copies(program: Program) -> Program:
    """The same program without statements that only give a tensor another name; `returns` name the tensor itself."""
    scattered = {s.onto for s in program.statements if isinstance(s, Scatter)}
    scattered |= {s.name for s in program.statements if isinstance(s, Scatter)}
    names: dict[str, str] = {}
    kept: list[Statement] = []
    for s in program.statements:
        s = renamed(s, names)
        copy = isinstance(s, Assign) and isinstance(s.value, Read) and s.value.index == s.axes
        if copy and isinstance(s.value, Read) and not {s.name, s.value.name} & scattered:
            names[s.name] = s.value.name
        else:
            kept.append(s)
    returns = tuple(names.get(r, r) for r in program.returns)
    return check(replace(program, statements=tuple(kept), returns=returns))


def renamed(s: Statement, names: dict[str, str]) -> Statement:
    """The statement with what it reads under other names."""
    if not names:
        return s
    if isinstance(s, Scatter):
        slots = tuple(_rename(i, names) for i in s.slots)
        return replace(s, value=_rename(s.value, names), slots=slots)  # type: ignore[arg-type]
    return replace(s, value=_rename(s.value, names))  # type: ignore[arg-type]


def _rename(n: Node | Index, names: dict[str, str]) -> Node | Index:
    if isinstance(n, Read):
        return Read(names.get(n.name, n.name), tuple(_rename(i, names) for i in n.index))  # type: ignore[misc]
    if isinstance(n, Call):
        return replace(n, args=tuple(_rename(a, names) for a in n.args))  # type: ignore[misc]
    if isinstance(n, Reduce):
        return replace(n, body=_rename(n.body, names))  # type: ignore[arg-type]
    if isinstance(n, Join):
        return replace(n, parts=tuple(_rename(p, names) for p in n.parts))  # type: ignore[misc]
    return n


def _axes(node: Node) -> tuple[str, ...]:
    """The node's axes in the order of the operand that has most of them."""
    axes = node_axes(node)
    best: tuple[str, ...] = ()
    for n in walk(node):
        if isinstance(n, Read) and all(isinstance(i, str) for i in n.index):
            here = tuple(dict.fromkeys(i for i in n.index if i in axes and isinstance(i, str)))
            best = here if len(here) > len(best) else best
    found = (*best, *(a for a in axes if a not in best))
    return tuple(sorted(found, key=lambda a: base(a) != "..."))  # what lacks `...` broadcasts only behind it


def _nodes(s: Statement) -> list[Node | Index]:
    return list(walk(s.value))


def _occurs(s: Statement, node: Node) -> bool:
    return any(n == node for n in _nodes(s))


def _largest_repeated(statements: list[Statement]) -> Node | None:
    seen: dict[Node, int] = {}
    for s in statements:
        for n in _nodes(s):
            if isinstance(n, Call | Reduce) and is_tensor(n) and not _cheap(n):
                seen[n] = seen.get(n, 0) + 1
    repeated = [n for n, count in seen.items() if count > 1]
    return max(repeated, key=lambda n: len(str(n)), default=None)


def _cheap(node: Call | Reduce) -> bool:
    """A bare change of sign is no work worth a name; nor is a choice, nor arithmetic on axes alone."""
    bare = isinstance(node, Call) and node.fn in ("neg", "where")
    return bare or not any(isinstance(n, Read) for n in walk(node))


def put(node: Node, old: Node, new: Node) -> Node:
    """The node with every occurrence of `old` replaced."""
    if node == old:
        return new
    if isinstance(node, Call):
        return replace(node, args=tuple(put(a, old, new) for a in node.args))
    if isinstance(node, Reduce):
        return replace(node, body=put(node.body, old, new))
    if isinstance(node, Join):
        return replace(node, parts=tuple(put(p, old, new) for p in node.parts))
    return node


def _name(node: Node, taken: set[str]) -> str:
    stem = _words(node)
    if len(stem) > _LONGEST_NAME or not stem.isidentifier():
        stem = "shared"
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def _words(node: Node) -> str:
    """What a node would be called: `dloss_over_n`, `exp_x`, `x_minus_mu`."""
    if isinstance(node, Read | Scal):
        return node.name
    if isinstance(node, SizeOf | AxisValue):
        return "leading" if node.axis == "..." else node.axis
    if isinstance(node, Num):
        written = _NUMBERS.get(str(node.value), str(node.value))
        return written.replace("/", "_over_").replace(".", "p").replace("-", "minus_")
    if isinstance(node, Reduce):
        return f"{node.kind}_{_words(node.body)}"
    if isinstance(node, Scan):
        return f"running_{_words(node.body)}"
    if isinstance(node, Join):
        return "_".join(["concat", *(_words(p) for p in node.parts)])
    joint = {"add": "_plus_", "sub": "_minus_", "mul": "_", "div": "_over_", "pow": "_to_", "eq": "_is_",
             "gt": "_above_", "lt": "_below_"}.get(node.fn)  # fmt: skip
    words = [_words(a) for a in node.args]
    if node.fn == "pow" and words[1] == "two":
        return f"{words[0]}_squared"
    return joint.join(words) if joint else "_".join([node.fn, *words])
