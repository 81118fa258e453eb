"""Which tensors may be a rounding off 0 where they are 0: nothing compares them with it, nor divides by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction

from derive.ir.nodes.walking import reads
from derive.ir.program import WIDTHS, Assign, Call, Node, Num, Program, Read, Reduce, Scal, Scatter
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
    known = program.assigned
    return read_through(program, lambda node: _parts(node, known), but)


def read_roughly(program: Program) -> set[str]:
    """What a program is given, and reads in another way than that."""
    smooth = read_smoothly(program, ())
    rough: set[str] = set()
    for s in program.statements:
        parts = [n.name for n in _parts(s.value, program.assigned) if isinstance(n, Read)] if s.name in smooth else []
        everywhere = list(reads(s.value))
        rough |= {n for n in everywhere if parts.count(n) < everywhere.count(n)}
    return rough


def _parts(node: Node, known: Mapping[str, Assign]) -> Iterator[Node]:
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


def _smooth_in(node: Call, known: Mapping[str, Assign]) -> tuple[Node, ...]:
    """The arguments that a function is smooth in."""
    if node.fn == "div":
        return node.args if _is_away_from_0(node.args[1], known) else node.args[:1]
    if node.fn == "pow":
        return node.args if node.args[1] in _POWERS else ()
    if node.fn in _OF_POSITIVE:
        return node.args if _is_away_from_0(node.args[0], known) else ()
    return node.args if node.fn in _SMOOTH else ()


def _is_away_from_0(node: Node, known: Mapping[str, Assign]) -> bool:
    """Whether a number is added to what is not negative, as in `sqrt(sum(x[n, d]**2, over=d) + eps)`."""
    if isinstance(node, Read) and node.name in known:
        return _is_away_from_0(known[node.name].value, known)
    if isinstance(node, Num):
        return node.value > 0
    if not isinstance(node, Call) or node.fn != "add":
        return isinstance(node, Call) and node.fn in ("sqrt", "rsqrt", "exp") and _is_away_from_0(node.args[0], known)
    return any(
        (isinstance(a, Scal) or (isinstance(a, Num) and a.value > 0)) and _is_not_negative(b, known)
        for a, b in (node.args, node.args[::-1])
    )


def _is_not_negative(node: Node, known: Mapping[str, Assign]) -> bool:
    if isinstance(node, Read):
        return node.name in known and _is_not_negative(known[node.name].value, known)
    if isinstance(node, Reduce):
        return _is_not_negative(node.body, known)
    return isinstance(node, Call) and (node.fn == "absolute" or (node.fn == "pow" and node.args[1] == Num(Fraction(2))))
