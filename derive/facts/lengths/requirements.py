"""What the lengths of axes must satisfy so that every read finds its element: proven, or checked as the op runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from sympy import Add, Basic, Expr, Integer, Min, Mul, S, expand, floor, fraction

from derive.errors import DeriveError
from derive.facts.domains import Domain, end_of, first_asked
from derive.facts.lengths.agreement import agreed, in_terms
from derive.facts.lengths.sizes import closed, dimensions, is_at_least, size_of, window_sizes
from derive.ir.equations import Equation, Operand, Requirement, SizeRule
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Concat, Where, conjuncts, same
from derive.ir.terms.elements import At, Delta
from derive.ir.terms.indices import Merge, Prefix
from derive.ir.terms.windows import Affine, affine, is_window

Rules = dict[Axis, SizeRule]


def requirements(
    operands: tuple[Operand, ...],
    equations: tuple[Equation, ...],
    sizes: tuple[SizeRule, ...],
    said: Mapping[Axis, Expr],
) -> tuple[Requirement, ...]:
    """What must hold of the lengths beyond what a plain read of an input says, each once.

    What is `said` of the axis of an input must be so. Raises DeriveError where it can hold for no lengths at all.
    """
    rules = {r.axis: r for r in sizes}
    found: dict[Expr, Requirement] = {}
    stated = list(_stated(operands, equations, said))
    for r in (*stated, *_needs(operands, equations, rules, {o.name for o in operands if not o.carried})):
        try:
            if not _holds(r, rules):
                found.setdefault(_key(r), r)
        except DeriveError as error:
            raise error.within(equation=r.equation) from None
    lengths_agreed(operands, equations, sizes, stated)
    return strongest(found.values())


def _stated(
    operands: tuple[Operand, ...], equations: tuple[Equation, ...], said: Mapping[Axis, Expr]
) -> Iterator[Requirement]:
    """That what the body says of an axis is a length, and that of an input."""
    for axis, length in said.items():
        own = [o.name for o in operands if axis in o.axes and not o.carried]
        first = next((k for k, e in enumerate(equations) if any(at.name in own for at in e.reads)), 0)
        reader = next((e.name for e in equations[first:] if e.given), "")
        top, bottom = fraction(length)
        if bottom != 1:
            yield Requirement(reader, str(top), top, "%", bottom)
        elif own:
            yield Requirement(reader, f"axis {axis}", Size(axis), "==", length)
        yield Requirement(reader, f"axis {axis}", length, ">=", Integer(0))


def strongest(needs: Collection[Requirement]) -> tuple[Requirement, ...]:
    """What must hold, without what does where another holds."""
    return tuple(r for r in needs if not any(_implied(r, other) for other in needs))


def lengths_agreed(
    operands: tuple[Operand, ...],
    equations: tuple[Equation, ...],
    sizes: tuple[SizeRule, ...],
    stated: Collection[Requirement] = (),
) -> Callable[[Expr], Expr]:
    """A length as a function of those that no read ties to others. Raises DeriveError as `requirements` does."""
    rules = {r.axis: r for r in sizes}
    twice = [
        Requirement("", f"{o.name}", Size(axis), "==", Size(said))
        for o in operands
        for said, axis in zip(o.declared or o.axes, o.axes, strict=True)
    ]
    known = agreed([*twice, *stated, *_needs(operands, equations, rules, set())], lambda length: closed(length, rules))
    return lambda length: in_terms(closed(length, rules), known)


def _needs(
    operands: tuple[Operand, ...], equations: tuple[Equation, ...], rules: Rules, inputs: set[str]
) -> Iterator[Requirement]:
    """What each equation asks of lengths, but for plain reads of these inputs."""
    dims = dimensions(operands, equations)
    chosen = (e for e in equations if e.target.is_integer and isinstance(e.body, Where))
    guards = {e.name: e.body for e in chosen if is_window(e.body.args[1])}
    ranges = _ranges(operands, equations)
    made = {e.name for e in equations}
    for k, equation in enumerate(equations):
        written = next((e.name for e in equations[k:] if e.given), equation.name)
        try:
            gathered = _of_gathers(equation, {n: d for n, d in dims.items() if n in made}, ranges)
            for r in (*_of_equation(equation, dims, inputs, rules, guards), *gathered):
                yield replace(r, equation=written)
        except DeriveError as error:
            raise error.within(equation=written) from None


def _ranges(operands: tuple[Operand, ...], equations: tuple[Equation, ...]) -> dict[str, Axis]:
    """The axis that the values of each index run over, those that a condition guards among them."""
    ranges = {o.name: o.ranges_over for o in operands if o.kind == "index" and o.ranges_over is not None}
    for e in equations:
        if e.target.is_integer and isinstance(e.body, Where) and isinstance(e.body.args[1], At):
            ranges |= {e.name: ranges[e.body.args[1].name]} if e.body.args[1].name in ranges else {}
    return ranges


def _of_gathers(
    equation: Equation, dims: dict[str, tuple[Expr, ...]], ranges: dict[str, Axis]
) -> Iterator[Requirement]:
    """A dimension of what an equation makes is as long as the axis that an index into it runs over."""
    for at in (at for at in equation.reads if at.name in dims):
        for i, dim in zip(at.index, dims[at.name], strict=True):
            own = ranges.get(i.name) if isinstance(i, At) else None
            if own is not None and isinstance(dim, Axis) and dim != own:
                yield Requirement(equation.name, f"axis {dim.base}", Size(dim), "==", Size(own))


def deltas_chosen(
    operands: tuple[Operand, ...], equations: tuple[Equation, ...], sizes: tuple[SizeRule, ...]
) -> tuple[Equation, ...]:
    """The equations with a delta as a choice wherever one index may be no place of the axis that the other is.

    A sum puts one index of a delta in place of the other, which is right only where it always finds its element.
    """
    ranges = {o.name: o.ranges_over for o in operands if o.kind == "index" and o.ranges_over is not None}
    length = lengths_agreed(operands, equations, sizes)

    def chosen(e: Equation) -> Equation:
        loose = [d for d in e.body.atoms(Delta) if not _always_finds(d, ranges, length)]
        return replace(e, body=e.body.xreplace({d: Where(same(*d.args), 1, 0) for d in loose})) if loose else e

    return tuple(chosen(e) for e in equations)


def _always_finds(delta: Delta, ranges: dict[str, Axis], length: Callable[[Expr], Expr]) -> bool:
    for one, other in (delta.args, delta.args[::-1]):
        if not isinstance(one, Axis):
            continue
        if isinstance(other, Axis | At):
            axis = other if isinstance(other, Axis) else ranges.get(other.name)
            return axis is not None and length(Size(axis)) == length(Size(one))
        low, high = (end_of(other, way) if is_window(other) else S.NegativeOne for way in (-1, 1))
        return _is_sure(length(low)) and _is_sure(expand(length(Size(one) - 1) - length(high)))
    return True


def _implied(r: Requirement, by: Requirement) -> bool:
    """Whether another requirement asks for a longer axis."""
    return r.relation == by.relation == ">=" and expand(r.left - r.right - by.left + by.right).is_positive is True


def _of_equation(
    equation: Equation,
    dims: dict[str, tuple[Expr, ...]],
    inputs: set[str],
    rules: Rules,
    guards: dict[str, Where],
) -> Iterator[Requirement]:
    name = equation.name
    if isinstance(equation.body, Concat):
        along = equation.body.along
        yield Requirement(name, f"axis {along.base}", Size(along), "==", Add(*(Size(a) for a in equation.over)))
    if equation.kind in ("amax", "amin"):
        for axis in equation.over:
            if rules[axis].operand is None or axis.is_pack:
                yield Requirement(name, f"axis {axis.base}", Size(axis), ">=", Integer(1))
    for at in equation.reads:
        plain_input = at.name in inputs and all(isinstance(i, Axis) for i in at.index)
        for i, dim in zip(at.index, dims[at.name], strict=True):
            length, what = size_of(dim), f"axis {dim.base}" if isinstance(dim, Axis) else str(dim)
            if isinstance(i, Merge):
                yield _of_merge(name, what, i, length, rules)
            elif isinstance(i, Axis) and i != dim and not plain_input:
                yield Requirement(name, what, length, "==", Size(i))
            elif isinstance(i, Prefix):
                yield Requirement(name, f"{at}", length, ">=", Size(i.args[0]), what)
            elif is_window(i):
                yield from _of_window(name, at, i, dim, rules)
            elif isinstance(i, At) and i.name in guards and isinstance(dim, Axis):
                yield from _under_guard(name, at, i, guards[i.name], dim, rules)


def _of_merge(name: str, what: str, merge: Merge, length: Expr, rules: Rules) -> Requirement:
    for axis in merge.args:
        others = Mul(*(Size(a) for a in merge.args if a != axis))
        if rules[axis].formula == length / others:
            return Requirement(name, what, length, "%", others)
    return Requirement(name, what, length, "==", size_of(merge))


def _of_window(name: str, at: At, i: Expr, dim: Expr, rules: Rules) -> Iterator[Requirement]:
    """The first and the last place that the window reaches lie on the dimension."""
    length, form = size_of(dim), affine(i)
    if not form.offset.is_integer:
        return
    what = f"{at}"
    where = f"axis {dim.base}" if isinstance(dim, Axis) else str(dim)
    low, high = end_of(i, -1), end_of(i, 1)
    if closed(low, rules).is_negative or _never(closed(low, rules)):
        raise DeriveError(f"{at} reads before the first place of {where}", fix=_instead_of_before(form, dim))
    if not form.steps and not high.is_number and _never(closed(length - 1 - high, rules)):
        raise DeriveError(
            f"{at} reads beyond the end of {where}, whose places are 0 to {length} - 1", fix="the last one is -1"
        )
    if any(a == dim and step > 0 for a, step in form.steps) and _never(closed(length - 1 - high, rules)):
        raise DeriveError(
            f"{at} reads beyond the end of {where}",
            fix="give the places an axis of another name on both sides, such as f.y[…, u] = … x[…, u + k]",
        )
    if len(form.steps) > 1:  # no view and no pool slides a window of nothing, or nowhere
        given = (axis for axis, _ in form.steps if rules[axis].given is not None)
        yield from (Requirement(name, f"axis {a.base}", Size(a), ">=", Integer(1)) for a in given)
    before = Add(*(-t for t in Add.make_args(expand(low)) if t.could_extract_minus_sign()))
    yield Requirement(name, what, expand(low + before), ">=", before, where)
    for axis, _ in form.steps:
        formula = rules[axis].formula
        rest = {a: r for a, r in rules.items() if a != axis}
        allowed = [f for _, f in window_sizes(i, length, rest)]
        if formula is not None and any(is_at_least(f, g) for f in allowed for g in Min.make_args(formula)):
            least = Integer(min(len(form.steps), 2) - 1)  # one window at least; differences of neighbours may be none
            yield Requirement(name, what, length, ">=", expand(high.xreplace({Size(axis): least}) + 1), where)
            return
    yield Requirement(name, what, length, ">=", high + 1, where)


def _instead_of_before(form: Affine, dim: Expr) -> str:
    """What to write in place of a read that begins before the first place."""
    if not form.steps:
        return "the first place is 0, and -1 the last"
    if form.offset == 0 and form.steps == ((dim, -1),):
        return f"from the last place to the first it is size({dim}) - 1 - {dim}"
    return (
        "read it under a condition on its places that keeps it inside, such as where(t >= 1, x[…, t - 1], 0), "
        "shift the axis so that places start at 0, concat what stands before them, or add up what lies on the "
        "axis, such as sum(where(eq(u + 1, t), x[…, u], 0), over=u)"
    )


def _under_guard(name: str, at: At, place: At, guard: Where, dim: Axis, rules: Rules) -> Iterator[Requirement]:
    """The last place that a window reaches lies on the dimension where a condition holds (`Domain.length_asked`)."""
    condition, i = guard.args[:2]
    asked = Domain.under(conjuncts(condition), lambda length: closed(length, rules)).length_asked(i, dim)
    written = At(at.tensor, *(i if other == place else other for other in at.index))
    if (first := first_asked(i)) is not None:
        yield Requirement(name, f"{written}", first[0], ">=", first[1], f"axis {dim.base}")
    if asked is None:
        return
    if not asked.atoms(Min) and _never(closed(Size(dim) - asked, rules)):
        raise DeriveError(
            f"{written} reads beyond the end of axis {dim.base}, also where {condition}",
            fix=f"read it under a condition that keeps that end inside as well: {i} < size({dim.base})",
        )
    yield Requirement(name, f"{written}", Size(dim), ">=", asked, f"axis {dim.base}")


def _never(slack: Expr) -> bool:
    """Whether this is below 0 for every length, or at best 0 where all lengths are 1."""
    numbers = slack.xreplace({s: Integer(1) for s in slack.atoms(Size)})
    shrinks = all(t.is_number or t.as_coeff_Mul()[0].is_negative for t in Add.make_args(slack))
    return bool(slack != 0 and shrinks and numbers.is_number and numbers <= 0)


def _holds(r: Requirement, rules: Rules) -> bool:
    """Whether it holds for all lengths. Raises DeriveError where the lengths are fixed and it does not."""
    left, right = closed(r.left, rules), closed(r.right, rules)
    if r.relation == "%":
        sure, known = fraction(left / right)[1] == 1, left.is_Integer and right.is_Integer and left % right == 0
    else:
        slack = expand(left - right)
        sure = slack == 0 or (r.relation == ">=" and _is_sure(slack))
        known = False
    if not sure and not known and left.is_Integer and right.is_Integer:
        if r.relation == ">=":
            raise DeriveError(f"{r.what} reads beyond the end of {r.where}, whose length is {left}", fix="count from 0")
        must = "a multiple of" if r.relation == "%" else "as long as"
        raise DeriveError(
            f"{r.what} has length {left}, which must be {must} {right}", fix="give the axes lengths that agree"
        )
    return bool(sure or known)


def _is_sure(slack: Expr) -> bool:
    """Whether this is 0 or more for all lengths, as what they are divided by rounded down is."""
    rounded = all(_is_sure(f.args[0]) for f in slack.atoms(floor))
    return rounded and all(t.as_coeff_Mul()[0].is_nonnegative for t in Add.make_args(slack)) and not slack.atoms(Min)


def _key(r: Requirement) -> Basic:
    from_left = {"%": 2, "==": 3, ">=": 5}[r.relation]
    if r.relation == ">=":  # `size(h) - 1 >= 0` is `size(h) >= 1`
        return Mul(from_left, expand(r.left - r.right), evaluate=False)
    return Mul(from_left, r.left, evaluate=False) + Mul(7, r.right, evaluate=False)
