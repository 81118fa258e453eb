"""Functions that share their work, as `sin` and `cos` of one angle do: written so, compilers compute it once.

    1 + erf(x), exp(-x**2)     the first is the second times a polynomial, or 2 less that
    softplus(x), sigmoid(x)    both are made of exp(-|x|)

Laws of numbers each. `1 + erf(x)` is one function, `one_plus_erf`: in float32 the sum would lose its tail's digits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from derive.backends.cpu.statements.normal import Loop, Normal
from derive.backends.cpu.work import whole_exponent
from derive.ir.nodes.arithmetic import signed_terms, summed
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import reads, walk
from derive.ir.program import Call, Node, Num, Read

_TWO = Num(Fraction(2))


def with_related(form: Normal) -> None:
    """Write the functions of a program that share their work by way of each other."""
    _with_one_plus_erf(form)
    known = Monomials(values_of(form))
    squared = {x: known.of(x) for x in (_without_sign(c.args[0]) for c in _calls(form, "one_plus_erf"))}
    soft = {_without_sign(c.args[0]) for c in _calls(form, "softplus")}
    later = Counter(s.name for s in form.loops)
    for k, loop in enumerate(form.loops):
        there = {x: of_x for x, of_x in squared.items() if not any(later[name] for name in reads(x))}
        value = _changed(loop.value, partial(_of_square, squared=there, known=known))
        later[loop.name] -= 1
        form.loops[k] = replace(loop, value=_changed(value, lambda call: _beside_softplus(call, soft)))


def _calls(form: Normal, fn: str) -> list[Call]:
    """The calls of a function, each once."""
    found = (n for loop in form.loops for n in walk(loop.value) if isinstance(n, Call) and n.fn == fn)
    return list(dict.fromkeys(found))


def _changed(node: Node, change: Callable[[Call], Node]) -> Node:
    """A value with every operation changed, those inside it first."""
    if not isinstance(node, Call):
        return node
    return change(replace(node, args=tuple(_changed(a, change) for a in node.args)))


def _of_square(call: Call, squared: dict[Node, Monomial], known: Monomials) -> Node:
    """`exp(-x**2)` as such where `x` is there, and not as `exp(-y**2/2)` with `x = y/sqrt(2)`."""
    if call.fn != "exp":
        return call
    exponent = known.of(call.args[0])
    x = next((x for x, of_x in squared.items() if exponent.is_minus_square_of(of_x)), None)
    return call if x is None else Call("exp", (Call("neg", (Call("pow", (x, _TWO)),)),))


def _beside_softplus(call: Call, soft: set[Node]) -> Node:
    """`sigmoid(x)` from `exp(-|x|)`, which `softplus` of `x` or `-x` needs as well."""
    return Call("sigmoid_of_size", call.args) if call.fn == "sigmoid" and _without_sign(call.args[0]) in soft else call


def _without_sign(node: Node) -> Node:
    return _without_sign(node.args[0]) if isinstance(node, Call) and node.fn == "neg" else node


# --- 1 + erf ---------------------------------------------------------------------------------------------------


def _with_one_plus_erf(form: Normal) -> None:
    """`one_plus_erf` of `x`, or of `-x`, in place of each `erf(x)` to which 1 is added wherever it stands."""
    times = Counter(s.name for s in form.loops)
    outside = {*form.program.returns, *(n for n, _ in form.program.given)}
    own = [s for s in form.loops if s.kind == "set" and times[s.name] == 1 and s.name not in outside]
    named = [(s.name, s.value) for s in own if isinstance(s.value, Call) and s.value.fn == "erf"]
    for name, erf in [*named, *(("", c) for c in _calls(form, "erf"))]:
        for sign in (1, -1):
            new = form.fresh(f"one_plus_{name}") if name else ""
            loops = [_above_minus_one(s, name, erf, new, sign) for s in form.loops]
            found = [s for s in loops if s is not None]
            if len(found) == len(loops):
                form.loops[:] = found
                if name:
                    form.dims[new] = form.dims.pop(name)
                break


def _above_minus_one(loop: Loop, name: str, erf: Call, new: str, sign: int) -> Loop | None:
    """A loop with `1 + erf`, or `1 - erf`, in place of sums of both; nothing where `erf` stands without its 1."""
    tail = Call("one_plus_erf", erf.args if sign > 0 else (Call("neg", erf.args),))
    if name and loop.name == name:
        return replace(loop, name=new, value=tail)
    value: Node | None = loop.value
    cores: list[Node] = [r for r in loop.reads() if r.name == name] if name else [erf]
    if name and any(r.name == name for i in loop.slots for r in walk(i) if isinstance(r, Read)):
        return None
    for core in dict.fromkeys(cores):
        if value is not None:
            value = _in_sums(value, core, replace(core, name=new) if isinstance(core, Read) else tail, sign)
    return None if value is None else replace(loop, value=value)


def _in_sums(node: Node, core: Node, new: Node, sign: int) -> Node | None:
    """A value with `k*new` in place of `k + k*core`, or of `k - k*core`; nothing where the core stands otherwise."""
    if not isinstance(node, Call):
        return None if core in walk(node) else node
    if node == core:
        return None
    if node.fn not in ("add", "sub"):
        args = [_in_sums(a, core, new, sign) for a in node.args]
        found = [a for a in args if a is not None]
        return replace(node, args=tuple(found)) if len(found) == len(args) else None
    return _summed(_beside_their_one(signed_terms(node), core, new, sign), core, new, sign)


Terms = list[tuple[Node, bool]]
"""The terms of a sum, each with whether it is subtracted."""


def _beside_their_one(terms: Terms, core: Node, new: Node, sign: int) -> Terms:
    """The terms with `k*new` in place of the two that it is made of, where both are there."""
    found = [(Monomials({}).of(term), -1 if minus else 1) for term, minus in terms]
    for k, (factor, way) in enumerate(found):
        for j, (one, its_way) in enumerate(found):
            same = math.isclose(one.number * its_way, factor.number * way * sign)
            if factor.powers == {core: 1} and not one.powers and same:
                term = (put(terms[k][0], core, new), (way < 0) == (sign > 0))
                return [term if n == k else t for n, t in enumerate(terms) if n != j]
    return terms


def _summed(terms: Terms, core: Node, new: Node, sign: int) -> Node | None:
    """The sum of terms, each with the core in its sums."""
    values = [(value, minus) for term, minus in terms if (value := _in_sums(term, core, new, sign)) is not None]
    return summed(values) if len(values) == len(terms) else None


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
