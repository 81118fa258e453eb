"""Common subexpressions: a pointwise node that stands in two places is computed once, under a name of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TypeGuard

from derive.ir.nodes.arithmetic import ZERO
from derive.ir.nodes.matching import reading
from derive.ir.nodes.naming import stem_of
from derive.ir.nodes.other_axes import uncopied, with_axes
from derive.ir.nodes.products import is_matrix_product, is_of_differences, is_tensor, product_factors, weights
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import axes_of, numbered_in_order, put
from derive.ir.nodes.walking import bottom_up, by_axes, children, kept, node_axes, reads, walk
from derive.ir.program import (
    COMPARISONS,
    CONDITIONS,
    Assign,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    Num,
    PartOf,
    Program,
    Read,
    Reduce,
    Scal,
    Scan,
    Scatter,
    SizeOf,
    Statement,
    Window,
)
from derive.ir.terms.names import new_name


def share(program: Program) -> Program:
    """The same program with repeated tensor work named, largest first."""
    statements = _in_one_order(program.statements)
    taken, added_to = program.names, program.added_to
    stems: dict[str, str] = {}
    known_nodes = _Nodes(added_to)
    while True:
        nodes, first = known_nodes.largest_repeated(statements)
        if not nodes:
            return check(replace(program, statements=tuple(numbered_in_order(statements, stems))))
        node = nodes[0]
        known = [d for n in nodes for s in statements if (d := _definition(s, n)) is not None]
        named = next((d for d in known if d.name not in added_to), None)
        if named is None:
            stem = _stem(node, statements)
            named = Assign(new_name(stem, taken, "_"), _axes_beside(node, statements[first]), node)
            stems[named.name] = stem
        rest = []
        for s in statements[first:]:
            value = s.value
            for n in nodes if s is not named else ():
                value = put(value, n, reading(named, n) or n)
            s = s if value is s.value else replace(s, value=value)
            rest += [s] if s is not named else []
        statements = [*statements[:first], named, *rest]


def _stem(node: Node, statements: list[Statement]) -> str:
    """What a node is called, but for a number."""
    if _is_angle(node, statements):
        return "angle"
    return f"{node.name}_apart" if isinstance(node, Read) and _is_parted(node) else stem_of(node)


def _in_one_order(statements: tuple[Statement, ...]) -> list[Statement]:
    """The statements with equal products of matrices, and sums of two, in whatever order, as the first is written."""
    first: dict[object, Node] = {}
    out = []
    for s in statements:
        for n in list(walk(s.value)):
            if isinstance(n, Reduce) and is_matrix_product(n):
                alike = first.setdefault((n.axes, frozenset(Counter(product_factors(n.body)).items())), n)
            elif isinstance(n, Call) and n.fn == "add" and is_tensor(n):
                alike = first.setdefault(frozenset(n.args), n)
            else:
                continue
            if alike != n:
                s = replace(s, value=put(s.value, n, alike))
        out.append(s)
    return out


def nameless(node: Node) -> Node | None:
    """The node with its axes numbered as they come, where tensors are read by axes; None for any other.

    Nodes that are alike in this way are one tensor: their axes index the same places, so they are as long. Of places
    alone, copies of an axis are.
    """
    if not reads(node) and all(isinstance(n, Call | Num | Scal | SizeOf | AxisValue) for n in walk(node)):
        return uncopied(node)
    if any(not isinstance(n, Read | Call | Num | Scal | SizeOf | AxisValue | Reduce | str) for n in walk(node)):
        return None
    if isinstance(node, Call) and node.fn in CONDITIONS and any(isinstance(n, AxisValue) for n in walk(node)):
        return None  # a table of comparisons, which sums within runs do without
    own = [i for n in walk(node) if isinstance(n, Read) for i in n.index if isinstance(i, str)]
    own = own if reads(node) else [n.axis for n in walk(node) if isinstance(n, AxisValue)]
    numbered = with_axes(node, {a: f"#{k}" for k, a in enumerate(dict.fromkeys(own))})
    return bottom_up(numbered, lambda n: replace(n, axes=tuple(sorted(n.axes))) if isinstance(n, Reduce) else n)


def _definition(s: Statement, node: Node) -> Assign | None:
    """The statement, where the node has its name already."""
    return s if isinstance(s, Assign) and s.value == node and set(s.axes) == set(node_axes(node)) else None


def _axes_beside(node: Node, reader: Statement) -> tuple[Index, ...]:
    """The node's axes; in the order of a tensor that it meets, where none of its own operands has all of them, or of
    the one that it stands in.
    """
    axes = axes_of(node)
    found = [tuple(i for i in n.index if i in axes) for top in (node, reader.value) for n in _whole_reads(top)]
    found.append(tuple(i for i in reader.axes if i in axes))
    return next((f for f in found if len(f) == len(axes) == len(set(f))), axes)


def _whole_reads(node: Node) -> list[Read]:
    return [n for n in walk(node) if isinstance(n, Read) and by_axes(n)]


def _nodes(s: Statement) -> list[Node | Index]:
    factors = product_factors(s.value)
    if _is_spread(s, factors):
        return [n for f in factors for n in _worth_naming(f)]
    return _worth_naming(s.value)


def _is_spread(s: Statement, factors: list[Node]) -> bool:
    """Whether a scatter adds, through windows, what no factor has by itself: a convolution, which makes no product."""
    windows = isinstance(s, Scatter) and any(isinstance(i, Window) and len(i.steps) > 1 for i in s.slots)
    own = set(node_axes(s.value))
    return windows and len(factors) > 1 and all(set(node_axes(f)) != own for f in factors)


def _worth_naming(top: Node | Index) -> list[Node | Index]:
    """Everything below a node but the products inside matrix products, which are larger than all that they join.

    Nor what stands in an index, where no name is put, nor a sum that is compared in every window.
    """
    found, pending = [], [top]
    while pending:
        node = pending.pop()
        found.append(node)
        pending += reversed(_below(node))
    return found


def _below(node: Node | Index) -> list[Node | Index]:
    if isinstance(node, Read) or _compares_sums_in_windows(node):
        return []
    if isinstance(node, Reduce) and is_matrix_product(node):
        return [*product_factors(node.body)]
    if isinstance(node, Reduce) and is_of_differences(node):
        return [*weights(node)]
    return [child.args[1] if _is_subtracted_multiple(child, node) else child for child in children(node)]


def _is_subtracted_multiple(node: Node | Index, reader: Node | Index) -> TypeGuard[Call]:
    """Whether a node is a tensor of ours times a number, and subtracted: `a - 2*b` is one pass over memory."""
    subtracts = isinstance(reader, Call) and reader.fn == "sub" and node == reader.args[1] and is_tensor(reader.args[0])
    return subtracts and isinstance(node, Call) and node.fn == "mul" and isinstance(node.args[0], Num)


class _Nodes:
    """The nodes of statements, which are looked at once each: of hundreds of statements a step changes two or three."""

    def __init__(self, added_to: set[str]):
        self.added_to = added_to
        self.known: dict[int, tuple[Statement, list[Node]]] = {}  # by identity, for which they are held
        self.keys: dict[int, tuple[Node, tuple[Node, int] | None]] = {}

    def largest_repeated(self, statements: list[Statement]) -> tuple[list[Node], int]:
        """The largest node that stands in more than one place, in the names of each, and the first place."""
        found = [(n, k) for k, s in enumerate(statements) for n in self.of(s)]
        shapes = Counter(_shape(n) for n, _ in found)
        seen: dict[Node, list[tuple[Node, int, int]]] = {}
        for n, k in found:
            if shapes[_shape(n)] > 1 and (key := self.key(n)) is not None:
                seen.setdefault(key[0], []).append((n, key[1], k))
        repeated = (own for own in seen.values() if len(own) > (2 if _is_one_number(own[0][0]) else 1))
        largest = max(repeated, key=lambda own: own[0][1], default=[])
        return list(dict.fromkeys(n for n, *_ in largest)), largest[0][2] if largest else 0

    def of(self, s: Statement) -> list[Node]:
        if id(s) not in self.known:
            self.known[id(s)] = s, [n for n in _nodes(s) if isinstance(n, Node)]
        return self.known[id(s)][1]

    def key(self, n: Node) -> tuple[Node, int] | None:
        """What is equal for nodes that are one tensor, and how long it is; None for one that is not worth a name."""
        if id(n) not in self.keys:
            copied = isinstance(n, Read) and n.name not in self.added_to and _is_copied(n)
            worth = copied or (isinstance(n, Call | Reduce | Scan) and is_tensor(n) and not _cheap(n))
            self.keys[id(n)] = n, (nameless(n) or n, len(str(n))) if worth else None
        return self.keys[id(n)][1]


@kept
def _shape(n: Node | Index) -> int:
    """One number for all nodes that differ in their axes at most."""
    label = n.name if isinstance(n, Read | Scal) else n.fn if isinstance(n, Call) else n if isinstance(n, Num) else None
    return hash((type(n), label, *map(_shape, children(n))))


def _is_copied(node: Read) -> bool:
    """Whether a read is no view: by an index tensor, or of an axis whose parts lie apart."""
    return any(isinstance(i, Read) for i in node.index) or _is_parted(node)


def _is_parted(node: Node) -> bool:
    """Whether a read has the parts of an axis at places apart, and so brings them together in a copy."""
    if not isinstance(node, Read):
        return False
    slots = [x for i in node.index for x in (i.axes if isinstance(i, Merged) else (i,))]
    parts = [(p, i) for p, i in pairwise([None, *slots]) if isinstance(i, PartOf) and i.position]
    return any(p != replace(i, position=i.position - 1) for p, i in parts)


def _is_one_number(node: Node) -> bool:
    """Whether a node is one number over lengths, `dloss / n`, which reads as well twice as under a name."""
    if not isinstance(node, Call) or node.fn != "div" or node_axes(node) or reads(node.args[1]):
        return False
    return isinstance(node.args[0], Read)


def _cheap(node: Call | Reduce | Scan) -> bool:
    """A bare change of sign is no work worth a name; nor is a choice of numbers or by axes, nor counting along axes. A
    matrix with another diagonal is, which is copied for it.

    Nor is a comparison of what windows read, whose table has an element for every place in every window, nor what it
    chooses there of what is the same in every window. Nor is one of places with the one that an index names.
    """
    if _compares_windows(node) or _is_chosen_in_windows(node) or _asks_for_a_place(node):
        return True
    if isinstance(node, Call) and node.fn == "where":
        condition, *values = node.args
        if _is_diagonal(condition) and reads(values[0]) and values[1] != ZERO:
            return False
        return not all(any(isinstance(n, Read) for n in walk(part)) for part in (condition, Join("", (*values,), ())))
    bare = isinstance(node, Call) and node.fn == "neg"
    return bare or (not any(isinstance(n, Read) for n in walk(node)) and not _is_table(node))


def _is_diagonal(condition: Node) -> bool:
    """Whether a condition is whether two axes are at the same place."""
    return isinstance(condition, Call) and condition.fn in ("eq", "ne") and all(
        isinstance(n, AxisValue) for n in condition.args
    )


def _asks_for_a_place(node: Node) -> bool:
    sides = node.args if isinstance(node, Call) and node.fn in ("eq", "ne") else ()
    return any(isinstance(n, AxisValue) for n in sides) and any(isinstance(n, Read) for n in sides)


def _compares_windows(node: Node | Index) -> bool:
    return isinstance(node, Call) and node.fn in COMPARISONS and any(map(_is_in_a_window, walk(node)))


def _compares_sums_in_windows(node: Node | Index) -> bool:
    """Whether no more is done to what windows read than to add it to something, which is done again in each loop."""
    if not _compares_windows(node):
        return False
    return {n.fn for n in walk(node) if isinstance(n, Call)} - COMPARISONS <= {"add", "sub", "neg"}


def _is_chosen_in_windows(node: Node) -> bool:
    """Whether a node is 0 but where a comparison of what windows read holds, and there a product of what none read."""
    factors = product_factors(node)
    chosen = [f for f in factors if isinstance(f, Call) and f.fn == "where" and f.args[2] == ZERO]
    chosen = [f for f in chosen if _compares_windows(f.args[0])]
    others = [*(f for f in factors if f not in chosen), *(f.args[1] for f in chosen)]
    return bool(chosen) and not any(_is_in_a_window(n) for other in others for n in walk(other))


def _is_in_a_window(n: Node | Index) -> bool:
    return isinstance(n, Read) and any(isinstance(i, Window) and len(i.steps) > 1 for i in n.index)


_COUNTING = frozenset({"add", "sub", "mul", "neg", "floordiv", "mod", "Mod", "where"}) | CONDITIONS


def _is_table(node: Node) -> bool:
    """Whether a node of places, lengths and numbers alone is a function of places, or a quotient of those of two axes.

    The waves of positions, `cos(t / base**(h / size(h)))`: a table as large as what it is multiplied with.
    """
    if not isinstance(node, Call) or node.fn in _COUNTING - {"add", "sub", "mul", "neg"}:
        return False
    made = {n.fn for n in walk(node) if isinstance(n, Call) and node_axes(n)} - _COUNTING
    return bool(made - {"div"}) or (bool(made) and len(node_axes(node)) > 1)


def _is_angle(node: Node, statements: list[Statement]) -> bool:
    """Whether a node of places alone is what waves are of, wherever it stands."""
    if reads(node):
        return False
    above = [n for s in statements for n in walk(s.value) if isinstance(n, Call) and node in n.args]
    return bool(above) and all(n.fn in ("sin", "cos") for n in above)
