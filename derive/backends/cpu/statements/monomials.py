"""Values as a number times whole powers of what is no product: two ways to write one product are one monomial."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from derive.backends.cpu.statements.normal import Normal
from derive.backends.cpu.work import whole_exponent
from derive.ir.program import Call, Node, Num, Read

_CLOSE = 1e-12  # two ways to write one number, in double precision


class Monomial(NamedTuple):
    """`number * base**exponent * ...`"""

    number: float
    powers: Counter[Node]

    def is_minus_square_of(self, other: Monomial) -> bool:
        doubled = {base: 2 * exponent for base, exponent in other.powers.items()}
        return self.powers == doubled and math.isclose(-self.number, other.number * other.number, rel_tol=_CLOSE)

def values_of(form: Normal) -> dict[Read, Node]:
    """What the tensors of a program are that are written once, element by element."""
    times = Counter([s.name for s in form.loops] + [n for n, _ in form.program.given])
    return {Read(s.name, s.slots): s.value for s in form.loops if s.kind == "set" and times[s.name] == 1}


@dataclass(frozen=True)
class Monomials:
    """The monomials of values, which look through the names that are known."""

    known: dict[Read, Node]

    def of(self, node: Node) -> Monomial:
        if isinstance(node, Num):
            return Monomial(float(node.value), Counter())
        if isinstance(node, Read) and node in self.known:
            return self.of(self.known[node])
        if isinstance(node, Call):
            if node.fn == "neg":
                return _times(Monomial(-1.0, Counter()), self.of(node.args[0]))
            if node.fn in ("mul", "div"):
                a, b = (self.of(x) for x in node.args)
                return _times(a, b if node.fn == "mul" else _to_the(b, -1))
            if node.fn == "sqrt" and not (inner := self.of(node.args[0])).powers and inner.number >= 0:
                return Monomial(math.sqrt(inner.number), Counter())
            if node.fn == "pow" and (exponent := whole_exponent(node)) is not None:
                return _to_the(self.of(node.args[0]), exponent)
        return Monomial(1.0, Counter({node: 1}))


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers = a.powers.copy()
    powers.update(b.powers)
    return Monomial(a.number * b.number, Counter({base: e for base, e in powers.items() if e}))


def _to_the(m: Monomial, exponent: int) -> Monomial:
    product = math.prod([m.number] * abs(exponent))
    number = product if exponent > 0 else 1 / product if product else math.inf
    return Monomial(number, Counter({base: exponent * e for base, e in m.powers.items()}))
