"""Exponentials over their sum along some axes, and the logarithms of that, for which torch has one call each.

The call takes less than half of the time that its parts take, and no more where scores are -oo, of which `exp` takes
up to ten times as long as of others. It subtracts the largest score of its own accord.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from derive.backends.code import Code, Field, Method, call
from derive.backends.torch.layout import is_product
from derive.backends.values import Dims, Value, align, position
from derive.ir.nodes.arithmetic import quotient
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.products import fraction
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import by_axes_once, node_axes, reads, walk
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, Scatter, Shares
from derive.ir.terms.axes import Axis

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer


def with_shares(program: Program) -> Program:
    """The program with shares of exponentials, and their logarithms, where nothing else reads the exponentials."""
    for s in program.statements:
        for node, new in _Found(program).within(s.value):
            changed = replace(s, value=put(s.value, node, new))
            statements = tuple(changed if other is s else other for other in program.statements)
            trial = without_unread(replace(program, statements=statements))
            if _exponentials(trial) < _exponentials(program):
                return with_shares(trial)
    return program


def _exponentials(program: Program) -> int:
    return sum(1 for s in program.statements for n in walk(s.value) if isinstance(n, Call) and n.fn == "exp")


class _Found:
    """Where a program has shares, its values by their names."""

    def __init__(self, program: Program) -> None:
        written = Counter(s.name for s in program.statements)
        written.update(s.onto for s in program.statements if isinstance(s, Scatter) and s.onto)
        once = (s for s in program.statements if isinstance(s, Assign) and written[s.name] == 1)
        self.values = {Read(s.name, s.axes): s.value for s in once if by_axes_once(Read(s.name, s.axes))}

    def within(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """What in a value has shares, or their logarithms, and the same with these."""
        for n in walk(node):
            if isinstance(n, Call) and n.fn in ("mul", "div"):
                yield from ((n, found) for found in self._shares(*fraction(n)))
            elif isinstance(n, Call) and n.fn == "sub" and (logarithms := self._logarithms(*n.args)) is not None:
                yield n, logarithms

    def _value(self, node: Node) -> Node:
        """What a tensor that is read as it is written is."""
        return self.values.get(node, node) if isinstance(node, Read) else node

    def _shares(self, above: list[Node], below: list[Node]) -> Iterator[Node]:
        """The quotient of some factors with `exp(e) / sum(exp(e), over=a)` as one of them."""
        for (i, factor), (j, divisor) in product(enumerate(above), enumerate(below)):
            exponent, total = self._exponent(factor), self._total(divisor)
            if exponent is None or total is None or not self._are_one(exponent, total[1]):
                continue
            if (shares := self._of(exponent, total[0])) is not None:
                yield quotient([*above[:i], shares, *above[i + 1 :]], [*below[:j], *below[j + 1 :]])

    def _logarithms(self, score: Node, below: Node) -> Shares | None:
        """Of `e - log(sum(exp(e), over=a))`, and of `z - (m + log(sum(exp(z - m), over=a)))`."""
        total = self._value(below)
        terms = total.args if isinstance(total, Call) and total.fn == "add" else ()
        for taken, rest in ((None, below), *zip(terms, terms[::-1], strict=True)):
            logarithm = self._value(rest)
            if not isinstance(logarithm, Call) or logarithm.fn != "log":
                continue
            exponent = score if taken is None else Call("sub", (score, taken))
            along = self._total(logarithm.args[0])
            if along and self._are_one(along[1], exponent):
                found = self._of(exponent, along[0])
                return found and replace(found, logarithm=True)
        return None

    def _exponent(self, node: Node) -> Node | None:
        value = self._value(node)
        return value.args[0] if isinstance(value, Call) and value.fn == "exp" else None

    def _are_one(self, node: Node, other: Node) -> bool:
        return self._value(node) == self._value(other)

    def _total(self, node: Node) -> tuple[tuple[str, ...], Node] | None:
        """The axes along which exponentials are added up, and their exponent."""
        value = self._value(node)
        exponent = self._exponent(value.body) if isinstance(value, Reduce) and value.kind == "sum" else None
        return None if exponent is None else (value.axes, exponent)  # type: ignore[union-attr]

    def _of(self, exponent: Node, axes: tuple[str, ...]) -> Shares | None:
        """The shares of these exponentials along some axes, without the largest score, which is subtracted anyway.

        What has a name goes by it: others may read it as well. Several axes are one dimension for torch, where they lie
        side by side in a tensor that has a name.
        """
        own = node_axes(exponent)
        if not set(axes) <= set(own) or any(Axis(a).is_pack for a in axes):
            return None
        difference = self._value(exponent)
        if isinstance(difference, Call) and difference.fn == "sub":
            score, largest = difference.args[0], self._value(difference.args[1])
            of_it = isinstance(largest, Reduce) and self._are_one(largest.body, score)
            along = of_it and largest.kind == "amax" and set(largest.axes) == set(axes)  # type: ignore[union-attr]
            exponent = score if along and isinstance(score, Read) else exponent
        if len(axes) == 1:
            return Shares(axes, exponent)
        lie = exponent.index if isinstance(exponent, Read) and by_axes_once(exponent) else ()
        side_by_side = [lie[k : k + len(axes)] for k in range(len(lie)) if set(lie[k : k + len(axes)]) == set(axes)]
        return Shares(side_by_side[0], exponent) if side_by_side else None  # type: ignore[arg-type]


_TURNS = frozenset({"transpose", "permute", "movedim", "mT", "T"})


def _is_in_order(printer: Printer, node: Node) -> bool:
    """Whether a tensor of ours lies in memory as its dimensions say: compiled, torch writes over no other.

    What is computed place by place lies as what it is computed of does, and what is given may lie in any way.
    """
    if isinstance(node, Read):
        made, name = printer.program.assigned.get(node.name), printer.named(node.name)
        lines = [line for line in printer.lines if line.made == name.id]
        plain = made is not None and len(lines) == 1 and not _is_turned(lines[0].value)
        return plain and _is_in_order(printer, made.value)  # type: ignore[union-attr]
    if isinstance(node, Reduce):
        return is_product(node)
    large = [a for a in node.args if reads(a) and printer.memory.is_large(a)] if isinstance(node, Call) else []
    return bool(large) and all(_is_in_order(printer, a) for a in large)


def _is_turned(code: Code) -> bool:
    """Whether what code computes is looked at with its dimensions in another order, and maybe written over then."""
    return isinstance(code, Method | Field) and (code.name in _TURNS or _is_turned(code.on))


def shares_code(printer: Printer, node: Shares, order: Dims) -> Value:
    """One call of torch; where nothing reads the scores any more, over their memory."""
    name = f"torch.{'log_softmax' if node.logarithm else 'softmax'}"
    if len(node.axes) > 1:
        assert isinstance(node.body, Read)
        body = printer.as_real(node.body, printer.value(node.body, node.body.index))  # type: ignore[arg-type]
        first, last = (position(body.dims, body.dims.index(a)) for a in (node.axes[0], node.axes[-1]))
        at = first if first >= 0 else first + len(node.axes) - 1
        made = Value(call(name, body.method("flatten", first, last), at), body.dims)
        return align(made.method("unflatten", at, printer.shape(node.axes)), order)
    body = printer.as_real(node.body, printer.value(node.body, order))
    at = position(body.dims, body.dims.index(node.axes[0]))
    over = isinstance(node.body, Read) and body.owned and _is_in_order(printer, node.body)
    return align(Value(call(name, body, at, out=body if over else None), body.dims), order)
