"""A costly function of fewer axes than its loop runs over has a loop of its own, before that one.

In `y[n] = sum(sin(a[n, k]) * w[o, k] * g[n, o], over=(k, o))` the sine would be taken at every place of `o` anew. One
of a number stands where that number is known first, so that it parts no loops that could share a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from derive.backends.cpu.products.matrices import Step
from derive.backends.cpu.schedule.contiguous import in_memory_order
from derive.backends.cpu.statements.normal import Loop, Normal, is_boolean
from derive.backends.cpu.work import calls, is_heavy
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import Call, Node, Read


def costly_first(steps: list[Step], form: Normal) -> list[Step]:
    """The steps, each after loops for the costly functions that it would compute again for some of its axes."""
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
