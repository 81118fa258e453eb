"""An index as an integer tensor, and a read by one for every dimension: what serves where no view does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce

from derive.backends.code import ATOM, PRODUCT, Code, Prefix, Text, as_code, call, infix, method
from derive.backends.torch.sizes import Print, Sizes, length, packs
from derive.backends.values import PACK, Dims, Value, align, is_pack
from derive.ir.nodes.walking import axes_along, index_axes
from derive.ir.program import Arithmetic, Index, Merged, PartOf, Place, Read, SizeOf, Window


def indexed(stored: Value, node: Read, sizes: Sizes, value: Print) -> Value:
    """The general case: an index tensor for every dimension but the last whole ones, broadcast over their axes."""
    rows = node.index[: places_end(node.index)]
    order = pack_first(axes_along(rows))
    if any(isinstance(i, PartOf) and packs(i) for i in node.index[:1]):  # the leading dimensions as one
        rest = [f"*{stored.code}.shape[{1 - len(node.index)}:]"] if len(node.index) > 1 else []
        stored = stored.method("reshape", sizes.number(SizeOf(PACK)), *rest)
    items = [index_tensor(i, order, sizes, value) for i in rows]
    return stored.at(*items, dims=(*order, *node.index[len(rows) :]))  # type: ignore[arg-type]


def places_end(index: tuple[Index, ...]) -> int:
    """Where the dimensions begin that are read whole, in their own order, by axes that no other index has."""
    end = len(index)
    while end > 1 and isinstance(axis := index[end - 1], str) and not is_pack(axis):
        if axis in axes_along(index[: end - 1]):
            break
        end -= 1
    return end


def pack_first(axes: Iterable[str]) -> Dims:
    """Each axis once, `...` in front, so that what lacks it broadcasts whatever its rank."""
    return tuple(sorted(dict.fromkeys(axes), key=lambda a: not is_pack(a)))


def index_tensor(i: Index, order: Dims, sizes: Sizes, value: Print) -> Code:
    """An index as an integer tensor that broadcasts over `order`."""
    if isinstance(i, str) and is_pack(i):  # one index for each of the axes that `...` stands for
        return Prefix("*", call("places_of", sizes.of(i), len(order) - order.index(i) - 1, sizes.device()))
    if isinstance(i, str):
        return align(Value(sizes.arange(i), (i,)), order).code
    if isinstance(i, Place):
        return index_tensor(i.index, order, sizes, value)
    if isinstance(i, Window):
        steps = [(align(Value(sizes.arange(axis), (axis,)), order).code, step) for axis, step in i.steps]
        return _added_up(steps, sizes.number(i.offset))
    if isinstance(i, Arithmetic):
        inner = [(index_tensor(inner, order, sizes, value), step) for inner, step in i.steps]
        return _added_up(inner, sizes.number(i.offset))
    if isinstance(i, Merged):
        code: Code | None = None
        for a in i.axes:
            is_leading = isinstance(a, str) and is_pack(a)
            part = _of_leading(str(a), order, sizes) if is_leading else index_tensor(a, order, sizes, value)
            code = part if code is None else infix("+", infix("*", code, length(a, sizes)), part)
        assert code is not None
        return code
    if isinstance(i, PartOf):
        whole = index_tensor(i.whole, order, sizes, value)
        tail = [sizes.number(n) for n in i.lengths[i.position + 1 :]]
        divided = infix("//", whole, Text(" * ".join(tail), ATOM if len(tail) == 1 else PRODUCT)) if tail else whole
        return divided if i.position == 0 else infix("%", divided, sizes.number(i.lengths[i.position]))
    return align(value(i, index_axes(i)), order).code


def _added_up(steps: Sequence[tuple[Code, int]], offset: str) -> Code:
    """Multiples and a number, as a sum."""
    terms = [code if step == 1 else infix("*", step, code) for code, step in steps]
    return reduce(partial(infix, "+"), [*terms, *([] if offset == "0" and terms else [as_code(offset)])])


def _of_leading(pack: str, order: Dims, sizes: Sizes) -> Code:
    """Places along all that `...` stands for as one dimension: of a merge, one index is of all its axes."""
    ones = len(order) - order.index(pack) - 1
    places = call("torch.arange", sizes.number(SizeOf(pack)), device=sizes.device())
    return method(places, "reshape", f"{'*' if ones else ''}{sizes.of(pack)}", *[1] * ones)
