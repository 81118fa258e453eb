"""Lines of C with their indentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from derive.backends.cpu.names import Sizes, length

LINE_LENGTH = 120

Count = Callable[[Sizes, str], str]
"""A number of elements, by what lengths and the number of threads are called."""


@dataclass
class Scratch:
    """Memory that a function takes for itself: each piece's C type, name, number of elements, and what says that."""

    pieces: dict[tuple[str, str, str], Count] = field(default_factory=dict)

    def take(self, kind: str, name: str, count: Count) -> None:
        """Memory for a tensor that several steps may write: the first of them takes it."""
        self.pieces.setdefault((kind, name, count(length, "threads")), count)

    def taken(self) -> list[str]:
        """The lines that take it, from `next` on."""
        return [f"    {kind} *const restrict {own} = take(&next, {n}, sizeof({kind}));" for kind, own, n in self.pieces]


def in_rows(head: str, words: list[str], tail: str, indent: str = "    ") -> list[str]:
    """`head word, word, … tail`, broken where a line would be too long."""
    rows = [head]
    for k, word in enumerate(words):
        text = word + (tail if k == len(words) - 1 else ",")
        if len(rows[-1]) + 1 + len(text) > LINE_LENGTH - len(indent) and rows[-1] != head:
            rows.append(f"{indent}{text}")
        else:
            rows[-1] += text if rows[-1] == head else f" {text}"
    return rows


@dataclass
class Writer:
    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def line(self, text: str = "") -> None:
        self.lines.append(f"{'    ' * self.depth}{text}" if text else "")

    def comment(self, text: str) -> None:
        """A comment on lines of its own, one for each of the text's, if it has something to say."""
        for line in text.split("\n") if text else ():
            self._comment(line)

    def _comment(self, text: str) -> None:
        width = LINE_LENGTH - 4 * self.depth - 3
        words, row = text.split(" "), ""
        for word in words:
            if row and len(row) + 1 + len(word) > width:
                self.line(f"// {row}")
                row = f"    {word}"
            else:
                row = f"{row} {word}" if row else word
        self.line(f"// {row}")

    @contextmanager
    def call(self, head: str) -> Iterator[None]:
        """A macro's call whose last argument are lines: `head,` … `)`."""
        self.line(f"{head},")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(")")

    @contextmanager
    def spread(self, head: str, tail: str) -> Iterator[None]:
        """A call over several lines, `tail` its last one."""
        self.line(head)
        self.depth += 1
        yield
        self.line(tail)
        self.depth -= 1

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head {` … `}`."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def otherwise(self, test: str = "") -> Iterator[None]:
        """`… else {` … `}`, after a block; with a test, `… else if (test) {`."""
        self.lines[-1] += f" else if ({test}) {{" if test else " else {"
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def blocks(self, i: str, n: str, size: str, start: str = "block", stop: str = "end") -> Iterator[None]:
        """A loop over blocks of so many places of n, each from one variable to another."""
        with self.block(f"for (int64_t {i}_{start} = 0; {i}_{start} < {n}; {i}_{start} += {size})"):
            self.line(f"const int64_t {i}_{stop} = at_most({i}_{start} + {size}, {n});")
            yield

    def parallel(self, team: str, collapse: int = 1, kind: str = "static") -> None:
        """The next loops' iterations are shared out among so many threads."""
        together = f" collapse({collapse})" if collapse > 1 else ""
        self.line(f"#pragma omp parallel for num_threads({team}){together} schedule({kind})")

    @contextmanager
    def loop(self, variable: str, start: str, stop: str, pragma: str = "", kind: str = "int64_t") -> Iterator[None]:
        if pragma:
            self.line(f"#pragma omp {pragma}")
        with self.block(f"for ({kind} {variable} = {start}; {variable} < {stop}; {variable}++)"):
            yield
