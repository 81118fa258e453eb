"""A value between two others in one pass over memory for three: `(1 - w)*a + w*b` is `torch.lerp(a, b, w)`.

PyTorch takes `a + w*(b - a)` below a half and `b - (b - a)*(1 - w)` from there on, which is exact at both ends. Where
an end is infinite that may be no number, so a forward does this only where one end tells that both are finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from derive.backends.torch.layout import is_product
from derive.backends.torch.pointwise import broadcast, cast
from derive.backends.values import Dims, Value
from derive.nodes.arithmetic import ONE, multiplied
from derive.nodes.products import is_tensor, product_factors
from derive.passes.signs import plain as with_one_sign
from derive.program import Call, Node, Num, Read, Reduce

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_FINITE = frozenset({"tanh", "sigmoid", "softplus", "erf", "sin", "cos", "atan"})
_OF_FINITE = frozenset({"relu", "maximum", "minimum", "add", "sub", "neg", "mul"})
_LONGEST_ARGUMENT = 60
"""Characters of an argument beyond which operators read better."""


@dataclass(frozen=True)
class _Between:
    """`(1 - weight)*start + weight*end`."""

    start: Node
    end: Node
    weight: Node

    @property
    def ends(self) -> tuple[Node, Node]:
        return self.start, self.end


def between(printer: Printer, node: Call, order: Dims) -> Value | None:
    """The call for a sum of two products whose weights add up to 1; None for any other node."""
    found = None if node in printer.told_by_sign else next(_found(node), None)
    if found is None or not all(n == ONE or (is_tensor(n) and printer.dtypes.is_real(n)) for n in found.ends):
        return None
    if printer.exact and not any(_is_finite(printer, n) for n in found.ends):
        return None
    start, end = (_end(printer, n, order) for n in found.ends)
    weight = cast(printer.value(found.weight, order), printer.like)
    if len(end.code) > _LONGEST_ARGUMENT or len(weight.code) > _LONGEST_ARGUMENT:
        return None
    dims = broadcast([start, end, weight])
    if start.owned and start.dims == dims:
        return replace(start.method(f".lerp_({end.code}, {weight.code})"), owned=True)
    if len(start.code) > _LONGEST_ARGUMENT:
        return None
    return printer.owned(node, Value(f"torch.lerp({start.code}, {end.code}, {weight.code})", dims))


def _found(node: Call) -> Iterator[_Between]:
    """A sum or a difference as a value between two, for each weight that its products have."""
    if node.fn not in ("add", "sub"):
        return
    for first, second in (node.args, node.args[::-1]):
        start, end = list(product_factors(first)), list(product_factors(second))
        for f in start:
            weight = f.args[1] if isinstance(f, Call) and f.fn == "sub" and f.args[0] == ONE else None
            if weight is None or weight not in end:
                continue
            start.remove(f)
            end.remove(weight)
            negated = start if first is not node.args[0] else end
            if node.fn == "sub":
                negated.insert(0, Num(Fraction(-1)))
            one, other = (with_one_sign(multiplied(side or [ONE])) for side in (start, end))
            yield _Between(one, other, weight)
            return


def _end(printer: Printer, node: Node, order: Dims) -> Value:
    """An end as a tensor, which `lerp` asks for."""
    if node == ONE:
        return Value(f"{printer.like}.new_ones(())")
    return cast(printer.value(node, order), printer.like)


def _is_finite(printer: Printer, node: Node) -> bool:
    """Whether a value is bounded, or made of matrix products: nothing that stands for a mask."""
    if isinstance(node, Read):
        known = printer.program.assigned.get(node.name)
        return known is not None and _is_finite(printer, known.value)
    if isinstance(node, Reduce):
        return is_product(node)
    if not isinstance(node, Call):
        return not is_tensor(node)
    return node.fn in _FINITE or (node.fn in _OF_FINITE and all(_is_finite(printer, a) for a in node.args))
