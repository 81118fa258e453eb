"""Nothing costs more, is less exact or overflows sooner than what was recorded of it: the catalogue, and a sample."""

from __future__ import annotations

import math
from dataclasses import replace
from zlib import crc32

import pytest

from derive.output.live import build
from derive.pipeline import derivation_of
from derive.verify.battery import BATTERY
from derive.verify.cases import EXACT
from derive.verify.subjects import of_live
from tests.corpus import Spec, corpus
from tests.corpus.compared import changes, cost_changes, settled, within
from tests.corpus.hostile import ORDINARY
from tests.corpus.measured import Entry, Errors, as_text, counted, error_of, errors, from_text, saved_bytes
from tests.corpus.recorded import RECORD, path_of, recorded

_SAMPLE = 30
SPECS = {spec.name: spec for spec in corpus()}
CATALOGUE = [name for name, spec in SPECS.items() if spec.family.startswith("catalogue/")]
REST = sorted(SPECS.keys() - set(CATALOGUE), key=lambda name: crc32(name.encode()))


def _record(spec: Spec) -> Entry:
    entry = recorded(spec)
    assert entry is not None, f"{spec.name} is not recorded: python -m tests.corpus record {spec.name}"
    return entry


def test_all_specs_are_recorded_and_no_others() -> None:
    assert len(SPECS) >= 200
    assert set(RECORD.rglob("*.json")) == {path_of(spec.family, spec.name) for spec in SPECS.values()}


@pytest.mark.parametrize("name", SPECS)
def test_the_record_has_every_situation(name: str) -> None:
    spec = SPECS[name]
    assert list(_record(spec).float32) == [s.name for s in (ORDINARY, *spec.hostile)]


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_op_of_the_catalogue_costs_no_more(name: str) -> None:
    before, d = _record(SPECS[name]), derivation_of(SPECS[name].op)
    forward, backward = counted(d)
    after = replace(before, forward=forward, backward=backward, saved=saved_bytes(d))
    assert not [c for c in cost_changes(before, after) if c.worse]


@pytest.mark.parametrize("name", REST[:_SAMPLE])
def test_a_spec_is_right_and_neither_dearer_nor_less_exact(name: str) -> None:
    spec = SPECS[name]
    before, live = _record(spec), build(spec.op)
    subject = of_live(live)
    for seed in range(2):
        case = BATTERY[0].make(spec.op, seed)
        assert case is not None and error_of(case, subject) <= EXACT
    forward, backward = counted(live.derivation)
    after = replace(before, forward=forward, backward=backward, saved=saved_bytes(live.derivation))
    assert not [c for c in cost_changes(before, after) if c.worse]
    for situation in (ORDINARY, *spec.hostile):
        found = errors(spec, situation, subject)
        assert within(before.float32[situation.name], found), f"{situation.name}: {found}"


# --- what tells a change --------------------------------------------------------------------------------------


def _layernorm() -> Entry:
    return _record(SPECS["layernorm"])


def test_an_entry_is_read_back() -> None:
    entry = replace(_layernorm(), float32={"ordinary": Errors(math.inf, 1e-7)}, code=("[1, 2]", 'x = "é"'))
    assert from_text(as_text(entry)) == entry


def test_what_costs_more_is_worse() -> None:
    old = _layernorm()
    new = replace(
        old,
        backward=replace(old.backward, statements=old.backward.statements + 1, passes=old.backward.passes + 0.5),
        saved={**old.saved, "x": 4096},
    )
    assert [(c.what, c.worse) for c in changes(old, new)] == [
        ("statements", True),
        ("passes", True),
        ("saved bytes", True),
    ]
    assert not any(c.worse for c in changes(new, old)) and len(changes(new, old)) == 3


def test_work_that_moves_to_the_forward_is_no_change() -> None:
    old = _layernorm()
    forward = replace(old.forward, statements=old.forward.statements + 1, passes=old.forward.passes + 1)
    backward = replace(old.backward, statements=old.backward.statements - 1, passes=old.backward.passes - 1)
    assert changes(old, replace(old, forward=forward, backward=backward)) == ()


@pytest.mark.parametrize(
    "before, after, told",
    [
        (Errors(1e-7, 1e-7), Errors(9e-7, 1e-7), False),  # rounding
        (Errors(1e-4, 1e-4), Errors(1.9e-4, 1e-4), False),
        (Errors(1e-4, 1e-4), Errors(3e-4, 1e-4), True),
        (Errors(1e-4, 1e-4), Errors(3e-4, 2e-4), False),  # on this machine so are the equations
        (Errors(1e-4, 1e-4), Errors(math.inf, 1e-4), True),
        (Errors(math.inf, 1e-4), Errors(math.inf, 1e-4), False),
        (Errors(math.inf, 1e-4), Errors(1e-4, 1e-4), True),  # for the better
    ],
)
def test_errors_that_differ_by_more_than_machines_do(before: Errors, after: Errors, told: bool) -> None:
    old = replace(_layernorm(), float32={"ordinary": before})
    new = replace(old, float32={"ordinary": after})
    found = changes(old, new)
    assert settled(old, new) == (new if told else old)
    assert [c.what for c in found] == (["error, ordinary"] if told else [])
    assert all(c.worse == (after.ours > before.ours) for c in found)
