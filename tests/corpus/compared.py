"""A spec's entry beside the one that was recorded: what changed, and whether for the worse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from derive.verify.cases import EXACT
from tests.corpus.measured import Entry, Errors

SLACK = 2.0
"""Times a recorded error that is no change: other machines add in another order."""

ROUNDING = 1e-6
"""Relative errors in float32 that are rounding alone."""


@dataclass(frozen=True)
class Change:
    """One figure of an entry that is another than recorded."""

    what: str
    before: float
    after: float

    @property
    def worse(self) -> bool:
        return self.after > self.before

    @property
    def ratio(self) -> float:
        """How many times as much it is now; infinite where it was nothing, or is no number any more."""
        return self.after / self.before if self.before and math.isfinite(self.after) else math.inf


def changes(before: Entry, after: Entry) -> tuple[Change, ...]:
    """Every figure that changed, and errors that did by more than machines differ."""
    return (*cost_changes(before, after), *_error_changes(before, after))


def cost_changes(before: Entry, after: Entry) -> tuple[Change, ...]:
    """What changed of statements, passes and bytes, of forward and backward together."""
    pairs = (
        ("statements", *(e.forward.statements + e.backward.statements for e in (before, after))),
        ("passes", *(round(e.forward.passes + e.backward.passes, 2) for e in (before, after))),
        ("saved bytes", *(e.saved_bytes for e in (before, after))),
    )
    return tuple(Change(what, a, b) for what, a, b in pairs if a != b)


def _error_changes(before: Entry, after: Entry) -> Iterator[Change]:
    if max(before.float64, after.float64) > EXACT and before.float64 != after.float64:
        yield Change("error in float64", before.float64, after.float64)
    for name in (n for n in before.float32 if n in after.float32):
        a, b = before.float32[name], after.float32[name]
        if not _alike(a, b):
            yield Change(f"error, {name}", a.ours, b.ours)


def within(before: Errors, after: Errors) -> bool:
    """Whether an error in float32 is no larger than before, but for what another machine may make of the inputs."""
    elsewhere = after.equations / before.equations if before.equations else 1.0
    return after.ours <= SLACK * max(before.ours, ROUNDING) * max(1.0, elsewhere)


def settled(before: Entry, after: Entry) -> Entry:
    """The entry with errors as they were recorded where they differ by no more than machines do."""
    kept = {
        name: before.float32[name] if name in before.float32 and _alike(before.float32[name], now) else now
        for name, now in after.float32.items()
    }
    exact = before.float64 if max(before.float64, after.float64) <= EXACT else after.float64
    return replace(after, float64=exact, float32=kept)


def _alike(one: Errors, other: Errors) -> bool:
    return within(one, other) and within(other, one)
