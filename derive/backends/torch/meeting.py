"""Two branches that meet at a threshold, without choosing: each on its own side, where the other stands still.

`A(max(x, t))` where the other is the number `A(t)`; else `A(max(x, t)) + B(min(x, t)) - A(t)`, and of two lines the
larger or the smaller. No digit is lost, since a form is taken only where on each side

- what the other branch adds there is exactly 0 in floating point, and this branch is as it is written, or
- all that is added has one sign, so that nothing cancels, and each term is exact but for its own rounding.

So a polynomial is written as one of `relu(x - t)`, which is 0 beyond the threshold, only where all its terms and what
the other branch is at `t` have one sign, or where `t` is 0 and it is written out in powers of `x`, which are its terms
then as well. `where(x < -1, -x - 1/2, x**2/2)` is `max(x, -1)**2/2 - min(x + 1, 0)`; not `relu(x + 1)**2/2 - x - 1/2 -
relu(x + 1)`, which near `x = 0` is a difference of ones. The rest is chosen.
"""

from __future__ import annotations

from sympy import Add, Dummy, Expr, degree, exp, expand

from derive.backends.torch.bends import bent
from derive.backends.torch.compared import HOLD, Comparison, Known
from derive.backends.torch.pieces import Piece, one_sign, piece, settled
from derive.ir.nodes.arithmetic import number_apart, signed_terms, summed, times
from derive.ir.program import Call, Node
from derive.ir.terms.kinks import absolute, minimum, relu


def met(asked: Comparison, node: Call, known: Known) -> Node | None:
    """The choice without choosing; None where the branches do not meet, are of more than one tensor, or lose digits."""
    z = Dummy(real=True)
    first, second = (piece(branch, z, asked, k == 0, known) for k, branch in enumerate(node.args[1:]))
    above, below = (first, second) if asked.above_first else (second, first)
    if above is None or below is None or settled(expand((above.there - below.there).rewrite(exp))) != 0:
        return None
    forms = (form(above, below) for form in (_apart, _bent, _one_stands, _added, _extremum))
    return next((form for form in forms if form is not None), None)


def _apart(above: Piece, below: Piece) -> Node | None:
    """`a + c*|x - t|` for branches `a + c*(x - t)` and `a - c*(x - t)` with numbers; None for others."""
    z, t = above.z, above.threshold
    middle, slope = expand((above.value + below.value) / 2), expand((above.value - below.value) / 2).coeff(z)
    if not (middle.is_number and slope.is_number) or expand(above.value - middle - slope * (z - t)) != 0:
        return None
    as_written = t == 0 and above.is_written_out and below.is_written_out
    if one_sign((middle, slope)) is None and not as_written:
        return None
    return above.asked.lowered(middle + slope * absolute(HOLD - t))


def _bent(above: Piece, below: Piece) -> Node | None:
    """The call for a line that bends at 0."""
    if above.threshold != 0:
        return None
    as_written = above.is_written_out and below.is_written_out
    return bent(above.asked.x, above.value, below.value, above.z, as_written, above.asked.negative)


def _one_stands(above: Piece, below: Piece) -> Node | None:
    """The branch that is no number, where floats make the other of it at the threshold."""
    for own, other in ((above, below), (below, above)):
        if other.is_fixed and (own.exact == other.value or (other.value != 0 and own.is_near)):
            return own.standing(own is above)
    return None


def _added(above: Piece, below: Piece) -> Node | None:
    """What one branch, a polynomial, has beyond the threshold, and the other, which stands still there."""
    z, t = above.z, above.threshold
    for own, other in ((above, below), (below, above)):
        if own.is_fixed or not own.value.is_polynomial(z) or not (other.is_near or other.is_fixed):
            continue
        side = 1 if own is above else -1
        if not (_is_one_sum(own, other, side) or (t == 0 and own.is_written_out)):
            continue
        beyond = relu(HOLD - t) if own is above else minimum(HOLD - t, 0)
        grown = own.asked.lowered(expand(_grown(own)).subs(z, beyond))
        rest = signed_terms(other.standing(other is above)) if other.value != 0 else []
        if len(rest) > 1:  # what it cancels by itself is not torn apart
            rest = [(summed(rest), False)]
        return _by_one_number(sorted([*signed_terms(grown), *rest], key=lambda term: term[1]))
    if above.exact == 0 == below.exact:
        return Call("add", (above.standing(True), below.standing(False)))
    return None


def _by_one_number(terms: list[tuple[Node, bool]]) -> Node:
    """The sum of terms; a number that all are multiplied with stands before it."""
    apart = [number_apart(term) for term, _ in terms]
    numbers = {number for number, _ in apart}
    if len(terms) == 1 or len(numbers) > 1:
        return summed(terms)
    return times(numbers.pop(), summed((rest, minus) for (_, rest), (_, minus) in zip(apart, terms, strict=True)))


def _grown(own: Piece) -> Expr:
    """What a polynomial has beyond the threshold, of how far beyond: `A(t + z) - A(t)`."""
    return expand(own.value.subs(own.z, own.z + own.threshold) - own.value.subs(own.z, own.threshold))


def _is_one_sum(own: Piece, other: Piece, side: int) -> bool:
    """Whether all terms of what a polynomial is on its side, and what is there already, have one sign."""
    beyond = expand(_grown(own).subs(own.z, side * Dummy(positive=True)))
    return one_sign([*Add.make_args(beyond), other.there], own.asked.negative) is not None


def _extremum(above: Piece, below: Piece) -> Node | None:
    """The larger or the smaller of two lines, both as they are written."""
    z = above.z
    if not all(p.value.is_polynomial(z) and degree(p.value, z) <= 1 for p in (above, below)):
        return None
    apart = expand(above.value - below.value)
    slope = apart.coeff(z)
    if not slope.is_number or slope == 0 or expand(apart - slope * (z - above.threshold)) != 0:
        return None
    return Call("maximum" if slope > 0 else "minimum", (above.node, below.node))
