"""Which statistics keep dimensions of length 1: where more reads broadcast by them than take them away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from derive.backends.code import NEW, Code, Item, Method, below
from derive.backends.torch.layout import Layouts
from derive.backends.values import Line
from derive.ir.nodes.walking import reads
from derive.ir.program import Assign, Program

LaidOut = tuple[Layouts, Layouts]  # of the forward and of the backward


def with_fewest_views(
    programs: tuple[Program, Program],
    lay_out: Callable[[frozenset[str]], LaidOut],
    print_lines: Callable[[Program, Layouts], Iterable[Line]],
) -> LaidOut:
    """The layouts under which the code inserts and takes away the fewest dimensions.

    `lay_out` gives the tensors of these names no dimension of length 1; `print_lines` prints a program.
    """

    def printed(laid: LaidOut) -> list[Code]:
        copies = (replace(known, dims=dict(known.dims)) for known in laid)  # printing adds names of its own
        lines = (line for p, known in zip(programs, copies, strict=True) for line in print_lines(p, known))
        return [c for line in lines for c in below(line.value)]

    plain = frozenset[str]()
    best = lay_out(plain)
    code = printed(best)
    fewest = _views(code)
    for name in _squeezed(code, programs, best):
        laid = lay_out(plain | {name})
        if (views := _views(printed(laid))) < fewest:
            best, fewest, plain = laid, views, plain | {name}
    return best


def _views(code: Iterable[Code]) -> int:
    """How often the code takes away a dimension of length 1, or inserts some."""
    return sum(_is_squeezed(c) or (isinstance(c, Item) and NEW in c.items) for c in code)


def _is_squeezed(code: Code) -> bool:
    return isinstance(code, Method) and code.name == "squeeze"


def _squeezed(code: Iterable[Code], programs: Iterable[Program], laid: LaidOut) -> list[str]:
    """What keeps dimensions of length 1 that the code takes away again, of it or of what takes after it."""
    statements = [s for p in programs for s in p.statements]
    dims = {**laid[1].dims, **laid[0].dims}
    wanted = {str(c.on) for c in code if isinstance(c, Method) and _is_squeezed(c)}
    for s in reversed(statements):
        if s.name in wanted and None in dims[s.name]:
            wanted |= reads(s.value)
    return [s.name for s in statements if isinstance(s, Assign) and s.name in wanted and None in dims[s.name]]
