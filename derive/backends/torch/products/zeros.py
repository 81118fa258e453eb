"""Which tensors may be a rounding off 0 where they are 0: nothing compares them with it, nor divides by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction

from derive.facts.interpreter import GIVEN, POSITIVE, Facts, facts_in
from derive.ir.nodes.walking import reads
from derive.ir.program import WIDTHS, Call, Node, Num, Program, Read, Reduce, Scatter
from derive.primitives import names

_SMOOTH = frozenset({"add", "sub", "neg", "mul"}) | names(lambda r: r.is_smooth) | WIDTHS
_POWERS = [Num(Fraction(n)) for n in (1, 2, 3, 4)]
_OF_POSITIVE = frozenset({"sqrt", "rsqrt", "log"})


def read_through(program: Program, parts: Callable[[Node], Iterable[Node]], but: Collection[str] = ()) -> set[str]:
    """The tensors that all statements on the way to what is returned read as these parts of values; none of `but`."""
    found = {s.name for s in program.statements} - set(but)
    for reader in reversed(program.statements):
        own = [] if isinstance(reader, Scatter) and reader.kind != "sum" else parts(reader.value)
        here = [n.name for n in own if isinstance(n, Read)]
        everywhere = [*reads(reader.value), *(n for i in reader.slots for n in reads(i))]
        for name in set(everywhere):
            if reader.name not in found or here.count(name) < everywhere.count(name):
                found.discard(name)
        if isinstance(reader, Scatter) and reader.name not in found:
            found.discard(reader.onto or "")
    return found


def read_smoothly(program: Program, but: Collection[str]) -> set[str]:
    """The tensors that nothing but smooth functions read, on all ways to what is returned; none of `but`."""
    known = facts_in(program, GIVEN, POSITIVE)
    return read_through(program, lambda node: _parts(node, known), but)


def read_roughly(program: Program) -> set[str]:
    """What a program is given, and reads in another way than that."""
    smooth, known = read_smoothly(program, ()), facts_in(program, GIVEN, POSITIVE)
    rough: set[str] = set()
    for s in program.statements:
        parts = [n.name for n in _parts(s.value, known) if isinstance(n, Read)] if s.name in smooth else []
        everywhere = list(reads(s.value))
        rough |= {n for n in everywhere if parts.count(n) < everywhere.count(n)}
    return rough


def _parts(node: Node, known: Facts) -> Iterator[Node]:
    """What a node is a smooth function of; itself, where it is none that is known."""
    if isinstance(node, Reduce) and node.kind in ("sum", "mean"):
        yield from _parts(node.body, known)
    elif isinstance(node, Call) and node.fn == "where" and not list(reads(node.args[0])):
        yield from (n for branch in node.args[1:] for n in _parts(branch, known))
    elif isinstance(node, Call) and (of := _smooth_in(node, known)):
        for a in of:
            yield from _parts(a, known)
    else:
        yield node


def _smooth_in(node: Call, known: Facts) -> tuple[Node, ...]:
    """The arguments that a function is smooth in."""
    if node.fn == "div":
        return node.args if known.of(node.args[1]).is_away_from_0 else node.args[:1]
    if node.fn == "pow":
        return node.args if node.args[1] in _POWERS else ()
    if node.fn in _OF_POSITIVE:
        return node.args if known.of(node.args[0]).is_away_from_0 else ()
    return node.args if node.fn in _SMOOTH else ()
