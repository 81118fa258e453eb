"""Problems that others set: a sample of them is right, what is wrong is told, and the page holds all of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch.nn.functional as F

from benchmarks.outside.page import COLUMNS, TITLES, Line, page
from benchmarks.outside.problem import SUITES, Problem, problems
from benchmarks.outside.results import Results, digest
from benchmarks.outside.trial import counted, tried

PAGE = Path(__file__).parents[2] / "docs" / "outside.md"
SAMPLE = [("kernelbench_1", n) for n in (18, 25, 44, 64, 99)] + [("robust_kbench", 2)]
SAMPLE += [("kernelbench_2", n) for n in (2, 30, 92)] + [("liger", n) for n in (2, 17, 47)]


def problem(suite: str, number: int) -> Problem:
    return next(p for p in problems(suite) if p.number == number)


@pytest.mark.parametrize(("suite", "number"), SAMPLE)
def test_a_sample_is_right_and_so_are_its_statements_by_hand(suite: str, number: int) -> None:
    found = tried(problem(suite, number))
    assert (found.wrong, found.by_hand_wrong) == ("", "") and found.calls == 8
    assert found.worst < 1e-12


def test_another_function_and_wrong_statements_are_told() -> None:
    swish = problem("kernelbench_1", 25)
    assert "y is off by" in tried(replace(swish, forward=F.gelu)).wrong
    assert "dx is off by" in tried(replace(swish, by_hand="dx = dy * s")).by_hand_wrong
    assert tried(replace(swish, by_hand="dx = dy * nothing")).by_hand_wrong.startswith("NameError")
    with pytest.raises(ValueError, match=r"by the forward and by the spec, are \[\[\]\] and \[\[2, 3\]\]"):
        tried(replace(swish, forward=lambda x: x.sum()))


def test_statements_and_bytes_are_counted() -> None:
    found = counted(problem("kernelbench_1", 41))
    assert found.by_hand == 1 and found.saved < found.saved_by_autograd


def test_a_suite_is_whole() -> None:
    assert [p.number for p in problems("kernelbench_1")] == list(range(1, 101))
    assert [p.number for p in problems("kernelbench_2")] == list(range(1, 101))
    assert [p.number for p in problems("robust_kbench")] == list(range(1, 9))
    assert [p.number for p in problems("liger")] == [*range(1, 34), *range(41, 51)]
    for suite in SUITES:
        for p in problems(suite):
            assert (p.op is None) == bool(p.missing) == (p.forward is None), p.title


def test_results_rest_on_the_problem_and_are_found_again(tmp_path: Path) -> None:
    relu = problem("kernelbench_1", 19)
    assert digest("kernelbench_1", relu, "engine") == digest("kernelbench_1", replace(relu), "engine")
    others = (replace(relu, by_hand="dx = dy"), replace(relu, forward=lambda x: x), problem("kernelbench_1", 20))
    digests = {digest("kernelbench_1", p, e) for p in (relu, *others) for e in ("engine", "another")}
    assert len(digests) == 8
    Results.read(tmp_path / "kept.json").put("kernelbench_1", 19, "right", {"of": "a digest"})
    assert Results.read(tmp_path / "kept.json").of("kernelbench_1", 19) == {"right": {"of": "a digest"}}


def test_failures_stand_on_the_page() -> None:
    relu, argmax = problem("kernelbench_1", 19), problem("kernelbench_1", 51)
    wrong = {"right": {"worst": 1.0, "wrong": "derived: dx is off by 1e+00", "by_hand_wrong": "dx too"}}
    lines = [Line(relu, {**wrong, "time": {"error": "ValueError: another number"}}), Line(argmax, {})]
    told = page({"kernelbench_1": lines}, "")
    for text in ("derived: dx is off by 1e+00", "dx too", "ValueError: another number", argmax.missing):
        assert text in told
    assert "| KernelBench, level 1 | 2 | 1 | 0 |" in told


def test_the_page_holds_every_problem_and_adds_up() -> None:
    head, *rest = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    summary = {r[0]: tuple(map(int, r[1:])) for r in _rows(head)[1:]}
    assert list(summary) == [TITLES[s] for s in SUITES if problems(s)]
    for suite, section in zip((s for s in SUITES if problems(s)), rest, strict=True):
        header, *rows = _rows(section)
        assert tuple(header) == COLUMNS
        assert [r[0] for r in rows] == [f"{p.number} {p.title}" for p in problems(suite)]
        assert Counter(r[1] == "yes" for r in rows)[True] == summary[TITLES[suite]][1]
        right = [r for r in rows if re.fullmatch(r"\de[+-]\d\d", r[2])]
        assert len(right) == summary[TITLES[suite]][2] and len(rows) == summary[TITLES[suite]][0]
        for r in rows:
            assert r in right or f"- {r[0]}: " in section, f"{r[0]} is not right, and nothing says why"


def _rows(text: str) -> list[list[str]]:
    """The cells of a table's lines, but for the rule below the head."""
    found = [[c.strip() for c in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]
    return [r for r in found if set(r) != {"---"}]
