"""The best form of every stretch of the backward: each by itself, then each beside what the others keep."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.collapse.chain import Laws
from derive.collapse.local_search import Candidate, search_part
from derive.collapse.saving import Policy, with_kept
from derive.collapse.segments import LONGEST
from derive.decisions import GRADIENTS_SAID

Told = Callable[[str], None]
"""What is called with what a long search is at, for who waits."""


def silent(_: str) -> None:
    """Tell no one."""


@dataclass(frozen=True)
class Solved:
    """A stretch, its best form, and the laws by which it was found."""

    stretch: tuple[Adjoint, ...]
    best: Candidate
    laws: Laws


def solved(
    steps: Stepwise,
    stretches: list[tuple[Adjoint, ...]],
    cuts: tuple[str, ...],
    laws: Laws,
    allowed: Set[str],
    policy: Policy,
    told: Told = silent,
) -> list[Solved]:
    """The best form of each stretch; two stretches become one where their common form is cheaper.

    `told` is called with what is searched next, in words.
    """
    parts = []
    for k, s in enumerate(stretches, 1):
        told(f"closed form of stretch {k} of {len(stretches)}: {_ends(s)}")
        parts.append(Solved(s, search_part(steps, s, laws, allowed, policy), laws))
    order = {a.of: k for k, a in enumerate(steps.adjoints)}
    for cut in cuts:
        target = next(a.target.name for a in steps.adjoints if a.of == cut)
        near = [p for p in parts if any(a.of == cut or target in a.reads for a in p.stretch)]
        joined = tuple(sorted((a for p in near for a in p.stretch), key=lambda a: order[a.of]))
        if len(near) < 2 or len(joined) > 3 * LONGEST:
            continue
        told(f"closed form of two stretches as one: {_ends(joined)}")
        open_laws = replace(laws, always=laws.always - {cut})
        whole = search_part(steps, joined, open_laws, allowed, policy)
        if whole.kept.total < _total(steps, [p.best for p in near], policy):
            parts = [*(p for p in parts if p not in near), Solved(joined, whole, open_laws)]
            laws = open_laws
    return sorted(parts, key=lambda p: order[p.stretch[0].of])


def _ends(stretch: tuple[Adjoint, ...]) -> str:
    """The gradients of a stretch, of a long one the first and the last."""
    names = [a.target.name for a in stretch]
    return ", ".join(names) if len(names) <= GRADIENTS_SAID else f"{names[0]} to {names[-1]}"


def beside_each_other(steps: Stepwise, parts: list[Solved], allowed: Set[str], policy: Policy) -> list[Candidate]:
    """The best form of each of these stretches that has for nothing what the others keep."""
    out = []
    for k, part in enumerate(parts):
        held = frozenset(n for j, other in enumerate(parts) if j != k for n in other.best.kept.names)
        out.append(search_part(steps, part.stretch, part.laws, allowed, policy, held) if held else part.best)
    return out


def _total(steps: Stepwise, parts: list[Candidate], policy: Policy) -> float:
    """What several stretches cost together; what one keeps, the next has for nothing."""
    total = 0.0
    held: set[str] = set()
    for part in parts:
        returns = tuple(d.name for d in part.definitions)
        kept = with_kept(steps, list(part.definitions), returns, frozenset(held), policy)
        total += kept.total
        held |= set(kept.names)
    return total
