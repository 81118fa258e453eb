"""Chains of matrix products and of what stands between them, which can be taken a few rows at a time.

What a product gives is often much larger than all that goes in and comes out: the scores of an attention, the logits
of a contrastive loss. Taken in tiles of rows, from the first product that makes it to the last that reads it, such a
tensor never exists as a whole: a tile of it lies in the cache of each thread.

A chain has *axes*: it steps along all but the last, which it cuts into tiles. A step belongs to it if all that it
writes and reads begins with those of these axes that it has. What is summed over the tiles, by a product or as a total
of all that there is, is complete only after the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from derive.backends.cpu.products.matrices import Matrix, Product, whole_axes
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.statements.normal import Loop, Normal, Running
from derive.decisions import NOMINAL
from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.walking import axes_along, index_axes, node_axes, reads
from derive.ir.program import Call, Index, Merged, Node, Read

Step = Group | Product | Running


@dataclass(frozen=True)
class Chain:
    """Steps over the same axes, the last of which is cut into tiles; `local` is what nothing else needs."""

    axes: tuple[str, ...]
    steps: tuple[Group | Product, ...]
    local: frozenset[str]

    @property
    def stepped(self) -> tuple[str, ...]:
        return self.axes[:-1]

    @property
    def tiled(self) -> str:
        return self.axes[-1]

    @property
    def sums(self) -> frozenset[str]:
        """The products that every tile adds to."""
        return frozenset(s.name for s in self.steps if isinstance(s, Product) and self.tiled in s.inner)

    @property
    def totals(self) -> tuple[Loop, ...]:
        """The folds over all of the chain's axes, of which each tile gives a part."""
        return tuple(s for g in self.steps if isinstance(g, Group) for s in g.loops if _is_total(s, self.axes))


def chained(steps: list[Step], form: Normal) -> list[Step | Chain]:
    """The steps with every chain that keeps something from memory as one, in an order that respects what reads what."""
    out: list[Step | Chain] = []
    left = list(steps)
    known = {n for n, _ in form.program.given} | set(form.program.returns)
    while left:
        found = [c for axes in _axes(left) for c in _candidates(axes, left, known)]
        best = max(found, key=lambda c: (_kept_local(c.chain, form), len(c.chain.axes), -len(c.before)), default=None)
        if best is None or not _kept_local(best.chain, form):
            known |= names_written(left[0])
            out.append(left.pop(0))
            continue
        out += [*best.before, best.chain]
        known |= {n for s in (*best.before, *best.chain.steps) for n in names_written(s)}
        left = best.left
    return out


def names_read(step: Step) -> frozenset[str]:
    """The tensors that a step reads."""
    return frozenset({r.name for s in step.loops for r in s.reads()} if isinstance(step, Group) else step.reads)


def names_written(step: Step) -> set[str]:
    """The tensors that a step writes."""
    return {s.name for s in step.loops} if isinstance(step, Group) else {step.name}


def leading(index: tuple[Index, ...], axes: tuple[str, ...]) -> tuple[str, ...] | None:
    """The axes of a chain that a tensor begins with, in their order; None where a stepped one stands elsewhere.

    Merged axes stand there as they would by themselves: `q[(g, r), i]` begins with g and r. The tiled one may stand
    elsewhere by itself: `s[n, n]` begins with n, and is read at the same place once more.
    """
    first, own = first_axes(index), tuple[str, ...]()
    for a in axes:
        own += (a,) if first[len(own) : len(own) + 1] == (a,) else ()
    rest = [i for i, _ in behind(own, index, index)]
    parts = [i for i in rest if not isinstance(i, Read) and i != axes[-1]]  # what is read there is a tensor of its own
    return None if set(axes) & set(axes_along(parts)) else own


def first_axes(index: Iterable[Index]) -> tuple[str, ...]:
    """The whole axes that an index begins with, merged ones taken apart."""
    return tuple(a for axes in takewhile(bool, map(whole_axes, index)) for a in axes)


def behind(
    own: tuple[str, ...], index: tuple[Index, ...], dims: tuple[Index, ...]
) -> tuple[tuple[Index, Index], ...]:
    """The places of an index and their dimensions behind its `own` first axes, which may end inside a merge.

    Axes and dimensions do not go in pairs: behind g and r, `q[(g, r), i]` has one dimension less, behind g as many.
    """
    left, count = list(zip(index, dims, strict=True)), len(own)
    while count:
        axes = whole_axes(left[0][0])
        rest = axes[count:]
        count -= len(axes) - len(rest)
        part: Index = rest[0] if len(rest) == 1 else Merged(rest)
        left[:1] = [(part, part)] if rest else []
    return tuple(left)


def reads_at(step: Group | Product) -> list[tuple[str, tuple[Index, ...]]]:
    """What a step reads and where."""
    if isinstance(step, Product):
        right = step.b if step.wide is None else step.wide.of
        found: list[tuple[str, tuple[Index, ...]]] = [(m.name, m.index) for m in (step.a, right)]
        return [*found, *((n, ()) for x in step.alpha for n in reads(x))]
    return [(r.name, r.index) for s in step.loops for r in s.reads()]


def _axes(steps: list[Step]) -> Iterator[tuple[str, ...]]:
    """The axes that a chain can have: those that what its first steps write begins with, up to the first product."""
    found: dict[tuple[str, ...], None] = {}
    for step in steps:
        if isinstance(step, Running):
            break
        axes = max(map(first_axes, _written_at(step).values()), key=len)
        found |= dict.fromkeys(axes[:n] for n in range(1, len(axes) + 1))
        if isinstance(step, Product):
            break
    yield from found


class _Candidate(NamedTuple):
    """A chain, the steps that come before it, and those that are left for after it."""

    chain: Chain
    before: list[Step]
    left: list[Step]


def _candidates(axes: tuple[str, ...], steps: list[Step], known: set[str]) -> Iterator[_Candidate]:
    """The chains of these axes that the first step belongs to, or comes before; `known` are earlier tensors.

    What does not belong comes after the chain, or, where the chain needs it, before: the norms of an attention's keys
    are of all keys, and rows of scores are made of all keys with theirs.
    """
    early = _collected(axes, steps, known, frozenset(map(id, steps)))
    needed = set().union(*map(names_read, early.chain.steps)) if early is not None else set()
    wanted = set[int]()
    for step in reversed(early.before if early is not None else []):
        if names_written(step) & needed:
            needed |= names_read(step)
            wanted.add(id(step))
    for first in dict.fromkeys((frozenset[int](), frozenset(wanted))):
        found = _collected(axes, steps, known, first)
        yield from () if found is None else (found,)


def _collected(axes: tuple[str, ...], steps: list[Step], known: set[str], early: frozenset[int]) -> _Candidate | None:
    """All that belongs to the chain of these axes, with `early` steps before it; None if the first step is neither."""
    taken, before, left = _Taken(axes), list[Step](), list[Step]()
    held: set[str] = set()  # written or read by steps that are left behind
    changed: set[str] = set()  # written by them
    for step in steps:
        free = not names_written(step) & held and not names_read(step) & changed
        if not isinstance(step, Running) and free and taken.takes(step):
            continue
        if id(step) in early and free and taken.knows_nothing_of(step):
            before.append(step)
            continue
        if step is steps[0]:
            return None
        left.append(step)
        held |= names_written(step) | names_read(step)
        changed |= names_written(step)
    ahead = {n for s in before for n in names_written(s)}
    local = frozenset(n for n in taken.written if n not in known | taken.sums | held | ahead)
    return _Candidate(Chain(axes, tuple(taken.steps), local), before, left)


@dataclass
class _Taken:
    """A chain's steps so far: what they write and where, what they sum over tiles, what they read of other tiles."""

    axes: tuple[str, ...]
    steps: list[Group | Product] = field(default_factory=list)
    written: dict[str, tuple[Index, ...]] = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)

    def takes(self, step: Group | Product) -> bool:
        """Add a step, if it can be taken tile by tile, and needs of the chain what is in its own tile alone."""
        if isinstance(step, Product):
            step = self._renamed(step)
        if names_written(step) & (self.sums | self.elsewhere) or names_read(step) & self.sums:
            return False
        if not _belongs(step, self.axes):
            return False
        written = self.written | _written_at(step)
        if any(leading(index, self.axes) != self.axes for name, index in reads_at(step) if name in written):
            return False
        self.steps.append(step)
        self.written = written
        self.sums |= _summed(step, self.axes)
        self.elsewhere |= {name for name, index in reads_at(step) if leading(index, self.axes) != self.axes}
        return True

    def knows_nothing_of(self, step: Step) -> bool:
        """Whether a step could as well come before all that was taken."""
        read = set().union(*map(names_read, self.steps))
        return not names_written(step) & (read | set(self.written)) and not names_read(step) & set(self.written)

    def _renamed(self, p: Product) -> Product:
        """The product with the chain's names for its axes: `sum(ds[n', n] * x[n', d], over=n')` is one over n.

        Not for a part of such an axis: b is no pair where `x[b, d]` is read at `x[(pair, n), d]`.
        """
        for side in ("a", "b"):
            for k, a in enumerate(self.axes):
                m: Matrix = getattr(p, side)
                if _in_one_form(m.index, self.written.get(m.name)) and m.dims[k : k + 1] not in ((), (a,)):
                    p = p.with_names({a: m.dims[k], m.dims[k]: a})
        return p


def _in_one_form(index: tuple[Index, ...], written: tuple[Index, ...] | None) -> bool:
    """Whether a tensor is read by merges of as many axes as it is written by."""
    return written is not None and [len(whole_axes(i)) for i in index] == [len(whole_axes(i)) for i in written]


def _summed(step: Group | Product, axes: tuple[str, ...]) -> set[str]:
    """What a step adds to in every tile."""
    if isinstance(step, Product):
        return {step.name} if axes[-1] in step.inner else set()
    return {s.name for s in step.loops if _is_total(s, axes)}


def _is_total(loop: Loop, axes: tuple[str, ...]) -> bool:
    return loop.is_fold and set(axes) <= set(loop.over)


def _written_at(step: Group | Product) -> dict[str, tuple[Index, ...]]:
    if isinstance(step, Product):
        return {step.name: step.out.index}
    return {s.name: s.slots for s in step.loops}


def _belongs(step: Group | Product, axes: tuple[str, ...]) -> bool:
    """Whether a step can be taken tile by tile: all that it reads and writes begins with those axes that it has."""
    if any(leading(index, axes) is None for _, index in (*reads_at(step), *_written_at(step).items())):
        return False
    return _product_belongs(step, axes) if isinstance(step, Product) else _group_belongs(step, axes)


def _product_belongs(p: Product, axes: tuple[str, ...]) -> bool:
    """Whether each place on the stepped axes is a product of its own, and a tile some rows of it, or of its sum."""
    *stepped, tiled = axes
    if p.windowed:  # a part of its rows or columns is no run of places
        return set(axes) <= set(p.batch) and not any(index_axes(x) for x in p.alpha)
    if not set(stepped) <= set(p.batch) or any(index_axes(x) for x in p.alpha):
        return False
    sides = [(m.dims, leading(m.dims, axes) or ()) for m in (p.a, p.b, p.out)]
    if any(tiled in dims[len(own) :] for dims, own in sides) or set(stepped) - set(p.out.dims):
        return False
    return tiled in (*p.batch, *p.rows[:1], *p.columns[:1], *p.inner[:1])


def _group_belongs(group: Group, axes: tuple[str, ...]) -> bool:
    """Whether each loop writes at one place of the axes, or is a total over all of them."""
    if group.lane in axes[:-1]:
        return False
    for s in group.loops:
        total = group.is_total(s) and _is_total(s, axes)
        if not total and (leading(s.slots, axes) != axes or set(axes) & set(s.over)):
            return False
    return True


def _kept_local(chain: Chain, form: Normal) -> float:
    """The elements kept from memory: of what a product reads or makes, and no input or output is as large as."""
    products = {m.name for p in chain.steps if isinstance(p, Product) for m in (p.a, p.b, p.out)}
    found = [set(axes_along(form.dims[n])) for n in chain.local & products if is_larger(n, form)]
    return sum(float(NOMINAL) ** len(axes) for axes in found)


def is_larger(name: str, form: Normal) -> bool:
    """Whether no input or output has all axes of a tensor."""
    ends = (*(n for n, _ in form.program.given), *form.program.returns)
    return not any(set(axes_along(form.dims[name])) <= set(axes_along(form.dims[n])) for n in ends)


def with_updates(steps: list[Step | Chain], form: Normal) -> list[Step | Chain]:
    """A product that is only added to a tensor is added as it is computed: `w += -lr * (x' @ dy)`, and no `x' @ dy`.

    What reads the tensor before the addition still does: the product takes the place of the addition. A product through
    windows begins with what is added to it, one matrix of its batch at a time: `y = b`, then `y += conv(x, w)`.
    """
    out = list(steps)
    for product in [s for s in steps if isinstance(s, Product)]:
        at = out.index(product)
        found = _addition(product, out[at + 1 :], form)
        if found is None:
            _start_first(product, out, form)
            continue
        group, loop, alpha = found
        rest = replace(group, loops=tuple(s for s in group.loops if s is not loop))
        note = "\n".join(filter(None, (product.note, loop.note)))
        own = Matrix(loop.name, product.out.index)
        added = replace(product, name=loop.name, out=own, alpha=(*product.alpha, *alpha), note=note, adds=True)
        k = out.index(group)
        out[k : k + 1] = [rest, added] if rest.loops else [added]
        out.pop(at)
    return out


def _start_first(p: Product, out: list[Step | Chain], form: Normal) -> None:
    """Let a product through windows begin with what alone is added to it."""
    at = out.index(p)
    readers = [s for s in out[at + 1 :] if p.name in _read(s)]
    group = readers[0] if len(readers) == 1 else None
    if not p.windowed or p.adds or p.name in form.program.returns or not isinstance(group, Group):
        return
    (loop, *others), between = group.loops, out[at + 1 : out.index(group)]
    start = _start(loop.value, p)
    if others or loop.kind != "set" or start is None or loop.slots != p.out.index:
        return
    if any(_written(s) & reads(start) or loop.name in _read(s) | _written(s) for s in between):
        return
    out.remove(group)
    own = Matrix(loop.name, p.out.index)
    out[at] = replace(p, name=loop.name, out=own, note=loop.note, adds=True, start=start)


def _start(value: Node, p: Product) -> Node | None:
    """What is added to the product, and knows nothing of it."""
    if isinstance(value, Call) and value.fn == "add":
        for own, other in (value.args, value.args[::-1]):
            if own == Read(p.name, p.out.index) and p.name not in reads(other):
                return other
    return None


def _addition(p: Product, later: list[Step | Chain], form: Normal) -> tuple[Group, Loop, tuple[Node, ...]] | None:
    """The addition that alone reads the product, its group, and what it multiplies the product by."""
    readers = [s for s in later if p.name in _read(s)]
    group = readers[0] if len(readers) == 1 else None
    if p.name in form.program.returns or not isinstance(group, Group):
        return None
    loops = [s for s in group.loops if p.name in {r.name for r in s.reads()}]
    others = [s for s in group.loops if s not in loops]
    if len(loops) != 1 or not _is_whole(loops[0], p):
        return None
    (loop,) = loops
    alpha = _factors(loop.value, p.name)
    between: list[Step | Chain] = [*later[: later.index(group)], replace(group, loops=tuple(others))]
    kept = not any(_written(s) & p.reads for s in between)
    alone = all(loop.name not in {s.name, *(r.name for r in s.reads())} for s in others)
    return (group, loop, alpha) if alpha is not None and kept and alone else None


def _is_whole(loop: Loop, p: Product) -> bool:
    """Whether it adds each element of the product to one of a tensor of the same shape, in the same order."""
    plain = all(isinstance(i, str) for i in loop.slots) and len(set(loop.slots)) == len(loop.slots) == len(p.out.index)
    same = all(r.index == loop.slots for r in loop.reads() if r.name == p.name)
    return loop.kind == "add" and plain and same and loop.name not in p.reads


def _factors(value: Node, name: str) -> tuple[Node, ...] | None:
    """The numbers by which a tensor's element is multiplied; None where it is anything else."""
    if isinstance(value, Read) and value.name == name:
        return ()
    if isinstance(value, Call) and value.fn == "neg":
        inner = _factors(value.args[0], name)
        return None if inner is None else (Call("neg", (inner[0] if inner else ONE,)), *inner[1:])
    if isinstance(value, Call) and value.fn == "mul":
        for number, element in (value.args, value.args[::-1]):
            inner = _factors(element, name)
            if inner is not None and not node_axes(number) and not reads(number):
                return (number, *inner)
    return None


def _read(step: Step | Chain) -> frozenset[str]:
    return frozenset().union(*map(names_read, step.steps)) if isinstance(step, Chain) else names_read(step)


def _written(step: Step | Chain) -> set[str]:
    return set().union(*map(names_written, step.steps)) if isinstance(step, Chain) else names_written(step)
