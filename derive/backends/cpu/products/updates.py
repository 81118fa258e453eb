"""A product that is only added to a tensor is added there as it is computed: `w += -lr * (x' @ dy)`, and no `x' @ dy`.

What reads the tensor before the addition still does: the product takes the place of the addition. A product through
windows begins with what is added to it, one matrix of its batch at a time: `y = b`, then `y += conv(x, w)`.
"""

from __future__ import annotations

from dataclasses import replace

from derive.backends.cpu.products.chains import Chain, Step, names_read, names_written
from derive.backends.cpu.products.matrices import Matrix, Product
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.arithmetic import ONE
from derive.ir.nodes.walking import node_axes, reads
from derive.ir.program import Call, Node, Read


def with_updates(steps: list[Step | Chain], form: Normal) -> list[Step | Chain]:
    """The steps with such products in the place of additions."""
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
