"""What windows read of one place is made once for each place, before the windows: its value is the same in all of them.

`sum(w[k] * x[t + k] * y[t + k], over=k)` is a window's sum of `x_y[l] = x[l] * y[l]`, as `x[t + k] ** 2` is of squares.
Only what is finite wherever its inputs are is made at places that no window may read; `exp(x[t + k])` and any other
function where windows read all places, since they are as many as fit, side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sympy import Add, Basic, Expr, Function, Mul, Piecewise, Pow, S, Tuple

from derive.facts.lengths.sizes import closed, dimensions, size_of
from derive.ir.equations import Equation, Op, SizeRule
from derive.ir.lowering import lower
from derive.ir.nodes.naming import new_name_of
from derive.ir.terms.axes import Axis, free_axes, sorted_axes
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import At, Delta, Scalar, Tensor, reads_of
from derive.ir.terms.functions import having
from derive.ir.terms.indices import Merge
from derive.ir.terms.names import new_name
from derive.ir.terms.windows import affine, is_gather, is_window
from derive.primitives import FINITE

_FINITE = having(lambda r: r.finite == FINITE and r.name != "absolute")
"""Functions that are finite, as is their derivative, wherever their argument is; no magnitudes, which cost little."""


def made_before_windows(op: Op) -> Op:
    """The same op, with every such value under a name of its own."""
    dims = {name: tuple(own) for name, own in dimensions(op.operands, op.equations).items()}
    maker = _Maker(dims, {rule.axis: rule for rule in op.sizes}, op.names)
    equations = []
    for e in op.equations:
        known = len(maker.made)
        body = e.body if isinstance(e.body, Concat) else maker.rewritten(e.body)
        equations += [*maker.made[known:], replace(e, body=body)]
    return replace(op, equations=tuple(equations))


@dataclass
class _Maker:
    """Makes equations for what is the same in every window."""

    dims: dict[str, tuple[Expr, ...]]
    rules: dict[Axis, SizeRule]
    taken: set[str]
    made: list[Equation] = field(default_factory=list)

    def rewritten(self, expr: Expr) -> Expr:
        """The expression, its parts that read windows alike read from a tensor that is made before."""
        if not any(self.windows(at) for at in expr.atoms(At)):
            return expr
        if isinstance(expr, Add | Mul):
            alike: dict[frozenset[tuple[Expr, Expr]], list[Expr]] = {}
            for a in expr.args:
                alike.setdefault(self.alike(a), []).append(a)
            parts = [self.named(expr.func(*own), seen) for seen, own in alike.items() if seen]
            return expr.func(*(self.rewritten(a) for a in alike.get(frozenset(), [])), *parts)
        seen = self.alike(expr)
        if seen:
            return self.named(expr, seen)
        return expr if isinstance(expr, At) else expr.func(*(self.rewritten(a) for a in expr.args))

    def windows(self, at: At) -> frozenset[tuple[Expr, Expr]]:
        """The windows of two axes that a read goes through, each with the axis that it slides over."""
        found = [(i, dim) for i, dim in zip(at.index, self.dims[at.name], strict=True) if _slides(i)]
        apart = len({dim for _, dim in found}) == len(found) and all(isinstance(dim, Axis) for _, dim in found)
        return frozenset(found) if apart else frozenset()

    def alike(self, expr: Expr) -> frozenset[tuple[Expr, Expr]]:
        """The windows that all tensors in an expression are read through, and whose axes it has nowhere else."""
        ats = expr.atoms(At)
        found = {self.windows(at) for at in ats} - {frozenset[tuple[Expr, Expr]]()}
        if len(found) != 1 or not _is_made_of(expr, (Function,)):
            return frozenset()
        (own,) = found
        if not _is_made_of(expr, _FINITE) and not all(self.covers(i, dim) for i, dim in own):
            return frozenset()
        places = {a for i, dim in own for a in (*free_axes(i), dim)}
        elsewhere = {a for at in ats for i in at.index if not _slides(i) for a in free_axes(i)}
        elsewhere |= free_axes(expr.xreplace(dict.fromkeys(ats, S.One)))
        return frozenset() if places & elsewhere else own

    def covers(self, window: Expr, dim: Expr) -> bool:
        """Whether windows side by side read every place of a dimension."""
        form = affine(window)
        reached = Add(*(size_of(a) for a, _ in form.steps)) - 1
        one_by_one = form.offset == 0 and all(step == 1 for _, step in form.steps)
        return one_by_one and bool(closed(reached - size_of(dim), self.rules).expand() == 0)

    def named(self, expr: Expr, seen: frozenset[tuple[Expr, Expr]]) -> Expr:
        """The expression, or a read of it where it is more than a multiple of one element."""
        number, rest = expr.as_coeff_Mul()
        if isinstance(rest, At) or (isinstance(expr, Add) and len([a for a in expr.args if a.atoms(At)]) < 2):
            return expr
        body = rest.xreplace({at: At(at.tensor, *(dict(seen).get(i, i) for i in at.index)) for at in rest.atoms(At)})
        known = next((e for e in self.made if e.body == body), None)
        if known is None:
            target = Tensor(new_name_of(lower.node(body), self.taken))
            index = _places(body)
            known = Equation(target, index, body, given=False)
            self.dims[target.name] = index
            self.made.append(known)
        there = {d: i for i, d in seen}
        return number * At(known.target, *(there.get(i, i) for i in known.index))


def _places(body: Expr) -> tuple[Expr, ...]:
    """The axes of a value in the order of the largest tensor that it reads, merged as this is read with them merged."""
    largest = max(reads_of(body), key=lambda at: len(at.index))
    out: list[Expr] = []
    for i in (*largest.index, body):
        new = free_axes(i) - free_axes(Tuple(*out))
        merged = isinstance(i, Merge) and all(isinstance(a, Axis) for a in i.args)
        out += [i] if merged and new == free_axes(i) else sorted_axes(new)
    return tuple(sorted(out, key=lambda i: not (isinstance(i, Axis) and i.is_pack)))


def _slides(index: Expr) -> bool:
    return is_window(index) and not is_gather(index) and len(affine(index).steps) == 2


def _is_made_of(expr: Expr, functions: tuple[type, ...]) -> bool:
    """Whether an expression is made of sums, products, powers and these functions; of few, of whole powers."""
    if isinstance(expr, At | Scalar) or expr.is_number:
        return True
    if isinstance(expr, Pow):
        whole = bool(expr.exp.is_Integer and expr.exp > 0) or Function in functions
        return whole and all(_is_made_of(a, functions) for a in expr.args)
    plain = isinstance(expr, (Add, Mul, *functions)) and not isinstance(expr, Piecewise)
    return plain and all(_is_made_of(a, functions) for a in expr.args)


# --- and before padding ------------------------------------------------------------------------------------


def made_before_padding(op: Op) -> Op:
    """The same op, where what is made of one element of padded tensors, and is 0 where these are, is made before.

    `x_padded[c] ** 2` at every place is `x_squared[c] = x[c] ** 2` with zeros around it: nothing is computed of the
    zeros, and a backward that needs `x` has it without a longer copy. So it is where all that reads a padded tensor is.
    """
    pads = {e.name: (e, source) for e in op.equations if (source := _padded(e)) is not None}
    made = {e.name for e in op.equations if _is_of_pads(e, pads)}
    while True:
        others = {at.name for e in op.equations if e.name not in made for at in e.reads}
        gone = {at.name for e in op.equations if e.name in made for at in e.reads} - others
        if all(e.name not in made or gone.issuperset(at.name for at in e.reads) for e in op.equations):
            break
        made = {e.name for e in op.equations if e.name in made and gone.issuperset(at.name for at in e.reads)}
    taken, named, out = op.names, dict[Basic, Basic](), list[Equation]()
    for e in (e for e in op.equations if e.name not in gone):
        if e.name not in made:
            out.append(replace(e, body=e.body.xreplace(named)))
            continue
        (pad, source), body = pads[e.reads[0].name], e.body.xreplace({at: pads[at.name][1] for at in e.reads})
        inner = Tensor(new_name_of(lower.node(body), taken))
        named[e.target] = Tensor(new_name(f"{inner.name}_padded", taken))
        out.append(Equation(inner, source.index, body, given=False))
        out.append(replace(pad, target=named[e.target], body=pad.body.xreplace({source: At(inner, *source.index)})))
    return replace(op, equations=tuple(out))


def _padded(e: Equation) -> At | None:
    """What an equation of ours adds to zeros, at places behind those in front of it; None where it does no such."""
    others = [f for f in Mul.make_args(e.body) if not isinstance(f, Delta)]
    adds = not e.given and e.kind == "sum" and e.scale == 1 and e.body.has(Delta)
    return others[0] if adds and len(others) == 1 and isinstance(others[0], At) else None


def _is_of_pads(e: Equation, pads: Mapping[str, tuple[Equation, At]]) -> bool:
    """Whether an equation of ours makes one element of those there of tensors padded alike, and 0 of zeros."""
    if e.given or e.kind is not None or not e.reads or not all(at.name in pads for at in e.reads):
        return False
    own = [pads[at.name] for at in e.reads]
    alike = len({(pad.index, pad.over, pad.body / source) for pad, source in own}) == 1
    there = all(at.index == e.index == pad.index for at, (pad, _) in zip(e.reads, own, strict=True))
    return alike and there and e.body.xreplace(dict.fromkeys(e.reads, S.Zero)) == 0
