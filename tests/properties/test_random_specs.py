"""Random specs, derived and run, against autograd of their equations as they stand; and those that failed once."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from derive.emit.live import Live
from derive.errors import DeriveError
from tests.properties import native
from tests.properties.found import FOUND
from tests.properties.grammar import Example, Input
from tests.properties.judging import built, expected_refusal, judge
from tests.properties.run import outcome
from tests.properties.shrinking import numbered

AXES = {"n": 3, "d": 2, "k": 4, "t": 5, "m": 6}
LENGTHS = {"x[d, i + 1]": 3, "i + d": 3, "2 * i + n": 2, "x[d, n, 0]), along": 9, "x[t]), along": 10}
LENGTHS |= {"3 * i": 1, "(i, k)": 1, "(i, n)": 1, "i + 1]": 2, "mean(x[i + n": 4}
LENGTHS |= {"2 * i, d]": 3, "d + i": 2, "x[i + n] + where": 4, "exp(x[n, d, 0]), along": 6}
LENGTHS |= {"0, i + n], over": 2, "(d, i)], over=n": 1}
PARTS = 10
EACH = 6
SEED = 1


@pytest.mark.parametrize("part", range(PARTS))
def test_random_specs(part: int) -> None:
    """60 in ten parts, all different, the same on every run; `python -m tests.properties.run` tries others."""
    for number in range(part * EACH, (part + 1) * EACH):
        made = numbered(SEED, number)[0]
        found = outcome(number, made)
        again = f"python -m tests.properties.run --seed {SEED} --first {number} --examples 1 --shrink"
        assert found.fine, f"{found.kind}: {found.detail}\n{again}\n{made.source}"


def test_random_specs_are_all_different() -> None:
    sources = {numbered(SEED, number)[0].source for number in range(PARTS * EACH)}
    assert len(sources) == PARTS * EACH


@pytest.mark.parametrize("seed, number", [(4711, 169), (4711, 207), (4715, 28), (47, 842)])
def test_random_specs_that_failed_once(seed: int, number: int) -> None:
    """A division by a function under another axis; an output without a tensor; a gather, a diagonal in a merge."""
    made = numbered(seed, number)[0]
    found = outcome(number, made)
    assert found.fine, f"{found.kind}: {found.detail}\n{made.source}"


NATIVE = {77: (120, 166, 221), 78: (165,), 79: (10, 36, 163, 228), 80: (24, 201), 81: (266,)}
NATIVE |= {47: (444,), 777: (58, 77), 779: (21, 64), 781: (68,), 424242: (20020,)}
"""Examples by seed: those whose kernels were wrong once, or wrongly judged."""


@pytest.mark.slow
@pytest.mark.parametrize("seed, number", [(seed, k) for seed, numbers in NATIVE.items() for k in numbers])
def test_random_specs_as_kernels(seed: int, number: int) -> None:
    """`python -m tests.properties.run --native` tries others."""
    found = outcome(number, numbered(seed, number)[0], native.judge)
    assert found.fine, f"{found.kind}: {found.detail}\n{numbered(seed, number)[0].source}"


def assert_right(made: Example, live: Live) -> None:
    verdict = judge(made, live)
    fine = verdict.outcome in ("right", "rightly refused")
    assert fine, f"{verdict}\nsave={made.save}, {made.layout} cotangents\n{made.source}"


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("pack", [(2,), (), (2, 3)], ids=str)
def test_found(name: str, pack: tuple[int, ...]) -> None:
    body = FOUND[name].strip()
    if "..." not in body and pack != (2,):
        pytest.skip("no `...` in it")
    made = Example(_file(body), "spec", _inputs(body, pack), _lengths(body), "cost", "contiguous", 0, False)
    try:
        live = built(made)
    except DeriveError as error:
        assert expected_refusal(str(error)), f"{error}\n{made.source}"
        return
    for layout in ("contiguous", "transposed", "expanded"):
        assert_right(replace(made, layout=layout), live)


def _file(body: str) -> str:
    return f'from derive import *\n\nn, d, k, t, m, i, j = axes("n d k t m i j")\n\n\n@op\n{body}\n'


def _inputs(body: str, pack: tuple[int, ...]) -> tuple[Input, ...]:
    found = []
    for name, kind, axes in re.findall(r"(\w+): (tensor|index\(n\))\[([^]]*)\]", body):
        shape = tuple(n for a in axes.split(", ") if a != "()" for n in (pack if a == "..." else (AXES[a],)))
        found.append(
            Input(
                name,
                "tensor" if kind == "tensor" else "index",
                shape,
                0 if "index" in kind else -1.5,
                2 if "index" in kind else 1.5,
            )
        )
    numbers = [Input(name, "scalar", number=float(v)) for name, v in re.findall(r"(\w+): scalar = (\S+)\)", body)]
    return (*found, *numbers)


def _lengths(body: str) -> dict[str, int]:
    """Of the axes that no input carries: a window along k or m, or concatenations."""
    i = next((n for text, n in LENGTHS.items() if text in body), 0)
    return {"i": i, "j": 6 if "x[n, d], along=j" in body else 15}
