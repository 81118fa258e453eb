"""Sums and maxima up to a place in C: one loop along the axis, upwards or downwards, that carries what it has.

Sums are carried in double precision. Where the axis is not the last in memory, vectors run along the last one.
"""

from __future__ import annotations

from contextlib import ExitStack

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.nests import START, fold
from derive.backends.cpu.names import extent, length, variable
from derive.backends.cpu.statements.normal import Normal, Running
from derive.backends.cpu.writer import Writer
from derive.ir.nodes.walking import axes_along
from derive.ir.program import Read, Run


def print_running(step: Running, form: Normal, out: Writer) -> None:
    """The loops: over all other axes, then along the axis that is carried over."""
    _Printed(step, form, out).print()


class _Printed:
    def __init__(self, step: Running, form: Normal, out: Writer):
        self.step, self.scan, self.out = step, step.scan, out
        self.text = Expressions(form)
        self.name = self.text.name(step.name)
        axes = tuple(dict.fromkeys(axes_along(step.slots)))
        self.lane = axes[-1] if axes[-1] != self.scan.to else None
        self.others = tuple(a for a in axes if a not in (self.scan.to, self.lane))
        self.count = extent(axes)

    def print(self) -> None:
        out, lane = self.out, self.lane
        out.comment(self.step.note)
        nested = len(self.others) + (lane is not None)
        if nested:
            out.parallel(f"team(threads, 4 * {self.count})", nested)
        with ExitStack() as stack:
            for a in self.others:
                stack.enter_context(out.loop(variable(a), "0", length(a)))
            if lane is not None:
                stack.enter_context(out.blocks(variable(lane), length(lane), "SPAN", "from", "to"))
            elif not nested:
                stack.enter_context(out.block(""))
            self._declare("double" if self.scan.kind == "sum" else "real", "total", START[self.scan.kind])
            if isinstance(self.scan, Run):
                self._declare("real", "last", "NAN")  # which is like nothing
            self._along()

    def _declare(self, kind: str, word: str, start: str) -> None:
        if self.lane is None:
            self.out.line(f"{kind} {self.name}_{word} = {start};")
            return
        self.out.line(f"{kind} {self.name}_{word}[SPAN];")
        self._each([f"{self._carried(word)} = {start};"])

    def _carried(self, word: str) -> str:
        """What is carried from place to place."""
        at = "" if self.lane is None else f"[{variable(self.lane)} - {variable(self.lane)}_from]"
        return f"{self.name}_{word}{at}"

    def _each(self, lines: list[str]) -> None:
        """Statements for one place, for a vector of them where there is one."""
        with ExitStack() as stack:
            if self.lane is not None:
                i = variable(self.lane)
                stack.enter_context(self.out.loop(i, f"{i}_from", f"{i}_to", "simd"))
            for line in lines:
                self.out.line(line)

    def _along(self) -> None:
        """The loop along the axis; of two lengths, either may be the longer one."""
        scan, out = self.scan, self.out
        k, to, n = variable(scan.over), variable(scan.to), length(scan.over)
        longest = n if scan.equal else f"at_least({n}, {length(scan.to)})"
        upwards = f"for (int64_t {k} = 0; {k} < {longest}; {k}++)"
        with out.block(
            upwards if scan.relation in ("le", "lt") else f"for (int64_t {k} = {longest} - 1; {k} >= 0; {k}--)"
        ):
            out.line(f"const int64_t {to} = {k};")
            steps = [(self._more(), f"{k} < {n}"), (self._stored(), f"{to} < {length(scan.to)}")]
            steps = steps if scan.relation in ("le", "ge") else steps[::-1]
            if scan.equal:
                self._each([line for lines, _ in steps for line in lines])
                return
            for lines, test in steps:
                with out.block(f"if ({test})"):
                    self._each(lines)

    def _more(self) -> list[str]:
        """One more place in what is carried, begun anew where a run begins."""
        scan, total = self.scan, self._carried("total")
        lines = [fold(scan.kind, total, self.text.real(scan.body))]
        if isinstance(scan, Run):
            here = f"{self.name}_here"
            begun = f"{total} = {here} == {self._carried('last')} ? {total} : 0;"
            return [
                f"const real {here} = {self.text.real(scan.same)};",
                begun,
                f"{self._carried('last')} = {here};",
                *lines,
            ]
        return lines

    def _stored(self) -> list[str]:
        total, place = self._carried("total"), self.text.offset(Read(self.step.name, self.step.slots))
        return [f"{self.name}[{place}] = {'(real)' if self.scan.kind == 'sum' else ''}{total};"]
