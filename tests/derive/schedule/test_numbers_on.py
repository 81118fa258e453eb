"""A number goes on to readers that have one: what is divided and multiplied again is neither."""

from fractions import Fraction

import pytest

from derive import axes, length, op, scalar, sum, tensor
from derive.ir.program import Assign, Call, Node, Num, Program, Read, Reduce, Scal
from derive.schedule.numbers import numbers_on
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

A, B, R = (Read(name, ("n", "d")) for name in "abr")
POWER, TWO, THREE = Scal("power"), Num(Fraction(2)), Num(Fraction(3))
GIVEN = (("a", ("n", "d")), ("b", ("n", "d")))


def times(a: Node, b: Node) -> Call:
    return Call("mul", (a, b))


def over(a: Node, b: Node) -> Call:
    return Call("div", (a, b))


def summed(a: Node) -> Node:
    return Reduce("sum", ("n", "d"), a)


@pytest.mark.parametrize(
    ("made", "readers", "texts"),
    [
        (over(A, POWER), [times(R, POWER)], ["a[n, d]", "r_scaled[n, d]"]),
        (over(A, POWER), [times(times(POWER, B), R), over(times(R, POWER), B)],
         ["a[n, d]", "b[n, d] * r_scaled[n, d]", "r_scaled[n, d] / b[n, d]"]),
        (times(A, POWER), [over(R, POWER)], ["a[n, d]", "r_scaled[n, d]"]),
        (times(A, POWER), [times(R, POWER)], ["a[n, d] * power", "r[n, d] * power"]),
        (over(A, TWO), [times(times(THREE, R), B)], ["a[n, d]", "3/2 * r_scaled[n, d] * b[n, d]"]),
        (times(TWO, A), [over(R, THREE)], ["a[n, d]", "r_scaled[n, d] / (3/2)"]),
        (over(A, TWO), [times(TWO, R), times(R, B)], ["a[n, d] / 2", "2 * r[n, d]", "r[n, d] * b[n, d]"]),
        (over(A, TWO), [times(TWO, times(R, R))], ["a[n, d] / 2", "2 * (r[n, d] * r[n, d])"]),
        (over(A, TWO), [times(TWO, Call("exp", (R,)))], ["a[n, d] / 2", "2 * exp(r[n, d])"]),
        (over(A, Num(Fraction(4096))), [times(TWO, R)], ["a[n, d] / 4096", "2 * r[n, d]"]),
    ],
    ids=["cancelled", "in each reader", "divided by", "not the other way", "a number for two", "on the other side",
         "one without", "a square", "in a function", "far from 1"],
)  # fmt: skip
def test_moved(made: Node, readers: list[Node], texts: list[str]) -> None:
    statements = [Assign("r", ("n", "d"), made)]
    statements += [Assign(f"y{k}", ("n", "d"), value) for k, value in enumerate(readers)]
    returns = tuple(s.name for s in statements[1:])
    program = numbers_on(Program("p", GIVEN, ("power",), tuple(statements), returns))
    assert [str(s.value) for s in program.statements] == texts


def test_in_a_sum() -> None:
    statements = (Assign("r", ("n", "d"), over(A, TWO)), Assign("y", (), summed(times(times(TWO, R), B))))
    program = numbers_on(Program("p", GIVEN, (), statements, ("y",)))
    assert [str(s.value) for s in program.statements] == ["a[n, d]", "sum(r_scaled[n, d] * b[n, d], over=(n, d))"]


def test_what_is_returned_stays() -> None:
    statements = (Assign("r", ("n", "d"), over(A, TWO)), Assign("y", ("n", "d"), times(TWO, R)))
    program = Program("p", GIVEN, (), statements, ("r", "y"))
    assert numbers_on(program) == program


n, d, i, t, k = axes("n d i t k")


@op
def pooled_by_power(f, x: tensor[n, i], taps: length(k) = 2, power: scalar = 3.0):
    f.a[n, t] = sum(abs(x[n, 2 * t + k]) ** power, over=k)
    f.y[n, t] = f.a[n, t] ** (1 / power)
    return f.y


def test_the_power_cancels() -> None:
    assert_derived(
        pooled_by_power.op, lambda x: x.abs().pow(3).unfold(1, 2, 2).sum(2).pow(1 / 3), {"x": (3, 8)}
    )
    backward = code_of(pooled_by_power.op).partition("_backward(")[2].partition("class ")[0]
    assert "mul_(power)" not in backward and "div_(power)" not in backward, backward
