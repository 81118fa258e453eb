"""A sum over several axes starts from the same sum over fewer, and is still the same number."""

import numpy as np
import pytest

from derive.partial_sums import partial_sums
from derive.program import Assign, Program, Read, Reduce

X = Read("x", ("n", "c", "s"))


def program(*statements: Assign) -> Program:
    return Program("p", (("x", ("n", "c", "s")),), (), statements, tuple(s.name for s in statements))


@pytest.mark.parametrize(
    ("small", "large", "text"),
    [
        ("sum", "sum", "sum(part[n, c], over=n)"),
        ("mean", "mean", "mean(part[n, c], over=n)"),
        ("mean", "sum", "size(s) * sum(part[n, c], over=n)"),
        ("sum", "mean", "mean(part[n, c], over=n) / size(s)"),
    ],
)
def test_from_a_part(small: str, large: str, text: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    part = Assign("part", ("n", "c"), Reduce(small, ("s",), X))
    whole = Assign("whole", ("c",), Reduce(large, ("n", "s"), X))
    for order in [(part, whole), (whole, part)]:
        made = partial_sums(program(*order))
        assert [str(s) for s in made.statements] == [str(part), f"whole[c] = {text}"]
    inner = getattr(x, small)(2)
    outer = getattr(inner, large)(0) * {("mean", "sum"): 5, ("sum", "mean"): 1 / 5}.get((small, large), 1)
    np.testing.assert_allclose(outer, getattr(x, large)((0, 2)))


@pytest.mark.parametrize(
    "other",
    [
        Assign("other", ("s",), Reduce("sum", ("n", "c"), X)),  # neither is a part of the other
        Assign("other", ("n", "c"), Reduce("amax", ("s",), X)),
        Assign("other", ("n", "c"), Reduce("sum", ("s",), Read("x", ("n", "s", "c")))),  # another tensor, transposed
    ],
)
def test_what_is_no_part_stays(other: Assign) -> None:
    whole = Assign("whole", ("c",), Reduce("sum", ("n", "s"), X))
    made = partial_sums(program(whole, other))
    assert made.statements == (whole, other)
