"""The cheapest order in which several factors are multiplied, two at a time, and what other orders cost.

An axis is summed as soon as neither the result nor another factor has it. Every way to split every subset of the
factors is tried, so they should be few. A difference over more axes than its terms have, `x[e] - c[k]`, is multiplied
out where it is a factor of a product of matrices, which makes two of one: better it meets what others are summed to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from derive.decisions import MATMUL
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.products import is_outer_difference
from derive.ir.nodes.walking import node_axes, reads
from derive.ir.program import Node, Read

Key = tuple[frozenset[Node], frozenset[str]]  # the factors of a step, and the axes of what they are summed to
Tree = int | tuple["Tree", "Tree"]  # the number of a group of factors, or two parts that are multiplied


@dataclass(frozen=True)
class Groups:
    """The factors of one sum of a product, in groups, and the axes that are not summed."""

    factors: tuple[tuple[Node, ...], ...]
    axes: tuple[frozenset[str], ...]  # of each group
    kept: frozenset[str]

    @staticmethod
    def of(factors: Iterable[Node], kept: Iterable[str]) -> Groups:
        """Those over the same axes are one group: they are multiplied element by element first.

        What is made of axes alone joins the smallest factor that has them.
        """
        some = list(factors)
        reading = [frozenset(node_axes(f)) for f in some if reads(f)]
        groups: dict[frozenset[str], list[Node]] = {}
        for f in some:
            own = frozenset(node_axes(f))
            wider = [axes for axes in reading if own <= axes] if not reads(f) else []
            groups.setdefault(min(wider, key=len, default=own), []).append(f)
        return Groups(tuple(map(tuple, groups.values())), tuple(groups), frozenset(kept))

    def __len__(self) -> int:
        return len(self.factors)

    def products(self, k: int) -> int:
        """How many products of matrices one with this group is."""
        return 2 if any(map(is_outer_difference, self.factors[k])) else 1

    def key(self, some: Iterable[int]) -> Key:
        """A step: these groups multiplied, and summed to the axes that the result or the other groups have."""
        chosen = set(some)
        inside = frozenset().union(*(self.axes[k] for k in chosen))
        outside = self.kept.union(*(a for k, a in enumerate(self.axes) if k not in chosen))
        return frozenset(f for k in chosen for f in self.factors[k]), inside & outside


@dataclass(frozen=True)
class Order:
    """An order of multiplying some groups: what it costs, its steps, and the axes of the result."""

    tree: Tree
    axes: frozenset[str]
    products: int = 1  # of matrices, that one with the result is
    cost: float = 0.0
    seeming: float = 0.0  # where steps that may be shared are half as dear
    steps: frozenset[Key] = frozenset()


def leaves(tree: Tree) -> list[int]:
    """The places of the factors in an order, left to right."""
    return [tree] if isinstance(tree, int) else [k for side in tree for k in leaves(side)]


def cheapest(groups: Groups, nominal: Nominal, known: dict[Key, Read], halved: frozenset[Key]) -> Order:
    """The best order of all groups; steps in `known` cost nothing, and those in `halved` are taken to be shared."""
    everything = tuple(range(len(groups)))
    table: dict[tuple[int, ...], Order] = {(k,): Order(k, a, groups.products(k)) for k, a in enumerate(groups.axes)}
    for size in range(2, len(groups) + 1):
        for subset in combinations(everything, size):
            key = groups.key(subset)
            own = frozenset() if size == len(groups) else frozenset({key})
            found = []
            for one, other in ((table[left], table[right]) for left, right in _splits(subset)):
                pair = _pair(one.axes, other.axes, key[1], nominal, one.products * other.products)
                cost = 0.0 if key in known else one.cost + other.cost + pair
                seeming = 0.0 if key in known else one.seeming + other.seeming + pair
                seeming = seeming / 2 if own & halved else seeming
                found.append(Order((one.tree, other.tree), key[1], 1, cost, seeming, one.steps | other.steps | own))
            table[subset] = min(found, key=lambda order: order.seeming)
    return table[everything]


def _splits(subset: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every way to split some factors in two."""
    for width in range(1, len(subset) // 2 + 1):
        for one in combinations(subset, width):
            yield one, tuple(k for k in subset if k not in one)


def in_turn(groups: Groups, nominal: Nominal) -> float:
    """What the factors cost from left to right as they stand."""
    done, cost, products = groups.axes[0], 0.0, groups.products(0)
    for k, a in enumerate(groups.axes[1:], 1):
        out = (done | a) & groups.kept.union(*groups.axes[k + 1 :])
        cost += _pair(done, a, out, nominal, products * groups.products(k))
        done, products = out, 1
    return cost


def at_once(groups: Groups, nominal: Nominal) -> float:
    """What one product of two factors costs that others are multiplied into first, no axis summed on the way."""
    left, cost = list(groups.axes), nominal.elements(frozenset().union(*groups.axes)) / MATMUL
    while len(left) > 2:
        one, other = min(combinations(left, 2), key=lambda p: nominal.elements(p[0] | p[1]))
        left = [a for a in left if a not in (one, other)] + [one | other]
        cost += 2 * nominal.elements(one | other)
    return cost


def _pair(
    one: frozenset[str], other: frozenset[str], out: frozenset[str], nominal: Nominal, products: int = 1
) -> float:
    """The work of multiplying two factors, summed to the axes of `out`, and of writing that.

    `products` is how many products of matrices it is, if it is one.
    """
    union = one | other
    if out == union or union in (one, other):
        return nominal.elements(union) + nominal.elements(out)
    batched = bool(one & other & out)  # many small products of matrices, which do not run as fast as a large one
    return products * nominal.elements(union) / (MATMUL / 2 if batched else MATMUL) + nominal.elements(out)
