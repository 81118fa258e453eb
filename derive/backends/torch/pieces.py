"""A branch of a choice at a threshold: a function of what is compared, as it is written, and what floats make of it.

A branch that stands still beyond the threshold is the branch itself on its own side, operation by operation: nothing is
multiplied out, so it has every digit there that it has where it is chosen. At the threshold it is what it is in exact
arithmetic if no operation rounds, and near that if nothing is taken away from what is as large. A number of the
caller's has the sign of its default where that is asked, and is above 0 without one; with the other sign values are
right, with fewer digits perhaps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sympy import Dummy, Expr, S, expand

from derive.backends.torch.compared import Comparison, Known, on_its_side, opened, raised_by_names
from derive.ir.lowering.raising import is_finite_number
from derive.ir.nodes.arithmetic import ZERO, divisor_of
from derive.ir.nodes.walking import rebuilt, walk
from derive.ir.program import Call, Node, Read
from derive.ir.terms import numbers
from derive.ir.terms.elements import Scalar
from derive.ir.terms.kinks import maximum, minimum, relu


@dataclass(frozen=True)
class Piece:
    """A branch as a node, and as a function of `z`, which is what is compared: these `names` in the node."""

    node: Node
    value: Expr
    z: Dummy
    threshold: Expr
    asked: Comparison
    names: Mapping[Node, Expr]
    known: Known

    @property
    def is_fixed(self) -> bool:
        return not self.value.has(self.z)

    @property
    def there(self) -> Expr:
        """What it is at the threshold."""
        return settled(self.value.subs(self.z, self.threshold))

    def standing(self, above: bool) -> Node:
        """The branch of what is compared or the threshold, whichever is the larger, or with `above` False the smaller.

        A difference from the threshold is the `relu` of it then, or the smaller of it and 0: exactly 0 beyond.
        """
        return self._standing(self.node, above)

    def _standing(self, node: Node, above: bool) -> Node:
        if node in self.names:
            return Call("maximum" if above else "minimum", (self.asked.x, self.asked.threshold))
        if isinstance(node, Read):
            value = opened(node, self.known)
            changed = node if value is None else self._standing(value, above)
            return node if changed == value else changed
        if (side := self._gap(node)) != 0:
            return Call("relu", (node,)) if above == (side > 0) else Call("minimum", (node, ZERO))
        return _tighter(rebuilt(node, lambda n: self._standing(n, above)))

    def _gap(self, node: Node) -> int:
        """1 for what is compared less the threshold, -1 for minus that, else 0."""
        if not isinstance(node, Call) or node.fn not in ("add", "sub"):
            return 0
        value = raised_by_names(node, self.names, self.known)
        sides = (k for k in (1, -1) if value is not None and expand(value - k * (self.z - self.threshold)) == 0)
        return next(sides, 0)

    def divides_by_0(self, node: Node) -> bool:
        """Whether it is no number at the threshold, as it is written: `z/z**2` is `1/z`, and is not computed so."""
        if isinstance(node, Read) and node not in self.names and (value := opened(node, self.known)) is not None:
            return self.divides_by_0(value)
        if (by := divisor_of(node)) is not None:
            value = raised_by_names(by, self.names, self.known)
            if value is None or settled(value.subs(self.z, self.threshold)) == 0:
                return True
        return isinstance(node, Call) and any(map(self.divides_by_0, node.args))

    @property
    def exact(self) -> Expr | None:
        """What floats make of it at the threshold, where none of its operations rounds; else None."""
        return self._exact(self.node)

    def _exact(self, node: Node) -> Expr | None:
        if node in self.names:
            return self.threshold
        if isinstance(node, Read):
            value = opened(node, self.known)
            return None if value is None else self._exact(value)
        if not isinstance(node, Call):
            return raised_by_names(node, self.names, self.known)
        if self._gap(node) != 0:
            return S.Zero
        parts = [self._exact(a) for a in node.args]
        names = {a: part for a, part in zip(node.args, parts, strict=True) if part is not None}
        if len(names) < len(set(node.args)) or (value := raised_by_names(node, names, {})) is None:
            return None
        value = settled(value)
        plain = value == 0 or any(value in (part, -part) for part in names.values())
        return value if plain or all(map(_is_short, (value, *names.values()))) else None

    @property
    def is_near(self) -> bool:
        """Whether floats have all digits of it at the threshold: no operation takes away what is as large."""
        return self.exact is not None or self._is_near(self.node)

    def _is_near(self, node: Node) -> bool:
        if isinstance(node, Read) and node not in self.names and (value := opened(node, self.known)) is not None:
            return self._is_near(value)
        if not isinstance(node, Call) or node in self.names or self._exact(node) is not None:
            return True
        if node.fn in ("add", "sub"):
            a, b = (raised_by_names(n, self.names, self.known) for n in node.args)
            if a is None or b is None:
                return False
            a, b = (v.subs(self.z, self.threshold) for v in (a, b if node.fn == "add" else -b))
            is_large = a.is_Rational and b.is_Rational and 2 * abs(a + b) > abs(a) + abs(b)
            if not is_large and one_sign((a, b), self.asked.negative) is None:
                return False
        return all(map(self._is_near, node.args))

    @property
    def is_written_out(self) -> bool:
        """Whether it is a sum of powers of what is compared and their multiples, none of them of a sum."""
        return is_written_out(self.node, self.names)


def piece(branch: Node, z: Dummy, asked: Comparison, first: bool, known: Known) -> Piece | None:
    """The first or second branch as a function of what is compared; None where it is of anything else.

    Where that is `|u|`, also one of `u`, if it has but even powers of it.
    """
    x, threshold = asked.x, raised_by_names(asked.threshold, {}, known)
    node = on_its_side(branch, asked, asked.above_first == first, known)
    if threshold is None:
        return None
    size = known[x.name].value if isinstance(x, Read) and x.name in known else x
    inner = size.args[0] if isinstance(size, Call) and size.fn == "absolute" else None
    names: dict[Node, Expr] = {x: z}
    value = raised_by_names(node, names, known)
    if value is None and inner is not None:
        names = {x: z, inner: z}
        value, mirrored = (raised_by_names(node, {x: z, inner: u}, known) for u in (z, -z))
        if value is None or mirrored is None or expand(mirrored - value) != 0:
            return None
    if value is None:
        return None
    found = Piece(node, value, z, threshold, asked, names, known)
    return None if found.divides_by_0(node) else found


def one_sign(terms: Iterable[Expr], negative: Collection[str] = ()) -> int | None:
    """1 where no term of a sum is below 0, -1 where none is above, 0 where all are 0; None where they differ.

    The caller's numbers count as above 0, but for these.
    """
    values = [expand(term) for term in terms]
    numbers = {s for v in values for s in v.atoms(Scalar)}
    signed = {s: -Dummy(positive=True) if s.name in negative else Dummy(positive=True) for s in numbers}
    values = [v.xreplace(signed) for v in values]
    if all(v == 0 for v in values):
        return 0
    if all(v.is_nonnegative for v in values):
        return 1
    return -1 if all(v.is_nonpositive for v in values) else None


def is_written_out(node: Node, names: Mapping[Node, Expr]) -> bool:
    """Whether no product, quotient or power is of a sum of what goes by these names."""
    calls = [n for n in walk(node) if isinstance(n, Call)]
    parts = (a for n in calls if n.fn not in ("add", "sub", "neg") for a in n.args)
    sums = (n for part in parts for n in walk(part) if isinstance(n, Call) and n.fn in ("add", "sub"))
    return not any(n in names for total in sums for n in walk(total))


def settled(value: Expr) -> Expr:
    """A value in which the larger and the smaller of two numbers are known."""
    for kind, chosen in ((relu, lambda a: max(a, S.Zero)), (maximum, max), (minimum, min)):
        value = value.replace(
            lambda e, kind=kind: isinstance(e, kind) and all(a.is_Rational for a in e.args),
            lambda e, chosen=chosen: chosen(*e.args),
        )
    return value


def is_power_of_2(value: Expr) -> bool:
    """Whether it is a number with which a product is exact."""
    return bool(value.is_Rational) and numbers.is_power_of_2(Fraction(value.p, value.q))


def _is_short(value: Expr) -> bool:
    return bool(value.is_Rational) and numbers.is_short(Fraction(value.p, value.q))


def _tighter(node: Node) -> Node:
    """Of two bounds on the same side that are numbers, the one that holds: `min(min(x, 1), 0)` is `min(x, 0)`."""
    if not isinstance(node, Call) or node.fn not in ("relu", "maximum", "minimum"):
        return node
    inner, *bounds = node.args
    (bound,) = bounds or [ZERO]
    kind = "maximum" if node.fn == "relu" else node.fn
    if not isinstance(inner, Call) or inner.fn != kind or not all(map(is_finite_number, (bound, inner.args[1]))):
        return node
    own = inner.args[1]
    holds = own.value > bound.value if kind == "maximum" else own.value < bound.value  # type: ignore[union-attr]
    return inner if holds else replace(node, args=(inner.args[0], *bounds))
