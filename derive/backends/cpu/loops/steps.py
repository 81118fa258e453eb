"""A pass in C, in each of its ways under what lengths must be for it, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.columns import Columns, Elements
from derive.backends.cpu.loops.lanes import Lanes
from derive.backends.cpu.loops.nests import MERGE, Nest
from derive.backends.cpu.loops.pair_tiles import PairTiles
from derive.backends.cpu.loops.products import print_product
from derive.backends.cpu.loops.rows import Rows
from derive.backends.cpu.loops.running import print_running
from derive.backends.cpu.loops.short import ShortRows
from derive.backends.cpu.loops.streams import Streams
from derive.backends.cpu.loops.together import RowsTogether
from derive.backends.cpu.names import Sizes, extent, length, times, variable
from derive.backends.cpu.products.matrices import Product
from derive.backends.cpu.schedule import ways
from derive.backends.cpu.schedule.schedule import Pass
from derive.backends.cpu.schedule.ways import Way
from derive.backends.cpu.statements.normal import Normal, Places, Running, Unsupported
from derive.backends.cpu.writer import Count, Scratch, Writer
from derive.ir.program import AxisValue, Call, Node, Num, Read

NESTS: Mapping[type[ways.Way], type[Nest]] = {
    ways.Elements: Elements, ways.Rows: Rows, ways.RowsTogether: RowsTogether, ways.Columns: Columns,
    ways.Streams: Streams, ways.ShortRows: ShortRows, ways.Lanes: Lanes, ways.PairTiles: PairTiles,
}  # fmt: skip
"""What prints each way."""


def print_step(
    step: Pass | Product | Running, form: Normal, out: Writer, scratch: Scratch, beyond: Collection[str], adds: str = ""
) -> None:
    """Write a step, and take the memory that it needs; what lies `beyond` has memory already.

    A product `adds` to what is there where that is true.
    """
    if isinstance(step, Pass):
        _print_pass(step.ways, form, out, scratch, beyond)
        return
    take(step.name, form, scratch, beyond)
    if isinstance(step, Product):
        print_product(step, form, out, scratch, "true" if step.adds else adds)
    else:
        print_running(step, form, out)


def take(name: str, form: Normal, scratch: Scratch, beyond: Collection[str]) -> None:
    """Memory for a tensor."""
    if name not in beyond and name not in dict(form.program.given):
        text = Expressions(form)
        scratch.take(form.type(name), text.name(name), text.memory(form.dims[name]))


def _print_pass(found: tuple[Way, ...], form: Normal, out: Writer, scratch: Scratch, beyond: Collection[str]) -> None:
    """Write a pass in each of its ways, under the condition in which it is better."""
    nests = [NESTS[type(way)](way, form, out) for way in reversed(found)][::-1]
    plan, text = found[-1].plan, nests[-1].text
    rows = next((n for n in nests if isinstance(n, RowsTogether)), nests[-1])
    for name, place in plan.place.items():
        if place == "memory":
            take(name, form, scratch, beyond)
        elif place == "buffer":
            assert isinstance(rows, Rows)
            scratch.take("real", f"{text.name(name)}{'_rows' if plan.group.outer else ''}", rows.buffers(name))
    for nest in reversed(nests):
        for piece in nest.scratch():
            scratch.take(*piece)
    for s in plan.group.totals:
        scratch.take("real", f"{text.name(s.name)}_parts", _parts(nests, s.free))
    tests = [way.test(length) for way in found]
    for k, (test, nest) in enumerate(zip(tests, nests, strict=True)):
        with out.otherwise(test) if k else out.block(f"if ({test})" if test else ""):
            nest.print()
            for s in nest.group.totals:
                out.comment(s.note)
                c, size = text.name(s.name), extent(s.free)
                out.line(f"{MERGE[s.kind]}({c}, {c}_parts, {nest.parts()}, {size}, {size});")


def _parts(nests: Sequence[Nest], free: tuple[str, ...]) -> Count:
    """The memory for a total's parts: as many as any way has that gives such."""

    def count(size: Sizes, _: str) -> str:
        counts = dict.fromkeys(times(n.parts(size), extent(free, size)) for n in nests if n.group.totals)
        most = f"at_least({', '.join(counts)})" if len(counts) > 1 else next(iter(counts))
        without = next((n.way.test(size) for n in nests if not n.group.totals), "")
        return f"({without} ? 0 : {most})" if without else most

    return count


# --- indices that the function computes -----------------------------------------------------------------------

_WHOLE = {"add": "+", "sub": "-", "mul": "*"}
_EXTREMA = {"maximum": "at_least", "minimum": "at_most"}


def fill(p: Places, form: Normal, out: Writer) -> None:
    """The loops that fill in an integer tensor."""
    text = Expressions(form)
    out.comment(p.note)
    counters = [(variable(a), length(a)) for a in p.axes]
    heads = [f"for (int64_t {i} = 0; {i} < {n}; {i}++)" for i, n in counters]
    target = f"{text.name(p.name)}[{text.offset(Read(p.name, p.axes))}]"
    out.line(" ".join([*heads, f"{target} = {_whole(p.value, text)};"]))


def _whole(node: Node, text: Expressions) -> str:
    """A whole number in C."""
    if isinstance(node, Read):
        return text.read(node).code
    if isinstance(node, AxisValue):
        return variable(node.axis)
    if isinstance(node, Num) and node.value == int(node.value):
        return str(int(node.value))
    if isinstance(node, Call) and node.fn == "where":
        condition, a, b = node.args
        return f"({text.value(condition).code} ? {_whole(a, text)} : {_whole(b, text)})"
    if isinstance(node, Call) and node.fn in _WHOLE:
        first, second = (_whole(a, text) for a in node.args)
        return f"({first} {_WHOLE[node.fn]} {second})"
    if isinstance(node, Call) and node.fn in _EXTREMA:
        first, second = (_whole(a, text) for a in node.args)
        return f"{_EXTREMA[node.fn]}({first}, {second})"
    raise Unsupported(f"an index that is computed as {node}")
