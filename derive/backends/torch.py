"""The torch backend: a program over named axes becomes lines of PyTorch, one statement a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from derive.backends.chains import is_long, led
from derive.backends.contractions import contraction, matrix_and_vector
from derive.backends.convolutions import convolved, is_convolution
from derive.backends.layout import Layouts, body_order, is_product
from derive.backends.pointwise import COMPARISONS, broadcast, call_code, cast, number_code, written_over
from derive.backends.pools import pooled
from derive.backends.reads import Sizes, read
from derive.backends.scans import running
from derive.backends.scatters import scatter
from derive.backends.values import PRODUCT, Dims, Line, Value, align, is_pack, permute, position, squeeze
from derive.cost import is_matrix_product, is_tensor, product_factors
from derive.program import (
    Assign,
    AxisValue,
    Call,
    Index,
    Join,
    Merged,
    Node,
    Num,
    Program,
    Read,
    Reduce,
    Scal,
    Scan,
    Scatter,
    SizeOf,
    Window,
    base,
    multiplied,
)
from derive.walking import children, index_axes, node_axes, reads, walk

TRIANGLES = {
    "le": (".tril()", ".triu()"),
    "lt": (".tril(-1)", ".triu(1)"),
    "ge": (".triu()", ".tril()"),
    "gt": (".triu(1)", ".tril(-1)"),
}
"""The part of a matrix where its column stands in a relation to its row, and where its row does to its column."""

_CONDITIONS = {"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"}

_LONGEST_ARGUMENT = 40
"""Characters of an argument beyond which an operator reads better than a call."""


_RANGE = re.compile(r"torch\.arange\((\w+), device=[\w.]+\)")


@dataclass
class Printer:
    """Prints one program. `names` and `size_names` map the program's names to Python's."""

    program: Program
    layouts: Layouts
    names: dict[str, str]
    size_names: dict[str, str]
    slow: Callable[[str], int]  # see Sizes
    tight: Callable[[str, Window], bool]
    fuse: bool  # whether two operations may become one call
    like: str  # a tensor whose device and dtype new tensors take
    integers: frozenset[str] = frozenset()  # tensors that hold integers or truth values
    used_sizes: dict[str, None] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    spent: frozenset[str] = frozenset()
    long: bool = False  # whether the expression being printed makes several large tensors

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.size, self.number, lambda: f"{self.like}.device", set(), self.slow, self.tight)
        written = [{base(a) for i in s.axes for a in index_axes(i)} for s in self.program.statements]
        self.extents = [*({base(a) for a in axes} for _, axes in self.program.given), *written]
        self.reals: dict[str, bool] = {}
        for s in self.program.statements:
            self.reals[s.name] = self.is_real(s.value)

    # --- names ---------------------------------------------------------------------------------------------

    def size(self, axis: str) -> str:
        if base(axis) not in self.size_names:  # several axes as one dimension
            return f"({' * '.join(self.number(SizeOf(a)) for a in axis.split('_'))})"
        self.used_sizes[base(axis)] = None
        return self.size_names[base(axis)]

    def number(self, node: Node) -> str:
        return self.value(node, ()).code

    def stored(self, name: str) -> Value:
        return Value(self.names.get(name, name), self.layouts[name])

    # --- expressions ---------------------------------------------------------------------------------------

    def value(self, node: Node, order: Dims) -> Value:
        """Code that broadcasts against `order`."""
        if isinstance(node, Read):
            value = align(read(self.stored(node.name), node, self.sizes, self.value), order)
            whole = value.code == self.names.get(node.name, node.name) and value.dims == order
            return replace(value, owned=whole and node.name in self.spent)
        if isinstance(node, Num):
            return number_code(node)
        if isinstance(node, Scal):
            return Value(self.names.get(node.name, node.name), scalar=True)
        if isinstance(node, SizeOf):
            size = self.size(node.axis)
            return Value(f"math.prod({size})" if is_pack(node.axis) else size, scalar=True)
        if isinstance(node, AxisValue):
            return align(Value(self.sizes.arange(node.axis, f"{self.like}.dtype"), (node.axis,)), order)
        if isinstance(node, Reduce):
            return align(self.reduction(node, order, keepdim=None in order or bool(set(node.axes) & set(order))), order)
        if isinstance(node, Join):
            return self.joined(node, order)
        if isinstance(node, Scan):
            inside = tuple(node.over if d == node.to else d for d in order)
            return align(running(node, squeeze(self.value(node.body, inside))), order)
        fused = self.fused(node, order)
        if fused is not None:
            return fused
        triangle = self.triangle(node, order)
        if triangle is not None:
            return triangle
        node = self.with_sign_inside(node)
        if self.long:
            node = led(node, self.is_large, self.spent)
        args = [self.compared(a, order) if node.fn in COMPARISONS else self.value(a, order) for a in node.args]
        if self.leaves_integers(node):
            real = f".to({self.like}.dtype)"
            args = [v.method(real) if is_read(a) else v for a, v in zip(node.args, args, strict=True)]
        over = written_over(node, args, order, self.long) if self.fuse and not self.negates_little(node, args) else None
        return over or self.owned(node, call_code(node, args, order, self.like))

    def leaves_integers(self, node: Call) -> bool:
        """Whether a function of counts has no whole values: torch would give it its default dtype."""
        if node.fn in _CONDITIONS or node.fn in ("where", "floordiv", "mod") or self.is_real(node):
            return False
        fractions = any(isinstance(a, Num) and float(a.value) % 1 != 0 for a in node.args)
        whole = node.fn in ("add", "sub", "mul", "neg", "absolute", "sign", "maximum", "minimum") and not fractions
        return not whole and any(is_read(a) for a in node.args)

    def compared(self, node: Node, order: Dims) -> Value:
        """One side of a comparison, where an axis may stay whole numbers."""
        if isinstance(node, AxisValue):
            return align(Value(self.sizes.arange(node.axis), (node.axis,)), order)
        return self.value(node, order)

    def with_sign_inside(self, node: Call) -> Call:
        """`-(a / 2)` as `a / -2`: one pass over a large tensor less."""
        inner = node.args[0] if node.fn == "neg" else None
        if not self.fuse or not isinstance(inner, Call) or inner.fn not in ("mul", "div") or not self.is_large(inner):
            return node
        a, b = inner.args
        if isinstance(b, Num) and self.is_large(a):
            return Call(inner.fn, (a, Num(-b.value)))
        return Call("mul", (Num(-a.value), b)) if isinstance(a, Num) and inner.fn == "mul" else node

    def negates_little(self, node: Call, args: list[Value]) -> bool:
        """Whether a minus sign is best left in front of a product, where it negates a small first factor alone."""
        if node.fn != "neg" or args[0].strength != PRODUCT:
            return False
        first = node.args[0]
        while isinstance(first, Call) and first.fn in ("mul", "div"):
            first = first.args[0]
        return not self.is_large(first)

    def owned(self, node: Node, value: Value) -> Value:
        """The result of a call, which nothing else holds: it may be written over, where that spares a large tensor."""
        mine = self.fuse and not value.scalar and not value.boolean and None not in value.dims
        return replace(value, owned=mine and self.is_large(node) and self.is_real(node))

    def is_large(self, node: Node) -> bool:
        """Whether no tensor of the program has the node's axes and more; statistics and parameters are small."""
        axes = {base(a) for a in node_axes(node)}
        return bool(axes) and not any(axes < others for others in self.extents)

    def is_real(self, node: Node | Index) -> bool:
        """Whether a node is of the inputs' dtype: neither integers nor truth values."""
        if isinstance(node, Read):
            return node.name not in self.integers and self.reals.get(node.name, True)
        if isinstance(node, Call):
            values = node.args[1:] if node.fn == "where" else node.args
            return node.fn not in _CONDITIONS and any(self.is_real(a) for a in values)
        return isinstance(node, Reduce | Scan | Join) and any(self.is_real(n) for n in children(node))

    def triangle(self, node: Call, order: Dims) -> Value | None:
        """A choice between a matrix and 0 by its rows and columns: `tril` or `triu`."""
        if node.fn != "where" or node.args[2] != Num(Fraction(0)) or not isinstance(node.args[0], Call):
            return None
        condition = node.args[0]
        ends = [a.axis for a in condition.args if isinstance(a, AxisValue)]
        if condition.fn not in TRIANGLES or len(ends) != 2 or not set(ends) <= set(node_axes(node.args[1])):
            return None
        value = self.value(node.args[1], order)
        if set(value.dims[-2:]) != set(ends) or value.boolean:
            return None
        below, above = TRIANGLES[condition.fn]
        return value.method(above if value.dims[-2] == ends[0] else below)

    def joined(self, node: Join, order: Dims) -> Value:
        """Parts one after another: `torch.cat`, or `torch.stack` where each is one place."""
        at = position(order, order.index(node.axis))
        rest = tuple(d for d in order if d != node.axis)
        if not any(node.own):
            return Value(f"torch.stack([{', '.join(self.full(p, rest).code for p in node.parts)}], {at})", order)
        parts = []
        for part, own in zip(node.parts, node.own, strict=True):
            if own:
                parts.append(self.full(part, tuple(own if d == node.axis else d for d in order)).code)
            else:
                parts.append(self.full(part, rest).method(f".unsqueeze({at})").code)
        return Value(f"torch.cat([{', '.join(parts)}], {at})", order)

    def fused(self, node: Call, order: Dims) -> Value | None:
        """Two operations that torch does in one: a matrix product plus a vector, a product added or subtracted."""
        return (self.affine(node, order) or self.multiplied_in(node, order)) if self.fuse else None

    def multiplied_in(self, node: Call, order: Dims) -> Value | None:
        """`a + k*b*c`, `a - k*b*c` and `a - k*b` with a number `k`, in one pass over memory.

        `torch.add(a, b, alpha=k)` is left alone: where `b` is a matrix product, torch 2.13 compiles it without its `k`.
        """
        if node.fn not in ("add", "sub") or not all(is_tensor(a) for a in node.args):
            return None
        start, product = node.args
        if node.fn == "add" and len(_split(product)[1]) != 2:
            start, product = product, start
        numbers, tensors = _split(product)
        tensors = self.small_as_one(tensors)
        if any(_is_matmul(n) for n in (start, *tensors)) or len(tensors) > 2 or not all(is_plus(n) for n in tensors):
            return None
        if len(tensors) == 1 and (node.fn == "add" or not numbers):
            return None
        factor = self.factor(numbers, negative=node.fn == "sub" and len(tensors) == 2)
        values = [cast(self.value(n, order), self.like) for n in (start, *tensors)]
        if any(len(v.code) > _LONGEST_ARGUMENT for v in values[1:]):
            return None
        function = "sub" if len(tensors) == 1 else "addcmul"
        number = f", alpha={factor}" if len(tensors) == 1 else f", value={factor}" if factor != "1" else ""
        dims = broadcast(values, order)
        if values[0].owned and values[0].dims == dims:
            others = ", ".join(v.code for v in values[1:])
            return replace(values[0].method(f".{function}_({others}{number})"), owned=True)
        code = ", ".join(v.code for v in values)
        return self.owned(node, Value(f"torch.{function}({code}{number})", dims))

    def small_as_one(self, tensors: list[Node]) -> list[Node]:
        """Three factors or more, as one that is large and the product of the others, which is small."""
        small = [n for n in tensors if not self.is_large(n)]
        product = multiplied(small) if len(small) > 1 else None
        if len(tensors) != len(small) + 1 or product is None or self.is_large(product):
            return tensors
        return [product, *(n for n in tensors if n not in small)]

    def factor(self, numbers: list[tuple[Node, bool]], negative: bool) -> str:
        """The product of Python numbers, each multiplied or divided by, as code."""
        out: Node = Num(Fraction(-1 if negative else 1))
        for n, divides in numbers:
            if divides:
                out = Call("div", (out, n))
            else:
                out = n if out == Num(Fraction(1)) else Call("mul", (out, n))
        return self.value(out, ()).code

    def affine(self, node: Call, order: Dims) -> Value | None:
        """A matrix product plus a vector over its columns, a convolution plus one over its channels."""
        if node.fn == "add" and is_convolution(node.args[0]):
            assert isinstance(node.args[0], Reduce)
            image = convolved(self, node.args[0], node.args[1])
            return None if image is None else align(image, order)
        if node.fn != "add" or not isinstance(node.args[0], Reduce) or not is_matrix_product(node.args[0]):
            return None
        product = self.reduction(node.args[0], order, keepdim=False)
        bias = self.value(node.args[1], order)
        left, _, right = product.code.partition(" @ ")
        if (
            not right
            or " @ " in right
            or len(product.dims) != 2
            or bias.dims != product.dims[1:]
            or product.dims != order
        ):
            return None
        if is_pack(product.dims[0]):
            transposed = right.removesuffix(".T") if right.endswith(".T") else f"{right}.T"
            return Value(f"functional.linear({left}, {transposed}, {bias.code})", product.dims)
        return Value(f"torch.addmm({bias.code}, {left}, {right})", product.dims)

    def reduction(self, node: Reduce, order: Dims, keepdim: bool) -> Value:
        """A reduction; its body's axes stand in the order of its largest operand."""
        factors = product_factors(node.body) if node.kind == "sum" else []
        numbers = [f for f in factors if not is_tensor(f)]
        if numbers and len(factors) > len(numbers) + 1:
            rest = Reduce("sum", node.axes, multiplied([f for f in factors if f not in numbers]))
            if is_product(rest):
                return self.value(Call("mul", (multiplied(numbers), rest)), order)
        product = convolved(self, node) or pooled(self, node)
        if product is not None:
            return product
        if is_matrix_product(node) or matrix_and_vector(node) is not None:
            return contraction(node, order, self.value, self.like)
        inner = body_order(node, self.layouts)
        lacking = [a for a in node.axes if a not in inner]  # they are reduced as well
        inner = (*filter(is_pack, lacking), *inner, *(a for a in lacking if not is_pack(a)))
        body = self.value(node.body, inner)
        if body.weak or (body.boolean and node.kind != "sum"):
            body = cast(body, self.like)
        dims = [d for d in inner if d in node_axes(node.body) or d in node.axes]
        if len(body.dims) < len(dims) or body.scalar or set(node.axes) - set(body.dims):
            body = self.spread(body, tuple(dims))
        full = body.dims
        places = [i for i, d in enumerate(full) if d in node.axes]
        kept: Dims = tuple(None if d in node.axes else d for d in full)
        pack = any(is_pack(full[i]) for i in places)
        if pack:
            return self._over_pack(node, body, places, keepdim)
        where = [position(full, i) for i in places]
        text = str(where[0]) if len(where) == 1 else f"({', '.join(map(str, where))})"
        if len(places) == len(full):
            text = ""
        if keepdim and text:
            return body.method(f".{node.kind}({text}, keepdim=True)", kept)
        return body.method(f".{node.kind}({text})", tuple(d for d in full if d not in node.axes))

    def _over_pack(self, node: Reduce, body: Value, places: list[int], keepdim: bool) -> Value:
        """`...` is any number of axes: flatten what is summed into one dimension in front."""
        rest = tuple(d for i, d in enumerate(body.dims) if i not in places)
        if not rest:
            return body.method(f".{node.kind}()", ())
        front = permute(body, (*(body.dims[i] for i in places), *rest))
        lengths = ", ".join(self.size(d) for d in rest if d is not None)
        if node.kind == "sum":
            return front.method(f".sum_to_size({lengths})", rest)
        return front.method(f".reshape(-1, {lengths}).{node.kind}(0)", rest)

    def spread(self, value: Value, dims: Dims) -> Value:
        """The value expanded to all of `dims`; a view."""
        lengths = ", ".join(self.lengths(dims))
        if value.scalar:
            own = [d for d in dims if d is not None]
            tail = "," if len(own) == 1 else ""
            shape = lengths if len(own) == 1 and is_pack(own[0]) else f"({lengths}{tail})"
            made = f"new_zeros({shape})" if value.code == "0" and own else f"new_full({shape}, {value.code})"
            return Value(f"{self.like}.{made}", dims)
        return value.method(f".expand({lengths})", dims)

    def lengths(self, dims: Dims) -> list[str]:
        own = [d for d in dims if d is not None]
        if len(own) == 1 and is_pack(own[0]):
            return [self.size(own[0])]  # as one argument, which may be empty
        return [f"*{self.size(d)}" if is_pack(d) else self.size(d) for d in own]

    # --- statements ----------------------------------------------------------------------------------------

    def print(self) -> list[Line]:
        for k, statement in enumerate(self.program.statements):
            self.spent = self._spent_at(k) if self.fuse else frozenset()
            self.long = self.fuse and is_long(statement.value, self.is_large, self.spent)
            if isinstance(statement, Scatter):
                scatter(self, statement)
            else:
                self.assign(statement)
        self.name_ranges()
        return self.lines

    def name_ranges(self) -> None:
        """`torch.arange(n, …)` under a name, `n_range`, where it is written more than once."""
        counts: dict[tuple[str, str], int] = {}
        for line in self.lines:
            for found in _RANGE.finditer(line.code):
                counts[found[0], found[1]] = counts.get((found[0], found[1]), 0) + 1
        for (code, length), count in counts.items():
            if count < 2:
                continue
            name = self.unused(f"{length}_range")
            first = next(k for k, line in enumerate(self.lines) if code in line.code)
            while self.lines[first].code.startswith(" "):  # inside a loop
                first -= 1
            self.lines = [replace(line, code=line.code.replace(code, name)) for line in self.lines]
            self.lines.insert(first, Line(f"{name} = {code}"))

    def unused(self, name: str) -> str:
        """A name for a tensor that no equation has."""
        while name in self.layouts.dims or name in self.names.values() or name in self.size_names.values():
            name += "_"
        return name

    def _spent_at(self, k: int) -> frozenset[str]:
        """Large tensors of ours that this statement reads once and nothing reads afterwards."""
        here, *later = self.program.statements[k:]
        made = {s.name for s in self.program.statements[:k] if isinstance(s, Assign) and self._is_made(s)}
        viewed = {s.value.name for s in self.program.statements if isinstance(s, Assign) and isinstance(s.value, Read)}
        summed = [s.value for s in self.program.statements if isinstance(s.value, Reduce)]
        over_pack = [r for r in summed if any(is_pack(a) for a in r.axes)]  # with no axis there, the very tensor
        viewed |= {r.body.name for r in over_pack if isinstance(r.body, Read)}
        once = [n.name for n in walk(here.value) if isinstance(n, Read)]
        again = {n for s in later for n in (*reads(s.value), *(x for i in getattr(s, "slots", ()) for x in reads(i)))}
        kept = (
            again
            | viewed
            | set(self.program.returns)
            | {s.onto for s in self.program.statements if isinstance(s, Scatter)}
        )
        return frozenset(n for n in once if n in made and once.count(n) == 1 and n not in kept)

    def _is_made(self, s: Assign) -> bool:
        """Whether a statement fills a tensor of its own, of the inputs' dtype, every element in a place of its own."""
        if isinstance(s.value, Reduce):
            return is_product(s.value) and _is_whole(s)
        call = isinstance(s.value, Call) and self.is_large(s.value) and self.is_real(s.value)
        return call and _is_whole(s)

    def assign(self, s: Assign) -> None:
        name = self.names.get(s.name, s.name)
        layout = self.layouts[s.name]
        order = self.layouts.order(s)
        if isinstance(s.value, Reduce):
            value = self.reduction(s.value, order, keepdim=None in layout)
        else:
            value = self.value(s.value, order)
        fresh = (isinstance(s.value, Call | Reduce | Join | Scan) and _is_whole(s)) or value.scalar
        if value.weak or (value.boolean and isinstance(s.value, Call) and s.value.fn == "where"):
            value = cast(value, self.like)  # numbers, not a condition
        value = self.finish(value, s, order)
        changed = any(isinstance(x, Scatter) and x.onto == s.name for x in self.program.statements)
        if changed and not fresh:
            value = value.method(".clone()")
        self.lines.append(Line(f"{name} = {value.code}", str(s)))

    def finish(self, value: Value, s: Assign, order: Dims) -> Value:
        """Dimensions as the layout wants them: permuted, merged, or expanded where the value lacks an axis."""
        layout = self.layouts[s.name]
        wanted = tuple(d for d in order if d is not None)
        if any(isinstance(i, Merged) for i in s.axes):
            return self.merge(value, s)
        if value.dims == layout and not value.scalar:
            return value
        have = {d for d in value.dims if d is not None}
        if not value.scalar and have == set(wanted):
            value = value if None not in value.dims or None in layout else align(squeeze(value), wanted)
            return align(value, layout) if None in layout else permute(value, wanted)
        return self.spread(align(value, order), wanted)

    def merge(self, value: Value, s: Assign) -> Value:
        order = tuple(a for i in s.axes for a in index_axes(i))
        if value.scalar or set(order) - set(value.dims):
            value = self.spread(align(value, order), order)
        value = permute(value, order)
        start = 0
        for i in s.axes:
            width = len(index_axes(i))
            if isinstance(i, Merged):
                a, b = position(value.dims, start), position(value.dims, start + width - 1)
                value = value.method(f".flatten({a}, {b})", (*value.dims[:start], str(i), *value.dims[start + width :]))
                start += 1
            else:
                start += width
        return value

    def full(self, node: Node, order: Dims) -> Value:
        """The value with every axis of `order` present, in the dtype of the inputs."""
        value = self.value(node, order)
        value = cast(value, self.like) if value.boolean else value
        return value if value.dims == order and not value.scalar else self.spread(value, order)


def is_read(node: Node) -> bool:
    """Whether tensors stand in a node."""
    return any(isinstance(n, Read) for n in walk(node))


def _is_whole(s: Assign) -> bool:
    """Whether a statement's value has every axis of its tensor, so that none is an expanded view."""
    return set(node_axes(s.value)) == {a for i in s.axes for a in index_axes(i)}


def _split(node: Node) -> tuple[list[tuple[Node, bool]], list[Node]]:
    """The Python numbers (True: divided by) and the tensors of a chain of products and quotients."""
    if isinstance(node, Call) and node.fn == "mul":
        (n1, t1), (n2, t2) = _split(node.args[0]), _split(node.args[1])
        return n1 + n2, t1 + t2
    if isinstance(node, Call) and node.fn == "div" and not is_tensor(node.args[1]):
        n1, t1 = _split(node.args[0])
        return [*n1, (node.args[1], True)], t1
    if not is_tensor(node):
        return [(node, False)], []
    return [], [node]


def is_plus(node: Node) -> bool:
    """Whether a factor is itself no sign change, which would hide in the call."""
    return not (isinstance(node, Call) and node.fn in ("neg", "where"))


def _is_matmul(node: Node) -> bool:
    return isinstance(node, Reduce) and is_product(node)
