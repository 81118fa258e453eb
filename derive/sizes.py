"""Where the length of each axis comes from: an input, an argument, or what reads and windows allow."""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Basic, Expr, Min, Mul, floor

from derive.equations import Equation, Operand, SizeRule
from derive.errors import DeriveError
from derive.terms import At, Axis, Concat, Merge, Prefix, Size, sorted_axes
from derive.windows import affine


def size_rules(operands: tuple[Operand, ...], equations: tuple[Equation, ...], op: str) -> tuple[SizeRule, ...]:
    """One rule an axis: the first operand dimension that carries it, else as long as its reads and windows allow."""
    rules: dict[Axis, SizeRule] = {}
    dims: dict[str, tuple[Expr, ...]] = {}
    for operand in operands:
        if operand.kind == "length" and operand.ranges_over is not None:
            rules[operand.ranges_over] = SizeRule(operand.ranges_over, given=operand.name)
    for operand in operands:
        dims[operand.name] = operand.axes
        for position, axis in enumerate(operand.axes):
            rules.setdefault(axis, SizeRule(axis, operand.name, position))
    for equation in equations:
        dims[equation.name] = equation.index
    for _ in range(len(equations) + 1):
        for e in equations:
            lengths = [Size(a) for a in e.over]
            if isinstance(e.body, Concat) and e.body.along not in rules and all(s.axis in rules for s in lengths):
                rules[e.body.along] = SizeRule(e.body.along, formula=Add(*lengths))
        found: dict[Axis, list[Expr]] = {}
        for at in (at for equation in equations for at in equation.reads):
            for axis, formula in _sizes_of_read(at, dims[at.name], rules):
                if axis not in rules and not any(s.axis not in rules for s in formula.atoms(Size)):
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
                    fix=f"give an input the axis {axis.base}, or an argument {axis.base}_length: length({axis.base})",
                )
    return tuple(rules.values())


def _shortest(formulas: list[Expr]) -> Expr:
    """What all the windows over an axis allow; dimensions it merely reads agree, which the op checks as it runs."""
    plain = [f for f in formulas if isinstance(f, Size)]
    windows = [f for f in formulas if not isinstance(f, Size)]
    return Min(*windows, *plain[:1]) if windows else plain[0]


def read_prefixes(equation: Equation, dims: dict[str, tuple[Expr, ...]], sizes: tuple[SizeRule, ...]) -> Equation:
    """The equation with every plain read of a longer dimension marked as a read of its first places."""
    shorter = {r.axis: r.formula for r in sizes if r.formula is not None and not isinstance(r.formula, Size)}
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
            found += _window_size(i, length, rules)
    return found


def _window_size(i: Expr, length: Expr, rules: dict[Axis, SizeRule]) -> list[tuple[Axis, Expr]]:
    """The one unknown axis of `s*t + d*k + c` is as long as the window allows."""
    form = affine(i)
    unknown = [(a, c) for a, c in form.steps if a not in rules]
    if len(unknown) != 1:
        return []
    axis, step = unknown[0]
    reach = sum(((Size(a) - 1) * c for a, c in form.steps if a != axis), form.offset)
    span = length - 1 - reach
    return [(axis, (span if step == 1 else floor(span / step)) + 1)]


def size_of(index: Expr) -> Expr:
    """The length of what an index runs over."""
    if isinstance(index, Merge):
        return Mul(*(Size(a) for a in index.args))
    return Size(index)
