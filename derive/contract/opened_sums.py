"""Sums, opened for comparison: their factors in the elements of what they are views of, and what two have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from derive.ir.nodes.arithmetic import ONE, multiplied
from derive.ir.nodes.matching import match
from derive.ir.nodes.other_axes import Renaming, plain, value_at, with_axes
from derive.ir.nodes.products import is_tensor, product_factors
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import axes_along, index_axes, node_axes, walk
from derive.ir.program import Assign, Call, Index, Merged, Node, PartOf, Read, Reduce

Known = Mapping[str, Assign]
"""Statements by the names of what they define."""


def is_view(s: Assign) -> bool:
    """Whether a statement only shows another tensor's elements, each once, at places that its axes alone decide."""
    if not isinstance(s.value, Read) or _repeats(s):
        return False
    return all(isinstance(i, str | PartOf | Merged) and plain(i) for i in s.value.index)


def is_product(s: Assign) -> bool:
    """Whether a statement multiplies tensors, place by place."""
    pointwise = isinstance(s.value, Call) and s.value.fn == "mul" and plain(s.value)
    return pointwise and all(isinstance(a, str) for a in s.axes) and not _repeats(s)


def _repeats(s: Assign) -> bool:
    """Whether a statement has an axis that its value lacks: the sum over it is a multiple, not a sum of elements."""
    return set(axes_along(s.axes)) != set(node_axes(s.value))


@dataclass(frozen=True)
class Opened:
    """A sum, its factors as they are written, and the same in the elements of what they are views of."""

    node: Reduce
    written: tuple[Node, ...]
    factors: tuple[Node, ...]
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()  # the axes that views take apart, with names for their parts
    lengths: tuple[int, ...] = ()  # how many each factor of the body is written out to

    def product(self, core: Collection[int]) -> Node:
        """Some of the factors multiplied, named products of them alone by their names."""
        out: list[Node] = []
        at = 0
        for factor, length in zip(product_factors(self.node.body), self.lengths, strict=True):
            places = range(at, at + length)
            whole = set(places) <= set(core)
            out += [factor] if whole else [self.written[k] for k in places if k in core]
            at += length
        return multiplied(out)

    def apart(self, axes: Collection[str]) -> set[str]:
        """The axes, those that views take apart as their parts."""
        split = dict(self.parts)
        return {p for a in axes for p in split.get(a, (a,))}

    def index(self, axis: str, names: Renaming, other: Opened) -> Index | None:
        """An axis as it is written, as an index of another sum.

        None where that would take one of its axes apart, or where a view reads but some parts of this one.
        """
        parts = dict(self.parts).get(axis, (axis,))
        if any(part not in names for part in parts):
            return None
        own = [i for part in parts for i in index_axes(names[part])]
        out: list[Index] = []
        wholes = {p: (a, parts) for a, parts in other.parts for p in parts}
        while own:
            whole, parts = wholes.get(own[0], (own[0], (own[0],)))
            if tuple(own[: len(parts)]) != parts:
                return None
            out, own = [*out, whole], own[len(parts) :]
        return out[0] if len(out) == 1 else Merged(tuple(out))


def opened(node: Reduce, views: Known, products: Known) -> Opened:
    """The sum with products written out and views seen through, the axes that these take apart as their parts."""
    inner = [_multiplied_out(factor, products) for factor in product_factors(node.body)]
    lengths, written = tuple(map(len, inner)), tuple(f for factors in inner for f in factors)
    factors = tuple(_seen_through(f, views) for f in written)
    if not all(map(plain, factors)):
        return Opened(node, written, written, (), lengths)
    split: dict[str, tuple[str, ...]] = {}
    for part in (n for f in factors for n in walk(f)):
        if isinstance(part, PartOf) and isinstance(part.whole, str):
            split[part.whole] = tuple(f"{part.whole}.{k}" for k in range(len(part.lengths)))
    apart = {a: Merged(own) for a, own in split.items()}
    return Opened(node, written, tuple(with_axes(f, apart) for f in factors), tuple(split.items()), lengths)


def _multiplied_out(factor: Node, products: Known) -> list[Node]:
    if isinstance(factor, Call) and factor.fn == "div" and _divides_each(factor):
        return [*_multiplied_out(factor.args[0], products), Call("div", (ONE, factor.args[1]))]
    if isinstance(factor, Call) and factor.fn == "mul":
        return [f for a in factor.args for f in _multiplied_out(a, products)]
    made = products.get(factor.name) if isinstance(factor, Read) and plain(factor) else None
    if made is None or not isinstance(factor, Read):
        return [factor]
    return [f for inner in product_factors(value_at(made, factor.index)) for f in _multiplied_out(inner, products)]


def _divides_each(quotient: Call) -> bool:
    """Whether what it divides by is smaller than what it divides: each of its numbers divides many."""
    above, below = (set(node_axes(a)) for a in quotient.args)
    return plain(quotient) and set() < below < above


def _seen_through(node: Node, views: Known) -> Node:
    while (named := next((n for n in walk(node) if isinstance(n, Read) and n.name in views), None)) is not None:
        node = put(node, named, value_at(views[named.name], named.index))
    return node


# --- what two have in common ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Common:
    """Factors of a pattern that another sum has too: their places in both, and the pattern's axes in the other's."""

    other: Opened
    core: tuple[int, ...]
    places: tuple[int, ...]
    names: Renaming

    @property
    def others(self) -> list[Node]:
        """The other sum's factors beside these."""
        return [f for k, f in enumerate(self.other.written) if k not in self.places]

    def whole(self, pattern: Opened, core: Collection[int]) -> bool:
        """Whether the other sum has all these factors, and can name each of their axes as it is written."""
        axes = {a for k in core for a in node_axes(pattern.written[k])}
        have = set(core) == set(self.core)
        return have and all(pattern.index(a, self.names, self.other) is not None for a in axes)

    def summed(self, pattern: Opened) -> tuple[str, ...]:
        """The pattern's axes over which both can sum what they have in common, before all else."""
        fixed = {a for k, f in enumerate(pattern.factors) if k not in self.core for a in node_axes(f)}
        theirs = {a for k, f in enumerate(self.other.factors) if k not in self.places for a in node_axes(f)}
        bound = self.other.apart(self.other.node.axes) - theirs

        def fits(axis: str) -> bool:
            parts = pattern.apart((axis,))
            inside = all(p in self.names and set(index_axes(self.names[p])) <= bound for p in parts)
            return inside and not parts & fixed and pattern.index(axis, self.names, self.other) is not None

        return tuple(a for a in pattern.node.axes if fits(a))


def common(pattern: Opened, other: Opened, among: Collection[int]) -> Common | None:
    """The factors of the pattern, of those at the places `among`, that the other sum has under other axes."""
    names: Renaming = {}
    core, places = [], []
    largest_first = sorted(among, key=lambda k: -len(node_axes(pattern.factors[k])))
    for k in largest_first:
        for place, factor in enumerate(other.factors):
            if place in places or not is_tensor(factor):
                continue
            found = match(pattern.factors[k], factor, names)
            if found is not None:
                names = found
                core.append(k)
                places.append(place)
                break
    return Common(other, tuple(core), tuple(places), names) if core else None
