"""Sums of masked terms: `sum(where(u <= t, x[u], 0), over=u)` is a running sum, with no table of `u` against `t`.

So it is with maxima, `amax(where(u <= t, x[u], -oo), over=u)`; what their gradients sum is in runs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from derive.backends.torch.reads.slices import padded
from derive.backends.torch.reductions.runs import BEYOND, ends, in_runs, unmasked, up_to
from derive.backends.values import Value, position
from derive.contract.masked_sums import as_product, masked_factor
from derive.ir.nodes.arithmetic import ONE, ZERO, multiplied, quotient
from derive.ir.nodes.products import by_axes, is_matrix_product, product_factors
from derive.ir.nodes.walking import node_axes, reads, walk
from derive.ir.program import Assign, Call, Node, Program, Reduce, Scan, Scatter
from derive.ir.terms.axes import Axis
from derive.schedule.share import share


def with_scans(program: Program, same_length: Callable[[str, str], bool], maxima: Mapping[str, Assign]) -> Program:
    """The program with every sum up to a place, or down to one, as a running sum, and masks inside matrix products.

    So is every maximum; `maxima` are those that the program may be given, by their names.
    """

    def within(node: Node) -> Node:
        if isinstance(node, Call):
            return Call(node.fn, tuple(within(a) for a in node.args))
        if not isinstance(node, Reduce):
            return node
        if node.kind in BEYOND:
            return _largest(node, same_length) or node
        in_turn = _scanned(node, same_length) or in_runs(node, maxima, same_length)
        return in_turn or _with_table(as_product(node))

    statements = [replace(s, value=within(s.value)) for s in program.statements if isinstance(s, Assign | Scatter)]
    out = replace(program, statements=tuple(statements))
    return share(out) if any(isinstance(n, Scan) for s in out.statements for n in walk(s.value)) else out


def _scanned(node: Reduce, same_length: Callable[[str, str], bool]) -> Node | None:
    """`sum(f[t] * where(u <= t, g[u], 0), over=(u, …))` with the running sum of `g` in the place of the choice.

    Factors that are divided by are such factors too, whether the choice is divided or what it chooses.
    """
    masks, above, below = unmasked(node.body)
    if node.kind != "sum" or len(masks) != 1:
        return None
    for over, to, relation in ends(masks[0]):
        (inside, outside), (divisors, outer_divisors) = (by_axes(part, [over]) for part in (above, below))
        if over not in node.axes or not [*inside, *divisors] or any(Axis(a).is_pack for a in (over, to)):
            continue
        if any(to in node_axes(f) for f in (*inside, *divisors)):
            continue
        left = {a for f in (*outside, *outer_divisors) for a in node_axes(f)}
        summed = tuple(a for a in node.axes if a not in (over, to) and a not in left)
        body = quotient(inside, divisors)
        body = Reduce("sum", summed, body) if summed else body
        scan = Scan(to, over, relation, body, same_length(over, to))
        rest = tuple(a for a in node.axes if a != over and a not in summed)
        out = quotient([*outside, scan], outer_divisors)
        return Reduce("sum", rest, out) if rest else out
    return None


def _with_table(node: Reduce) -> Reduce:
    """`sum(where(abs(c - i) < 3, x[n, i, s], 0), over=i)` as a product with a matrix of zeros and ones.

    Only where places alone decide, and each factor lacks an axis of theirs: what the mask keeps finite stays behind it.
    """
    factors = product_factors(node.body)
    chosen = masked_factor(factors)
    if node.kind != "sum" or chosen is None or reads(chosen.args[0]) or is_matrix_product(node):
        return node
    inside, asked = product_factors(chosen.args[1]), set(node_axes(chosen.args[0]))
    if any(asked <= set(node_axes(f)) for f in inside):
        return node
    table: Node = Call("where", (chosen.args[0], ONE, ZERO))
    product = Reduce("sum", node.axes, multiplied([table, *inside, *(f for f in factors if f != chosen)]))
    return product if is_matrix_product(product) else node


def _largest(node: Reduce, same_length: Callable[[str, str], bool]) -> Node | None:
    """`amax(where(u <= t, x[u], -oo), over=u)` as a running maximum."""
    found = up_to(node)
    if found is None:
        return None
    over, to, relation, body = found
    return Scan(to, over, relation, body, same_length(over, to), node.kind)


_FILLED = {"sum": None, "amax": "-math.inf", "amin": "math.inf"}


def running(node: Scan, body: Value, size: Callable[[str], str]) -> Value:
    """The code of a running sum of a printed body. Where lengths differ, zeros follow what is there, or the end goes.

    What leaves its own place out is a running sum of one place more, without the first or the last of its places.
    """
    at = position(body.dims, body.dims.index(node.over))
    dims = tuple(node.to if d == node.over else d for d in body.dims)
    widths = ["0", "0"] * (len(dims) - 1 - dims.index(node.to))
    longer = "0" if node.equal else f"{size(node.to)} - {size(node.over)}"

    def between(value: Value, before: str, after: str) -> Value:
        is_whole = before == after == "0"
        return value if is_whole else replace(value, code=padded(value, [*widths, before, after], _FILLED[node.kind]))

    def run(value: Value) -> Value:
        made = value.method(f"cum{node.kind.removeprefix('a')}", at, dims=dims)
        return made if node.kind == "sum" else made.field("values")

    if node.relation in ("le", "lt"):
        made = run(between(body, "0" if node.relation == "le" else "1", longer))
        return made if node.relation == "le" else made.method("narrow", at, 0, size(node.to))
    made = body if node.relation == "ge" else between(body, "0", "1")
    made = run(made.method("flip", at)).method("flip", at)
    if node.relation == "gt":
        made = made.method("narrow", at, 1, size(node.to if node.equal else node.over))
    return between(made, "0", longer)
