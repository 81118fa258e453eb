"""Products that two places have in common are multiplied first in both, and only where that spares a pass."""

from fractions import Fraction

import pytest

from derive import axes
from derive.ir.program import Assign, Call, Node, Num, Program, Read, Reduce
from derive.schedule.products import common_products
from derive.schedule.share import share

n, q, h = axes("n q=4 h")
A, B, U, V = (Read(name, ("n", "d")) for name in "abuv")
G = Read("g", ("d",))
ONE, TWO = Num(Fraction(1)), Num(Fraction(2))
LEFT, RIGHT = Call("sub", (ONE, A)), Call("sub", (A, ONE))
GIVEN = (*((r.name, ("n", "d")) for r in (A, B, U, V)), ("g", ("d",)))


def times(*factors: Node) -> Node:
    out, *rest = factors
    for f in rest:
        out = Call("mul", (out, f))
    return out


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        (times(A, B, U), times(B, V, A), ("a[n, d] * b[n, d] * u[n, d]", "a[n, d] * b[n, d] * v[n, d]")),
        (times(G, A, U), times(V, A, G), ("g[d] * a[n, d] * u[n, d]", "v[n, d] * a[n, d] * g[d]")),  # one large factor
        (times(A, B), times(A, U), ("a[n, d] * b[n, d]", "a[n, d] * u[n, d]")),
        (
            times(G, A, U, B),
            Reduce("sum", ("n", "d"), times(B, A)),
            ("g[d] * (a[n, d] * b[n, d]) * u[n, d]", "sum(a[n, d] * b[n, d], over=(n, d))"),
        ),
        (times(G, A), times(Call("pow", (A, TWO)), G), ("g[d] * a[n, d]", "g[d] * a[n, d] * a[n, d]")),
        (times(B, A), times(Call("pow", (A, TWO)), G), ("b[n, d] * a[n, d]", "a[n, d]**2 * g[d]")),
        (times(B, A, A), times(B, *2 * (Call("pow", (A, TWO)),)),
         ("b[n, d] * a[n, d] * a[n, d]", "b[n, d] * a[n, d]**2 * a[n, d]**2")),
        (times(B, LEFT), Call("add", (times(U, RIGHT), Call("mul", (V, times(G, G))))),
         ("b[n, d] * (1 - a[n, d])", "u[n, d] * (a[n, d] - 1) + v[n, d] * (g[d] * g[d])")),
        (times(B, LEFT), times(G, U, RIGHT), ("b[n, d] * (1 - a[n, d])", "(-g[d]) * u[n, d] * (1 - a[n, d])")),
        (times(B, LEFT), times(Call("sub", (U, V)), RIGHT),
         ("b[n, d] * (1 - a[n, d])", "(v[n, d] - u[n, d]) * (1 - a[n, d])")),
        (times(B, LEFT), times(U, RIGHT), ("b[n, d] * (1 - a[n, d])", "u[n, d] * (a[n, d] - 1)")),
        (times(B, A), times(G, RIGHT), ("b[n, d] * a[n, d]", "g[d] * (a[n, d] - 1)")),
        (times(A, Call("sub", (U, G))), Reduce("sum", ("n", "d"), times(A, B, Call("sub", (G, U)))),
         ("a[n, d] * (u[n, d] - g[d])", "-sum(a[n, d] * (u[n, d] - g[d]) * b[n, d], over=(n, d))")),
        (times(Call("div", (A, G)), B), Reduce("sum", ("n", "d"), times(V, A, B)),
         ("a[n, d] * b[n, d] / g[d]", "sum(a[n, d] * b[n, d] * v[n, d], over=(n, d))")),
        (times(Call("div", (A, G)), B), Reduce("sum", ("n", "d"), times(V, A)),
         ("a[n, d] / g[d] * b[n, d]", "sum(v[n, d] * a[n, d], over=(n, d))")),
        (times(Call("div", (A, U)), B), times(V, A, B), ("a[n, d] / u[n, d] * b[n, d]", "v[n, d] * a[n, d] * b[n, d]")),
    ],
    ids=["two of three", "one alone", "one of two", "inside a sum", "a square", "a square of which none is made",
         "one square twice", "what has no difference stays as it is grouped",
         "a difference turned", "two differences turned", "none to take the sign", "a difference alone",
         "a sum takes the sign", "divided last", "divided alone", "divided by as much"],
)
def test_put_first(first: Node, second: Node, texts: tuple[str, str]) -> None:
    last = ("n", "d") if not isinstance(second, Reduce) else ()
    program = Program("p", GIVEN, (), (Assign("x", ("n", "d"), first), Assign("y", last, second)), ("x", "y"))
    assert tuple(str(s.value) for s in common_products(program).statements) == texts


def test_a_product_of_matrices_is_one_in_whatever_order_its_factors_stand() -> None:
    w, dy, a = Read("w", ("e", "h", "o")), Read("dy", ("n", "o")), Read("a", ("n", "e", "h"))
    axes = ("n", "e", "h")
    statements = (
        Assign("x", axes, times(Reduce("sum", ("o",), times(w, dy)), a)),
        Assign("y", axes, Call("add", (a, Reduce("sum", ("o",), times(dy, w))))),
    )
    given = (("w", ("e", "h", "o")), ("dy", ("n", "o")), ("a", axes))
    program = share(Program("p", given, (), statements, ("x", "y")))
    assert [s.name for s in program.statements] == ["sum_w_dy", "x", "y"]


def test_a_sum_of_two_is_one_in_whatever_order_it_is_written() -> None:
    statements = (
        Assign("x", ("n", "d"), times(Call("add", (A, ONE)), B)),
        Assign("y", ("n", "d"), times(Call("add", (ONE, A)), U)),
    )
    program = share(Program("p", GIVEN, (), statements, ("x", "y")))
    assert next(str(s.value) for s in program.statements) == "a[n, d] + 1" and len(program.statements) == 3
