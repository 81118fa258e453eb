"""Products that two places have in common are multiplied first in both, so that they are one and the same node.

`a * b * u` and `b * a * v` become `(a * b) * u` and `(a * b) * v`, of which `a * b` can be shared. So are `v*u` and
`v*u**2`, which is `u*(v*u)`, and `v*(1 - s)` and `v*(s - 1)`, which is `-v*(1 - s)`, or minus the sum of such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from derive.ir.nodes.arithmetic import multiplied, quotient
from derive.ir.nodes.products import fraction, is_matrix_product, is_outer_difference, is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import children, kept, node_axes, rebuilt, walk
from derive.ir.program import Call, Index, Join, Node, Num, Program, Reduce, Statement

_TWO = Num(Fraction(2))


def common_products(program: Program) -> Program:
    """The same program with the factors that two products share, and that span them, multiplied first in both."""
    statements = _divided_last(_one_difference(_squares_apart(list(program.statements))))
    done: set[frozenset[Node]] = set()
    while (common := _largest_common([p for s in statements for p in _products(s.value)], done)) is not None:
        done.add(frozenset(common))
        statements = [replace(s, value=_put_first(s.value, common)) for s in statements]
    return check(replace(program, statements=tuple(statements)))


def _squares_apart(statements: list[Statement]) -> list[Statement]:
    """`v*u**2` as `u*(v*u)` where `v*u` stands elsewhere."""
    products = [p for s in statements for p in _products(s.value)]
    made = {frozenset(Counter(product_factors(p)).items()): p for p in reversed(products)}
    for p in dict.fromkeys(products):
        factors = product_factors(p)
        for k, square in enumerate(factors):
            if not isinstance(square, Call) or square.fn != "pow" or square.args[1] != _TWO:
                continue
            one = square.args[0]
            first = made.get(frozenset(Counter([*factors[:k], one, *factors[k + 1 :]]).items()))
            if first is not None and is_tensor(one):
                statements = [replace(s, value=put(s.value, p, multiplied([first, one]))) for s in statements]
                break
    return statements


def _one_difference(statements: list[Statement]) -> list[Statement]:
    """`v * (b - a)` as `-v * (a - b)` where `a - b` is written too: first, or as what a person would write of a number.

    Of a sum of such products the minus stands outside, where it takes no pass.
    """
    found = [n for s in statements for n in walk(s.value) if isinstance(n, Call) and n.fn == "sub" and is_tensor(n)]
    found = [n for n in found if not is_outer_difference(n)]  # what weighs those of all pairs is better as it stands
    first = {frozenset(n.args): n for n in reversed(found)} | {
        frozenset(n.args): n for n in found if isinstance(n.args[0], Num)
    }
    wanted = {other: n for n in first.values() if (other := Call("sub", n.args[::-1])) in found and other != n}

    def turned(node: Node) -> Node:
        if isinstance(node, Reduce) and is_matrix_product(node):
            return node
        if isinstance(node, Reduce) and node.kind == "sum":
            factors, minus = _turned(node.body, wanted)
            if minus and _with_minus(factors, set(wanted.values())) is None:
                return Call("neg", (replace(node, body=multiplied([turned(f) for f in factors])),))
        factors, minus = _turned(node, wanted)
        signed = _with_minus(factors, set(wanted.values())) if minus else factors
        if not factors or signed is None:
            return rebuilt(node, turned)  # as it is grouped: `u * (g * h)` is one pass over `u`
        return multiplied([turned(f) for f in signed])

    return [replace(s, value=turned(s.value)) for s in statements] if wanted else statements


def _turned(node: Node, wanted: Mapping[Call, Call]) -> tuple[list[Node], bool]:
    """The factors of a product with its differences as they are wanted, and whether that leaves a minus; else none."""
    factors = product_factors(node)
    many = sum(isinstance(f, Call) and f in wanted for f in factors)
    if len(factors) == 1 or not many:
        return [], False
    return [wanted.get(f, f) if isinstance(f, Call) else f for f in factors], many % 2 == 1


def _divided_last(statements: list[Statement]) -> list[Statement]:
    """`v/c * u` as `v*u / c` where `v*u` is part of another product, and `c` has fewer axes than they."""
    products = list(dict.fromkeys(p for s in statements for p in _products(s.value)))
    for p in products:
        for ratio in (f for f in product_factors(p) if isinstance(f, Call) and f.fn == "div"):
            above, below = ratio.args
            factors = [above if f is ratio else f for f in product_factors(p)]
            if not set(node_axes(below)) < set(node_axes(p)) or above not in (spanning := _spanning(p, factors)):
                continue
            others = (product_factors(q) for q in products if q is not p)
            if any(above in own and any(f in own for f in spanning if f != above) for own in others):
                divided = Call("div", (multiplied(factors), below))
                statements = [replace(s, value=put(s.value, p, divided)) for s in statements]
                break
    return statements


def _with_minus(factors: list[Node], fixed: set[Call]) -> list[Node] | None:
    """The factors of minus the product, where that takes no pass: a small one is negative, or a difference turned."""
    axes = max(len(node_axes(f)) for f in factors)
    for k, f in enumerate(factors):
        if len(node_axes(f)) < axes:
            return [*factors[:k], Call("neg", (f,)), *factors[k + 1 :]]
        if isinstance(f, Call) and f.fn == "sub" and f not in fixed:
            return [*factors[:k], Call("sub", f.args[::-1]), *factors[k + 1 :]]
    return None


@kept
def _products(node: Node) -> list[Call]:
    """Every product that is not itself a factor of one, matrix products left out."""
    if isinstance(node, Reduce):
        return [] if is_matrix_product(node) else _products(node.body)
    if isinstance(node, Join):
        return [p for part in node.parts for p in _products(part)]
    if not isinstance(node, Call):
        return []
    if node.fn == "mul":
        return [node, *(p for f in product_factors(node) for p in _products(f))]
    return [p for a in node.args for p in _products(a)]


def _largest_common(products: list[Call], done: set[frozenset[Node]]) -> tuple[Node, ...] | None:
    """The most spanning factors of one product that another has too, of those not done; the first of as many."""
    best: tuple[Node, ...] = ()
    distinct = list(dict.fromkeys(products))
    having: dict[Node, list[int]] = {}
    for k, product in enumerate(distinct):
        for f in dict.fromkeys(product_factors(product)):
            having.setdefault(f, []).append(k)
    for k, product in enumerate(distinct):
        shared: dict[int, list[Node]] = {}
        for f in dict.fromkeys(_spanning(product)):
            for later in having[f]:
                if later > k:
                    shared.setdefault(later, []).append(f)
        for _, common in sorted(shared.items(), key=lambda found: found[0]):
            if len(common) > max(1, len(best)) and frozenset(common) not in done:
                best = tuple(common)
    return best or None


def _spanning(product: Call, factors: list[Node] | None = None) -> list[Node]:
    """The factors, its own or others, that run over all axes of the product: to multiply two of them is a pass."""
    axes = set(node_axes(product))
    factors = product_factors(product) if factors is None else factors
    return [f for f in factors if is_tensor(f) and axes and set(node_axes(f)) == axes]


def _put_first(node: Node, common: tuple[Node, ...]) -> Node:
    if isinstance(node, Reduce) and is_matrix_product(node):
        return node
    if not isinstance(node, Call) or node.fn != "mul":
        return rebuilt(node, lambda n: _put_first(n, common))
    factors = [f if f in common else _put_first(f, common) for f in product_factors(node)]
    if set(common) <= set(_spanning(node)):
        rest = list(factors)
        for f in common:
            rest.remove(f)
        small = [f for f in rest if set(node_axes(f)) != set(node_axes(node))]
        factors = [*small, multiplied([*common]), *(f for f in rest if f not in small)]
    return multiplied(factors)


def common_quotients(program: Program) -> Program:
    """The same program with what two quotients divide alike, and that spans them, divided first in both.

    `dy * x / u` and `dy * z / u` become `dy / u * x` and `dy / u * z`, of which `dy / u` can be shared: one division.
    """
    statements, done = list(program.statements), set[Call]()
    while True:
        chains = dict.fromkeys(n for s in statements for n in _chains(s.value))
        found = Counter(q for chain in chains for q in _quotients(chain))
        often = [q for q, count in found.items() if count > 1 and q not in done]
        if not often:
            return check(replace(program, statements=tuple(statements))) if done else program
        common = max(often, key=found.__getitem__)  # of several the first
        done.add(common)
        statements = [replace(s, value=_divided_first(s.value, common)) for s in statements]


def _chains(node: Node | Index) -> Iterator[Call]:
    """Every product or quotient that is not itself part of one, matrix products left out."""
    if isinstance(node, Reduce) and is_matrix_product(node):
        return
    parts = children(node)
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        yield node
        parts = tuple(f for side in fraction(node) for f in side)
    for part in parts:
        yield from _chains(part)


def _quotients(chain: Call) -> list[Call]:
    """What a chain divides by what, where both run over all its axes: by anything less, a smaller factor is divided."""
    up, down = (_spanning(chain, side) for side in fraction(chain))
    return list(dict.fromkeys(Call("div", (f, d)) for f in up for d in down))  # in one order, whatever their hashes are


def _divided_first(node: Node, common: Call) -> Node:
    if isinstance(node, Reduce) and is_matrix_product(node):
        return node
    if not isinstance(node, Call) or node.fn not in ("mul", "div") or common not in _quotients(node):
        return rebuilt(node, lambda n: _divided_first(n, common))
    above, below = fraction(node)
    above[above.index(common.args[0])] = common
    below.remove(common.args[1])
    above, below = ([f if f == common else _divided_first(f, common) for f in side] for side in (above, below))
    return quotient(above, below)
