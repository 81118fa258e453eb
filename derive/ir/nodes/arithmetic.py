"""Arithmetic on nodes of a program: 0 and 1, products and sums, the terms of a sum, what is never below 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from derive.ir.program import Call, Index, Node, Num, Reduce, Scan
from derive.primitives import names

ZERO, ONE = Num(Fraction(0)), Num(Fraction(1))


def multiplied(factors: list[Node]) -> Node:
    """The product of some factors, left to right."""
    return reduce(lambda product, f: Call("mul", (product, f)), factors)


def quotient(above: list[Node], below: list[Node]) -> Node:
    """A product, divided by another where there is one."""
    out = multiplied([f for f in above if f != ONE] or [ONE])
    return Call("div", (out, multiplied(below))) if below else out


def signed_terms(node: Node, minus: bool = False) -> list[tuple[Node, bool]]:
    """The terms of a nested sum, left to right, each with whether it is subtracted."""
    if isinstance(node, Call) and node.fn in ("add", "sub"):
        left, right = node.args
        return signed_terms(left, minus) + signed_terms(right, minus != (node.fn == "sub"))
    if isinstance(node, Call) and node.fn == "neg":
        return signed_terms(node.args[0], not minus)
    return [(node, minus)]


def chained_terms(node: Node) -> list[tuple[Node, bool]]:
    """The terms that are added one after another, as `signed_terms`; a sum in brackets, which may cancel, is one."""
    if not isinstance(node, Call) or node.fn not in ("add", "sub"):
        return [(node, False)]
    left, right = node.args
    return [*chained_terms(left), (right, node.fn == "sub")]


def summed(terms: Iterable[tuple[Node, bool]]) -> Node:
    """The sum of terms, each with whether it is subtracted, left to right: what `signed_terms` takes apart."""
    (first, minus), *others = terms
    start = Call("neg", (first,)) if minus else first
    return reduce(lambda total, term: Call("sub" if term[1] else "add", (total, term[0])), others, start)


def negated(value: Node) -> Node:
    """Minus a node; the sign goes to a leading number where there is one."""
    if isinstance(value, Num):
        return Num(-value.value)
    if isinstance(value, Call) and value.fn in ("mul", "div") and isinstance(_first(value), Num):
        return Call(value.fn, (negated(value.args[0]), value.args[1]))
    return Call("neg", (value,))


def signless(node: Node) -> tuple[Node, bool]:
    """A product or quotient without its signs, and whether these are a minus."""
    if isinstance(node, Call) and node.fn == "neg":
        inner, minus = signless(node.args[0])
        return inner, not minus
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        (left, minus), (right, other) = map(signless, node.args)
        return replace(node, args=(left, right)), minus != other
    if isinstance(node, Num) and isinstance(node.value, Fraction) and node.value < 0:
        return Num(-node.value), True
    return node, False


def number_apart(node: Node) -> tuple[Fraction, Node]:
    """A value as a number times another."""
    if isinstance(node, Call) and node.fn == "neg":
        number, rest = number_apart(node.args[0])
        return -number, rest
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        (left, a), (right, b) = map(number_apart, node.args)
        if node.fn == "div":
            return left / right, a if b == ONE else replace(node, args=(a, b))
        return left * right, b if a == ONE else a if b == ONE else replace(node, args=(a, b))
    if isinstance(node, Num) and isinstance(node.value, Fraction) and node.value != 0:
        return node.value, ONE
    return Fraction(1), node


def times(number: Fraction, node: Node) -> Node:
    """A number times a value, as one writes it."""
    size = abs(number)
    if size.numerator == 1 and size != 1:
        node = Call("div", (node, Num(Fraction(size.denominator))))
    elif size != 1:
        node = Call("mul", (Num(size), node))
    return Call("neg", (node,)) if number < 0 else node


def _first(value: Node) -> Node:
    """The leading factor of a chain of products and quotients."""
    return _first(value.args[0]) if isinstance(value, Call) and value.fn in ("mul", "div") else value


def whole_power(factor: Node) -> tuple[Node, int]:
    """A factor as a whole power above 0 of something; of itself the first, where it is no such power."""
    if isinstance(factor, Call) and factor.fn == "pow":
        root, exponent = factor.args
        if isinstance(exponent, Num) and isinstance(exponent.value, Fraction) and exponent.value > 0:
            return (root, int(exponent.value)) if exponent.value.denominator == 1 else (factor, 1)
    return factor, 1


def to_the(root: Node, exponent: int) -> Node:
    """A whole power above 0 of something, which is itself where that is the first: what `whole_power` takes apart."""
    return root if exponent == 1 else Call("pow", (root, Num(Fraction(exponent))))


def by_small_powers(root: Node, exponent: int) -> Node:
    """A whole power above 0 as squares and cubes: `(x**2)**2`, `x * (x**2)**2`."""
    if exponent <= 3:
        return to_the(root, exponent)
    for part in (2, 3):
        if exponent % part == 0:
            return to_the(by_small_powers(root, exponent // part), part)
    return Call("mul", (root, by_small_powers(root, exponent - 1)))


def divisor_of(node: Node | Index) -> Node | None:
    """What a call divides by; None where it does not."""
    if not isinstance(node, Call):
        return None
    if node.fn == "div":
        return node.args[1]
    if node.fn == "pow":
        base, exponent = node.args
        return base if isinstance(exponent, Num) and exponent.value < 0 else None
    return node.args[0] if node.fn == "rsqrt" else None


def folds_to_0(node: Node) -> bool:
    """Whether a value is 0 whatever the tensors hold, by the numbers in it."""
    if isinstance(node, Num):
        return node.value == 0
    if isinstance(node, Reduce | Scan):
        return folds_to_0(node.body)
    if not isinstance(node, Call):
        return False
    if node.fn == "mul":
        return any(map(folds_to_0, node.args))
    if node.fn == "where":
        return all(map(folds_to_0, node.args[1:]))
    if node.fn in ("add", "sub"):
        left, right = node.args
        return left == (right if node.fn == "sub" else negated(right)) or all(map(folds_to_0, node.args))
    return node.fn in _KEEP_0 and folds_to_0(node.args[0])


_KEEP_0 = frozenset({"div", "neg", "pow", "square"}) | names(lambda r: r.at_0 == 0)
"""Functions that are 0 where their first argument is."""
