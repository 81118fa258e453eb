"""A sample of mechanical mutants: the battery catches each, or the list of equivalent ones says why it need not.

`python -m tests.mutation --out docs/mutation.md` tries them all.
"""

from __future__ import annotations

import pytest

from derive.catalogue import find
from tests.mutation.mutants import KINDS, mutants, pairs
from tests.mutation.survivors import why_equivalent
from tests.mutation.trial import trials

SAMPLE = {"batchnorm": 4, "embedding": 1, "gelu_tanh": 4, "huber": 4, "kl_div_log_target": 2, "tril": 1, "trace": 1}
"""Each how many-th mutant of an op."""

MODULE = """
def f_backward(dy, a, b):
    s = (dy * a).sum(-1, keepdim=True)
    dx = dy @ b - s
    dx[0] += a / b
    return dx
"""


@pytest.mark.parametrize("name", SAMPLE)
def test_the_battery_catches_mutants(name: str) -> None:
    survivors = [t.mutant for t in trials(find(name), SAMPLE[name]) if t.caught is None]
    assert [m for m in survivors if why_equivalent(name, m) is None] == []


def test_every_kind_of_mistake_is_made() -> None:
    made = mutants(MODULE, "f", pairs({"dy": (2,), "a": (3,), "b": (3,)}))
    assert {m.kind for m in made} == set(KINDS)
    assert {m.after for m in made if m.kind in ("keepdim", "wrong dim", "swapped operands", "= for accumulate")} == {
        "s = (dy * a).sum(-1)", "s = (dy * a).sum(-2, keepdim=True)", "dx = b @ dy - s", "dx = s - dy @ b",
        "dx[0] += b / a", "dx[0] = a / b",
    }  # fmt: skip


def test_no_mutant_is_the_original_and_no_two_are_alike() -> None:
    made = [m.source for m in mutants(MODULE, "f", [("a", "b")])]
    assert len(set(made)) == len(made) and all("def f_backward" in m for m in made)


def test_operators_written_as_methods_are_mistaken_too() -> None:
    source = "def f_backward(dy, y):\n    dx = (1 - y).mul_(dy).add_(y)\n    return dx\n"
    found = {(m.kind, m.after) for m in mutants(source, "f", [])}
    assert {
        ("dropped factor", "dx = (1 - y).add_(y)"), ("dropped term", "dx = (1 - y).mul_(dy)"),
        ("sign", "dx = (1 - y).mul_(dy).sub_(y)"), ("sign", "dx = (1 + y).mul_(dy).add_(y)"),
    } <= found  # fmt: skip
