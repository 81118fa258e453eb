"""Sums over the one and over the other point of differences of one set are one sum, where they weigh the same ones."""

import pytest

from derive.backends.torch.products.met_twice import weighed_once
from derive.ir.nodes.soundness import check
from derive.ir.program import Assign, Call, Node, Program, Read, Reduce, Scal

GIVEN = (("x", ("n", "d")), ("z", ("n", "d")), ("w", ("n", "j")), ("v", ("n", "j")), ("g", ("d",)))
TWICE, DOUBLE = "dx[n, d] = a[n, d] - b[n, d]", Scal("c")


def point(axis: str, name: str = "x") -> Read:
    return Read(name, (axis, "d"))


def total(weight: Node, own: Node, other: Node, over: str = "j") -> Node:
    return Reduce("sum", (over,), Call("mul", (weight, Call("sub", (own, other)))))


W, V = Read("w", ("n", "j")), Read("v", ("i", "n"))
FROM_N, TO_N = total(W, point("n"), point("j")), total(V, point("i"), point("n"), "i")
BOTH = "sum((w[n, j] {} v[j, n]) * (x[n, d] - x[j, d]), over=j)"


def times(number: Node, node: Node) -> Node:
    return Call("mul", (number, node))


@pytest.mark.parametrize(
    ("first", "fn", "second", "becomes"),
    [
        (FROM_N, "sub", TO_N, f"dx[n, d] = {BOTH.format('+')}"),
        (FROM_N, "add", TO_N, f"dx[n, d] = {BOTH.format('-')}"),
        (TO_N, "sub", FROM_N, "dx[n, d] = -sum((v[i, n] + w[n, i]) * (x[n, d] - x[i, d]), over=i)"),
        (times(DOUBLE, FROM_N), "sub", times(DOUBLE, TO_N), f"dx[n, d] = c * {BOTH.format('+')}"),
        (times(DOUBLE, FROM_N), "sub", TO_N, None),
        (times(Read("g", ("d",)), FROM_N), "sub", times(DOUBLE, TO_N), None),
        (FROM_N, "sub", total(V, point("i", "z"), point("n", "z"), "i"), None),
        (total(W, point("n"), point("j", "z")), "sub", total(V, point("i", "z"), point("n"), "i"), None),
        (total(W, point("n"), point("j")), "sub", total(Read("v", ("n", "i")), point("n"), point("i"), "i"),
         "dx[n, d] = sum((w[n, j] - v[n, j]) * (x[n, d] - x[j, d]), over=j)"),
    ],
    ids=["two sides", "added", "the other first", "one number", "one of two numbers", "two factors", "two sets",
         "between two sets", "one side twice"],
)  # fmt: skip
def test_two_sums_are_one(first: Node, fn: str, second: Node, becomes: str | None) -> None:
    a, b = (Assign(name, ("n", "d"), value) for name, value in (("a", first), ("b", second)))
    whole = Call(fn, (Read("a", ("n", "d")), Read("b", ("n", "d"))))
    program = check(Program("dx", GIVEN, ("c",), (a, b, Assign("dx", ("n", "d"), whole)), ("dx",)))
    found = check(weighed_once(program)).statements
    assert list(map(str, found)) == ([becomes] if becomes else list(map(str, program.statements)))


def test_what_is_read_elsewhere_stays() -> None:
    """Neither of two sums of which one is wanted by itself is written where both are added."""
    a, b = (Assign(name, ("n", "d"), value) for name, value in (("a", FROM_N), ("b", TO_N)))
    whole = Assign("dx", ("n", "d"), Call("sub", (Read("a", ("n", "d")), Read("b", ("n", "d")))))
    program = check(Program("dx", GIVEN, (), (a, b, whole), ("dx", "a")))
    assert weighed_once(program) == program
