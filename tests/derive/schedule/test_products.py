"""Products that two places have in common are multiplied first in both, and only where that spares a pass."""

from fractions import Fraction

import pytest

from derive import axes, mean, op, rsqrt, sigmoid, tanh, tensor
from derive.ir.program import Assign, Call, Node, Num, Program, Read, Reduce, Scatter
from derive.schedule.products import by_named_products, common_products
from derive.schedule.share import share
from tests.derive.against_loops import code_of

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


def named(*statements: Assign, returns: tuple[str, ...]) -> list[str]:
    return [str(s.value) for s in by_named_products(Program("p", GIVEN, (), statements, returns)).statements]


def test_a_product_that_has_a_name_goes_by_it_in_larger_ones() -> None:
    axes = ("n", "d")
    c, x = Assign("c", axes, times(A, B)), Assign("x", axes, times(Read("c", axes), U))
    later = Assign("y", axes, Call("add", (times(G, B, U, A), V)))
    total = Assign("z", ("n",), Reduce("sum", ("d",), times(B, V, A)))
    assert named(c, x, later, total, returns=("x", "y", "z"))[2:] == [
        "x[n, d] * g[d] + v[n, d]",
        "sum(c[n, d] * v[n, d], over=d)",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (times(A, B), times(A, U)),
        (times(A, A), times(A, U)),
        (times(G, A), times(G, A, U)),  # no pass is spared: `g` is small
    ],
    ids=["one factor of two", "a square", "a small factor"],
)
def test_what_is_no_part_stays(first: Node, second: Node) -> None:
    axes = ("n", "d")
    assert named(Assign("c", axes, first), Assign("x", axes, second), returns=("c", "x"))[1] == str(second)


def test_what_is_added_to_later_has_no_name_for_its_product() -> None:
    axes = ("n", "d")
    statements = (
        Assign("c", axes, times(A, B)),
        Scatter("c", axes, (Num(Fraction(0)), "d"), Reduce("sum", ("n",), U), "c"),
        Assign("x", axes, times(A, B, V)),
    )
    assert named(*statements, returns=("c", "x"))[2] == "a[n, d] * b[n, d] * v[n, d]"


@op
def normed_cell(
    f, x: tensor[n, q, h], cp: tensor[n, h], gx: tensor[q, h], bx: tensor[q, h], g: tensor[h], b: tensor[h]
):
    """A layer-normed LSTM's step (Ba, Kiros & Hinton, 2016)."""
    f.mu[n, q] = mean(x[n, q, h], over=h)
    f.s[n, q] = rsqrt(mean((x[n, q, h] - f.mu[n, q]) ** 2, over=h) + 1)
    f.z[n, q, h] = gx[q, h] * (x[n, q, h] - f.mu[n, q]) * f.s[n, q] + bx[q, h]
    f.cn[n, h] = sigmoid(f.z[n, 1, h] + 1) * cp[n, h] + sigmoid(f.z[n, 0, h]) * tanh(f.z[n, 2, h])
    f.m[n] = mean(f.cn[n, h], over=h)
    f.r[n] = rsqrt(mean((f.cn[n, h] - f.m[n]) ** 2, over=h) + 1)
    f.l[n, h] = g[h] * (f.cn[n, h] - f.m[n]) * f.r[n] + b[h]
    f.y[n, h] = sigmoid(f.z[n, 3, h]) * tanh(f.l[n, h])
    return f.y, f.cn


def test_what_weighed_sums_are_of_goes_by_the_name_of_a_part() -> None:
    code = code_of(normed_cell.op)
    assert code.count("dy * ") == 1, code
