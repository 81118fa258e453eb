"""What a pass leaves behind: tensors under two names, and statements that nothing reads any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import renamed
from derive.ir.nodes.walking import reads, walk
from derive.ir.program import Assign, Program, Read, Scal, Scatter, Statement


def without_unread(program: Program) -> Program:
    """The program without what nothing reads on the way to what it returns."""
    wanted = set(program.returns)
    for _ in range(len(program.carries) + 1):
        kept, carries = [], [c for c in program.carries if {c.before, c.last} & wanted]
        wanted.update(n for c in carries for n in (c.start, c.after))
        for s in reversed(program.statements):
            if s.name in wanted:
                kept.append(s)
                wanted.update(_reads(s))
                wanted |= {s.onto} if isinstance(s, Scatter) and s.onto else set()
    carries = [c for c in program.carries if {c.before, c.last} & wanted]
    return replace(program, statements=tuple(reversed(kept)), carries=tuple(carries))


def given_what_it_reads(
    program: Program, first: Sequence[str], others: Iterable[str], axes: Mapping[str, tuple[str, ...]],
    numbers: Iterable[str], always: Collection[str] = (),
) -> Program:  # fmt: skip
    """The program without what nothing reads: given `first`, and of other tensors and of numbers what it reads.

    Some it is given `always`: it may read no more of them than a length.
    """
    live = without_unread(program)
    nodes = [n for s in live.statements for n in (s.value, *s.slots)]
    read = {name for s in live.statements for name in _reads(s)} | set(live.returns) | set(always)
    read |= {s.onto for s in live.statements if isinstance(s, Scatter) and s.onto}
    read |= {n for c in live.carries for n in (c.start, c.before, c.after, c.last)}
    made = {s.name for s in live.statements}
    said = {n.name for node in nodes for n in walk(node) if isinstance(n, Scal)}
    names = dict.fromkeys((*first, *(n for n in others if n in read and n not in made)))
    given = tuple((n, axes[n]) for n in names)
    return replace(live, given=given, scalars=tuple(n for n in numbers if n in said))


def made_otherwise(first: Program, second: Program) -> set[str]:
    """The names under which the second of two programs, which reads what the first made, makes something else."""
    made, found = {s.name: s for s in first.statements}, set[str]()
    for s in second.statements:
        if s.name in made and (made[s.name] != s or any(found & reads(n) for n in (s.value, *s.slots))):
            found.add(s.name)
    return found


def _reads(s: Statement) -> Iterator[str]:
    """What a statement reads, once for each index and value that does."""
    for n in (s.value, *s.slots):
        yield from reads(n)


def without_copies(program: Program) -> Program:
    """The same program with one name for each tensor: `returns` name the tensor itself."""
    names: dict[str, str] = {}
    kept: list[Statement] = []
    made: dict[Statement, str] = {}
    written = Counter(s.name for s in program.statements)  # more than once: what is added to, or several things are
    written.update(s.onto for s in program.statements if isinstance(s, Scatter) and s.onto)
    for s in program.statements:
        s = renamed(s, names)
        nameless = replace(s, name="", note="")
        copy = isinstance(s, Assign) and isinstance(s.value, Read) and s.value.index == s.axes
        same = s.value.name if copy and isinstance(s.value, Read) else made.get(nameless)
        if same is None or written[s.name] > 1 or written[same] > 1:
            kept.append(s)
            made[nameless] = s.name
        else:
            names[s.name] = same
    returns = tuple(names.get(r, r) for r in program.returns)
    out = replace(program, returns=returns, carries=tuple(c.under(names) for c in program.carries))
    return check(replace(out, statements=_under_last_names(kept, out.ends)))


def under_last_names(program: Program) -> Program:
    """The same program, where what is only made to be called otherwise has that name at once."""
    return check(replace(program, statements=_under_last_names(list(program.statements), program.ends)))


def _under_last_names(statements: list[Statement], returns: tuple[str, ...]) -> tuple[Statement, ...]:
    """The statements, where a tensor that is read once, to be called otherwise, has that name: what is scattered
    into begins so.
    """
    readers = Counter(name for s in statements for name in _reads(s))
    readers.update(s.onto for s in statements if isinstance(s, Scatter) and s.onto)
    made = {s.name: s for s in statements if isinstance(s, Assign)}
    for copy in [s for s in statements if isinstance(s, Assign) and isinstance(s.value, Read)]:
        first = made.get(copy.value.name) if isinstance(copy.value, Read) else None
        alone = first is not None and readers[first.name] == 1 and first.name not in returns
        if alone and first in statements and copy.value == Read(first.name, first.axes) and first.axes == copy.axes:
            statements = [replace(s, name=copy.name) if s is first else s for s in statements if s is not copy]
    return tuple(statements)
