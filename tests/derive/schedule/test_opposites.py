"""What is minus another tensor is that with a minus; numbers, bare signs and what is added to are written out."""

import inspect
from collections.abc import Callable
from fractions import Fraction

import pytest

from derive import axes, op, sum, tensor
from derive.ir.nodes.soundness import check
from derive.ir.program import Assign, Call, Node, Num, Program, Read, Scatter, Window
from derive.schedule.numbers import opposites
from derive.verify.verify import Verification, verify, verify_kernels
from tests.derive.live import assert_derived, module

A, B, G = Read("a", ("n", "d")), Read("b", ("n", "d")), Read("g", ())
Y = Read("y", ("n", "d"))
GIVEN = (("a", ("n", "d")), ("b", ("n", "d")), ("g", ()))
TWO, MINUS_2 = Num(Fraction(2)), Num(Fraction(-2))


def call(fn: str, *args: Node) -> Node:
    return Call(fn, args)


@pytest.mark.parametrize(
    ("first", "second", "becomes"),
    [
        (call("mul", A, B), call("neg", call("mul", A, B)), "-x[n, d]"),
        (call("mul", call("mul", TWO, G), A), call("mul", call("mul", MINUS_2, G), A), "-x[n, d]"),
        (call("div", call("neg", A), B), call("div", A, B), "-x[n, d]"),
        (call("mul", call("neg", A), call("neg", B)), call("neg", call("mul", A, B)), "-x[n, d]"),
        (call("mul", call("neg", A), B), call("mul", A, call("neg", B)), "a[n, d] * (-b[n, d])"),
        (call("mul", TWO, A), call("mul", TWO, B), "2 * b[n, d]"),
        (A, call("neg", A), "-a[n, d]"),
        (call("sub", A, B), call("sub", B, A), "b[n, d] - a[n, d]"),
    ],
    ids=["a product", "its number", "a quotient", "three signs", "one sign", "another", "a bare sign", "a sum"],
)
def test_what_is_minus_another(first: Node, second: Node, becomes: str) -> None:
    made = tuple(Assign(name, ("n", "d"), value) for name, value in (("x", first), ("y", second)))
    found = opposites(check(Program("f", GIVEN, (), made, ("x", "y")))).statements
    assert (found[0], str(found[1].value)) == (made[0], becomes)


def test_what_stays() -> None:
    """Numbers, the same over other axes, and what more is added to."""
    number, turned = call("mul", TWO, G), Assign("x", ("n", "d"), call("mul", A, B))
    numbers = (Assign("x", (), number), Assign("y", (), call("neg", number)))
    other = (turned, Assign("y", ("d", "n"), call("neg", call("mul", A, B))))
    added = (turned, Scatter("x", ("n", "d"), ("n", "d"), A, "x"), Assign("y", ("n", "d"), call("neg", turned.value)))
    for statements in (numbers, other, added):
        program = check(Program("f", GIVEN, (), statements, ("x", "y")))
        assert opposites(program) == program


W = Window((("d", 1),), Num(Fraction(1)))
ADDED = (
    Assign("x", ("n", "d"), call("mul", A, B)),
    Assign("y", ("n", "d"), call("neg", Read("x", ("n", "d")))),
    Scatter("z", ("n", "k"), ("n", W), Read("y", ("n", "d"))),
    Scatter("z", ("n", "k"), ("n", "d"), Read("y", ("n", "d")), "z"),
)


def test_what_is_only_added_somewhere_is_taken_away_there() -> None:
    found = opposites(check(Program("f", GIVEN, (), ADDED, ("x", "z")))).statements
    assert [s.name for s in found] == ["x", "z", "z"]
    assert [str(s.value) for s in found[1:]] == ["-x[n, d]", "-x[n, d]"]


def test_what_is_read_otherwise_is_made() -> None:
    for returned, more in ((("z", "y"), ()), (("z", "u"), (Assign("u", ("n", "d"), call("mul", Y, A)),))):
        program = check(Program("f", GIVEN, (), (*ADDED, *more), returned))
        assert opposites(program) == program


n, d = axes("n d")


@op
def squared_distance(f, x: tensor[n, d], z: tensor[n, d]):
    f.y[n] = sum((x[n, d] - z[n, d]) ** 2, over=d)
    return f.y


@pytest.mark.parametrize("judged", [verify, verify_kernels])
def test_gradients_that_differ_in_sign(judged: Callable[[object], Verification]) -> None:
    assert "dz = -dx" in inspect.getsource(module(squared_distance.op).squared_distance_backward)
    assert_derived(squared_distance.op, lambda x, z: ((x - z) ** 2).sum(1), {"x": (4, 3), "z": (4, 3)})
    assert judged(squared_distance.op).right
