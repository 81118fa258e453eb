"""The program's grammar prints, and its check refuses what does not hold together."""

import pickle
from dataclasses import replace
from fractions import Fraction

import pytest

from derive.errors import OUR_FAULT, DeriveError
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import index_axes, node_axes, reads
from derive.ir.program import (
    Assign,
    AxisValue,
    Call,
    Merged,
    Num,
    PartOf,
    Program,
    Read,
    Reduce,
    Scal,
    Scatter,
    SizeOf,
    Window,
)

X = ("x", ("n", "d"))
IX = ("ix", ("k",))
x = Read("x", ("n", "d"))
DIAGONAL, BOUND_DIAGONAL = Read("x", ("d", "d")), Read("x", ("d'", "d'"))
HALF = Num(Fraction(1, 2))
ZERO = Num(Fraction(0))
ABOVE, SIGN = Call("gt", (x, ZERO)), Call("sign", (x,))


def program(*statements: object, given: tuple = (X, IX), scalars: tuple = ("eps",), returns: tuple = ("y",)) -> Program:
    return Program("op", given, scalars, statements, returns)  # type: ignore[arg-type]


SOUND = [
    ("pointwise", Assign("y", ("n", "d"), Call("mul", (HALF, x)))),
    ("reduction", Assign("y", ("n",), Reduce("sum", ("d",), x))),
    ("broadcast", Assign("y", ("n", "d"), SizeOf("d"))),
    ("bound axis of its name", Assign("y", ("d",), Call("add", (DIAGONAL, Reduce("sum", ("d'",), BOUND_DIAGONAL))))),
    ("gather", Assign("y", ("k", "d"), Read("x", (Read("ix", ("k",)), "d")))),
    ("merge", Assign("y", (Merged(("n", "d")),), x)),
    ("number", Assign("y", (), Scal("eps"))),
    ("division of 0", Assign("y", ("n", "d"), Call("div", (ZERO, x)))),
    ("division by a choice", Assign("y", ("n", "d"), Call("div", (x, Call("where", (ABOVE, x, ZERO)))))),
    ("scatter", Scatter("y", ("n", "d"), (Read("ix", ("k",)), "d"), Read("x", (Read("ix", ("k",)), "d")))),
]  # fmt: skip


@pytest.mark.parametrize("statement", [pytest.param(s, id=name) for name, s in SOUND])
def test_sound(statement: object) -> None:
    assert check(program(statement)).statements == (statement,)


BROKEN = [
    ("use before definition", Assign("y", ("n",), Read("z", ("n",))), "y[n] = z[n] reads z before it is defined"),
    ("its own left side", Assign("y", ("n",), Read("y", ("n",))), "y[n] = y[n] reads y before it is defined"),
    ("use inside an index", Assign("y", ("k", "d"), Read("x", (Read("z", ("k",)), "d"))),
     "y[k, d] = x[z[k], d] reads z before it is defined"),
    ("use inside a slot", Scatter("y", ("n",), (Read("z", ("k",)),), Read("ix", ("k",))),
     "y[n] = zeros, at [z[k]] += ix[k] reads z before it is defined"),
    ("wrong rank", Assign("y", ("n",), Read("x", ("n",))), "y[n] = x[n] gives x 1 indices"),
    ("unknown number", Assign("y", (), Scal("rate")), "y[()] = rate reads the unknown number rate"),
    ("stray axis", Assign("y", ("n",), x), "y[n] = x[n, d]: axis d is free on the right alone"),
    ("stray axis of a gather", Assign("y", ("d",), Read("x", (Read("ix", ("k",)), "d"))),
     "y[d] = x[ix[k], d]: axis k is free on the right alone"),
    ("stray axis beside a sum", Assign("y", ("n",), Call("mul", (x, Reduce("sum", ("d",), x)))),
     "y[n] = x[n, d] * sum(x[n, d], over=d): axis d is free on the right alone"),
    ("stray axis as a value", Assign("y", ("n",), Call("le", (AxisValue("j"), AxisValue("n")))),
     "y[n] = j <= n: axis j is free on the right alone"),
    ("stray axis of a scatter", Scatter("y", ("n",), (Read("ix", ("k",)),), x),
     "y[n] = zeros, at [ix[k]] += x[n, d]: axis d is free on the right alone"),
    ("division by 0", Assign("y", ("n", "d"), Call("div", (x, ZERO))), "y[n, d] = x[n, d] / 0 divides by 0"),
    ("division by 0 in a branch", Assign("y", ("n", "d"), Call("where", (ABOVE, Call("div", (x, ZERO)), x))),
     "y[n, d] = where(x[n, d] > 0, x[n, d] / 0, x[n, d]) divides by 0"),
    ("division by what is 0", Assign("y", ("n", "d"), Call("div", (x, Call("sub", (SIGN, SIGN))))),
     "y[n, d] = x[n, d] / (sign(x[n, d]) - sign(x[n, d])) divides by 0"),
    ("division by a sum of 0", Assign("y", ("n",), Call("div", (HALF, Reduce("sum", ("d",), Call("mul", (x, ZERO)))))),
     "y[n] = 1/2 / sum(x[n, d] * 0, over=d) divides by 0"),
    ("a power below 0 of 0", Assign("y", (), Call("pow", (ZERO, Num(Fraction(-2))))), "y[()] = 0**(-2) divides by 0"),
    ("a root of 0 below", Assign("y", (), Call("rsqrt", (ZERO,))), "y[()] = rsqrt(0) divides by 0"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message"), [pytest.param(*b[1:], id=b[0]) for b in BROKEN])
def test_broken(statement: object, message: str) -> None:
    with pytest.raises(DeriveError) as caught:
        check(program(statement))
    assert str(caught.value) == f"op op, equation y: {message}; {OUR_FAULT}"


def test_what_is_returned_is_defined() -> None:
    with pytest.raises(DeriveError, match=r"^op op, equation dz: returns dz, which no statement defines; the spec "):
        check(program(Assign("y", ("n", "d"), x), returns=("y", "dz")))


def test_a_later_statement_may_read_an_earlier_one() -> None:
    check(program(Assign("z", ("n",), Reduce("sum", ("d",), x)), Assign("y", ("n",), Read("z", ("n",)))))


PRINTED = [
    (Num(Fraction(-3, 4)), "-3/4"),
    (Call("sub", (x, HALF)), "x[n, d] - 1/2"),
    (Call("exp", (x,)), "exp(x[n, d])"),
    (Reduce("amax", ("n", "d"), x), "amax(x[n, d], over=(n, d))"),
    (Read("x", (Merged(("n", "t")), "d")), "x[(n, t), d]"),
    (Read("x", (Window((("i", 2), ("k", 1)), Num(Fraction(3))),)), "x[2*i + k + 3]"),
    (Read("x", (Window((("i", 1),), ZERO),)), "x[i]"),
    (Read("x", (PartOf("m", 1, (SizeOf("n"), SizeOf("d"))),)), "x[m % size(d)]"),
    (SizeOf("d'"), "size(d)"),
]


@pytest.mark.parametrize(("node", "text"), PRINTED, ids=[t for _, t in PRINTED])
def test_prints(node: object, text: str) -> None:
    assert str(node) == text


def test_a_program_prints() -> None:
    shown = program(
        Assign("z", ("n",), Reduce("sum", ("d",), x)),
        Scatter("y", ("n",), (Read("ix", ("k",)),), Read("z", (Read("ix", ("k",)),)), onto="z"),
    )
    assert str(shown).splitlines() == [
        "op(x[n, d], ix[k], eps):",
        "  z[n] = sum(x[n, d], over=d)",
        "  y[n] = z, at [ix[k]] += z[ix[k]]",
        "  return y",
    ]


def test_axes_of_nodes_and_indices() -> None:
    assert node_axes(Call("add", (x, Reduce("sum", ("n'",), Read("x", ("n'", "k")))))) == ("n", "d", "k")
    assert index_axes(Merged(("n", Merged(("t", "e"))))) == ("n", "t", "e")
    assert index_axes(Read("ix", ("n", "t"))) == ("n", "t")
    assert reads(Call("add", (x, Read("x", (Read("ix", ("k",)), "d"))))) == {"x", "ix"}


def test_what_is_found_of_a_call_does_not_go_with_it_to_another_process() -> None:
    """The hash of a string is another one there, where an equal call would not be found."""
    call = Call("add", (Read("x", ("n",)), Num(Fraction(1))))
    assert hash(call) == hash(replace(call)) and node_axes(call) == ("n",) and call.facts
    sent = pickle.loads(pickle.dumps(call))
    assert vars(sent) == {"fn": call.fn, "args": call.args} and sent == call and hash(sent) == hash(call)
