"""Weighted sums of differences as matrix products in float64, where one may be subtracted from another.

`sum(w[i, j] * (x[i, d] - y[j, d]), over=j)` is `x * w.sum(1) - w @ y`, in float64: rounded to float32, products of
points that lie close together or far from 0 differ in no more than their last digits. The tensor of all differences,
from which float32 would do, takes 20 times as long on a CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from derive.backends.torch.products.met_twice import weighed_once
from derive.backends.torch.products.zeros import read_roughly, read_smoothly, read_through
from derive.contract.sums_apart import differences_apart
from derive.ir.nodes.arithmetic import ZERO, multiplied
from derive.ir.nodes.matching import reading
from derive.ir.nodes.naming import name_of
from derive.ir.nodes.own_pairs import of_one_set, without_own_pairs
from derive.ir.nodes.products import is_of_differences, is_outer_difference, is_tensor, product_factors
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, put
from derive.ir.nodes.walking import node_axes, reads, rebuilt, walk
from derive.ir.program import Assign, AxisValue, Call, Node, Program, Read, Reduce, Statement
from derive.ir.terms.names import free_name
from derive.schedule.share import nameless


def differences_in_float64(backward: Program) -> Program:
    """The same program, with such products in the place of such sums that go into gradients as factors and terms.

    Nothing else may have them: what is 0 where points coincide may be compared with 0, and divided by.
    """
    backward = weighed_once(backward)
    plain, known = read_through(backward, _plain_parts), backward.assigned
    statements = (_with_products(s, known) if s.name in plain else s for s in backward.statements)
    return check(_with_names(replace(backward, statements=tuple(statements))))


def forward_in_float64(forward: Program, backward: Program, kept: Collection[str]) -> Program:
    """A forward with such products, where neither it nor its backward tells 0 from what is nearly 0."""
    smooth = read_smoothly(forward, read_roughly(backward) & set(kept))
    known = forward.assigned
    statements = (_with_products(s, known) if s.name in smooth else s for s in forward.statements)
    return check(_with_names(replace(forward, statements=tuple(statements))))


def _with_products(s: Statement, known: Mapping[str, Assign]) -> Statement:
    return replace(s, value=_apart(s.value, known)) if isinstance(s, Assign) else s


def _plain_parts(node: Node) -> Iterator[Node]:
    """What a node is a sum of products of, those of sums over axes among them."""
    if isinstance(node, Call) and node.fn in ("add", "sub", "neg", "mul"):
        for a in node.args:
            yield from _plain_parts(a)
    elif isinstance(node, Call) and node.fn == "div":
        yield from _plain_parts(node.args[0])
    elif isinstance(node, Reduce) and node.kind in ("sum", "mean"):
        yield node
        yield from _plain_parts(node.body)
    else:
        yield node


def _apart(node: Node, known: Mapping[str, Assign]) -> Node:
    if isinstance(node, Call) and node.fn in ("add", "sub", "neg", "mul"):
        return rebuilt(node, lambda n: _apart(n, known))
    if isinstance(node, Call) and node.fn == "div":
        return replace(node, args=(_apart(node.args[0], known), *node.args[1:]))
    if isinstance(node, Reduce) and node.kind in ("sum", "mean"):
        node = rebuilt(node, lambda n: _apart(n, known))
    if not isinstance(node, Reduce) or not is_of_differences(node):
        return node
    factors = product_factors(node.body)
    pair = next(of_one_set(f) for f in factors if is_outer_difference(f))
    if pair is None:
        return _in_float64(node, _weighed(factors))
    if not pair & set(node.axes):
        return without_own_pairs(_in_float64(node, _weighed(factors)), pair, known)
    weights = [f for f in factors if not is_outer_difference(f)]
    if weights and not any(pair <= set(node_axes(f)) for f in weights):  # a point may weigh more for itself
        return node
    return _in_float64(node, _weighed(factors, lambda f: without_own_pairs(f, pair, known)))


def _in_float64(node: Reduce, factors: list[Node]) -> Node:
    return Call("narrow", (_widened(differences_apart(replace(node, body=multiplied(factors)))),))


def _weighed(factors: list[Node], masked: Callable[[Node], Node] = lambda f: f) -> list[Node]:
    """The factors with one weight, `masked`, in float64, for those whose axes another has as well.

    These are multiplied as they are: nothing is subtracted from a weight.
    """
    weights: dict[frozenset[str], list[Node]] = {}
    plain = [f for f in factors if not is_outer_difference(f)]
    for f in sorted(plain, key=lambda f: -len(node_axes(f))):
        own = frozenset(node_axes(f))
        weights.setdefault(next((axes for axes in weights if own <= axes), own), []).append(f)
    whole = [masked(multiplied(own)) for own in weights.values()]
    wide = [Call("as_float64", (w,)) if is_tensor(w) else w for w in whole]
    return [*wide, *(f for f in factors if is_outer_difference(f))]


def _widened(node: Node) -> Node:
    """The sum of products with every tensor in it in float64."""
    if isinstance(node, Call) and node.fn == "as_float64":
        return node
    if isinstance(node, Reduce) or (isinstance(node, Call) and node.fn in ("add", "sub", "neg", "mul")):
        return rebuilt(node, _widened)
    return Call("as_float64", (node,)) if is_tensor(node) else node


def _with_names(program: Program) -> Program:
    """The program with a name for what is wide in several places, whatever its axes there; `x64` for a tensor `x`."""
    counted = Counter(_key(n) for s in program.statements for n in _wide(s.value))
    last = {s.name: k for k, s in enumerate(program.statements)}  # from where on nothing is added to it
    taken = program.names
    named: dict[object, Assign] = {}
    out: list[Statement] = []
    for k, s in enumerate(program.statements):
        for n in dict.fromkeys(_wide(s.value)):
            key = _key(n)
            if counted[key] < 2 or any(last.get(name, -1) >= k for name in reads(n)):
                continue
            if key not in named:
                named[key] = Assign(free_name(_stem(n.args[0], taken), taken, "_"), axes_of(n), n)
                taken.add(named[key].name)
                out.append(named[key])
            s = replace(s, value=put(s.value, n, reading(named[key], n) or n))
        out.append(s)
    return replace(program, statements=tuple(out))


def _key(wide: Call) -> object:
    """What a wide value is told by, whatever its axes are called."""
    apart, inner = _apart_from_diagonal(wide.args[0])
    return apart, nameless(replace(wide, args=(inner,))) or inner


def _stem(node: Node, taken: set[str]) -> str:
    """`x64` for a tensor `x`, and `d2_64` for `d2`."""
    inner = _apart_from_diagonal(node)[1]
    name = inner.name if isinstance(inner, Read) else name_of(inner, taken)
    return f"{name}{'_' if name[-1].isdigit() else ''}64"


def _apart_from_diagonal(node: Node) -> tuple[bool, Node]:
    """Whether a node is a weight without its diagonal, and the weight."""
    if not isinstance(node, Call) or node.fn != "where" or node.args[2] != ZERO:
        return False, node
    apart = isinstance(node.args[0], Call) and node.args[0].fn == "ne"
    of_axes = apart and all(isinstance(a, AxisValue) for a in node.args[0].args)  # type: ignore[union-attr]
    return (True, node.args[1]) if of_axes else (False, node)


def _wide(node: Node) -> Iterator[Call]:
    return (n for n in walk(node) if isinstance(n, Call) and n.fn == "as_float64")
