"""What every loop nest shares: where elements are read and written, and the statements for one element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.names import Sizes, extent, length, variable
from derive.backends.cpu.schedule.ways import Way
from derive.backends.cpu.statements.normal import CHANGES, Loop, Normal
from derive.backends.cpu.work import calls, is_heavy, units
from derive.backends.cpu.writer import Count, Writer
from derive.ir.nodes.walking import axes_along, by_axes
from derive.ir.program import Read

START = {"sum": "0", "amax": "-INFINITY", "amin": "INFINITY"}
SIGNS = {"sum": "+", "amax": "max", "amin": "min"}
Accumulate = Callable[[Loop], None]
MERGE = {"sum": "add_up", "amax": "largest", "amin": "smallest"}  # what folds parts in memory


@dataclass
class Nest:
    """Prints one way in which a pass runs."""

    way: Way
    normal: Normal
    out: Writer
    here: set[str] = field(default_factory=set)  # tensors in memory whose element a variable holds as well
    indices: dict[Read, str] = field(default_factory=dict)  # indices that variables hold

    def __post_init__(self) -> None:
        self.plan, self.group = self.way.plan, self.way.plan.group
        self.text = Expressions(self.normal, self.element)
        self.outer = frozenset(self.group.outer)

    def print(self) -> None:
        """Write the loops."""
        raise NotImplementedError

    def parts(self, size: Sizes = length) -> str:
        """In how many parts a total over the outer axes is taken."""
        raise NotImplementedError

    def scratch(self) -> Iterator[tuple[str, str, Count]]:
        """Type, name and length of memory that no tensor's is."""
        yield from ()

    @property
    def work(self) -> str:
        """What the group computes, in units of about a quarter of a nanosecond."""
        largest = max((s.domain for s in self.group.loops), key=len)
        values = [s.value for s in self.group.loops if len(s.domain) == len(largest)]
        cost = round(sum(units(call) for value in values for call in calls(value)))
        return f"{cost} * {extent(largest)}" if cost > 1 else extent(largest)

    def split(self) -> tuple[tuple[str, ...], str, str]:
        """The outer axes before those that are one in memory, the last one, and how many places it counts through."""
        return self.plan.slow, self.group.outer[-1], extent(self.plan.run)

    @property
    def team(self) -> str:
        """How many threads are worth it."""
        return f"team(threads, {self.work})"

    @contextmanager
    def blocks(self, size: str, count: str, factor: str) -> Iterator[None]:
        """So many blocks of places that are one in memory, for each place before those, shared out among threads; the
        `factor` is their count in a product.
        """
        (slow, _, n), out = self.split(), self.out
        self.starts()
        out.parallel(self.team)
        with out.loop("block", "0", f"{extent(slow)} * {factor}" if slow else count):
            if slow:
                out.line(f"const int64_t at = block / {factor};")
                decode(out, slow, "at")
            out.line(f"const int64_t from = block{f' % {factor}' if slow else ''} * {size};")
            out.line(f"const int64_t to = at_most(from + {size}, {n});")
            yield

    def starts(self) -> None:
        """The places on the outer axes that the last of them counts on with."""
        slow, *_ = self.split()
        for a in self.group.outer[:-1] if not slow else ():
            self.out.line(f"const int64_t {variable(a)} = 0; // {self.group.outer[-1]} counts on to the next")

    # --- where things are ----------------------------------------------------------------------------------

    def local(self, name: str) -> str:
        """The variable that holds an element: the tensor's name, or another where that is the memory's."""
        return f"{self.text.name(name)}{'' if self.plan.place[name] in ('value', 'element') else '_here'}"

    def element(self, read: Read) -> str | None:
        """How an element of a tensor of this group is read; None where it is plain memory."""
        place = self.plan.place.get(read.name)
        if place is None:
            return self.indices.get(read)
        if place in ("value", "element") or self.is_here(read):
            return self.local(read.name) + (self.at_column if self.is_value(read.name) else "")
        if place == "buffer":
            return f"{self.text.name(read.name)}[{self.text.offset(read, self.outer)}]"
        return None

    def is_value(self, name: str) -> bool:
        """Whether a tensor has one element a place of the outer axes."""
        return set(self.axes(name)) <= self.outer

    def axes(self, name: str) -> tuple[str, ...]:
        """The axes of a tensor in memory, slowest first."""
        return axes_along(self.normal.dims[name])

    def is_here(self, read: Read) -> bool:
        return read.name in self.here and read.index == self.plan.written[read.name].slots

    def in_parts(self, loop: Loop) -> bool:
        """Whether several loops write the tensor: no variable holds it, since each writes places of its own."""
        return sum(s.name == loop.name for s in self.group.loops) > 1

    @property
    def at_column(self) -> str:
        return ""

    def stored(self, loop: Loop) -> str:
        """Where a loop writes in memory."""
        read = Read(loop.name, loop.slots)
        name = self.text.name(loop.name)
        if self.group.is_total(loop):
            return f"{name}_part[{self.text.offset(read)}]"
        skip = self.outer if self.plan.place[loop.name] == "buffer" else frozenset()
        return f"{name}[{self.text.offset(read, skip)}]"

    def type(self, name: str) -> str:
        """The type of a variable that holds an element: GCC counts by an `int` in vectors, not by a `bool`."""
        return "int" if name in self.normal.booleans else "real"

    def right(self, loop: Loop) -> str:
        value = self.text.value(loop.value)
        return value.code if loop.name in self.normal.booleans and value.kind == "bool" else value.real.code

    # --- one element ---------------------------------------------------------------------------------------

    def elements(self, loops: Sequence[Loop], accumulate: Accumulate) -> None:
        """The statements of a sweep for one element; `accumulate` prints one more of a fold."""
        found = self.plan.computed(loops)
        last = [] if any(s.changes for s in found) else self._stored_last(found)
        for s in found:
            if s in last:
                self.out.line(f"const {self.type(s.name)} {self.local(s.name)} = {self.right(s)};")
                self.here.add(s.name)
            else:
                self._element(s, accumulate)
        for s in last:
            self.out.line(f"{self.stored(s)} = {self.local(s.name)};")
        self.here -= {s.name for s in loops if not self.is_value(s.name)}

    def _stored_last(self, loops: Sequence[Loop]) -> list[Loop]:
        """What goes to memory when the rest is computed: who cannot tell memory apart reads what is read again anew.

        With it goes what is known of that: a function that both statements need would be computed twice.
        """
        costly = [{r for r in s.reads() if any(map(is_heavy, calls(s.value)))} for s in loops]
        found = []
        for k, s in enumerate(loops):
            kept = self.plan.place[s.name] not in ("element", "value") and not s.is_fold and not self.in_parts(s)
            if kept and set().union(*costly[: k + 1]) & set().union(*costly[k + 1 :]):
                found.append(s)
        return found

    def _element(self, s: Loop, accumulate: Accumulate) -> None:
        if s.is_fold:
            accumulate(s)
        elif s.changes:
            self.change(s)
        elif self.plan.place[s.name] in ("element", "value"):
            self.out.line(f"const {self.type(s.name)} {self.text.name(s.name)} = {self.right(s)};")
        else:
            self.keep(s)

    def change(self, s: Loop) -> None:
        """One more value in what stands in memory."""
        self.out.line(fold(CHANGES.get(s.kind, s.kind), self.stored(s), self.text.real(s.value)))

    def reduce(self, s: Loop, into: str) -> None:
        """One more element of a fold in a form that becomes vectors; what is not a number is noted aside."""
        name, value = self.text.name(s.name), self.text.real(s.value)
        if s.kind == "sum":
            self.out.line(f"{into} += {value};")
            return
        self.out.line(f"const real {name}_new = {value};")
        self.out.line(f"{into} = {name}_new {'>' if s.kind == 'amax' else '<'} {into} ? {name}_new : {into};")
        self.out.line(f"{name}_nan |= {name}_new != {name}_new;")

    def accumulators(self, folds: Sequence[Loop], suffix: str) -> str:
        """Declares what a vector loop folds into, and gives the loop's clauses."""
        clauses = ""
        for s in folds:
            name = self.text.name(s.name)
            self.out.line(f"real {name}{suffix} = {START[s.kind]};")
            clauses += f" reduction({SIGNS[s.kind]} : {name}{suffix})"
            if s.kind != "sum":
                self.out.line(f"int {name}_nan = 0;")
                clauses += f" reduction(| : {name}_nan)"
        return clauses

    def accumulated(self, s: Loop, suffix: str) -> str:
        """What a vector loop has folded."""
        name = self.text.name(s.name)
        return f"{name}{suffix}" if s.kind == "sum" else f"{name}_nan ? NAN : {name}{suffix}"

    def keep(self, s: Loop) -> None:
        """An element that goes to memory; a variable holds it where more is done with it."""
        later = any(r.name == s.name and r.index == s.slots for x in self.group.loops for r in x.reads())
        if not later or self.in_parts(s):
            self.out.line(f"{self.stored(s)} = {self.right(s)};")
            return
        self.out.line(f"const {self.type(s.name)} {self.local(s.name)} = {self.right(s)};")
        self.out.line(f"{self.stored(s)} = {self.local(s.name)};")
        self.here.add(s.name)

    # --- loops ---------------------------------------------------------------------------------------------

    def notes(self, loops: Sequence[Loop]) -> None:
        """The equations that a sweep computes."""
        for note in dict.fromkeys(line for s in self.plan.computed(loops) for line in s.note.split("\n")):
            self.out.comment(note)

    @contextmanager
    def plain(self, axes: tuple[str, ...]) -> Iterator[None]:
        """Loops over whole axes, the first outermost."""
        with ExitStack() as stack:
            for a in axes:
                stack.enter_context(self.out.loop(variable(a), "0", length(a)))
            yield

    @contextmanager
    def indices_first(self, fast: str, loops: Sequence[Loop]) -> Iterator[None]:
        """What chooses rows that vectors run along, read before: GCC would gather what lies side by side."""
        chosen = [i for s in self.plan.computed(loops) for r in (Read(s.name, s.slots), *s.reads()) for i in r.index]
        reads = dict.fromkeys(i for i in chosen if isinstance(i, Read) and by_axes(i) and fast not in i.index)
        with self.out.block("") if reads else nullcontext():
            for i in reads:
                same = [r for r in reads if r.name == i.name]
                name = f"{self.text.name(i.name)}{f'_{same.index(i) + 1}' if len(same) > 1 else ''}_at"
                self.out.line(f"const int64_t {name} = {self.text.name(i.name)}[{self.text.offset(i)}];")
                self.indices[i] = name
            yield
            self.indices.clear()


def decode(out: Writer, axes: tuple[str, ...], at: str, stays: bool = True) -> None:
    """The places on several axes from one number, which stay as they are or are counted on."""
    for k, a in enumerate(axes):
        tail = extent(axes[k + 1 :])
        whole = at if tail == "1" else f"{at} / ({tail})" if " * " in tail else f"{at} / {tail}"
        out.line(f"{'const ' if stays else ''}int64_t {variable(a)} = {f'{whole} % {length(a)}' if k else whole};")


def of_total(s: Loop) -> str:
    """The type of what a fold's parts are put together in: sums have more digits there."""
    return "double" if s.kind == "sum" else "real"


def in_real(s: Loop, total: str) -> str:
    """A total as an element."""
    return f"(real){total}" if s.kind == "sum" else total


def fold(kind: str, into: str, value: str) -> str:
    """One more element of a fold. A maximum takes what is not a number, and keeps it."""
    if kind == "sum":
        return f"{into} += {value};"
    return f"{into} = {'larger' if kind == 'amax' else 'smaller'}({into}, {value});"


# --- one vector after another, of which the last overlaps the one before ---------------------------------------


@contextmanager
def overlapping(out: Writer, n: str, first: str = "first") -> Iterator[None]:
    """Blocks of one vector up to place n, which is no less: each begins at `first`, and only the last one overlaps."""
    with out.loop("block", "0", f"({n} + LANES - 1) / LANES"):
        out.line(f"const int64_t {first} = at_most(block * LANES, {n} - LANES);")
        yield


@contextmanager
def lanes(out: Writer, axis: str) -> Iterator[None]:
    """The places of such a block, which are a vector's lanes; those before `done` belong to the block before."""
    out.line("const int done = (int)(block * LANES - first);")
    with out.loop("lane", "0", "LANES", "simd", "int"):
        out.line(f"const int64_t {variable(axis)} = first + lane;")
        yield


def in_vectors(axis: str) -> str:
    """Where rows are so long that they are a vector at least, and no so long that one more would not show."""
    return f"{length(axis)} >= LANES && {length(axis)} < 2 * SPAN"
