"""A sum of a product of three or more tensors has its factors in the order in which they are best multiplied.

A product is taken from left to right, two factors at a time, and an axis is summed as soon as no later factor has it:
`sum(x[n, i] * a[i, k] * w[k, o], over=(i, k))` multiplies `x` and `a` first. What two sums begin with alike is a tensor
with a name, computed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from derive.cost import MATMUL, Nominal, is_matrix_product, is_tensor, product_factors
from derive.program import (
    Arithmetic,
    Assign,
    AxisValue,
    Call,
    Join,
    Node,
    Program,
    Read,
    Reduce,
    Statement,
    Window,
    base,
    multiplied,
)
from derive.share import put
from derive.soundness import check
from derive.walking import node_axes, reads, walk

_MOST = 7  # factors of one product whose orders are all tried
_GAIN = 1.1  # how many times cheaper than the order as written another must be


def pairwise(program: Program, nominal: Nominal) -> Program:
    """The same program, with sums of long products in steps of two factors, the intermediate tensors named.

    Every sum takes the order that is best for it alone, or, where that costs the program less, one whose steps others
    can share.
    """
    alone, cost = _in_steps(program, nominal, frozenset())
    common = _in_common(program, nominal)
    if common:
        together, less = _in_steps(program, nominal, common)
        if less * _GAIN < cost:
            return together
    return alone


def two_at_a_time(program: Program, nominal: Nominal) -> Program:
    """The same program, every product of matrices in steps of two factors, those that sum an axis named.

    `sum(a[i, j] * b[j, k] * c[k, l], over=(j, k))` is no product of two matrices, in whatever order it stands.
    """
    taken = {n for n, _ in program.given} | {s.name for s in program.statements}
    orders = _Orders(nominal, taken, frozenset(), every=True)
    return check(replace(program, statements=tuple(orders.statements(program))))


def _in_steps(program: Program, nominal: Nominal, halved: frozenset[_Key]) -> tuple[Program, float]:
    """The program with its sums in order, and what these cost; steps in `halved` are taken to be shared."""
    taken = {n for n, _ in program.given} | {s.name for s in program.statements}
    trial = _Orders(nominal, set(taken), halved)
    for s in program.statements:
        trial.within(s.value)
    shared = frozenset(key for key, count in trial.uses.items() if count > 1)
    orders = _Orders(nominal, taken, halved, shared)
    out = orders.statements(program)
    for name in orders.named:
        out = _inlined(name, out)
    return check(replace(program, statements=tuple(out))), orders.cost


def _in_common(program: Program, nominal: Nominal) -> frozenset[_Key]:
    """The steps that several sums could have in common, in whatever order they are taken."""
    count: dict[_Key, int] = {}
    for s in program.statements:
        for node in (n for n in walk(s.value) if isinstance(n, Reduce) and n.kind == "sum"):
            groups = _groups([f for f in product_factors(node.body) if is_tensor(f)])
            axes = [frozenset(a for f in g for a in node_axes(f)) for g in groups]
            for size in range(2, len(groups) if len(groups) <= _MOST else 0):
                for subset in combinations(range(len(groups)), size):
                    key = _step_key(subset, groups, axes, frozenset(node_axes(node)))
                    count[key] = count.get(key, 0) + 1
    return frozenset(key for key, times in count.items() if times > 1)


def _inlined(name: str, statements: list[Statement]) -> list[Statement]:
    """The statements without one of ours that only a single other reads, and not inside a sum: it is written there."""
    made = next(s for s in statements if s.name == name)
    read = Read(made.name, made.axes)
    uses = [(s, n) for s in statements for n in walk(s.value) if isinstance(n, Read) and n.name == name]
    if len(uses) != 1 or uses[0][1] != read:
        return statements
    ((reader, _),) = uses
    if any(read in walk(n) for n in walk(reader.value) if isinstance(n, Reduce)):
        return statements
    value = put(reader.value, read, made.value)
    return [replace(s, value=value) if s is reader else s for s in statements if s is not made]


_Key = tuple[frozenset[Node], frozenset[str]]  # the factors of a step, and the axes of what they are summed to


@dataclass
class _Orders:
    """Orders the sums of a program one by one; `shared` are the steps that several of them have in common."""

    nominal: Nominal
    taken: set[str]
    halved: frozenset[_Key]
    shared: frozenset[_Key] | None = None  # None: order all, to find out
    every: bool = False  # all products of matrices, and no step is named that sums nothing
    made: list[Statement] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    known: dict[_Key, Read] = field(default_factory=dict)
    uses: dict[_Key, int] = field(default_factory=dict)
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
        if isinstance(node, Call):
            return Call(node.fn, tuple(self.within(a) for a in node.args))
        if isinstance(node, Join):
            return replace(node, parts=tuple(self.within(p) for p in node.parts))
        return self.ordered(node) if isinstance(node, Reduce) else node

    def ordered(self, node: Reduce) -> Node:
        """One sum in steps; itself where it has two factors, or no order is much cheaper."""
        factors = product_factors(node.body)
        tensors = [f for f in factors if is_tensor(f)]
        numbers = [f for f in factors if not is_tensor(f)]
        groups = _groups(tensors)
        if node.kind != "sum" or not 2 < len(groups) <= _MOST or not all(map(_plain, tensors)):
            return node
        if self.every and not is_matrix_product(node):
            return node
        axes = [frozenset(a for f in g for a in node_axes(f)) for g in groups]
        kept = frozenset(node_axes(node))
        cost, tree, keys = _best(groups, axes, kept, self.nominal, self.known, self.halved)
        as_written = _at_once(axes, self.nominal) if self.every else _in_turn(axes, kept, self.nominal)
        settled = self.every or (self.shared is not None and not self.shared & keys)
        if cost * _GAIN >= as_written and settled:
            self.cost += as_written
            return node
        self.cost += cost
        for key in keys:
            self.uses[key] = self.uses.get(key, 0) + 1
        left, right = (self.step(side, groups, axes, kept) for side in tree)
        rest = tuple(a for a in node.axes if any(a in node_axes(f) for f in (*left, *right)))
        body = multiplied([*numbers, *left, *right])
        return Reduce("sum", rest, body) if rest else body

    def step(
        self, tree: _Tree, groups: list[list[Node]], axes: list[frozenset[str]], kept: frozenset[str]
    ) -> list[Node]:
        """The factors of a part of the order: a group as it is, or the tensor that two parts are summed to."""
        if isinstance(tree, int):
            return groups[tree]
        inside = frozenset().union(*(axes[k] for k in _leaves(tree)))
        outside = kept.union(*(axes[k] for k in range(len(axes)) if k not in _leaves(tree)))
        factors = [f for side in tree for f in self.step(side, groups, axes, kept)]
        factors.sort(key=lambda f: -len(node_axes(f)))  # its axes are in the order of the larger one
        present = frozenset(a for f in factors for a in node_axes(f))
        over = tuple(sorted((inside & present) - outside))
        if self.every and not over:
            return factors
        value: Node = Reduce("sum", over, multiplied(factors)) if over else multiplied(factors)
        key = _key([f for k in _leaves(tree) for f in groups[k]], inside & outside)
        if key not in self.known:
            name = self.name(factors)
            own = tuple(a for a in node_axes(multiplied(factors)) if a not in over)
            own = tuple(sorted(own, key=lambda a: base(a) != "..."))
            if self.every:  # rows and columns of the product that reads it: what is kept, what it sums
                own = tuple(sorted(own, key=lambda a: a not in kept))
            self.named.append(name)
            self.made.append(Assign(name, own, value))
            self.known[key] = Read(name, own)
        return [self.known[key]]

    def name(self, factors: list[Node]) -> str:
        names = [n for f in factors for n in sorted(reads(f))]
        stem = "_".join(dict.fromkeys(names))
        stem = stem if len(stem) <= 24 else "_".join(["part", *dict.fromkeys(names)][:3])
        name, number = stem, 2
        while name in self.taken:
            name, number = f"{stem}_{number}", number + 1
        self.taken.add(name)
        return name


_Tree = int | tuple["_Tree", "_Tree"]


def _leaves(tree: _Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [k for side in tree for k in _leaves(side)]


def _groups(tensors: list[Node]) -> list[list[Node]]:
    """The factors, those over the same axes together: they are multiplied element by element first."""
    groups: dict[frozenset[str], list[Node]] = {}
    for f in tensors:
        groups.setdefault(frozenset(node_axes(f)), []).append(f)
    return list(groups.values())


def _plain(factor: Node) -> bool:
    """Whether a factor may be multiplied early: windows and masks over axes have ways of their own to be printed."""
    return not any(
        isinstance(n, AxisValue | Join)
        or (isinstance(n, Read) and any(isinstance(i, Window | Arithmetic) for i in n.index))
        for n in walk(factor)
    )


def _key(factors: list[Node], axes: frozenset[str]) -> _Key:
    return frozenset(factors), axes


def _best(
    groups: list[list[Node]],
    axes: list[frozenset[str]],
    kept: frozenset[str],
    nominal: Nominal,
    known: dict[_Key, Read],
    halved: frozenset[_Key],
) -> tuple[float, tuple[_Tree, _Tree], frozenset[_Key]]:
    """The cheapest order of multiplying all factors two at a time, by every way to split every subset; its steps."""
    everything = tuple(range(len(axes)))
    table: dict[tuple[int, ...], tuple[float, float, _Tree, frozenset[str], frozenset[_Key]]] = {
        (k,): (0.0, 0.0, k, a, frozenset()) for k, a in enumerate(axes)
    }
    for size in range(2, len(axes) + 1):
        for subset in combinations(everything, size):
            key = _step_key(subset, groups, axes, kept)
            out = key[1]
            own = frozenset() if size == len(axes) else frozenset({key})
            found = []
            for one, other in _splits(subset):
                (s1, c1, t1, a1, k1), (s2, c2, t2, a2, k2) = table[one], table[other]
                pair = _pair(a1, a2, out, nominal)
                cost, seeming = (0.0, 0.0) if key in known else (c1 + c2 + pair, s1 + s2 + pair)
                found.append((seeming / 2 if own & halved else seeming, cost, (t1, t2), out, k1 | k2 | own))
            table[subset] = min(found, key=lambda f: f[0])
    _, cost, tree, _, keys = table[everything]
    assert not isinstance(tree, int)
    return cost, tree, keys


def _step_key(
    subset: tuple[int, ...], groups: list[list[Node]], axes: list[frozenset[str]], kept: frozenset[str]
) -> _Key:
    """A step: these groups multiplied, and summed to the axes that the result or the other groups have."""
    outside = kept.union(*(a for k, a in enumerate(axes) if k not in subset))
    out = outside.intersection(frozenset().union(*(axes[k] for k in subset)))
    return _key([f for k in subset for f in groups[k]], out)


def _splits(subset: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every way to split some factors in two."""
    for width in range(1, len(subset) // 2 + 1):
        for one in combinations(subset, width):
            yield one, tuple(k for k in subset if k not in one)


def _in_turn(axes: list[frozenset[str]], kept: frozenset[str], nominal: Nominal) -> float:
    """What the factors cost from left to right as they stand."""
    done, cost = axes[0], 0.0
    for k, a in enumerate(axes[1:], 1):
        out = (done | a) & kept.union(*axes[k + 1 :])
        cost += _pair(done, a, out, nominal)
        done = out
    return cost


def _at_once(axes: list[frozenset[str]], nominal: Nominal) -> float:
    """What one product of two factors costs that others are multiplied into first, no axis summed on the way."""
    left, cost = list(axes), nominal.elements(frozenset().union(*axes)) / MATMUL
    while len(left) > 2:
        one, other = min(combinations(left, 2), key=lambda p: nominal.elements(p[0] | p[1]))
        left = [a for a in left if a not in (one, other)] + [one | other]
        cost += 2 * nominal.elements(one | other)
    return cost


def _pair(one: frozenset[str], other: frozenset[str], out: frozenset[str], nominal: Nominal) -> float:
    """The work of multiplying two factors, summed to the axes of `out`, and of writing that."""
    union = one | other
    if out == union or union in (one, other):
        return nominal.elements(union) + nominal.elements(out)
    batched = bool(one & other & out)  # many small products of matrices, which do not run as fast as a large one
    return nominal.elements(union) / (MATMUL / 2 if batched else MATMUL) + nominal.elements(out)
