"""The results as a page: a table a suite, and every failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.outside.problem import Problem
from benchmarks.outside.results import Found

TITLES = {
    "kernelbench_1": "KernelBench, level 1",
    "kernelbench_2": "KernelBench, level 2",
    "robust_kbench": "robust-kbench, backward tasks",
    "liger": "Liger",
}
COLUMNS = (
    "problem", "expressible", "right", "statements / by hand", "saved bytes (autograd's)", "plain", "line", "all",
    "kernels",
)  # fmt: skip
NOT_YET = "not tried"

_HEAD = """# Problems that others set

Written by `make outside`; do not edit. The mathematics is theirs, the specs are ours (`benchmarks/outside/`), with
lengths that suit one core.

- **right**: outputs and gradients of the derived functions, called as a pair and through autograd, are those of
  autograd of the PyTorch that a person writes with `torch.nn.functional`, in float64 within 1e-9 of the largest
  element: four seeds at odd lengths and four with a long row, random cotangents. The number is the largest error.
- **statements / by hand**: of the backward, views left out, beside the best that we know by hand, in PyTorch's calls;
  that is held to the same.
- **saved bytes**: what the forward keeps for its backward at the lengths that are timed, in float32, beside what
  autograd's tape keeps. Inputs count.
- **plain**, **line**, **all**, **kernels**: the time of the derived forward and backward, as PyTorch with each set of
  instructions (`derive generate --instructions`) and as C kernels, over that of autograd of the same PyTorch code;
  below 1 is faster. Float32, one thread, all ways by turns in one process, the median of the rounds' ratios. Sets that
  lead to the same code have one figure.

"""


@dataclass(frozen=True)
class Line:
    """One problem with what was found of it."""

    problem: Problem
    found: Mapping[str, Found]

    @property
    def failure(self) -> str:
        """Why a problem is not right, or not there; "" where it is right."""
        right = self.found.get("right", {})
        if self.problem.op is None:
            return f"not expressible: {self.problem.missing}"
        return right.get("error") or right.get("wrong") or ""

    @property
    def is_right(self) -> bool:
        return self.problem.op is not None and "right" in self.found and not self.failure

    @property
    def cells(self) -> tuple[str, ...]:
        """What the table says of the problem, a column each."""
        name = f"{self.problem.number} {self.problem.title}"
        if self.problem.op is None:
            return (name, f"no: {self.problem.missing.partition(':')[0]}", *[""] * 7)
        return (name, "yes", self._right(), *self._counts(), *self._time())

    def _right(self) -> str:
        if "right" not in self.found:
            return NOT_YET
        return "no" if self.failure else f"{self.found['right']['worst']:.0e}"

    def _counts(self) -> tuple[str, str]:
        found = self.found.get("counts")
        if found is None or "error" in found:
            return (NOT_YET if found is None else "failed",) * 2
        by_hand = found["by_hand"] or "?"
        return f"{found['statements']} / {by_hand}", f"{found['saved']:,} ({found['saved_by_autograd']:,})"

    def _time(self) -> tuple[str, ...]:
        found = self.found.get("time")
        if found is None or "error" in found:
            return (NOT_YET if found is None else "failed",) * 4
        ways = (found.get(way, NOT_YET) for way in ("eager", "line", "all", "kernels"))
        return tuple("none" if r is None else r if isinstance(r, str) else f"{r:.2f}" for r in ways)

    def remarks(self) -> Iterable[str]:
        """Every failure, each part's."""
        if self.failure:
            yield self.failure
        if self.problem.note:
            yield self.problem.note
        if hand := self.found.get("right", {}).get("by_hand_wrong"):
            yield f"the statements by hand are wrong: {hand}"
        for part in ("counts", "time"):
            if error := self.found.get(part, {}).get("error"):
                yield f"{part}: {error}"
        if missing := self.found.get("time", {}).get("without_kernels"):
            yield f"no kernels: {missing}"


def page(suites: Mapping[str, list[Line]], about: str) -> str:
    """The whole page. `about` says when and where times were taken."""
    out = [_HEAD, about, "\n\n", *_table(("suite", "problems", "expressible", "right"), map(_summary, suites.items()))]
    for suite, lines in suites.items():
        out += [f"\n## {TITLES[suite]}\n\n", *_table(COLUMNS, (line.cells for line in lines))]
        remarks = [f"- {x.problem.number} {x.problem.title}: {r}\n" for x in lines for r in x.remarks()]
        out += ["\n", *remarks]
    return "".join(out).rstrip("\n") + "\n"


def _summary(suite: tuple[str, list[Line]]) -> tuple[str, ...]:
    name, lines = suite
    return (
        TITLES[name],
        str(len(lines)),
        str(sum(x.problem.op is not None for x in lines)),
        str(sum(x.is_right for x in lines)),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    cells = [head, ("---",) * len(head), *rows]
    return [f"| {' | '.join(c.replace('|', '∣') for c in row)} |\n" for row in cells]
