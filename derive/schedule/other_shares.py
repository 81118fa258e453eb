"""What a maximum does not pass on to one side it passes on to the other: `dz = dy - dx` for `dx = dy * (1 + s) / 2`.

A sign `s` is -1, 0 or 1, so that each share is nothing, half or all of what is shared out. What one share leaves of it
is the other, exactly: a difference in place of a second step and a second product. Under sums it is taken element by
element, since the difference of two sums would cancel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from derive.ir.nodes.arithmetic import ONE, multiplied, number_apart, times
from derive.ir.nodes.naming import new_name_of
from derive.ir.nodes.products import is_matrix_product, is_weighted, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import children, node_axes, top_down, walk
from derive.ir.program import Assign, Call, Join, Node, Program, Read, Reduce, Statement
from derive.ir.terms.numbers import is_power_of_2


@dataclass(frozen=True)
class _Share:
    """A product `number * whole * (1 + sign)`, or with `1 - sign` where it is not `above`."""

    number: Fraction
    whole: Node
    sign: Call
    above: bool

    @property
    def of(self) -> tuple[Node, Call]:
        """What is shared out, and by what."""
        return self.whole, self.sign

    @property
    def value(self) -> Node:
        """The same product, what is shared out multiplied first, so that it is one number for both shares."""
        return times(self.number, Call("mul", (self.whole, _step(self.sign, self.above))))


def other_shares(program: Program) -> Program:
    """The same program with each second share as what the first one leaves."""
    program = _one_way(program)
    while (both := _shared_out(program)):
        named = _Named(program.names)
        for s in program.statements:
            for n in dict.fromkeys(_places(s)):
                readings = [share for share in _shares(n) if share.of in both]
                if not readings:
                    continue
                share = next((share for share in readings if share.of in named.first), readings[0])
                exact = n == s.value and _is_exact(share)  # behind a sum, its number is multiplied once
                if share.of not in named.first and exact and _is_whole(s, program):
                    s = replace(s, value=named.as_first(share, Read(s.name, s.axes)).value)
                else:
                    s = replace(s, value=put(s.value, n, named.by_first(share, share.number if exact else Fraction(1))))
            named.statements.append(s)
        program = check(replace(program, statements=tuple(named.statements)))
    return program


def _shared_out(program: Program) -> set[tuple[Node, Call]]:
    """What is shared out by which sign, where both shares stand in a program."""
    shares = [share for s in program.statements for n in _places(s) for share in _shares(n)]
    above = {share.of for share in shares if share.above}
    return above & {share.of for share in shares if not share.above}


class _Named:
    """Statements so far, with names for what is shared out and for the first share of each."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._wholes: dict[Node, Node] = {}
        self.first: dict[tuple[Node, Call], tuple[_Share, Read]] = {}
        self.statements: list[Statement] = []

    def as_first(self, share: _Share, read: Read) -> _Share:
        """The share as the first one of its kind, under this name, of what is shared out by name."""
        whole = share.whole
        if node_axes(whole) and not isinstance(whole, Read) and whole not in self._wholes:
            self._wholes[whole] = self._made(whole)
        made = replace(share, whole=self._wholes.get(whole, whole))
        self.first[share.of] = made, read
        return made

    def by_first(self, share: _Share, as_first: Fraction) -> Node:
        """A share by way of the first one; if there is none yet this gets a name of its own, times such a number."""
        if share.of not in self.first:
            made = self.as_first(replace(share, number=as_first), Read("", ()))
            self.first[share.of] = made, self._made(made.value)
        first, read = self.first[share.of]
        number, all_of_it = share.number / first.number, 2 * first.number
        if share.above == first.above:
            return times(number, read)
        if 0 < all_of_it <= 1:
            return times(number, Call("sub", (times(all_of_it, first.whole), read)))
        return times(-number, Call("sub", (read, times(all_of_it, first.whole))))

    def _made(self, value: Node) -> Read:
        """A value by a name of its own."""
        made = Assign(new_name_of(value, self._taken), axes_of(value), value)
        self.statements.append(made)
        return Read(made.name, made.axes)


def _places(s: Statement) -> Iterator[Node]:
    """What a statement, a sum or a part of a concatenation is of.

    A product that is added to others, or to a slice, costs no pass of its own.
    """
    if isinstance(s, Assign) or any(isinstance(i, Read) for i in s.slots):
        yield s.value
    for n in walk(s.value):
        if isinstance(n, Join) or (isinstance(n, Reduce) and n.kind in ("sum", "mean")):
            yield from (c for c in children(n) if not _is_multiplied(n))  # type: ignore[misc]


def _is_multiplied(node: Node) -> bool:
    """Whether a sum is a matrix product, which needs no step by step product."""
    return isinstance(node, Reduce) and (is_matrix_product(node) or is_weighted(node))


def _shares(node: Node) -> Iterator[_Share]:
    """A value as a share, by each of its steps that is as large as it is."""
    number, rest = number_apart(node)
    factors = product_factors(rest)
    for k, f in enumerate(factors):
        others = factors[:k] + factors[k + 1 :]
        if others and set(node_axes(f)) == set(node_axes(node)) and (found := _sign(f)) is not None:
            yield _Share(number, multiplied(others), *found)


def _sign(step: Node) -> tuple[Call, bool] | None:
    """The sign of a step, and whether it is added to 1; None for anything else."""
    if not isinstance(step, Call) or step.fn not in ("add", "sub") or ONE not in step.args:
        return None
    sign, above = step.args[step.args[0] == ONE], step.fn == "add"
    if not isinstance(sign, Call) or sign.fn != "sign" or not (above or step.args[0] == ONE):
        return None
    return sign, above


def _step(sign: Call, above: bool) -> Call:
    return Call("add", (sign, ONE)) if above else Call("sub", (ONE, sign))


def _is_whole(s: Statement, program: Program) -> bool:
    """Whether a statement's value is its tensor, element by element."""
    whole = isinstance(s, Assign) and s.name not in program.added_to
    return whole and set(s.axes) == set(node_axes(s.value)) and len(s.axes) == len(set(s.axes))


def _is_exact(share: _Share) -> bool:
    """Whether all of a share is what is shared out, or as much times a power of 2: such a product is not rounded."""
    return is_power_of_2(share.number)


# --- one sign of a difference -----------------------------------------------------------------------------------------


def _one_way(program: Program) -> Program:
    """`1 + sign(b - a)` as `1 - sign(a - b)` where `sign(a - b)` stands before it: one sign for both."""
    calls = (n for s in program.statements for n in walk(s.value) if isinstance(n, Call))
    signs = dict.fromkeys(n for n in calls if n.fn == "sign")
    known: dict[Call, Call] = {}
    for sign in signs:
        other = _turned(sign)
        if other is not None and sign not in known:
            known[other] = sign

    def within(node: Node) -> Node | None:
        found = _sign(node)
        return _step(known[found[0]], not found[1]) if found is not None and found[0] in known else None

    return program.with_values(lambda value: top_down(value, within))


def _turned(sign: Call) -> Call | None:
    """The sign of a difference the other way round, which is minus it; None where it is of no difference."""
    of = sign.args[0]
    return Call("sign", (Call("sub", of.args[::-1]),)) if isinstance(of, Call) and of.fn == "sub" else None
