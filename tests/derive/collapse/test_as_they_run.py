"""Every law is checked as it is applied: what it makes of an expression has the same values, also in forms not taken.

The values are those of float64 at a random point of the op, every adjoint as the chain rule gives it. What cannot be
evaluated counts as wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sympy import Add, Expr, S

from derive.adjoint.chain_rule import Stepwise, stepwise
from derive.catalogue import catalogue, find, load_file
from derive.collapse import chain, search, symmetries, vanishing, whole_form
from derive.collapse.chain import Step
from derive.collapse.saving import POLICIES
from derive.collapse.vocabulary import name_sums
from derive.ir.algebra import normal
from derive.ir.equations import Op
from derive.ir.terms.axes import free_axes, sorted_axes
from derive.schedule.definitions import Definition
from derive.verify.battery import situation
from derive.verify.cases import Case, scale, worst
from derive.verify.chain import chain_world, in_order
from derive.verify.places import World
from tests.derive.specs import SPECS

UNSEEN = load_file(Path(__file__).parents[2] / "unseen" / "specs.py")
OPS = {op.name: op for op in (*catalogue(), *(s.op for s in SPECS), *UNSEEN)}
CLOSE = 1e-10


@dataclass
class Watch:
    """Stands in the place of `Step`: evaluates both sides before it lets a step happen."""

    world: World
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, law: str, subject: Any, before: Expr, after: Expr, reason: str) -> Step:
        axes = sorted_axes(free_axes(before) | free_axes(after))
        was, now = self.world.tensor(before, axes), self.world.tensor(after, axes)
        assert bool(was.isfinite().all()), f"{law} of {subject}: {before} is not finite here"
        assert worst(now, was) <= CLOSE * scale(was), f"{law} changed {subject}: {before} became {after}"
        self.seen[law] += 1
        if law == "carried":  # no adjoint of the chain rule: those that read it come after it
            self.world = self.world.having({subject.name: self.world.tensor(after, subject.index)})
        return Step(law, subject, before, after, reason)


def point(op: Op) -> Case:
    """A small call of the op."""
    made = (situation(name).make(op) for name in ("same sizes", "ordinary"))
    return next(case for case in made if case is not None)


def searched(op: Op, monkeypatch: pytest.MonkeyPatch) -> tuple[Stepwise, World, Watch, search.Closed]:
    """The search for the op's closed form, each law watched as it runs."""
    op = op.cut  # laws know no recurrence
    steps = stepwise(name_sums(op))
    world = chain_world(SimpleNamespace(steps=steps), point(op).call)  # type: ignore[arg-type]
    for adjoint in steps.adjoints:
        world = world.having({adjoint.target.name: world.tensor(adjoint.value, adjoint.axes)})
    watch = Watch(world)
    for place in (chain, symmetries, vanishing, whole_form):
        monkeypatch.setattr(place, "Step", watch)
    return steps, world, watch, search.search(steps, POLICIES["cost"])


@pytest.mark.parametrize("name", OPS)
def test_every_law_keeps_the_values_as_it_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, world, _, closed = searched(OPS[name], monkeypatch)
    definitions = {d.name: d for d in closed.definitions}
    for gradient in [a.target.name for a in steps.adjoints if a.target.name in definitions]:
        assert_same(world, gradient, definitions)


def assert_same(world: World, gradient: str, definitions: dict[str, Definition]) -> None:
    """A closed definition, computed from those before it, is the adjoint that the chain rule gives."""
    want = world.tensors[gradient]
    for name in in_order(gradient, definitions):
        d = definitions[name]
        world = world.having({name: world.tensor(d.value, d.axes)})
    assert worst(world.tensors[gradient], want) <= CLOSE * scale(want), gradient


def test_every_law_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for name in ("batchnorm", "causal_attention"):
        with monkeypatch.context() as patch:
            seen += searched(find(name), patch)[2].seen
    assert set(seen) == {"chain", "eliminate", "relation", "support", "reassociate"}


# --- sabotage -----------------------------------------------------------------------------------------------


def shorter(value: Expr) -> Expr:
    """The expression without its last term, where it has several."""
    terms = Add.make_args(value)
    return Add(*terms[:-1]) if len(terms) > 1 else value


def dropping(place: object, name: str, of: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """A law that drops a term of what it returns."""

    def sabotage(patch: pytest.MonkeyPatch) -> None:
        right = getattr(place, name)
        patch.setattr(place, name, lambda *args: of(right(*args)))

    return sabotage


def all_as_one(patch: pytest.MonkeyPatch) -> None:
    """Every adjoint is 0 with its sums in one, also those that differ from 0 at random places."""
    dropping(vanishing, "_in_one", lambda value: S.Zero)(patch)
    patch.setattr(vanishing.Instance, "may_vanish", lambda *_: True)


SABOTAGE = [
    pytest.param(dropping(chain, "substitute", shorter), "chain", id="put in its place"),
    pytest.param(dropping(chain, "use_relations", lambda r: (shorter(r[0]), r[1])), "relation", id="relations"),
    pytest.param(dropping(chain, "without_masks", lambda r: (2 * r[0], r[1])), "support", id="supports"),
    pytest.param(
        dropping(whole_form, "reassociated", lambda found: [(2 * value, used) for value, used in found]),
        "reassociate",
        id="reassociation",
    ),
    pytest.param(all_as_one, "reassociate", id="sums in one"),
]


@pytest.mark.parametrize(("sabotage", "law"), SABOTAGE)
def test_a_sabotaged_law_is_caught_as_it_runs(
    sabotage: Callable[[pytest.MonkeyPatch], None], law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    normal.cache_clear()
    sabotage(monkeypatch)
    with pytest.raises(AssertionError, match=rf"^{law} changed "):
        searched(find("causal_attention" if law in ("support", "reassociate") else "batchnorm"), monkeypatch)
