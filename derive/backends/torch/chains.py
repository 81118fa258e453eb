"""Long pointwise expressions in little memory: which factor of a product leads, so that the others go into its memory.

`s * dy * (1 + x * (1 - s))` makes five tensors; `(1 - s).mul_(x).add_(1).mul_(s).mul_(dy)` makes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.products import is_matrix_product, quotient_factors
from derive.ir.nodes.walking import children, walk
from derive.ir.program import CONDITIONS, Call, Node, Num, Read, Reduce

_LONG = 2
"""An expression that makes fewer large tensors is written with operators; one less where it may write over one.

Memory that is taken anew costs a CPU more than what is computed into it: with 4 here, sigmoid's backward of 4096 x 1024
took twice as long, dropout and l2_normalize of 512 x 512 a quarter and a fifth longer.
"""

Factor = tuple[Node, bool]
"""A factor of a product; True: it divides."""


def is_long(value: Node, is_large: Callable[[Node], bool], spent: frozenset[str]) -> bool:
    """Whether a statement's expression makes several large tensors on its way."""
    calls = list(_pointwise(value))
    made = sum(isinstance(n, Call) and n.fn not in (*CONDITIONS, "neg") and is_large(n) for n in calls)
    reuses = any(isinstance(n, Read) and n.name in spent for n in walk(value))
    return made >= _LONG - (reuses or any(isinstance(n, Reduce) and is_large(n) for n in calls))


def _pointwise(node: Node) -> Iterator[Call | Reduce]:
    """The calls of an expression and the products of matrices in it, without what is inside these."""
    if isinstance(node, Reduce) and is_matrix_product(node):
        yield node
        return
    if isinstance(node, Call):
        yield node
    for child in children(node):
        yield from _pointwise(child)  # type: ignore[arg-type]


def led(node: Call, is_large: Callable[[Node], bool], spent: frozenset[str]) -> Call:
    """The same product, in front a factor that may be written over, then the large factors, then the rest as one."""
    if node.fn not in ("mul", "div") or not is_large(node):
        return node
    factors = quotient_factors(node)
    large = [n for n, divides in factors if not divides and is_large(n)]
    leaders = [n for n in large if _may_lead(n, spent)]
    if len(factors) < 2 or not leaders or any(divides and is_large(n) for n, divides in factors):
        return node
    lead = leaders[0]
    large.remove(lead)
    out: Node = lead
    for other in large:
        out = Call("mul", (out, other))
    small = _one_number([(n, divides) for n, divides in factors if not is_large(n)])
    if len(small) == 1:
        ((factor, divides),) = small
        out = Call("div" if divides else "mul", (out, factor))
    elif small and all(divides for _, divides in small):
        out = Call("div", (out, _product([(n, False) for n, _ in small])))
    elif small:
        out = Call("mul", (out, _product(small)))
    return out if isinstance(out, Call) else node  # its numbers may cancel


def with_minus(product: Call, is_large: Callable[[Node], bool]) -> Call | None:
    """Minus a product, the sign at a factor that is no large tensor: the first, a number, any; None where all are."""
    return (
        _negated_first(product, is_large)
        or _negated(product, lambda n, divides: isinstance(n, Num))
        or _negated(product, lambda n, divides: not divides and not is_large(n))
    )


def _negated_first(product: Call, is_large: Callable[[Node], bool]) -> Call | None:
    a, b = product.args
    if isinstance(a, Call) and a.fn in ("mul", "div"):
        within = _negated_first(a, is_large)
        return None if within is None else Call(product.fn, (within, b))
    return None if is_large(a) else Call(product.fn, (_minus(a), b))


def _negated(product: Call, takes: Callable[[Node, bool], bool]) -> Call | None:
    """Minus a product, with the sign at the last of its factors that takes it."""
    a, b = product.args
    if takes(b, product.fn == "div"):
        return Call(product.fn, (a, _minus(b)))
    within = _negated(a, takes) if isinstance(a, Call) and a.fn in ("mul", "div") else None
    return None if within is None else Call(product.fn, (within, b))


def _minus(factor: Node) -> Node:
    return Num(-factor.value) if isinstance(factor, Num) else Call("neg", (factor,))


def _may_lead(n: Node, spent: frozenset[str]) -> bool:
    if isinstance(n, Reduce):
        return is_matrix_product(n)
    return n.name in spent if isinstance(n, Read) else isinstance(n, Call) and n.fn not in (*CONDITIONS, "where")


def _one_number(factors: list[Factor]) -> list[Factor]:
    """The factors with their numbers as one: divided by 2, and again, is divided by 4."""
    numbers = [(n.value, divides) for n, divides in factors if isinstance(n, Num) and isinstance(n.value, Fraction)]
    if len(numbers) < 2:
        return factors
    value = math.prod((1 / v if divides else v for v, divides in numbers), start=Fraction(1))
    rest = [f for f in factors if not isinstance(f[0], Num) or not isinstance(f[0].value, Fraction)]
    divides = value.numerator == 1
    return rest if value == 1 else [*rest, (Num(1 / value if divides else value), divides)]


def _product(factors: list[Factor]) -> Node:
    out: Node | None = None
    for n, divides in sorted(factors, key=lambda f: f[1]):  # divisors last
        if out is None:
            out = n if not divides else Call("div", (ONE, n))
        else:
            out = Call("div" if divides else "mul", (out, n))
    assert out is not None
    return out
