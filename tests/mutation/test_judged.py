"""A sample of wrong candidates: judge condemns each, and its reasons are true.

`python -m tests.mutation.judged --trials FILE` tries them all.
"""

from __future__ import annotations

import pytest

from derive.catalogue import find
from derive.verify.judge import judge
from tests.mutation.judged import Trial, candidates, reason, table, trial
from tests.mutation.wrong import Wrong, right_of, wrong

SAMPLE = ("tanh", "rmsnorm", "embedding")


@pytest.mark.parametrize("name", SAMPLE)
def test_wrong_candidates_are_condemned_for_the_true_reason(name: str) -> None:
    found = [trial(op, candidate) for op, candidate in candidates([name], 3, 2)]
    assert [t for t in found if t.differs and not t.true] == []
    assert sum(t.differs for t in found) > 2


def test_a_reason_that_unseen_calls_contradict_is_false() -> None:
    """Of a candidate that is judged for another one's mistake."""
    op = find("rmsnorm")
    one, other = list(wrong(op, 2, 0))
    assert trial(op, one).reason == "as made"
    verdict = judge(op, one.subject)
    assert reason(op, Wrong("", one.classes, one.subject), verdict) == "as made"
    assert reason(op, Wrong("", one.classes, other.subject), verdict) == "false"
    assert reason(op, Wrong("", one.classes, right_of(op)), verdict) == "false"


def test_the_table_counts_what_is_so() -> None:
    made = [
        Trial("op", "sign: a", True, True, "wrong", "wrong sign", "", "as made"),
        Trial("op", "sign: b", True, True, "right", "", "", "false"),
        Trial("op", "bent: c", False, True, "wrong", "unexplained", "", "unexplained"),
        Trial("op", "sign: d", True, False, "right", "", "", "false"),
    ]
    text = table(made)
    assert "| **all** | 3 | 2 | 2 | 1 | 0 | 1 | 1 |" in text
    assert "66.7 % condemned, 66.7 % with the true reason; 1 that change nothing" in text
    assert "- not condemned: op, `sign: b`" in text
