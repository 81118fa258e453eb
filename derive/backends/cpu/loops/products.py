"""Matrix products in C: one call for every value of the batch axes, through the BLAS that the runtime hands over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.nests import decode
from derive.backends.cpu.names import Sizes, extent, length, times, variable
from derive.backends.cpu.products.matrices import Matrix, Phase, Product, Wide
from derive.backends.cpu.statements.normal import Normal
from derive.backends.cpu.writer import Count, Scratch, Writer
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.program import Index, Merged, Node, Place, Read, Window


def print_product(p: Product, form: Normal, out: Writer, scratch: Scratch, adds: str = "") -> None:
    """A call of the matrix product, for every value of the batch axes; `adds` says when it adds to what is there."""
    if p.windowed:
        print_windowed(p, form, out, scratch, adds)
        return
    text = Expressions(form)
    out.comment(p.note)
    alpha = " * ".join(text.value(x).real.inside(7) for x in p.alpha) or "1"
    a = _side(p.a, p.rows, p.inner, p.batch, text)
    b = _side(p.b, p.inner, p.columns, p.batch, text)
    c = _side(p.out, p.rows, p.columns, p.batch, text)
    sizes = f"{extent(p.rows)}, {extent(p.columns)}, {extent(p.inner)}"
    call = f"{'sum_of_products' if adds else 'product'}({a}, {b}, {c}, {sizes}, {alpha}{f', {adds}' if adds else ''}"
    if not p.batch:
        out.line(f"{call}, threads);")
        return
    count = extent(p.batch)
    together = f"batch_team(threads, {count})"
    out.parallel(together)
    with out.loop("at", "0", count):
        decode(out, p.batch, "at")
        out.line(f"{call}, threads / {together});")


def _side(m: Matrix, rows: tuple[str, ...], columns: tuple[str, ...], batch: tuple[str, ...], text: Expressions) -> str:
    """An operand: where it begins, whether it lies transposed, and how far apart its rows are."""
    steps = [times(variable(a), extent(m.stride((a,)))) for a in batch if a in m.dims]
    start = " + ".join([text.name(m.name), *steps])
    flipped = bool(rows) and m.dims[-1:] == rows[-1:]
    outer, inner = (columns, rows) if flipped else (rows, columns)
    lead = extent(m.stride(outer)) if outer else extent(inner)
    return f"{start}, {'TRANSPOSED' if flipped else 'PLAIN'}, {lead}"


class Step(NamedTuple):
    """So many times the elements behind a dimension, whose lengths are given as C has them."""

    times: str
    behind: tuple[str, ...]

    @property
    def code(self) -> str:
        factors = [*([self.times] if self.times != "1" else []), *self.behind]
        return " * ".join(factors) or "1"


@dataclass(frozen=True)
class Steps:
    """A tensor at the places where a product reads or writes it."""

    matrix: Matrix
    text: Expressions
    called: str = ""  # in C, if not by its name

    @property
    def name(self) -> str:
        """What it is called in C."""
        return self.called or self.text.name(self.matrix.name)

    def start(self, batch: tuple[str, ...]) -> str:
        """Where its first element is, for a place of the batch axes."""
        found = [times(variable(a), s.code) for a, s in self._steps() if a in batch]
        found += [s.code for a, s in self._steps() if not a]
        return " + ".join([self.name, *found])

    @property
    def end(self) -> str:
        """Where its memory ends."""
        size = " * ".join(self.text.extent(d) for d in self.text.normal.dims[self.matrix.name]) or "1"
        return f"{self.name} + {size}"

    def step(self, axis: str) -> str:
        """How far apart neighbours along an axis are."""
        return " + ".join(s.code for a, s in self._steps() if a == axis) or "0"

    def side(self, axes: tuple[str, ...]) -> str:
        """Axes, the slowest first, each with its length and its step; neighbours in memory are one."""
        runs: list[tuple[list[str], list[Step]]] = []
        for a in axes:
            own, count = [s for name, s in self._steps() if name == a], self.text.extent(a)
            before = runs[-1] if runs else None
            if before and len(own) == 1 and before[1] == [Step(own[0].times, (count, *own[0].behind))]:
                runs[-1] = ([*before[0], count], own)
            else:
                runs.append(([count], own))
        along = [f"{{{' * '.join(counts)}, {' + '.join(s.code for s in steps) or '0'}}}" for counts, steps in runs]
        return f"SIDE({', '.join(along)})" if along else "NO_SIDE"

    def _steps(self) -> Iterator[tuple[str, Step]]:
        """What a place on each axis adds, and under no name what is added in any case."""
        behind: tuple[str, ...] = ()
        pairs = zip(self.text.normal.dims[self.matrix.name], self.matrix.index, strict=True)
        for dim, index in reversed(list(pairs)):
            yield from self._along(index, behind)
            behind = (self.text.extent(dim), *behind)

    def _along(self, index: Index, behind: tuple[str, ...]) -> Iterator[tuple[str, Step]]:
        if isinstance(index, str):
            yield index, Step("1", behind)
        elif isinstance(index, Window):
            yield from ((a, Step(str(step), behind)) for a, step in index.steps)
            if index.offset != ZERO:
                yield "", Step(self.text.integer(index.offset), behind)
        elif isinstance(index, Merged):
            for part in reversed(index.axes):
                yield from self._along(part.index if isinstance(part, Place) else part, behind)
                behind = (self.text.extent(part), *behind)


def print_windowed(p: Product, form: Normal, out: Writer, scratch: Scratch, adds: str = "") -> None:
    """A call for every value of the batch axes, and of the taps that are added one after another."""
    text = Expressions(form)
    out.comment(p.note)
    if p.wide is not None:
        scratch.take("real", text.name(p.wide.name), _copies(p, p.wide, text))
    count, together = extent(p.batch), _team(p)
    with ExitStack() as stack:
        if p.batch:
            out.parallel(together)
            stack.enter_context(out.loop("at", "0", count))
            decode(out, p.batch, "at")
        if p.start is not None:
            _print_start(p, p.start, text, out)
        for a in p.taps:
            stack.enter_context(out.loop(variable(a), "0", length(a)))
        own = ""
        if p.wide is not None:
            own = f"{text.name(p.wide.name)}_here"
            _print_wide(p, p.wide, own, text, out)
        for phase in p.phases:
            _print_phase(phase, stack, out)
        alpha = " * ".join(text.value(x).real.inside(7) for x in p.alpha) or "1"
        share = f"threads / {together}" if p.batch else "threads"
        with out.spread("product_of_windows(", f"{alpha}, {share});"):
            _operands(p, own, text, adds, out)


def _print_start(p: Product, start: Node, text: Expressions, out: Writer) -> None:
    """What the result begins with, for one value of the batch axes."""
    *slow, fast = (a for a in p.out.dims if a not in p.batch)
    with ExitStack() as stack:
        for a in slow:
            stack.enter_context(out.loop(variable(a), "0", length(a)))
        stack.enter_context(out.loop(variable(fast), "0", length(fast), "simd"))
        out.line(f"{text.name(p.name)}[{text.offset(Read(p.name, p.out.index))}] = {text.real(start)};")


def _operands(p: Product, own: str, text: Expressions, adds: str, out: Writer) -> None:
    """Both factors and the result; `own` is what the right factor is called where it was made for the call."""
    fixed = (*p.batch, *p.taps)
    a, b, c = (Steps(m, text, name) for m, name in ((p.a, ""), (p.b, own), (p.out, "")))
    ends = [f"{a.start(fixed)}, {a.end}", f"{b.start(fixed)}, {b.end}", c.start(fixed)]
    sides = ((p.rows, p.inner), (p.inner, p.columns), (p.rows, p.columns))
    for m, at, (rows, columns) in zip((a, b, c), ends, sides, strict=True):
        out.line(f"({'windowed_result' if m is c else 'windowed'}){{{at},")
        last = f", {adds or 'false'}}}," if m is c else "},"
        out.line(f"    {m.side(rows)}, // {', '.join(rows) or 'one row'}")
        out.line(f"    {m.side(columns)}{last} // {', '.join(columns) or 'one column'}")


def _print_phase(phase: Phase, stack: ExitStack, out: Writer) -> None:
    """A loop over the phases of an axis, and what is known of each."""
    step, every, first, tap = phase.step, phase.step // phase.common, phase.first, phase.first_tap
    head = f"for (int64_t {first} = 0; {first} < {step}; {first} += {phase.common})"
    stack.enter_context(out.block(head))
    taps = ", ".join(map(str, phase.first_taps()))
    at = first if phase.common == 1 else f"{first} / {phase.common}"
    out.line(f"const int64_t {tap} = (const int64_t[]){{{taps}}}[{at}]; // the first tap that adds there")
    out.line(f"const int64_t {phase.shift} = ({first} - {times(str(phase.dilation), tap)}) / {step};")
    out.line(f"const int64_t {length(phase.places)} = ({length(phase.dim)} - {first} + {step - 1}) / {step};")
    most = f"({length(phase.tap)} - {tap} + {every - 1}) / {every}" if every > 1 else f"{length(phase.tap)} - {tap}"
    out.line(f"const int64_t {length(phase.taps)} = at_least(0, {most});")


def _team(p: Product, size: Sizes = length, threads: str = "threads") -> str:
    """How many values of the batch axes are taken at once."""
    return f"batch_team({threads}, {extent(p.batch, size)})" if p.batch else "1"


def _copies(p: Product, wide: Wide, text: Expressions) -> Count:
    """How many elements the right factor has with zeros around it, once for each thread."""
    one = text.memory(text.normal.dims[wide.name])
    return lambda size, threads: f"{_team(p, size, threads)} * ({one(size, threads)})"


def _print_wide(p: Product, wide: Wide, own: str, text: Expressions, out: Writer) -> None:
    """The right factor with zeros around it, for one value of the batch axes; each thread has its own."""
    name, edges = text.name(wide.name), {a: (before, after) for a, before, after in wide.edges}
    of = Steps(wide.of, text)
    thread = f" + omp_get_thread_num() * {text.count(text.normal.dims[wide.name])}" if p.batch else ""
    out.line(f"real *const {own} = {name}{thread}; // {wide.of.name} with zeros around it")
    along = []
    for i in wide.of.index:
        if isinstance(i, str) and i not in p.batch:
            before, after = (text.integer(n) for n in edges[i]) if i in edges else ("0", "0")
            along.append(f"{{{text.extent(i)}, {of.step(i)}, {before}, {after}}}")
    out.line(f"widened({own}, {of.start(p.batch)}, {len(along)}, (edge[]){{{', '.join(along)}}});")
