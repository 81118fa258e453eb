"""A program as one C function: its groups and products in order, and the scratch memory between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.steps import fill, print_step, take
from derive.backends.cpu.loops.tiles import Tiles
from derive.backends.cpu.names import in_ascii, length
from derive.backends.cpu.products.chains import Step, chained, names_read, names_written, with_updates
from derive.backends.cpu.products.contractions import with_products
from derive.backends.cpu.products.matrices import Product
from derive.backends.cpu.schedule.again import made_again
from derive.backends.cpu.schedule.early import costly_first
from derive.backends.cpu.schedule.groups import grouped
from derive.backends.cpu.schedule.schedule import Pass, Schedule, Tiled, scheduled, together
from derive.backends.cpu.statements.masked import with_masks_last, without_infinite_own_pairs
from derive.backends.cpu.statements.neighbours import join_neighbours
from derive.backends.cpu.statements.normal import Normal, Running, normal, with_places
from derive.backends.cpu.statements.related import with_related
from derive.backends.cpu.statements.rounded import with_rounded_products
from derive.backends.cpu.statements.scales import with_decimals, with_scales
from derive.backends.cpu.statements.views import with_folds_spread, without_views
from derive.backends.cpu.writer import Scratch, Writer, in_rows
from derive.contract.masked_sums import with_masked_products
from derive.facts.lengths.nominal import ALIKE, Nominal
from derive.ir.nodes.liveness import Results
from derive.ir.nodes.walking import axes_along, children, walk
from derive.ir.program import Call, Index, Merged, Node, PartOf, Place, Program, Read, SizeOf, Window, base


@dataclass(frozen=True)
class Kernel:
    """A C function and its parameters, in order: inputs, outputs, indices checked, lengths, numbers."""

    name: str
    source: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lengths: tuple[str, ...]  # axes
    numbers: tuple[str, ...]
    live: Mapping[str, Results]  # for which results each input is read, by the loops that run for them
    schedule: Schedule  # that it prints


def kernel(
    name: str, program: Program, integers: frozenset[str], conditions: frozenset[str] = frozenset(),
    fixed: Mapping[str, int] = MappingProxyType({}), nominal: Nominal = ALIKE, extrema: frozenset[str] = frozenset(),
    flags: tuple[str, ...] = (),
) -> Kernel:  # fmt: skip
    """The function of a program, `fixed` lengths as numbers; `extrema` are maxima and minima that it may be given.

    `flags` are numbers that it takes, one for each result: whether it is needed; "" where one always is. Steps that no
    result reads which is needed are passed over. Raises Unsupported where it cannot be printed.
    """
    given = [n for n, _ in program.given]
    program, places = with_places(with_masked_products(program), integers & set(given))
    whole = (integers & set(given)) | {p.name for p in places}
    form = normal(program, whole, conditions & set(given), nominal, fixed)
    without_views(form)
    with_scales(form)
    with_related(form)
    with_masks_last(form)
    without_infinite_own_pairs(form)
    with_decimals(form)
    with_rounded_products(form, extrema & set(given))
    with_folds_spread(form)
    join_neighbours(form, (a for p in places for a in p.axes))
    groups = made_again(grouped(costly_first(with_products(form), form), form), form)
    schedule = scheduled(with_updates(chained(groups, form), form), form, all_axes(form))
    outputs = tuple(dict.fromkeys(r for r in program.returns if r not in given))
    out, scratch, first = Writer(depth=1), Scratch(), Writer(depth=1)
    text = Expressions(form)
    for p in places:
        scratch.take("int64_t", text.name(p.name), text.memory(form.dims[p.name]))
        fill(p, form, first)
    symbol = in_ascii(name)
    printed = _Steps(symbol, schedule, form, outputs, out, scratch, flags)
    printed.print()
    inputs = tuple(given)
    checks, filled = _checks(form, text, {text.name(p.name) for p in places})
    counts = [text.count(form.dims[n]) for n in outputs]
    lines = [*out.lines, *first.lines, *checks, *filled, *counts, *(n for _, _, n in scratch.pieces)]
    joined = _joined(form, lines)
    lengths = _lengths(form, [*lines, *joined])
    params = _pointers(inputs, outputs, form, text)
    numbers = (*program.scalars, *(f for f in flags if f))
    members = ["at"] * len(params) + ["count"] * (len(lengths) + 1) + ["number"] * len(numbers)
    params += [f"const int64_t {'given_' if a in fixed else ''}{length(a)}" for a in lengths]
    known = [f"static const int64_t {length(a)} = {fixed[a]};" for a in lengths if a in fixed]
    known += [f"if (given_{length(a)} != {fixed[a]}) return BAD_INDEX;" for a in lengths if a in fixed]
    checks = [*known, *joined, *checks]
    params += ["const int threads", *(f"const double {text.name(s)}" for s in numbers)]
    sizes = {n: text.count(form.dims[n]) for n in outputs if form.dims[n]}
    taken = ((n, f"fresh({text.name(n)}, {size} * sizeof *{text.name(n)});") for n, size in sizes.items())
    fresh = [f"if ({needed}) {call}" if (needed := printed.needed([n])) else call for n, call in taken]
    held = [f"const real {text.name(n)}_here = *{text.name(n)};" for n in form.numbers if n in _read_by(printed.flat)]
    checks += printed.before
    fresh = [*(f"    {x}" for x in held), *first.lines, *(f"    {x}" for x in (*filled, *fresh))]
    source = "\n\n".join([*printed.functions, _function(symbol, params, checks, fresh, scratch, out)])
    source += f"\n\n{_in_a_row(symbol, members)}"
    return Kernel(name, source, inputs, outputs, lengths, numbers, printed.live, schedule)


@dataclass
class _Steps:
    """Prints the steps of a kernel, one after another."""

    name: str
    schedule: Schedule
    form: Normal
    outputs: tuple[str, ...]
    out: Writer
    scratch: Scratch
    flags: tuple[str, ...]  # whether each result is needed
    functions: list[str] = field(default_factory=list)  # of tiles
    before: list[str] = field(default_factory=list)  # lines that stand before memory is taken

    def __post_init__(self) -> None:
        self.flat = [x for s in self.schedule.steps for x in together(s)]
        self.live = _live([together(s) for s in self.schedule.steps], self.form.program.returns)

    def print(self) -> None:
        """Every step, those under an `if` that not all results need."""
        for needed, steps in groupby(self.schedule.steps, self._needed_for):
            if needed:
                self.out.line()
            with self.out.block(f"if ({needed})") if needed else nullcontext():
                for step in steps:
                    self.out.line()
                    if isinstance(step, Tiled):
                        self._tiles(step)
                    else:
                        print_step(step, self.form, self.out, self.scratch, self.outputs)

    def _needed_for(self, step: Pass | Tiled | Product | Running) -> str:
        return self.needed(n for x in together(step) for n in names_written(x))

    def needed(self, names: Iterable[str]) -> str:
        """Whether a result is needed that one of these tensors is for, as code; nothing where one always is."""
        results = sorted(frozenset[int]().union(*(self.live[n] for n in names)))
        flags = [self.flags[k] for k in results] if self.flags else []
        text = Expressions(self.form)
        return "" if not all(flags) or len(flags) == len(self.flags) else " || ".join(map(text.name, flags))

    def _tiles(self, step: Tiled) -> None:
        number = len(self.functions)
        tiles = Tiles(step, self.form, f"{self.name}_tile{f'_{number + 1}' if number else ''}", all_axes(self.form))
        self.functions.append(tiles.function())
        for v in tiles.given:
            take(v.tensor, self.form, self.scratch, self.outputs)
        self.before += tiles.before()
        tiles.take(self.scratch)
        tiles.print(self.out)


def _read_by(steps: Iterable[Step]) -> set[str]:
    """The tensors that steps read."""
    return set().union(*map(names_read, steps))


def _live(steps: list[tuple[Step, ...]], returns: tuple[str, ...]) -> dict[str, Results]:
    """For which results each tensor is computed: of what runs together, all of them."""
    written = [{n for x in s for n in names_written(x)} for s in steps]
    read = [_read_by(s) for s in steps]
    live: dict[str, Results] = dict.fromkeys(set().union(*written, *read, returns), frozenset())
    for k, name in enumerate(returns):
        live[name] |= {k}
    before: dict[str, Results] = {}
    while before != live:
        before = dict(live)
        for made, used in zip(reversed(written), reversed(read), strict=True):
            found = frozenset[int]().union(*(live[n] for n in made))
            live |= {n: live[n] | found for n in (*made, *used)}
    return live


def _in_a_row(name: str, members: list[str]) -> str:
    """The function of one argument that the runtime calls."""
    given = [f"a[{k}].{member}" for k, member in enumerate(members)]
    rows = in_rows(f"    return {name}(", given, ");", indent="        ")
    return "\n".join([f"int {name}_of(const argument *a) {{", *rows, "}"])


# --- the function around it --------------------------------------------------------------------------------


def _pointers(inputs: tuple[str, ...], outputs: tuple[str, ...], form: Normal, text: Expressions) -> list[str]:
    kinds = {n: form.type(n) for n in form.dims}
    changed = {s.name for s in form.loops}
    params = [f"{'' if n in changed else 'const '}{kinds[n]} *restrict {text.name(n)}" for n in inputs]
    return params + [f"{kinds[n]} *restrict {text.name(n)}" for n in outputs]


def _lengths(form: Normal, lines: list[str]) -> tuple[str, ...]:
    """The axes whose length the code mentions."""
    words = _words(lines)
    return tuple(a for a in all_axes(form) if length(a) in words and a not in form.joined)


def _words(lines: Iterable[str]) -> set[str]:
    return set(re.findall(r"\bn_\w+", "\n".join(lines)))


def _joined(form: Normal, lines: list[str]) -> list[str]:
    """What says how long axes are that are two others, where that is asked."""
    found: list[str] = []
    for whole, parts in reversed(form.joined.items()):
        if length(whole) in _words([*lines, *found]):
            found.insert(0, f"const int64_t {length(whole)} = {' * '.join(map(length, parts))};")
    return found


def all_axes(form: Normal) -> tuple[str, ...]:
    """The axes that loops run over, tensors have, or values are the lengths of."""
    axes = {base(a) for dims in form.dims.values() for a in axes_along(dims)}
    axes |= {base(a) for s in form.loops for a in s.domain}
    axes |= {base(n.axis) for s in form.loops for n in walk(s.value) if isinstance(n, SizeOf)}
    axes |= {a for parts in form.joined.values() for a in parts}
    for s in form.loops:
        for i in (*s.slots, *(i for r in s.reads() for i in r.index)):
            axes |= {base(n.axis) for n in walk(i) if isinstance(n, SizeOf)}
            if isinstance(i, PartOf):
                axes |= {base(n.axis) for length_ in i.lengths for n in walk(length_) if isinstance(n, SizeOf)}
    return tuple(sorted(axes))


def _checks(form: Normal, text: Expressions, filled: set[str]) -> tuple[list[str], list[str]]:
    """Every index lies on its axis, which is known before anything is read by it: inputs, and what is `filled`."""
    found: dict[tuple[str, str], str] = {}
    for s in form.loops:
        for name, index in [(s.name, s.slots), *((r.name, r.index) for r in s.reads())]:
            for dim, i in zip(form.dims[name], index, strict=True):
                if isinstance(i, Read):
                    count = " * ".join(text.extent(d) for d in form.dims[i.name]) or "1"
                    found[text.name(i.name), text.extent(dim)] = count
    checks, own = _bounds(form, text), []
    for (name, limit), count in found.items():
        bad = f"if (!all_below({name}, {count}, {limit}))"
        if name in filled:
            own += [f"{bad} {{", "    release(scratch);", "    return BAD_INDEX;", "}"]
        else:
            checks.append(f"{bad} return BAD_INDEX;")
    return checks, own


def _bounds(form: Normal, text: Expressions) -> list[str]:
    """Every place along an axis that is not the dimension's own lies on it; the torch form says which does not.

    An axis by itself must be as long as the dimension. A place that is read under a condition is left out: the
    condition may be that it does.
    """
    found: dict[str, None] = {}
    for s in form.loops:
        certain = set(_unconditional(s.value))
        for name, index, is_certain in [(s.name, s.slots, True), *((r.name, r.index, r in certain) for r in s.reads())]:
            for dim, i in zip(form.dims[name], index, strict=True):
                if isinstance(i, str) and isinstance(dim, str) and base(i) != base(dim):
                    found[f"{length(i)} != {length(dim)}"] = None
                elif isinstance(i, Window) and is_certain:
                    found |= dict.fromkeys(_off(i, text.extent(dim), text))
                for part in i.axes if isinstance(i, Merged) and is_certain else ():
                    if isinstance(part, Place):
                        found |= dict.fromkeys(_off(part.index, text.integer(part.length), text))
    return [f"if ({test}) return BAD_INDEX;" for test in found]


def _off(index: Index, extent_: str, text: Expressions) -> Iterator[str]:
    """The conditions under which a place lies off an axis."""
    if isinstance(index, str) and length(index) != extent_:
        yield f"{length(index)} > {extent_}"
    elif isinstance(index, Window):
        low, high = (_end(index, text, side) for side in (-1, 1))
        if "-" in low and low != f"({extent_} - 1)":
            yield f"{low} < 0"
        if high != f"({extent_} - 1)" and not (high.isdecimal() and extent_.isdecimal() and int(high) < int(extent_)):
            moved = len(index.steps) == 1 and text.integer(index.offset) != "0"
            some = f"{length(index.steps[0][0])} && " if moved else ""  # of no places none is off
            yield f"{some}{high} >= {extent_}"


def _end(window: Window, text: Expressions, side: int) -> str:
    """The last place of a window on one side."""
    moving = [(length(a), step) for a, step in window.steps if step * side > 0]
    parts = [f"({n} - 1)" if step == 1 else f"{step} * ({n} - 1)" for n, step in moving]
    offset = text.integer(window.offset)
    return " + ".join([*parts, *([offset] if offset != "0" or not parts else [])])


def _unconditional(node: Node | Index) -> Iterator[Read]:
    """What is read in any case."""
    if isinstance(node, Read):
        yield node
    taken = node.args[:1] if isinstance(node, Call) and node.fn == "where" else children(node)
    for child in taken:
        yield from _unconditional(child)


def _function(name: str, params: list[str], checks: list[str], fresh: list[str], scratch: Scratch, body: Writer) -> str:
    lines = [*in_rows(f"int {name}(", params, ") {"), *(f"    {c}" for c in checks)]
    if scratch.pieces:
        sizes = " + ".join(f"bytes({n}, sizeof({kind}))" for kind, _, n in scratch.pieces)
        lines += ["    // what stays inside the function", f"    char *const scratch = reserve({sizes});"]
        lines += ["    if (scratch == NULL) return NO_MEMORY;", "    char *next = scratch;", *scratch.taken()]
    lines += [*fresh, *body.lines]
    if scratch.pieces:
        lines.append("    release(scratch);")
    return "\n".join([*lines, "    return 0;", "}"])
