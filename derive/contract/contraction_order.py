"""A sum of a product of three or more tensors has its factors in the order in which they are best multiplied.

A product is taken from left to right, two factors at a time, and an axis is summed as soon as no later factor has it:
`sum(x[n, i] * a[i, k] * w[k, o], over=(i, k))` multiplies `x` and `a` first. What two sums begin with alike is a tensor
with a name, computed once. What is read through windows meets one factor first, in a product that sums an axis: of
`sum(dy*w*x[u + s], over=(s, u))` a convolution, which is weighed and summed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from derive.contract.cheapest_order import Groups, Key, Tree, at_once, cheapest, in_turn, leaves
from derive.contract.masked_sums import as_product
from derive.decisions import ALL_ORDERS, GAIN
from derive.facts.lengths.nominal import Nominal
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.inlining import inline
from derive.ir.nodes.products import is_matrix_product, numbers_apart, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of
from derive.ir.nodes.walking import node_axes, reads, rebuilt, walk
from derive.ir.program import (
    COMPARISONS,
    Arithmetic,
    Assign,
    Call,
    Join,
    Node,
    Program,
    Read,
    Reduce,
    Statement,
    Window,
    base,
)
from derive.ir.terms.names import new_name


def pairwise(program: Program, nominal: Nominal) -> Program:
    """The same program, with sums of long products in steps of two factors, the intermediate tensors named.

    Every sum takes the order that is best for it alone, or, where that costs the program less, one whose steps others
    can share.
    """
    alone, cost = _in_steps(program, nominal, frozenset())
    common = _in_common(program)
    if common:
        together, less = _in_steps(program, nominal, common)
        if less * GAIN < cost:
            return together
    return alone


def two_at_a_time(program: Program, nominal: Nominal) -> Program:
    """The same program, every product of matrices in steps of two factors, those that sum an axis named.

    `sum(a[i, j] * b[j, k] * c[k, l], over=(j, k))` is no product of two matrices, in whatever order it stands.
    """
    orders = _Orders(nominal, program.names, frozenset(), every=True)
    return check(replace(program, statements=tuple(orders.statements(program))))


def _in_steps(program: Program, nominal: Nominal, halved: frozenset[Key]) -> tuple[Program, float]:
    """The program with its sums in order, and what these cost; steps in `halved` are taken to be shared."""
    given = tuple(axes for _, axes in program.given)
    trial = _Orders(nominal, program.names, halved, given=given)
    for s in program.statements:
        trial.within(s.value)
    shared = frozenset(key for key, count in trial.uses.items() if count + (key in trial.whole) > 1)
    orders = _Orders(nominal, program.names, halved, shared, given)
    out = replace(program, statements=tuple(orders.statements(program)))
    for name in orders.named:
        out = inline(out.assigned[name], out) or out
    return check(out), orders.cost


def _in_common(program: Program) -> frozenset[Key]:
    """The steps that several sums could have in common, in whatever order they are taken."""
    count: Counter[Key] = Counter()
    for node in (n for s in program.statements for n in walk(s.value) if isinstance(n, Reduce) and n.kind == "sum"):
        _, tensors = numbers_apart(product_factors(as_product(node).body))
        groups = Groups.of(tensors, node_axes(node))
        most = max(len(groups) - 1, 2)  # a product of two may be a step of a longer one
        for size in range(2, most + 1 if 1 < len(groups) <= ALL_ORDERS else 0):
            count.update(map(groups.key, combinations(range(len(groups)), size)))
    return frozenset(key for key, times in count.items() if times > 1)


@dataclass
class _Orders:
    """Orders the sums of a program one by one; `shared` are the steps that several of them have in common."""

    nominal: Nominal
    taken: set[str]
    halved: frozenset[Key]
    shared: frozenset[Key] | None = None  # None: order all, to find out
    given: tuple[tuple[str, ...], ...] = ()  # the axes of tensors that the program is given
    every: bool = False  # all products of matrices, and no step is named that sums nothing
    made: list[Statement] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    known: dict[Key, Read] = field(default_factory=dict)
    uses: Counter[Key] = field(default_factory=Counter)
    whole: set[Key] = field(default_factory=set)  # products of two factors
    cost: float = 0.0

    def statements(self, program: Program) -> list[Statement]:
        """The program's statements in steps, each after those that make what it reads."""
        out: list[Statement] = []
        for s in program.statements:
            value = self.within(s.value)
            out += [*self.made, replace(s, value=value)]
            self.made.clear()
        return out

    def within(self, node: Node) -> Node:
        return self.ordered(node) if isinstance(node, Reduce) else rebuilt(node, self.within)

    def ordered(self, node: Reduce) -> Node:
        """One sum in steps; itself where it has two factors, or no order is much cheaper."""
        numbers, tensors = numbers_apart(product_factors(as_product(node).body))
        groups = Groups.of(tensors, node_axes(node))
        if node.kind != "sum" or not 1 < len(groups) <= ALL_ORDERS or not all(self.is_plain(f) for f in tensors):
            return node
        windows = [f for f in tensors if _in_windows(f)]
        if self.every and (windows or len(groups) == 2 or not is_matrix_product(as_product(node))):
            return node
        if len(groups) == 2:
            return self.in_one_step(node, groups, numbers)
        best = cheapest(groups, self.nominal, self.known, self.halved)
        as_written = at_once(groups, self.nominal) if self.every else in_turn(groups, self.nominal)
        settled = self.every or (self.shared is not None and not self.shared & best.steps)
        too_dear = best.cost * GAIN >= as_written and settled
        if too_dear or (windows and not _each_meets_one(best.steps, windows)):
            self.cost += as_written
            return node
        self.cost += best.cost
        self.uses.update(best.steps)
        assert not isinstance(best.tree, int)
        left, right = (self.step(side, groups) for side in best.tree)
        rest = tuple(a for a in node.axes if any(a in node_axes(f) for f in (*left, *right)))
        body = multiplied([*numbers, *left, *right])
        return Reduce("sum", rest, body) if rest else body

    def is_plain(self, factor: Node) -> bool:
        """Whether a factor may be multiplied early: what is joined is printed in ways of its own.

        So is one that is masked by places, but where it is laid out as a matrix.
        """
        laid_out = self.every and bool(reads(factor))
        joined = any(isinstance(n, Join) for n in walk(factor))
        return not joined and (laid_out or not _asks_places(factor))

    def in_one_step(self, node: Reduce, groups: Groups, numbers: list[Node]) -> Node:
        """A product of two factors: where longer ones have it for a step, it is that tensor."""
        if not is_matrix_product(as_product(node)):
            return node
        key = groups.key((0, 1))
        self.whole.add(key)
        self.cost += 0.0 if key in self.known else in_turn(groups, self.nominal)
        if self.shared is None or key not in self.shared:
            return node
        return multiplied([*numbers, *self.step((0, 1), groups)])

    def step(self, tree: Tree, groups: Groups) -> list[Node]:
        """The factors of a part of the order: a group as it is, or the tensor that two parts are summed to."""
        if isinstance(tree, int):
            return list(groups.factors[tree])
        factors = [f for side in tree for f in self.step(side, groups)]
        factors.sort(key=lambda f: -len(node_axes(f)))  # its axes are in the order of the larger one
        key = groups.key(leaves(tree))
        over = tuple(sorted({a for f in factors for a in node_axes(f)} - key[1]))
        if self.every and not over:
            return factors
        value: Node = Reduce("sum", over, multiplied(factors)) if over else multiplied(factors)
        if key not in self.known:
            name = self.name(factors)
            own = tuple(a for a in node_axes(multiplied(factors)) if a not in over)
            own = tuple(sorted(own, key=lambda a: base(a) != "..."))
            if self.every:  # rows and columns of the product that reads it: what is kept, what it sums
                own = tuple(sorted(own, key=lambda a: a not in groups.kept))
            else:
                own = _as_they_lie(own, [*self.given, *(axes_of(f) for group in groups.factors for f in group)])
            self.named.append(name)
            self.made.append(Assign(name, own, value))
            self.known[key] = Read(name, own)
        return [self.known[key]]

    def name(self, factors: list[Node]) -> str:
        names = [n for f in factors for n in sorted(reads(f))]
        stem = "_".join(dict.fromkeys(names))
        stem = stem if len(stem) <= 24 else "_".join(["part", *dict.fromkeys(names)][:3])
        return new_name(stem, self.taken, "_")


def _each_meets_one(steps: frozenset[Key], windows: list[Node]) -> bool:
    """Whether each factor that is read through windows meets one other first, in a product that sums an axis."""
    pairs = [(factors, kept) for factors, kept in steps if len(factors) == 2]
    summing = [factors for factors, kept in pairs if {a for f in factors for a in node_axes(f)} - kept]
    return all(any(f in factors for factors in summing) for f in windows)


def _as_they_lie(axes: tuple[str, ...], orders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The axes with each behind those that tensors have before it, as far as these agree."""
    out: list[str] = []
    while left := [a for a in axes if a not in out]:
        free = (a for a in left if not any(a in o and set(left) & set(o[: o.index(a)]) for o in orders))
        out.append(next(free, left[0]))
    return tuple(out)


def _asks_places(factor: Node) -> bool:
    """Whether something in a factor compares places."""
    return any(isinstance(n, Call) and n.fn in COMPARISONS and node_axes(n) and not reads(n) for n in walk(factor))


def _in_windows(factor: Node) -> bool:
    """Whether a factor is read through windows, which have ways of their own to be printed."""
    return any(isinstance(i, Window | Arithmetic) for n in walk(factor) if isinstance(n, Read) for i in n.index)
