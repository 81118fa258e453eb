"""Loops over the places of an axis, for what is carried from one to the next: Python's, whose body is written once.

What of a tensor belongs to a place is a view, `z_t` in `z.unbind(1)`; what the body makes is stacked behind the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from derive.backends.code import ALL, REST, Code, Listed, Name, Pick, Slice, Text, call, method, selected
from derive.backends.torch.layout import layouts
from derive.backends.values import Dims, Line, Value, is_pack, permute, position, squeeze
from derive.ir.nodes.loops import Loop, names_read
from derive.ir.nodes.other_axes import without_axis
from derive.ir.program import Carry, Program

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_FEW_LISTS = 3
"""So many empty lists are written out."""


def loop_lines(printer: Printer, loop: Loop) -> list[Line]:
    """A loop, and what is read of its states one place earlier by statements outside."""
    program = printer.program
    outside = _read_outside(program, loop)
    lines = _looped(printer, loop, outside) if loop.goes_round else []
    for c in loop.carries:
        if c.before in outside:
            lines.append(_moved(printer, c, c.before))
        if c.last in outside and not loop.goes_round:
            lines.append(_moved(printer, c, c.last))
    carried = {n for c in loop.carries for n in (c.before, c.last)}
    readers = (k for k, s in enumerate(program.statements) if carried & names_read(s))
    part_of = frozenset(loop.statements or readers)
    return [replace(line, part_of=part_of) for line in lines]


def _read_outside(program: Program, loop: Loop) -> set[str]:
    """What is read outside of a loop."""
    found = set(program.returns)
    found |= {n for c in program.carries if c not in loop.carries for n in (c.start, c.after)}
    return found.union(*(names_read(s) for k, s in enumerate(program.statements) if k not in loop.statements))


def _looped(printer: Printer, loop: Loop, outside: set[str]) -> list[Line]:
    carries, axis, forwards = loop.carries, loop.carries[0].axis, loop.carries[0].forwards
    inside = [printer.program.statements[k] for k in loop.statements]
    made, befores = list(dict.fromkeys(s.name for s in inside)), [c.before for c in carries]
    read = dict.fromkeys(n for s in inside for n in sorted(names_read(s)))
    given = [n for n in read if n not in {*made, *befores}]
    stepped = [n for n in given if axis in printer.layouts[n]]
    afters = {c.after for c in carries}
    stacked = outside | {c.after for c in carries if c.before in outside}
    collected = [n for n in dict.fromkeys((*made, *befores)) if n in stacked and (n in made or n in afters)]
    names = {n: printer.unused(f"{printer.names.get(n, n)}_{axis}") for n in (*stepped, *made, *befores)}
    lists = {n: Name(printer.unused(f"{printer.names.get(n, n)}_steps")) for n in collected}
    lines = [Line(_start(printer, c).code, Name(names[c.before])) for c in carries]
    if lists:
        empty = ", ".join("[]" for _ in lists) if len(lists) <= _FEW_LISTS else f"([] for _ in range({len(lists)}))"
        lines.append(Line(Text(empty), Text(", ".join(map(str, lists.values())))))
    views = [(names[n], method(printer.stored(n), "unbind", _position(printer, n, axis))) for n in stepped]
    lines += _head(views, printer.size(axis), forwards)
    known = {n: _without(printer.layouts[n], axis) for n in (*befores, *given)}
    body = Program(
        printer.program.name,
        tuple((n, tuple(d for d in dims if d is not None)) for n, dims in known.items()),
        printer.program.scalars,
        tuple(without_axis(s, axis) for s in inside),
        (*collected, *(c.after for c in carries)),
    )
    for line in _body(printer, body, known, names):
        note = str(inside[min(line.part_of)]) if line.note else ""
        lines.append(replace(line, note=note, depth=line.depth + 1))
    lines += [Line(method(lists[n], "append", Name(names[n])), depth=1) for n in collected]
    moved = [(names[c.before], names.get(c.after, c.after)) for c in carries if c.after != c.before]
    if moved:
        to, value = (", ".join(side) for side in zip(*moved, strict=True))
        lines.append(Line(Text(value), Text(to), depth=1))
    lines += [_stacked(printer, n, lists[n], axis, forwards) for n in collected]
    return lines + [Line(Name(names[c.before]), printer.named(c.last)) for c in carries if c.last in outside]


def _body(printer: Printer, body: Program, given: dict[str, Dims], names: dict[str, str]) -> list[Line]:
    """The lines of one place. Every tensor lies there as that of all places does, without the axis."""
    laid_out = layouts(body, frozenset(s.name for s in body.statements), given, printer.slow)
    child = replace(printer, program=body, layouts=laid_out, names={**printer.names, **names}, lines=[])
    child.sizes = printer.sizes
    return child.print()


def _without(dims: Dims, axis: str) -> Dims:
    return tuple(d for d in dims if d != axis)


def _position(printer: Printer, name: str, axis: str) -> int:
    dims = printer.layouts[name]
    return position(dims, dims.index(axis))


def _start(printer: Printer, c: Carry) -> Value:
    """What stands before the first place, laid out as the state is."""
    value, wanted = squeeze(printer.stored(c.start)), _without(printer.layouts[c.before], c.axis)
    return permute(value, wanted) if set(value.dims) == set(wanted) else value


def _head(views: Sequence[tuple[str, Code]], count: str, forwards: bool) -> list[Line]:
    """The head of the loop: over the views of every tensor that has a place there, or so many times."""
    if not views:
        return [Line(Text(f"for _ in range({count}):"))]
    each = [str(v) if forwards else f"reversed({v})" for _, v in views]
    names = [n for n, _ in views]
    all_of = each[0] if len(each) == 1 else f"zip({', '.join(each)})"
    return [Line(Text(f"for {', '.join(names)} in {all_of}:"))]


def _stacked(printer: Printer, name: str, steps: Name, axis: str, forwards: bool) -> Line:
    """What was made at each place as one tensor; of no place, with none."""
    dims = printer.layouts[name]
    items = steps if forwards else Text(f"{steps}[::-1]")
    stacked = call("torch.stack", items, position(dims, dims.index(axis)))
    return Line(Pick(stacked, steps, printer.zeros(dims)), printer.named(name))


def _moved(printer: Printer, c: Carry, name: str) -> Line:
    """A finished state one place earlier, or what its last place leaves: parts of it with its start."""
    dims = printer.layouts[c.before]
    at = dims.index(c.axis)
    start = method(_start(printer, c), "unsqueeze", position(dims, at))
    parts = (start, printer.named(c.after)) if c.forwards else (printer.named(c.after), start)
    whole = call("torch.cat", Listed(parts), position(dims, at))
    is_behind = any(map(is_pack, dims[:at]))
    place: Code = Slice("", "-1") if c.forwards else Slice("1", "")
    if name == c.last:
        place = Text("-1" if c.forwards else "0")
    items = (REST, place, *(ALL for _ in dims[at + 1 :])) if is_behind else (*(ALL for _ in dims[:at]), place)
    return Line(selected(whole, items), printer.named(name))
