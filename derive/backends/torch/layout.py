"""Where each tensor keeps its axes: dimensions in order, and which reduced ones stay with length 1 to broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from derive.backends.convolution_roles import is_convolution
from derive.backends.torch.instructions import is_statistic, of_several
from derive.backends.torch.products.by_vectors import is_by_vector
from derive.backends.torch.products.chosen import by_chosen
from derive.backends.torch.products.distances import is_of_distances
from derive.backends.torch.reads.gathers import rows_gathered
from derive.backends.torch.reductions.pools import is_pool
from derive.backends.torch.sizes import in_order
from derive.backends.values import Dims, is_pack, named_by
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.nodes.products import is_matrix_product, numbers_apart, product_factors
from derive.ir.nodes.walking import axes_along, by_axes_once, node_axes, walk
from derive.ir.program import Assign, Merged, Node, Program, Read, Reduce, Scatter, Window
from derive.ir.terms.axes import in_all_orders


@dataclass
class Layouts:
    """The dimensions of every tensor of a program; `strict` names those whose shape the caller sees."""

    strict: frozenset[str]
    slow: Callable[[str], int]  # see Sizes: what tells the place of a window from its tap
    dims: dict[str, Dims] = field(default_factory=dict)
    orders: dict[str, Dims] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Dims:
        return self.dims[name]

    def order(self, s: Assign) -> Dims:
        return self.orders[s.name]


def layouts(program: Program, strict: frozenset[str], given: dict[str, Dims], slow: Callable[[str], int]) -> Layouts:
    """Choose the dimensions of every tensor. A statistic keeps its reduced dimension where it broadcasts back."""
    out = Layouts(strict, slow, {name: given.get(name, axes) for name, axes in program.given})
    strict |= {s.onto for s in program.statements if isinstance(s, Scatter) and s.onto is not None}
    strict |= {s.name for s in program.statements} if program.carries else set()  # one place lies as all of them do
    for s in program.statements:
        axes: Dims = tuple(str(i) if isinstance(i, Merged) else i for i in s.axes)  # type: ignore[misc]
        if isinstance(s, Scatter):
            out.dims[s.name] = axes
            continue
        if of_several(s.value) is not None and isinstance(s.value, Reduce):
            out.orders[s.name] = axes
            out.dims[s.name] = (*axes, *(None for _ in s.value.axes if is_statistic(s.value)))
        elif isinstance(s.value, Reduce) and not is_product(s.value):
            out.orders[s.name] = axes
            out.dims[s.name] = axes if s.name in strict or _read_alone(s, program) else _kept(s.value, axes, out)
        else:
            fixed = s.name in strict or any(isinstance(i, Merged) for i in s.axes) or _read_alone(s, program)
            order = axes if fixed else _adopted(s, axes, out)
            out.orders[s.name] = order
            out.dims[s.name] = order
        if any(isinstance(i, Merged) for i in s.axes):
            out.orders[s.name] = tuple(a for i in s.axes for a in (i.axes if isinstance(i, Merged) else (i,)))  # type: ignore[misc]
    return out


def is_product(node: Reduce) -> bool:
    """Whether a reduction is one call whose result has no dimensions of length 1; numbers come behind it."""
    numbers, tensors = numbers_apart(product_factors(node.body) if node.kind == "sum" else [])
    if numbers and len(tensors) > 1:
        node = Reduce(node.kind, node.axes, multiplied(tensors))
    asked = (is_matrix_product, is_by_vector, is_convolution, is_pool, is_of_distances, by_chosen)
    return any(ask(node) for ask in asked)


def is_matmul(node: Node) -> bool:
    """Whether it is such a reduction."""
    return isinstance(node, Reduce) and is_product(node)


def plain_dims(out: Layouts, read: Read) -> Dims | None:
    """The dimensions of a plain read, or None for any other."""
    return named_by(out.dims[read.name], axes_along(read.index)) if by_axes_once(read) else None


def window_dims(out: Layouts, read: Read) -> Dims | None:
    """The dimensions of a read through windows, whose taps come last; None for any other."""
    if not all(isinstance(i, str) or (isinstance(i, Window) and len(i.steps) in (1, 2)) for i in read.index):
        return None
    windows = [i for i in read.index if isinstance(i, str | Window)]
    ordered = [[i] if isinstance(i, str) else [a for a, _ in in_order(i, out.slow)] for i in windows]
    dims: Dims = tuple(axes[k] for k in range(2) for axes in ordered if len(axes) > k)
    return dims if len(set(dims)) == len(dims) else None


def body_order(node: Reduce, out: Layouts) -> Dims:
    """The axes of a reduction's body, in the order of the operand that has most of them.

    The others stand so that no operand is transposed, where what is summed is not the last of them then: rows of a few
    elements are slow to add up. `...` stands in front, unless one operand has all the axes: what lacks it broadcasts
    whatever its rank.
    """
    axes = node_axes(node.body)
    reads = [n for n in walk(node.body) if isinstance(n, Read)]
    reads.sort(key=lambda n: bool(rows_gathered(n)))
    dims = [plain_dims(out, n) or window_dims(out, n) or rows_gathered(n) or node_axes(n) for n in reads]
    orders = [tuple(d for d in own if d is not None) for own in dims]
    orders = [own for own in orders if set(own) <= set(axes)]
    best = max(orders, key=len, default=())
    whole = in_all_orders(best, orders)
    if whole and whole[-1] not in node.axes:
        order = (*whole, *(a for a in axes if a not in whole))
    else:
        order = (*best, *(a for a in axes if a not in best))
    return order if order == best else tuple(sorted(order, key=lambda a: not is_pack(a)))


def _kept(node: Reduce, axes: Dims, out: Layouts) -> Dims:
    full = body_order(node, out)
    rest = tuple(d for d in full if d not in node.axes)
    trailing = any(d in node.axes and any(x not in node.axes for x in full[:k]) for k, d in enumerate(full))
    pack_summed = any(a.startswith("...") for a in node.axes)
    if not trailing or pack_summed or rest != axes:  # reads take the dimensions in the order of the axes
        return axes
    return tuple(None if d in node.axes else d for d in full)


def _read_alone(s: Assign, program: Program) -> bool:
    """Whether a statistic broadcasts nowhere over the axes that it was summed over, and those alone."""
    if s.name in program.ends:  # others read it as well
        return False
    summed = {a for n in _outside_sums(s.value) if isinstance(n, Reduce) for a in n.axes}
    uses = [use for reader in program.statements for use in _uses(s.name, reader.value, False)]
    return bool(summed and uses) and not any(
        extra == len(summed) or (passed_on and not extra) for extra, passed_on in uses
    )


def _uses(name: str, node: Node, in_sum: bool) -> Iterator[tuple[int, bool]]:
    """For each read of a tensor: how many more axes it broadcasts over, and whether that is outside of sums."""
    inside = [n for n in _outside_sums(node) if isinstance(n, Reduce)]
    for n in _outside_sums(node):
        if isinstance(n, Read) and n.name == name:
            yield len(set(node_axes(node)) - set(node_axes(n))), not in_sum
    for reduce in inside:
        yield from _uses(name, reduce.body, True)


def _adopted(s: Assign, axes: Dims, out: Layouts) -> Dims:
    """The layout of an operand that runs over all the axes, if it keeps dimensions of length 1."""
    found: list[Dims] = []
    for n in _outside_sums(s.value):
        if isinstance(n, Read) and set(node_axes(n)) == set(axes):
            found.append(plain_dims(out, n) or axes)
        elif isinstance(n, Reduce) and set(node_axes(n)) == set(axes):
            found.append(axes if is_product(n) else _kept(n, axes, out))
    fits = all(None in dims and tuple(d for d in dims if d is not None) == axes for dims in found)
    return found[0] if found and fits else axes


def _outside_sums(node: Node) -> list[Node]:
    if isinstance(node, Reduce):
        return [node]
    found: list[Node] = [node]
    for child in getattr(node, "args", ()):
        found += _outside_sums(child)
    return found
