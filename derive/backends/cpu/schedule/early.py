"""What loops over inner axes read and compute of the outer axes alone, named before they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from derive.backends.cpu.products.matrices import Step
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.statements.normal import Loop, Normal, in_memory_order, is_boolean
from derive.backends.cpu.work import calls, is_heavy
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import by_axes, node_axes, walk
from derive.ir.program import Call, Node, Read

_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg"})


def invariants_first(group: Group, normal: Normal) -> Group:
    """What loops over inner axes compute of the outer axes alone, computed once for each place of these.

    Along rows it is a number, and of plain arithmetic the compiler does as much. So is what they read there; and what
    a choice reads, or several loops that share a sweep, stands before it.
    """
    changing = {s.name for s in group.loops if s.changes}
    loops: list[Loop] = []
    names: dict[tuple[Node, frozenset[str]], Read] = {}
    shared = _shared_reads(group)

    def named(loop: Loop, node: Node, axes: tuple[str, ...]) -> Loop:
        if changing & {r.name for r in _reads(node)}:
            return loop
        key = node, frozenset(axes)
        if key not in names:
            alone = isinstance(node, Read)
            name = normal.fresh(f"this_{node.name}" if isinstance(node, Read) else f"{loop.name}_factor")
            normal.dims[name] = axes
            loops.append(Loop(name, axes, node, note="" if alone else f"{name}[{', '.join(axes)}] = {node}"))
            names[key] = Read(name, axes)
        return replace(loop, value=put(loop.value, node, names[key]))

    for loop in group.loops:
        for node in _invariants(loop.value, group) if group.outer and group.inner(loop) else ():
            loop = named(loop, node, group.outer)
        made = {s.name for s in (*group.loops, *loops)}
        for read, axes in list(_read_early(loop, group, normal, shared)):
            loop = loop if read.name in made else named(loop, read, axes)
        loops.append(loop)
    return replace(group, loops=tuple(loops))


def _invariants(node: Node, group: Group) -> list[Node]:
    """The largest expressions of the outer axes alone, conditions left out."""
    if not isinstance(node, Call):
        return []
    if _reads(node) and set(node_axes(node)) == set(group.outer):
        arithmetic = all(n.fn in _ARITHMETIC for n in calls(node))
        named = group.lane is not None or not arithmetic
        return [node] if named and not is_boolean(node, set()) else []
    return [found for a in node.args for found in _invariants(a, group)]


def _read_early(
    loop: Loop, group: Group, normal: Normal, shared: set[tuple[Read, frozenset[str]]]
) -> Iterator[tuple[Read, tuple[str, ...]]]:
    """What a loop reads before it computes, and along which axes: the outer ones, or all it runs over.

    Along rows, that is what changes with the row alone: for all the compiler knows, what is written changes it. So is
    what stays one element to several loops of a sweep. In a choice, it is what is not at places of its own: GCC makes
    no vectors of a load of one element that only some need.
    """
    vectors = _makes_vectors(loop, group)
    others = normal.integers | normal.booleans | set(normal.numbers)
    chosen = set(_in_branches(loop.value))
    for read in dict.fromkeys(_reads(loop.value)):
        own = set(node_axes(read))
        if not by_axes(read) or read.name in others or not own < set(loop.domain):
            continue
        early = read in chosen
        if group.outer and group.inner(loop) and own <= set(group.outer) and (group.lane is None or early):
            yield read, group.outer
        elif vectors and (early or (read, frozenset(loop.domain)) in shared):
            yield read, loop.domain


def _makes_vectors(loop: Loop, group: Group) -> bool:
    """Whether it stands in a vector loop that it may share with others."""
    nested = loop.is_fold and not group.is_total(loop) and set(loop.free) - set(group.outer)
    return not nested and not loop.changes and bool(group.inner(loop) or group.lane is not None)


def _shared_reads(group: Group) -> set[tuple[Read, frozenset[str]]]:
    """What several loops over the same axes read that stays as it is along their vectors, with these axes."""
    over: dict[frozenset[str], list[Loop]] = {}
    flat = not any(map(group.inner, group.loops))
    for s in group.loops:
        if _makes_vectors(s, group) and (flat or group.inner(s)):  # beside sweeps, a value is an array of a block's
            over.setdefault(frozenset(s.domain), []).append(s)
    found = set()
    for axes, loops in over.items():
        fast = group.lane or in_memory_order(group.inner(loops[0]), loops)[-1]
        times = Counter(r for s in loops for r in set(s.reads()) if fast not in node_axes(r))
        found |= {(r, axes) for r, n in times.items() if n > 1}
    return found


def _in_branches(node: Node, inside: bool = False) -> Iterator[Read]:
    """The reads in branches of choices, their conditions aside."""
    if isinstance(node, Read) and inside:
        yield node
    for k, a in enumerate(node.args if isinstance(node, Call) else ()):
        yield from _in_branches(a, inside or (isinstance(node, Call) and node.fn == "where" and k > 0))


def chosen_reads(node: Node) -> list[Read]:
    """What is read inside choices, at whole axes: there is something to read there whatever is chosen."""
    return [r for r in _in_branches(node) if by_axes(r)]


def _reads(node: Node) -> list[Read]:
    return [n for n in walk(node) if isinstance(n, Read)]


def costly_first(steps: list[Step], form: Normal) -> list[Step]:
    """A costly function of fewer axes than its loop runs over has a loop of its own, before that one.

    In `y[n] = sum(sin(a[n, k]) * w[o, k] * g[n, o], over=(k, o))` the sine would be taken at every place of `o` anew.
    One of a number stands where that number is known first, so that it parts no loops that could share a pass.
    """
    changing = {s.name for s in steps if isinstance(s, Loop) and s.changes}
    out: list[Step] = []
    made: dict[Node, Read] = {}
    for step in steps:
        for own in _apart(step, form, changing, made) if isinstance(step, Loop) else [step]:
            is_number = isinstance(own, Loop) and own is not step and not own.domain
            out.insert(_first_place(own, out) if is_number else len(out), own)
    return out


def _first_place(step: Step, steps: list[Step]) -> int:
    """Where a step can stand first: behind the last that writes what it reads."""
    read = {r.name for r in step.reads()} if isinstance(step, Loop) else step.reads
    return max((k + 1 for k, s in enumerate(steps) if s.name in read), default=0)


def _apart(loop: Loop, form: Normal, changing: set[str], made: dict[Node, Read]) -> list[Step]:
    """A loop behind those that hold its costly functions of fewer axes; `made` holds what earlier loops have."""
    before: list[Step] = []
    for node in dict.fromkeys(_costly(loop.value, frozenset(loop.domain), False)):
        if changing & {n.name for n in walk(node) if isinstance(n, Read)}:
            continue
        if node not in made:
            axes = in_memory_order(node_axes(node), [Loop("", (), node)])
            name = form.fresh(f"{loop.name}_{node.fn}")
            form.dims[name] = axes
            own = Loop(name, axes, node, note=f"{name}[{', '.join(axes)}] = {node}")
            before += _apart(own, form, changing, made)
            made[node] = Read(name, axes)
        loop = replace(loop, value=put(loop.value, node, made[node]))
    return [*before, loop]


def _costly(node: Node, domain: frozenset[str], chosen: bool) -> Iterator[Call]:
    """The largest expressions as a costly function in them has its axes, and these are not all of the loop's.

    What a choice guards is left there, unless it can be read anyhow.
    """
    if not isinstance(node, Call):
        return
    axes = set(node_axes(node))
    same = any(is_heavy(c) and set(node_axes(c)) == axes for c in calls(node))
    plain = all(isinstance(i, str) for n in walk(node) if isinstance(n, Read) for i in n.index)
    reading = axes or any(isinstance(n, Read) for n in walk(node))  # what is made of numbers alone the compiler knows
    if same and reading and axes < domain and not is_boolean(node, set()) and (plain or not chosen):
        yield node
        return
    for k, a in enumerate(node.args):
        yield from _costly(a, domain, chosen or (node.fn == "where" and k > 0))
