"""Where the length of each axis comes from: itself, an input, an argument, or what reads and windows allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from types import MappingProxyType

from sympy import Add, Basic, Expr, Integer, Min, Mul, S, expand, floor

from derive.errors import DeriveError
from derive.facts.domains import Domain, end_of
from derive.ir.equations import Equation, Operand, SizeRule
from derive.ir.terms.axes import Axis, Size, free_axes, sorted_axes
from derive.ir.terms.choices import Concat, conjuncts
from derive.ir.terms.elements import At
from derive.ir.terms.indices import Merge
from derive.ir.terms.windows import affine, is_window, longest

Dims = dict[str, tuple[Expr, ...]]
Rules = dict[Axis, SizeRule]
Kept = dict[Expr, list[Sequence[Basic]]]
"""The conditions under which each index that some keep inside is read."""


def size_rules(
    operands: tuple[Operand, ...],
    equations: tuple[Equation, ...],
    op: str,
    written: Sequence[At] = (),
    said: Mapping[Axis, Expr] = MappingProxyType({}),
) -> tuple[SizeRule, ...]:
    """One rule an axis: its fixed length, what is `said`, the first operand that carries it, else what reads allow.

    `written` are the reads as the spec wrote them: those that cancel, as in `x[i] - x[i]`, still tell a length.
    Raises DeriveError where nothing tells the length of an axis.
    """
    rules = _declared(operands, equations, said)
    dims = dimensions(operands, equations)
    standing = [at for equation in equations for at in equation.reads]
    rules = _allowed(rules, standing, dims, equations)
    if any(a not in rules for e in equations for a in (*e.axes, *e.over)):
        guards = [e for e in equations if e.guard]
        places = {At(e.target, *e.index): e.body.args[1] for e in guards}
        called = [at.xreplace(places) for at in standing if at not in places]  # what a called op wrote is not `written`
        known = [at for at in (*written, *called) if at.name in dims and len(dims[at.name]) == len(at.index)]
        kept: Kept = {}
        for e in guards:
            kept.setdefault(e.body.args[1], []).append(conjuncts(e.body.args[0]))
        known = [at for at in known if not any(_tells_nothing(at, dims[at.name], kept))]
        rules = _allowed(rules, known, dims, equations, kept)
    for k, equation in enumerate(equations):
        counted = {size.axis for part in (equation.body, equation.scale) for size in part.atoms(Size)}
        for axis in sorted_axes(set(equation.axes) | set(equation.over) | counted):
            if axis not in rules:
                reader = next((e for e in equations[k:] if not e.guard), equation)
                raise _unknown(axis).within(op, str(reader.name))
    for operand in operands:
        if operand.ranges_over is not None and operand.ranges_over not in rules:
            raise _unknown_range(operand, operand.ranges_over).within(op)
    return tuple(rules.values())


def told(operands: tuple[Operand, ...], equations: tuple[Equation, ...], said: Mapping[Axis, Expr]) -> Rules:
    """A rule for every axis whose length the inputs and the reads of these equations tell."""
    reads = [at for equation in equations for at in equation.reads]
    return _allowed(_declared(operands, equations, said), reads, dimensions(operands, equations), equations)


def _unknown(axis: Axis) -> DeriveError:
    """What to say of an axis whose length nothing tells."""
    if axis.is_pack:
        return DeriveError(
            "no input has `...`, so nothing tells which axes it stands for",
            fix="declare an input with it, such as x: tensor[..., d], or name the axes",
        )
    name = axis.base
    return DeriveError(
        f"no input carries axis {name}, so its size is unknown",
        fix=f"give an input the axis {name}, an argument {name}_length: length({name}), "
        f'or a fixed length: axes("{name}=2")',
    )


def _unknown_range(operand: Operand, axis: Axis) -> DeriveError:
    """What to say of an index whose values run over an axis that nothing has."""
    own = ", ".join(map(str, operand.declared or operand.axes)) or "()"
    return DeriveError(
        f"the values of {operand.name} run over axis {axis.base}, which no input carries",
        fix=f"declare {operand.name}: constant[{own}] where it is only compared, "
        f"or give an argument {axis.base}_length: length({axis.base})",
    )


def _allowed(
    rules: Rules, reads: Sequence[At], dims: Dims, equations: tuple[Equation, ...], kept: Kept | None = None
) -> Rules:
    """The rules, and one for every axis that joined pieces or these reads give a length."""
    for _ in range(len(equations) + 1):
        for e in equations:
            lengths = [Size(a) for a in e.over]
            if isinstance(e.body, Concat) and e.body.along not in rules and _known(Add(*lengths), rules):
                rules = rules | {e.body.along: SizeRule(e.body.along, formula=Add(*lengths))}
        found: dict[Axis, list[Expr]] = {}
        waiting: set[Axis] = set()  # for the length of what they are read from
        for at in reads:
            for axis, formula in _sizes_of_read(at, dims[at.name], rules, kept or {}):
                if axis not in rules and _known(formula, rules):
                    found.setdefault(axis, []).append(formula)
                elif axis not in rules:
                    waiting.add(axis)
        found = {a: lengths for a, lengths in found.items() if a not in waiting} or found
        found = found or _by_readers(reads, dims, rules)
        if not found:
            break
        rules = rules | {axis: SizeRule(axis, formula=shortest(formulas)) for axis, formulas in found.items()}
    return rules


def _by_readers(reads: Sequence[At], dims: Dims, rules: Rules) -> dict[Axis, list[Expr]]:
    """Axes that a tensor was written with and nothing gives a length, by the one axis that it is read with."""
    found: dict[Axis, list[Expr]] = {}
    for at in reads:
        for i, dim in zip(at.index, dims[at.name], strict=True):
            if isinstance(dim, Axis) and dim not in rules and isinstance(i, Axis) and i in rules:
                found.setdefault(dim, []).append(Size(i))
    return {axis: formulas for axis, formulas in found.items() if len(set(formulas)) == 1}


def joined(length: Expr, equations: Sequence[Equation]) -> Expr:
    """A length with those of the axes that pieces are joined along as the lengths of these pieces."""
    for e in reversed(equations):
        if isinstance(e.body, Concat):
            length = length.xreplace({Size(e.body.along): Add(*(Size(a) for a in e.over))})
    return length


def dimensions(operands: tuple[Operand, ...], equations: tuple[Equation, ...]) -> Dims:
    """What each dimension of every tensor runs over."""
    return {o.name: o.axes for o in operands} | {e.name: e.index for e in equations}


def _declared(operands: tuple[Operand, ...], equations: tuple[Equation, ...], said: Mapping[Axis, Expr]) -> Rules:
    """The lengths that are fixed, given as arguments, said in the body, or carried by operands, in this order."""
    rules: Rules = {}
    mentioned = [a for o in operands for a in (*o.axes, *([o.ranges_over] if o.ranges_over is not None else []))]
    mentioned += [a for e in equations for a in (*e.axes, *e.over)]
    for axis in mentioned:
        if axis.fixed is not None:
            rules.setdefault(axis, SizeRule(axis, formula=Integer(axis.fixed)))
    for operand in operands:
        if operand.kind == "length" and operand.ranges_over is not None:
            if operand.ranges_over in rules:
                raise _said_twice(operand, operand.ranges_over, rules[operand.ranges_over].given)
            rules[operand.ranges_over] = SizeRule(operand.ranges_over, given=operand.name)
    needs = {axis: [a for a in said if Size(a) in formula.atoms(Size)] for axis, formula in said.items()}
    for axis in TopologicalSorter(needs).static_order():  # each after those that it is said by
        if axis in rules:
            raise DeriveError(
                f"the length of axis {axis} is the argument {rules[axis].given}, and said in the body",
                fix="leave one of them out",
            )
        if not any(axis in o.axes and not o.carried for o in operands):  # else it must be what is said: `requirements`
            rules[axis] = SizeRule(axis, formula=said[axis], said=True)
    for operand in (o for o in operands if not o.carried):
        for position, axis in enumerate(operand.axes):
            rules.setdefault(axis, SizeRule(axis, operand.name, position))
    lengths: dict[str, Axis] = {}
    for axis in mentioned:
        if lengths.setdefault(axis.base, axis) != axis:
            one, other = (f"of length {a.fixed}" if a.fixed else "of any length" for a in (lengths[axis.base], axis))
            raise DeriveError(f"two axes are called {axis.base}, one {one}, one {other}", fix="rename one of them")
    return rules


def _said_twice(operand: Operand, axis: Axis, given: str | None) -> DeriveError:
    """What to say of an argument for a length that something else says already."""
    own = f"the argument {given} already" if given is not None else f"{axis.fixed} already, where the axis is made"
    name = operand.name
    return DeriveError(f"{name} is the length of axis {axis.base}, which is {own}", fix=f"leave {name} out")


def _known(formula: Expr, rules: Rules) -> bool:
    return all(s.axis in rules for s in formula.atoms(Size))


def shortest(formulas: list[Expr]) -> Expr:
    """What all the windows over an axis allow; dimensions it merely reads agree, which the op checks as it runs."""
    plain = [f for f in formulas if isinstance(f, Size | Integer)]
    windows = [f for f in formulas if not isinstance(f, Size | Integer)]
    return Min(*_least(windows), *plain[:1]) if windows else plain[0]


def _least(lengths: Sequence[Expr]) -> list[Expr]:
    """The lengths without those that another is never longer than: `(t - 1) // 2 + 1` beside `t // 2`."""
    kept: list[Expr] = []
    for one in lengths:
        if not any(is_at_least(one, other) for other in kept):
            kept = [other for other in kept if not is_at_least(other, one)] + [one]
    return kept


def is_at_least(one: Expr, other: Expr) -> bool:
    """Whether two lengths are rounded down from what differs by a number, and the first from no less."""
    exact = [length.replace(floor, lambda e: e) for length in (one, other)]
    whole = all(_rounds_once(length) for length in (one, other))
    gap = expand(exact[0] - exact[1])
    return whole and bool(gap.is_number and gap >= 0)


def _rounds_once(length: Expr) -> bool:
    """Whether a length is at most one number rounded down, and whole ones."""
    rest = [t for t in Add.make_args(length) if not isinstance(t, floor)]
    return len(Add.make_args(length)) - len(rest) <= 1 and all(t.is_integer and not t.has(floor) for t in rest)


def closed(expr: Expr, rules: Rules) -> Expr:
    """A length over the lengths that inputs and arguments give; one without a rule, as of a merge, stays."""
    for _ in range(len(rules) + 1):
        known = {s: rules[s.axis].formula for s in expr.atoms(Size) if s.axis in rules}
        put = {s: formula for s, formula in known.items() if formula is not None}
        if not put:
            break
        expr = expr.xreplace(put)
    return expand(expr)


def _sizes_of_read(at: At, dims: tuple[Expr, ...], rules: Rules, kept: Kept) -> list[tuple[Axis, Expr]]:
    found: list[tuple[Axis, Expr]] = []
    for i, dim in zip(at.index, dims, strict=True):
        length = size_of(dim) + _in_front(i, dim, kept)
        if isinstance(i, Axis):
            if not isinstance(dim, Axis) or dim in rules:
                found.append((i, length))
        elif isinstance(i, Merge):
            unknown = [a for a in i.args if a not in rules]
            if len(unknown) == 1:
                found.append((unknown[0], length / Mul(*(Size(a) for a in i.args if a != unknown[0]))))
        elif not i.atoms(At):
            found += [_not_at_one_place(i, axis, allowed, length) for axis, allowed in window_sizes(i, length, rules)]
    return found


def _not_at_one_place(i: Expr, axis: Axis, allowed: Expr, length: Expr) -> tuple[Axis, Expr]:
    """The length that a window allows an axis; refused where that is a number since it runs along the dimension."""
    form = affine(i)
    if allowed.is_number and len(form.steps) > 1:
        outside, inside, or_else = (
            "before the first",
            f"{form} >= 0",
            f"read a longer tensor behind its first places: {form} + size({axis.base}) - 1",
        )
        if dict(form.steps)[axis] > 0:
            outside, inside, or_else = "beyond the last", f"{form} < {length}", _OTHER_PLACES
        raise DeriveError(
            f"an index {form} reads {outside} place but where {axis.base} < {allowed}",
            fix=f"write it under the condition that it does not, where({inside}, …, 0), or {or_else}",
        )
    return axis, allowed


_OTHER_PLACES = "give the places an axis of another name on both sides, such as f.y[…, u] = … x[…, u + k]"


def window_sizes(i: Expr, length: Expr, rules: Rules) -> list[tuple[Axis, Expr]]:
    """The one unknown axis of `s*t + d*k + c` is as long as the window allows."""
    form = affine(i)
    unknown = [a for a, _ in form.steps if a not in rules]
    return [(unknown[0], longest(form, unknown[0], length))] if len(unknown) == 1 else []


def _in_front(i: Expr, dim: Expr, kept: Kept) -> Expr:
    """How many places in front of the first a window begins that conditions keep inside at both ends, else 0.

    It may lie as far beyond the last: of padding, both ends have the same.
    """
    asked = kept.get(i, ()) if isinstance(dim, Axis) else ()
    both = bool(asked) and all(Domain.under(conditions).keeps_both_ends(i, dim) for conditions in asked)
    return -end_of(i, -1) if both else S.Zero


def _tells_nothing(at: At, dims: tuple[Expr, ...], kept: Kept) -> Iterator[bool]:
    """Of each index whether it tells no length, being kept inside by a condition: `t - s`, or a `t + k` along `t`."""
    for i, dim in zip(at.index, dims, strict=True):
        yield _starts_before(i) or (i in kept and dim in free_axes(i))


def _starts_before(i: Expr) -> bool:
    """Whether axis arithmetic runs back from an axis with nothing in front of it: `t - s`."""
    form = affine(i) if is_window(i) else None
    return form is not None and form.offset.is_number and min((step for _, step in form.steps), default=0) < 0


def size_of(index: Expr) -> Expr:
    """The length of what an index runs over."""
    if isinstance(index, Merge):
        return Mul(*(Size(a) for a in index.args))
    return Size(index)
