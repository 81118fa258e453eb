"""Weighted sums of differences as matrix products in float64, where one may be subtracted from another.

`sum(w[i, j] * (x[i, d] - y[j, d]), over=j)` is `x * w.sum(1) - w @ y`, in float64: rounded to float32, products of
points that lie close together or far from 0 differ in no more than their last digits. The tensor of all differences,
from which float32 would do, takes 20 times as long on a CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from derive.nodes.arithmetic import ZERO, multiplied, signed_terms
from derive.nodes.naming import name_of
from derive.nodes.products import is_of_differences, is_outer_difference, is_tensor, product_factors
from derive.nodes.soundness import check
from derive.nodes.substituting import axes_of, put
from derive.nodes.walking import node_axes, reads, rebuilt, walk
from derive.passes.share import nameless, read_as
from derive.passes.sums_apart import differences_apart
from derive.program import Assign, AxisValue, Call, Node, Program, Read, Reduce, Statement
from derive.terms.names import free_name


def differences_in_float64(program: Program) -> Program:
    """The same program, with such products in the place of such sums."""
    return check(_with_names(program.with_values(_apart)))


def _apart(node: Node) -> Node:
    node = rebuilt(node, _apart)
    if not isinstance(node, Reduce) or not is_of_differences(node):
        return node
    pairs = [p for f in product_factors(node.body) if is_outer_difference(f) for p in _with_themselves(f)]
    factors = [_without_diagonal(f, pairs) for f in product_factors(node.body)]
    kept = [p for p in pairs if not p & set(node.axes)]
    if pairs and not kept and factors == product_factors(node.body):
        return node
    narrow = Call("narrow", (_widened(differences_apart(replace(node, body=multiplied(factors)))),))
    return _without_diagonal(narrow, kept)


def _with_themselves(difference: Node) -> list[frozenset[str]]:
    """The axes of one set of points that is subtracted from itself, `x[i, d] - x[j, d]`, which is 0 where they meet.

    No weight that stands there, however large, may be all that is left of the digits of the others.
    """
    reads = [t for t, _ in signed_terms(difference) if isinstance(t, Read)]
    alike = [(a, b) for a, b in combinations(reads, 2) if a.name == b.name]
    return [frozenset(set(node_axes(a)) ^ set(node_axes(b))) for a, b in alike]


def _without_diagonal(factor: Node, pairs: list[frozenset[str]]) -> Node:
    """A weight of pairs, without what it is for each point and itself."""
    own = next((p for p in pairs if len(p) == 2 and p <= set(node_axes(factor))), None)
    if own is None or is_outer_difference(factor):
        return factor
    first, second = sorted(own, key=node_axes(factor).index)
    return Call("where", (Call("ne", (AxisValue(first), AxisValue(second))), factor, ZERO))


def _widened(node: Node) -> Node:
    """The sum of products with every tensor in it in float64."""
    if isinstance(node, Reduce) or (isinstance(node, Call) and node.fn in ("add", "sub", "neg", "mul")):
        return rebuilt(node, _widened)
    if isinstance(node, Call) and node.fn == "pow":
        return replace(node, args=(_widened(node.args[0]), node.args[1]))
    return Call("as_float64", (node,)) if is_tensor(node) else node


def _with_names(program: Program) -> Program:
    """The program with a name for what is wide in several places, whatever its axes there; `x64` for a tensor `x`."""
    counted = Counter(_key(n) for s in program.statements for n in _wide(s.value))
    taken = program.names
    named: dict[object, Assign] = {}
    out: list[Statement] = []
    for s in program.statements:
        for n in dict.fromkeys(_wide(s.value)):
            key = _key(n)
            if counted[key] < 2 or program.added_to & set(reads(n)):
                continue
            if key not in named:
                named[key] = Assign(free_name(f"{_stem(n.args[0], taken)}64", taken), axes_of(n), n)
                taken.add(named[key].name)
                out.append(named[key])
            s = replace(s, value=put(s.value, n, read_as(named[key], n)))
        out.append(s)
    return replace(program, statements=tuple(out))


def _key(wide: Call) -> object:
    """What a wide value is told by, whatever its axes are called."""
    apart, inner = _apart_from_diagonal(wide.args[0])
    return apart, nameless(replace(wide, args=(inner,))) or inner


def _stem(node: Node, taken: set[str]) -> str:
    inner = _apart_from_diagonal(node)[1]
    return inner.name if isinstance(inner, Read) else name_of(inner, taken)


def _apart_from_diagonal(node: Node) -> tuple[bool, Node]:
    """Whether a node is a weight without its diagonal, and the weight."""
    if not isinstance(node, Call) or node.fn != "where" or node.args[2] != ZERO:
        return False, node
    apart = isinstance(node.args[0], Call) and node.args[0].fn == "ne"
    of_axes = apart and all(isinstance(a, AxisValue) for a in node.args[0].args)  # type: ignore[union-attr]
    return (True, node.args[1]) if of_axes else (False, node)


def _wide(node: Node) -> Iterator[Call]:
    return (n for n in walk(node) if isinstance(n, Call) and n.fn == "as_float64")
