"""Where the length of each axis comes from: itself, an input, an argument, or what reads and windows allow."""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Basic, Expr, Integer, Min, Mul, floor

from derive.equations import Equation, Operand, SizeRule
from derive.errors import DeriveError
from derive.terms import At, Axis, Concat, Merge, Prefix, Size, sorted_axes
from derive.windows import affine

Dims = dict[str, tuple[Expr, ...]]


def size_rules(operands: tuple[Operand, ...], equations: tuple[Equation, ...], op: str) -> tuple[SizeRule, ...]:
    """One rule an axis: its fixed length, the first operand dimension that carries it, else what its reads allow."""
    rules = _declared(operands, equations)
    dims = dimensions(operands, equations)
    for _ in range(len(equations) + 1):
        for e in equations:
            lengths = [Size(a) for a in e.over]
            if isinstance(e.body, Concat) and e.body.along not in rules and _known(Add(*lengths), rules):
                rules[e.body.along] = SizeRule(e.body.along, formula=Add(*lengths))
        found: dict[Axis, list[Expr]] = {}
        for at in (at for equation in equations for at in equation.reads):
            for axis, formula in _sizes_of_read(at, dims[at.name], rules):
                if axis not in rules and _known(formula, rules):
                    found.setdefault(axis, []).append(formula)
        if not found:
            break
        rules |= {axis: SizeRule(axis, formula=_shortest(formulas)) for axis, formulas in found.items()}
    ranged = {o.ranges_over for o in operands if o.ranges_over is not None}
    for equation in equations:
        for axis in sorted_axes(set(equation.axes) | set(equation.over) | ranged):
            if axis not in rules:
                raise DeriveError(
                    f"no input carries axis {axis.base}, so its size is unknown",
                    op=op,
                    equation=str(equation.name),
                    fix=f"give an input the axis {axis.base}, an argument {axis.base}_length: length({axis.base}), "
                    f'or a fixed length: axes("{axis.base}=2")',
                )
    return tuple(rules.values())


def dimensions(operands: tuple[Operand, ...], equations: tuple[Equation, ...]) -> Dims:
    """What each dimension of every tensor runs over."""
    return {o.name: o.axes for o in operands} | {e.name: e.index for e in equations}


def _declared(operands: tuple[Operand, ...], equations: tuple[Equation, ...]) -> dict[Axis, SizeRule]:
    """The lengths that are fixed, given as arguments, or carried by operands, in this order."""
    rules: dict[Axis, SizeRule] = {}
    mentioned = [a for o in operands for a in (*o.axes, *([o.ranges_over] if o.ranges_over is not None else []))]
    mentioned += [a for e in equations for a in (*e.axes, *e.over)]
    for axis in mentioned:
        if axis.fixed is not None:
            rules.setdefault(axis, SizeRule(axis, formula=Integer(axis.fixed)))
    for operand in operands:
        if operand.kind == "length" and operand.ranges_over is not None:
            rules.setdefault(operand.ranges_over, SizeRule(operand.ranges_over, given=operand.name))
    for operand in operands:
        for position, axis in enumerate(operand.axes):
            rules.setdefault(axis, SizeRule(axis, operand.name, position))
    lengths: dict[str, Axis] = {}
    for axis in mentioned:
        if lengths.setdefault(axis.base, axis) != axis:
            one, other = (f"of length {a.fixed}" if a.fixed else "of any length" for a in (lengths[axis.base], axis))
            raise DeriveError(f"two axes are called {axis.base}, one {one}, one {other}", fix="rename one of them")
    return rules


def _known(formula: Expr, rules: dict[Axis, SizeRule]) -> bool:
    return all(s.axis in rules for s in formula.atoms(Size))


def _shortest(formulas: list[Expr]) -> Expr:
    """What all the windows over an axis allow; dimensions it merely reads agree, which the op checks as it runs."""
    plain = [f for f in formulas if isinstance(f, Size | Integer)]
    windows = [f for f in formulas if not isinstance(f, Size | Integer)]
    return Min(*windows, *plain[:1]) if windows else plain[0]


def read_prefixes(equation: Equation, dims: Dims, sizes: tuple[SizeRule, ...]) -> Equation:
    """The equation with every plain read of a longer dimension marked as a read of its first places."""
    shorter = {
        r.axis: r.formula for r in sizes if r.formula is not None and not isinstance(r.formula, Size | Integer)
    }
    put: dict[Basic, Basic] = {}
    for at in equation.reads:
        index = [
            Prefix(i) if isinstance(i, Axis) and isinstance(d, Axis) and i in shorter and i != d else i
            for i, d in zip(at.index, dims[at.name], strict=True)
        ]
        if tuple(index) != at.index and all(
            shorter[p.args[0]] != Size(d) for p, d in zip(index, dims[at.name], strict=True) if isinstance(p, Prefix)
        ):
            put[at] = At(at.tensor, *index)
    return replace(equation, body=equation.body.xreplace(put)) if put else equation


def _sizes_of_read(at: At, dims: tuple[Expr, ...], rules: dict[Axis, SizeRule]) -> list[tuple[Axis, Expr]]:
    found: list[tuple[Axis, Expr]] = []
    for i, dim in zip(at.index, dims, strict=True):
        length = size_of(dim)
        if isinstance(i, Axis):
            if not isinstance(dim, Axis) or dim in rules:
                found.append((i, length))
        elif isinstance(i, Merge):
            unknown = [a for a in i.args if a not in rules]
            if len(unknown) == 1:
                found.append((unknown[0], length / Mul(*(Size(a) for a in i.args if a != unknown[0]))))
        elif not i.atoms(At):
            found += window_sizes(i, length, rules)
    return found


def window_sizes(i: Expr, length: Expr, rules: dict[Axis, SizeRule]) -> list[tuple[Axis, Expr]]:
    """The one unknown axis of `s*t + d*k + c` is as long as the window allows."""
    form = affine(i)
    unknown = [(a, c) for a, c in form.steps if a not in rules]
    if len(unknown) != 1:
        return []
    axis, step = unknown[0]
    if step < 0:
        span = sum(((Size(a) - 1) * c for a, c in form.steps if a != axis and c < 0), form.offset)
        return [(axis, (span if step == -1 else floor(span / -step)) + 1)]
    reach = sum(((Size(a) - 1) * c for a, c in form.steps if a != axis and c > 0), form.offset)
    span = length - 1 - reach
    return [(axis, (span if step == 1 else floor(span / step)) + 1)]


def size_of(index: Expr) -> Expr:
    """The length of what an index runs over."""
    if isinstance(index, Merge):
        return Mul(*(Size(a) for a in index.args))
    return Size(index)
