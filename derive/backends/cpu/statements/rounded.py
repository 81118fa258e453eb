"""Products are rounded where it shows if they are not: compilers add to a product, or subtract, in one instruction.

`a*x - b*z` is to be 0 where both are one number, if its sign is asked. And of `exp(c*z - m)`, a softmax of `c*z` with
its maximum `m`, numerator and denominator are computed in loops apart, in functions apart: if all products in it are
rounded in each, what each has of `c*z` is the same, and the exponential is 1 at the maximum. Of a large score the last
digits are more than an exponential may be off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.ties import told_by_sign
from derive.ir.nodes.walking import reads, walk
from derive.ir.program import Call, Node, Program, Read, Reduce, Scan, Scatter

_KINDS = frozenset({"amax", "amin", "raise", "lower"})
_PASS_ON = frozenset({"maximum", "minimum", "relu", "where", "neg"})
_SUMS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"mul", "pow"})


def extrema(program: Program) -> frozenset[str]:
    """The tensors of a program that are maxima or minima; its backward may be given them."""
    kinds = [(s.name, s.value, s.kind if isinstance(s, Scatter) else "") for s in program.statements]
    return _extrema(kinds, frozenset())


def with_rounded_products(form: Normal, given: frozenset[str] = frozenset()) -> None:
    """Round products in differences on whose sign something depends, and in what is beside an extremum over it.

    `given` are the extrema among what the program is given.
    """
    told = told_by_sign((s.name, s.value) for s in form.loops)
    terms = (a for s in form.loops for n in walk(s.value) if isinstance(n, Call) and n in told for a in n.args)
    alone = {n.name for n in map(_without_sign, terms) if isinstance(n, Read)}
    names = _extrema(((s.name, s.value, s.kind) for s in form.loops), given)
    wholly = _read_by((n for s in form.loops for n in _beside(s, names)), form)

    def changed(node: Node) -> Node:
        if not isinstance(node, Call):
            return node
        args = tuple(map(changed, node.args))
        if node in told:
            args = tuple(map(_rounded, args))
        elif node.fn in _SUMS:
            args = tuple(_wholly(a) if _is_extremum(b, names) else a for a, b in zip(args, args[::-1], strict=True))
        return replace(node, args=args)

    for k, loop in enumerate(form.loops):
        value = changed(loop.value)
        if loop.kind in _KINDS or (loop.kind == "set" and loop.name in wholly):
            value = _wholly(value)
        elif loop.kind == "set" and loop.name in alone:
            value = _rounded(value)
        form.loops[k] = replace(loop, value=value)


def _beside(loop: Loop, names: frozenset[str]) -> Iterator[Node]:
    """What an extremum is taken of, or subtracted from."""
    if loop.kind in _KINDS:
        yield loop.value
    for n in walk(loop.value):
        if isinstance(n, Call) and n.fn in _SUMS:
            yield from (a for a, b in zip(n.args, n.args[::-1], strict=True) if _is_extremum(b, names))


def _read_by(nodes: Iterable[Node], form: Normal) -> set[str]:
    """The tensors written element by element that nodes are made of."""
    made: dict[str, list[Node]] = {}
    for s in form.loops:
        made.setdefault(s.name, []).append(s.value if s.kind == "set" else ZERO)
    found: set[str] = set()
    pending = list(nodes)
    while pending:
        new = reads(pending.pop()) & set(made) - found
        found |= new
        pending += [v for n in new for v in made[n]]
    return found


def _without_sign(node: Node) -> Node:
    return _without_sign(node.args[0]) if isinstance(node, Call) and node.fn == "neg" else node


def _rounded(node: Node) -> Node:
    """A product rounded, whatever its sign; anything else as it is."""
    if isinstance(node, Call) and node.fn == "neg":
        return replace(node, args=(_rounded(node.args[0]),))
    return Call("rounded", (node,)) if isinstance(node, Call) and node.fn in _PRODUCTS else node


def _wholly(node: Node, added: bool = True) -> Node:
    """All products in a node that are added to something rounded, itself if that is."""
    if not isinstance(node, Call):
        return node
    below = node.fn in _SUMS or (added and node.fn in _PASS_ON)
    node = replace(node, args=tuple(_wholly(a, below) for a in node.args))
    return _rounded(node) if added and node.fn in _PRODUCTS else node


def _extrema(values: Iterable[tuple[str, Node, str]], given: frozenset[str]) -> frozenset[str]:
    """The names of values, each with the kind of its fold, that are extrema."""
    found = set(given)
    for name, value, kind in values:
        if kind in _KINDS or _is_extremum(value, found):
            found.add(name)
    return frozenset(found)


def _is_extremum(node: Node, names: set[str] | frozenset[str]) -> bool:
    """Whether a node is one, perhaps held to something."""
    if isinstance(node, Reduce | Scan):
        return node.kind in _KINDS
    if isinstance(node, Call):
        return node.fn in _PASS_ON and any(_is_extremum(a, names) for a in node.args)
    return isinstance(node, Read) and node.name in names
