"""Python names for axes' sizes and tensors, decided once for a whole module."""

from __future__ import annotations

import keyword
from collections.abc import Collection
from itertools import count

from sympy import Expr, Integer, Mul

from derive.facts.lengths.short_axes import filters, queries, taps
from derive.facts.lengths.sizes import closed
from derive.ir.equations import Op
from derive.ir.lowering.raising import raised
from derive.ir.program import Node, Num, SizeOf, Window, base
from derive.ir.terms.axes import Axis, Rest, Size
from derive.ir.terms.names import free_name
from derive.ir.terms.windows import Affine, longest
from derive.notation.annotations import title
from derive.pipeline import Derivation

CALLED = frozenset({
    "add_skewed_", "as_float64", "at_places", "convolve", "correlated_images", "fill_diagonal_", "filtered_images",
    "of_numbers", "over_windows", "pair_distances", "places_of", "polynomial", "powers", "ratio_of",
    "rows_by_matrices", "run_sums", "skewed", "spread_over_windows", "stacked_last", "sum_of_few", "sum_of_products",
    "sum_of_rows", "sums_of_outer", "weighed_distances", "where_by_bits", "window_sums",
})  # fmt: skip
"""What a module imports where its code calls it."""
OURS = CALLED | {
    "self", "found", "torch", "math", "saved", "Tensor", "NamedTuple", "functional", "keep_in", "kept_in",
    "gradients_of", "check_shapes", "check_given", "check_index", "check_length", "explains_index", "in_float32",
    "once_differentiable", "sum", "range", "zip", "abs", "min", "max", "without_values", "needed_of",
    "FORWARD", "BACKWARD", "WITH_GRADIENTS", "STEP",
}  # fmt: skip
"""Names that generated modules use themselves."""


def made_of(op: str) -> frozenset[str]:
    """The names that the module of an op defines."""
    functions = {op, *(f"{op}{s}_{w}" for s in ("", "_stepwise") for w in ("forward", "backward"))}
    return frozenset(functions | {f"{title(op)}{s}{w}" for s in ("", "Stepwise") for w in ("Saved", "Gradients")})


def _renamed(tensors: set[str], reserved: set[str] | frozenset[str]) -> dict[str, str]:
    """What tensors are called that cannot keep their names: the same, with as many underscores as set it apart."""
    out: dict[str, str] = {}
    for tensor in sorted(t for t in tensors if keyword.iskeyword(t) or t in reserved or t.startswith("_")):
        name = f"{tensor.lstrip('_')}_"
        while name in tensors or name in reserved or name in out.values():
            name = f"{name}_"
        out[tensor] = name
    return out


def _second(op: Op) -> set[str]:
    """The axes that a dimension has because another one is declared with its own: equations call them as they like."""
    declared = (zip(o.declared or o.axes, o.axes, strict=True) for o in op.operands)
    return {axis.base for pairs in declared for said, axis in pairs if said != axis}


class Names:
    """Python names for axes' sizes, scalars and tensors, decided once for the whole module."""

    def __init__(self, d: Derivation, workspace: bool = False):
        """`out` is the parameter of the functions that write over old results, where there is a `workspace`."""
        self.op = op = d.named
        inputs = {o.name for o in op.operands}
        self.out = next(name for k in count() if (name := f"out{'_' * k}") not in inputs)
        reserved = OURS | made_of(op.name) | ({self.out} if workspace else set())
        programs = [p for p in (d.forward, d.backward, d.stepwise_forward, d.stepwise_backward) if p is not None]
        tensors = {n for p in programs for n in (*[g for g, _ in p.given], *[s.name for s in p.statements])}
        tensors |= {o.name for o in op.operands}
        self.tensors = _renamed(tensors, reserved)
        self.sizes: dict[str, str] = {}
        self.rules = {r.axis.base: r for r in op.sizes}
        same = {a: self.original(a) for a in reversed(self.rules) if self.original(a) != a}
        called = {first: axis for axis, first in same.items() if first in _second(op)}
        for rule in op.sizes:
            axis = rule.axis.base
            if self.original(axis) != axis:
                continue
            name = "leading" if axis == "..." else called.get(axis, axis)
            if rule.axis.fixed is not None:
                self.sizes[axis] = str(rule.axis.fixed)
                continue
            if rule.given is not None:
                self.sizes[axis] = self.of(rule.given)
                continue
            others = {*tensors, *reserved, *self.tensors.values(), *self.sizes.values()}
            while name in others or keyword.iskeyword(name):
                name = f"{name}_size"
            self.sizes[axis] = name
        self.axes = {name: axis for axis, name in self.sizes.items()}
        self.sizes = {axis: self.sizes[self.original(axis)] for axis in self.rules}
        self.fixed = frozenset(r.axis.base for r in op.sizes if r.axis.fixed is not None)
        self.carried = frozenset(r.axis.base for r in op.sizes if r.formula is None or r.axis.fixed is not None)
        position = {operand.name: k for k, operand in enumerate(op.operands)}
        first = {r.axis.base: position[r.operand] for r in op.sizes if r.operand in position}
        self.taps = taps(op.equations) | filters(op.equations, first)
        self.queries = queries(op.equations)
        self.merged = op.merged
        self.padded = frozenset(r.around.base for r in op.sizes if r.around is not None)

    def of(self, name: str) -> str:
        """What a tensor or a number is called in the code."""
        return self.tensors.get(name, name)

    def set_apart(self, has: Collection[str]) -> tuple[str, str]:
        """Two lines for inputs that are called as something that a module `has`: what keeps that under a name of ours,
        behind all else, and what a function begins with that has such parameters; nothing where there are none.
        """
        inputs = [o.name for o in self.op.operands]
        renamed = {n: self.tensors[n] for n in inputs if n in self.tensors}
        ours = {n: free_name(f"_{n}", inputs, "_") for n in renamed if n in has}
        kept = f"{', '.join(ours.values())} = {', '.join(ours)}" if ours else ""
        left, right = [*renamed.values(), *ours], [*renamed, *ours.values()]
        return kept, f"{', '.join(left)} = {', '.join(right)}" if renamed else ""

    def original(self, axis: str) -> str:
        """The axis whose length this one has, where it is as long as another: code says it once, by that one's name."""
        rule = self.rules[axis]
        if rule.axis.fixed is not None or rule.given is not None or not isinstance(rule.formula, Size):
            return axis
        return axis if rule.formula.axis.is_pack else self.original(rule.formula.axis.base)

    def slow(self, axis: str) -> int:
        """What tells the place of a window from its tap: a length that follows from others is that of the places.

        One that is fixed follows from none, and is that of the taps where no sum tells. An axis that is as long
        as another is what that is; one that a longer dimension is made around is that of the places, and so is one
        of what is compared with all that windows have.
        """
        rule, name = self.rules[base(axis)], base(axis)
        if name in self.queries and name not in self.taps:
            return -1
        if name in self.fixed:
            return 5 if name in self.taps else 3
        if rule.formula is not None:
            whole = closed(rule.formula, {r.axis: r for r in self.rules.values()})
            return self.slow(whole.axis.base) if isinstance(whole, Size) else 0
        if name in self.padded and name not in self.taps:
            return 0
        return 4 if name in self.taps else 2 if rule.given is not None else 1

    def same_length(self, one: str, other: str) -> bool:
        """Whether two axes are known to be equally long."""
        a, b = base(one), base(other)
        formulas = [(self.rules[x].formula, y) for x, y in ((a, b), (b, a))]
        return not Axis(a).is_pack and (a == b or any(f == Size(Axis(y)) for f, y in formulas))

    def length(self, axis: str) -> Expr:
        """The length of an axis, by the name of the axis that it was read from."""
        formula = self.rules[base(axis)].formula
        return formula if isinstance(formula, Size) else Size(Axis(base(axis)))

    def axis(self, name: str) -> Axis:
        """The axis of this name, with its length where that is fixed."""
        return self.rules[base(name)].axis.copied(0)

    def tight(self, dim: str, window: Window) -> bool:
        """Whether an axis of the window is exactly as long as the dimension allows."""
        parts = [a.base for a in self.merged.get(dim, ())] or [base(dim)]
        axes = [*parts, *(base(a) for a, _ in window.steps)]
        if not isinstance(window.offset, Num) or any(Axis(a).is_pack or a not in self.rules for a in axes):
            return False
        form = Affine(tuple((self.axis(a), step) for a, step in window.steps), Integer(int(window.offset.value)))
        rules = {rule.axis: rule for rule in self.rules.values()}
        whole = Mul(*(Size(self.axis(a)) for a in parts))
        lengths = ((closed(Size(a), rules), longest(form, a, whole)) for a, _ in form.steps)
        return any(length in (most, Rest(most)) for length, most in ((n, closed(m, rules)) for n, m in lengths))

    def behind(self, dim: str, window: Window) -> Expr | None:
        """How many places of a dimension lie behind those of a window of one axis that takes every one of them."""
        offset = raised(window.offset, {}, _length)
        if offset is None or [step for _, step in window.steps] != [1] or base(dim) not in self.rules:
            return None
        rules = {rule.axis: rule for rule in self.rules.values()}
        return closed(Size(self.axis(dim)) - offset - Size(self.axis(window.steps[0][0])), rules)


def _length(node: Node) -> Expr | None:
    return Size(Axis(node.axis)) if isinstance(node, SizeOf) else None
