"""What is added where a tensor was cleared is put there, if nothing reads it in between."""

from fractions import Fraction

import pytest

from derive.backends.torch.puts import put_where_nothing_is
from derive.ir.program import Assign, AxisValue, Call, Node, Num, Program, Read, Reduce, Scatter, Statement

ZERO, ONE = Num(Fraction(0)), Num(Fraction(1))
X, Y = Read("x", ("n", "c")), Read("y", ("n",))
AT_LABEL = Scatter("z", ("n", "c"), ("n", Y), Read("v", ("n",)), "z")
ON_DIAGONAL = Scatter("z", ("n", "c"), ("n", "n"), Read("v", ("n",)), "z")


def _program(*statements: Statement) -> Program:
    given = (("x", ("n", "c")), ("y", ("n",)), ("v", ("n",)), ("w", ("n", "k")), ("j", ("n", "k")))
    return Program("p", given, (), statements, ("z",))


def _cleared(place: Node, value: Node = X) -> Node:
    return Call("where", (Call("ne", (AxisValue("c"), place)), value, ZERO))


@pytest.mark.parametrize(
    ("made", "scatter"),
    [
        (_cleared(Y), AT_LABEL),
        (_cleared(AxisValue("n")), ON_DIAGONAL),
        (Call("where", (Call("eq", (Y, AxisValue("c"))), ZERO, X)), AT_LABEL),
        (Call("mul", (X, _cleared(Y, ONE))), AT_LABEL),
    ],
)
def test_put(made: Node, scatter: Scatter) -> None:
    found = put_where_nothing_is(_program(Assign("z", ("n", "c"), made), scatter)).statements
    assert str(found[0]) == "z[n, c] = x[n, c]"
    assert str(found[1]) == str(scatter).replace("+=", "=")


@pytest.mark.parametrize(
    "statements",
    [
        (Assign("z", ("n", "c"), X), AT_LABEL),  # not cleared
        (Assign("z", ("n", "c"), _cleared(Y)), ON_DIAGONAL),  # cleared elsewhere
        (Assign("z", ("n", "c"), Call("where", (Call("ne", (AxisValue("c"), Y)), X, ONE))), AT_LABEL),
        (Assign("z", ("n", "c"), _cleared(Y)), Assign("u", ("n", "c"), Read("z", ("n", "c"))), AT_LABEL),  # read
        (Assign("z", ("n", "c"), _cleared(Y)), AT_LABEL, AT_LABEL),  # added to what was put
        (Assign("z", ("n", "c"), _cleared(Y, ONE)), AT_LABEL),  # no tensor is left to put into
    ],
)
def test_added(statements: tuple[Statement, ...]) -> None:
    found = put_where_nothing_is(_program(*statements)).statements
    kinds = [s.kind for s in found if isinstance(s, Scatter)]
    assert kinds == (["put", "sum"] if statements[1:] == (AT_LABEL, AT_LABEL) else ["sum"])


def test_several_at_one_place_are_added() -> None:
    """An index of more axes than stand beside it may name one place twice."""
    twice = Read("j", ("n", "k"))
    body = Call("where", (Call("ne", (AxisValue("c"), twice)), X, ZERO))
    scatter = Scatter("z", ("n", "c"), ("n", twice), Read("w", ("n", "k")), "z")
    program = _program(Assign("z", ("n", "c"), Reduce("sum", ("k",), body)), scatter)
    assert put_where_nothing_is(program) == program
