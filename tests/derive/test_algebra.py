"""Sum-normal form, law by law: each row says what is written, and what it becomes.

A row builds its expression from `s`, the sum. With `s = naive` nothing is rewritten and brute force evaluates it as it
stands; with `s = sigma` the laws apply. Both must agree exactly, over rationals, with sizes distinct and coincident.
"""

from collections.abc import Callable

import numpy as np
import pytest
from sympy import Expr, Mul, S, exp, log

from derive.ir.algebra import is_contraction, normal, opened_by_name, rewrite, sigma, substitute
from derive.ir.matching import match
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.indices import Merge, Part
from derive.ir.terms.reductions import Reduce, Sigma
from derive.notation import axes
from tests.derive.evaluate import World, fractions

n, m, d = axes("n m d")
DISTINCT = {"n": 3, "m": 2, "d": 4}
SAME = {"n": 3, "m": 3, "d": 3}
Sum = Callable[..., Expr]


def tensor(name: str) -> Callable[..., At]:
    return lambda *index: At(Tensor(name), *index)


a, b, x, y, q = map(tensor, ("a", "b", "x", "y", "q"))  # a[n], b[d], x[n, d], y[n, m], q[n, n]


def naive(body: Expr, *over: Axis) -> Expr:
    return Reduce("sum", body, *over)


def law(body: Expr, *over: Axis) -> Expr:
    return sigma(body, over)


def world(sizes: dict[str, int]) -> World:
    rng = np.random.default_rng(0)
    lengths = {"a": "n", "b": "d", "x": "nd", "y": "nm", "q": "nn"}
    return World(sizes, {k: fractions(rng, *(sizes[i] for i in dims)) for k, dims in lengths.items()})


def same_value(left: Expr, right: Expr, sizes: dict[str, int]) -> None:
    """Both sides, exactly, at every place of the axes n, m, d."""
    w = world(sizes)
    for place in w.places((n, m, d)):
        assert w.element(left, place) == w.element(right, place), place


def row(name: str, before: Callable[[Sum], Expr], after: str) -> object:
    return pytest.param(before, after, id=name)


LAWS = [
    # distribute products over sums
    row("product of sums", lambda s: (a(n) + 2) * (b(d) + 3), "a[n]*b[d] + 3*a[n] + 2*b[d] + 6"),
    row("square of a sum", lambda s: (a(n) + b(d)) ** 2, "a[n]**2 + 2*a[n]*b[d] + b[d]**2"),
    row("quotient of powers of a sum", lambda s: (a(n) + b(d)) ** 2 / (a(n) + b(d)), "a[n] + b[d]"),
    row("product under a sum", lambda s: s(a(n) * (x(n, d) + 1), n),
        "sum(a[n']*x[n', d], over=n') + sum(a[n'], over=n')"),
    # a sum of places and numbers is one number
    row("difference of places", lambda s: s(a(n) * (n - d) * b(d), n), "-b[d]*sum((d - n')*a[n'], over=n')"),
    row("shifted place", lambda s: (a(n) + b(d)) * (n + 1), "(n + 1)*a[n] + (n + 1)*b[d]"),
    row("one sum of places by any number", lambda s: a(n) * (2 * d - 2 * n) + 2 * a(n) * (n - d), "0"),
    row("centred place", lambda s: a(n) * (2 * n - Size(n)) - 2 * a(n) * (n - Size(n) / 2), "0"),
    row("square of places", lambda s: (a(n) + 1) * (n - d) ** 2 * (n - d), "-(d - n)**3*a[n] - (d - n)**3"),
    # a sum is linear
    row("sum of a sum", lambda s: s(a(n) + x(n, d), n), "sum(a[n'], over=n') + sum(x[n', d], over=n')"),
    row("number in front", lambda s: s(-3 * a(n) / 2, n), "-3*sum(a[n'], over=n')/2"),
    row("size in front", lambda s: s(a(n) / Size(n), n), "sum(a[n'], over=n')/size(n)"),
    row("opposite sums cancel", lambda s: s(a(n), n) - s(a(n), n), "0"),
    # what does not depend on the axis leaves
    row("one factor leaves", lambda s: s(b(d) * x(n, d), n), "b[d]*sum(x[n', d], over=n')"),
    row("powers leave", lambda s: s(b(d) ** -2 * a(n), n), "sum(a[n'], over=n')/b[d]**2"),
    row("functions leave", lambda s: s(exp(b(d)) * a(n), n), "exp(b[d])*sum(a[n'], over=n')"),
    row("a mask on another axis leaves", lambda s: s(Where(d > 1, 1, 0) * a(n), n),
        "sum(a[n'], over=n')*where(d > 1, 1, 0)"),
    row("a mask on the axis stays", lambda s: s(Where(n > 1, 1, 0) * a(n), n),
        "sum(a[n']*where(n' > 1, 1, 0), over=n')"),
    row("independent sums part", lambda s: s(a(n) * b(d), n, d), "sum(a[n'], over=n')*sum(b[d'], over=d')"),
    row("connected sums stay", lambda s: s(a(n) * x(n, d), n, d), "sum(a[n']*x[n', d'], over=(d', n'))"),
    # a delta contracts
    row("delta contracts", lambda s: s(Delta(n, m) * x(n, d), n), "x[m, d]"),
    row("delta contracts the other axis", lambda s: s(Delta(n, m) * x(n, d), m), "x[n, d]"),
    row("delta of two bound axes", lambda s: s(Delta(n, m) * q(n, m), n, m), "sum(q[n', n'], over=n')"),
    row("two deltas", lambda s: s(Delta(n, m) * Delta(m, d) * a(n), n, m), "a[d]"),
    row("square of a delta", lambda s: s(Delta(n, m) ** 2 * a(n), n), "a[m]"),
    row("delta of itself", lambda s: Delta(n, n) * a(n), "a[n]"),
    row("delta free of the sum leaves", lambda s: s(Delta(m, d) * a(n), n), "delta(d, m)*sum(a[n'], over=n')"),
    # an empty sum is a size
    row("empty sum", lambda s: s(S.One, n), "size(n)"),
    row("empty sum of a constant", lambda s: s(b(d), n), "b[d]*size(n)"),
    row("two empty sums", lambda s: s(S.One, n, d), "size(d)*size(n)"),
    row("sum of zero", lambda s: s(S.Zero, n), "0"),
    # bound axes are named by depth
    row("nested", lambda s: s(a(n) * s(y(n, m), m), n), "sum(a[n']*sum(y[n', m'], over=m'), over=n')"),
]  # fmt: skip

# Equal sizes, and the same axis summed again inside: where a sum that captured another's axis would show.
CAPTURE = [
    row("same tensor, same axis, side by side", lambda s: s(a(n), n) * s(a(n), n), "sum(a[n'], over=n')**2"),
    row("inner sum of its own axis leaves", lambda s: s(a(n) * s(a(n), n), n), "sum(a[n'], over=n')**2"),
    row("three deep", lambda s: s(a(n) * s(a(n) * s(a(n), n), n), n), "sum(a[n'], over=n')**3"),
    row("same axis inside a function", lambda s: s(a(n) * exp(s(a(n), n) / 9), n),
        "exp(sum(a[n'], over=n')/9)*sum(a[n'], over=n')"),
    row("same axis, inner depends on the outer", lambda s: s(a(n) * s(q(n, m) * s(q(m, n), n), m), n),
        "sum(a[n'']*sum(q[n'', m']*sum(q[m', n'], over=n'), over=m'), over=n'')"),
    row("free axis of the same name", lambda s: a(n) * s(a(n), n), "a[n]*sum(a[n'], over=n')"),
    row("delta into a sum over the same axis", lambda s: s(Delta(n, d) * s(q(n, m), m), n), "sum(q[d, m'], over=m')"),
    row("delta to an axis bound inside", lambda s: s(Delta(n, m) * s(y(n, m), m), n), "sum(y[m, m'], over=m')"),
    row("square of a sum", lambda s: s(x(n, d), n) ** 2, "sum(x[n', d], over=n')**2"),
    row("sum of a square of a sum", lambda s: s(s(x(n, d), n) ** 2, d), "sum(sum(x[n', d'], over=n')**2, over=d')"),
    row("mixed depths", lambda s: s(x(n, d) * s(x(n, d), n) * s(x(n, d), d), d),
        "sum(x[n, d']*sum(x[n', d'], over=n'), over=d')*sum(x[n, d'], over=d')"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), LAWS + CAPTURE)
def test_before_after(before: Callable[[Sum], Expr], after: str) -> None:
    assert str(normal(before(law))) == after


@pytest.mark.parametrize("sizes", [DISTINCT, SAME], ids=["distinct sizes", "same sizes"])
@pytest.mark.parametrize(("before", "after"), LAWS + CAPTURE)
def test_value_is_kept(before: Callable[[Sum], Expr], after: str, sizes: dict[str, int]) -> None:
    square = "q[" in str(before(naive)) or "delta" in str(before(naive)) or "exp" in str(before(naive))
    if square and sizes is DISTINCT:
        pytest.skip("one tensor over two axes: their sizes are equal")
    left, right = before(naive), normal(before(law))
    if left.atoms(exp):
        w = world(sizes)
        for place in w.places((n, m, d)):
            assert w.element(left, place) == pytest.approx(w.element(right, place), rel=1e-13)
    else:
        same_value(left, right, sizes)


# --- equal sums become identical ----------------------------------------------------------------------------

IDENTICAL = [
    pytest.param(law(a(n), n), law(a(m), m), "name", id="sums over axes of two names stay apart"),
    pytest.param(law(x(n, d) * a(n), n), law(a(n) * x(n, d), n), "same", id="order of factors"),
    pytest.param(law(x(n, d), n, d), law(x(n, d), d, n), "same", id="order of axes"),
    pytest.param(law(law(x(n, d), n), d), law(law(x(n, d), d), n), "same", id="order of nesting"),
    pytest.param(law(law(x(n, d), n), d), law(x(n, d), n, d), "same", id="nested or at once"),
]


@pytest.mark.parametrize(("one", "other", "expected"), IDENTICAL)
def test_equal_sums_are_identical(one: Expr, other: Expr, expected: str) -> None:
    assert (one == other) is (expected == "same"), f"{one}\n{other}"


def test_normal_form_is_a_fixed_point() -> None:
    for param in LAWS + CAPTURE:
        once = normal(param.values[0](law))
        assert normal(once) == once


# --- substitution -------------------------------------------------------------------------------------------

SUBSTITUTIONS = [
    # into, tensor, its axes, its value, what comes out
    pytest.param(lambda s: s(a(n) ** 2, n), "a", (n,), lambda s: s(q(n, m), m),
                 "sum(sum(q[n', m'], over=m')**2, over=n')", id="a sum over another axis"),
    pytest.param(lambda s: s(a(n) * y(n, m), n), "a", (n,), lambda s: s(y(n, m), m),
                 "sum(y[n', m]*sum(y[n', m'], over=m'), over=n')", id="a free axis of the name that the value binds"),
    pytest.param(lambda s: s(a(n) * x(n, d), n), "a", (n,), lambda s: b(n) * s(b(n), n),
                 "sum(b[n']*x[n', d], over=n')*sum(b[n'], over=n')", id="a value summed over the axis of the sum"),
    pytest.param(lambda s: s(a(n) ** 2, n), "a", (n,), lambda s: b(n) - s(b(n), n) / Size(n),
                 "-sum(b[n'], over=n')**2/size(n) + sum(b[n']**2, over=n')", id="a centred value, squared"),
    pytest.param(lambda s: s(a(m) * q(n, m), m), "a", (n,), lambda s: s(q(n, m) * b(m), m),
                 "sum(q[n, m'']*sum(b[m']*q[m'', m'], over=m'), over=m'')",
                 id="the axis of the sum bound in the value"),
    pytest.param(lambda s: s(q(n, m), m), "q", (n, m), lambda s: b(n) * b(m) * s(q(n, m), n),
                 "b[n]*sum(b[m']*sum(q[n', m'], over=n'), over=m')", id="a value that sums its own first axis"),
]  # fmt: skip


@pytest.mark.parametrize(("into", "name", "over", "value", "after"), SUBSTITUTIONS)
def test_substitution_never_captures(
    into: Callable[[Sum], Expr], name: str, over: tuple[Axis, ...], value: Callable[[Sum], Expr], after: str
) -> None:
    done = substitute(into(law), {name: (over, value(law))})
    assert str(done) == after
    w = world(SAME)
    replaced = w.having(**{name: w.tensor(value(naive), over)})
    for place in w.places((n, m, d)):
        assert w.element(done, place) == replaced.element(into(naive), place), place


def test_substitution_reaches_function_arguments_but_no_comparison() -> None:
    """A comparison asks for the very values that the forward compared; another expression of them may round."""
    done = substitute(log(a(n)) + Where(a(n) > 1, a(n), 0), {"a": ((n,), b(n) ** 2)})
    assert str(done) == "log(b[n]**2) + where(a[n] > 1, b[n]**2, 0)"


def test_opened_sums_take_their_plain_names_where_free() -> None:
    closed = law(x(n, d) * a(n), n)
    assert isinstance(closed, Sigma)
    body, bound = opened_by_name(closed, {d})
    assert (str(body), [v.name for v in bound]) == ("a[n]*x[n, d]", ["n"])
    body, bound = opened_by_name(closed, {n, d})
    assert (str(body), [v.name for v in bound]) == ("a[n']*x[n', d]", ["n'"])


def test_rewrite_brings_nothing_in_under_a_binder() -> None:
    """A rule that puts the free axis n inside a sum over n keeps it free."""
    out = rewrite(law(a(n) * b(d), n), lambda e: b(d) * a(n) if e == b(d) else None)
    assert str(normal(out)) == "a[n]*b[d]*sum(a[n'], over=n')"


# --- matching -----------------------------------------------------------------------------------------------

MATCHES = [
    pytest.param(law(x(n, d), n), law(x(n, m), n), {d: m}, id="renamed"),
    pytest.param(law(x(n, d), n), law(x(n, d), n), {d: d}, id="itself"),
    pytest.param(law(x(n, d), n), law(x(n, d) ** 2, n), None, id="another body"),
    pytest.param(law(x(n, d), n), law(x(n, d), n, d), None, id="more axes"),
    pytest.param(law(q(n, m), m), law(q(n, n), n), None, id="a diagonal is no row"),
    pytest.param(law(q(n, m), m), law(q(m, n), m), None, id="a column is no row"),
]


@pytest.mark.parametrize(("pattern", "candidate", "mapping"), MATCHES)
def test_match(pattern: Sigma, candidate: Sigma, mapping: dict[Axis, Axis] | None) -> None:
    assert match(pattern, candidate) == mapping


CONTRACTIONS = [
    pytest.param(x(n, d) * y(n, m), True, id="matrix product"),
    pytest.param(a(n) * b(d), True, id="outer product"),
    pytest.param(x(n, d) * a(n), False, id="weighted sum"),
    pytest.param(x(n, d) ** 2, False, id="one factor"),
    pytest.param(2 * x(n, d), False, id="a number is no factor"),
]


@pytest.mark.parametrize(("body", "expected"), CONTRACTIONS)
def test_contractions(body: Expr, expected: bool) -> None:
    assert is_contraction(body) is expected


# --- terms --------------------------------------------------------------------------------------------------

LENGTHS = (Size(n), Size(d))
TERMS = [
    pytest.param(Merge(n), n, id="merge of one axis"),
    pytest.param(Merge(Part(m, 0, *LENGTHS), Part(m, 1, *LENGTHS)), m, id="parts merged again"),
    pytest.param(Part(Merge(n, d), 0, *LENGTHS), n, id="first part of a merge"),
    pytest.param(Part(Merge(n, d), 1, *LENGTHS), d, id="second part of a merge"),
    pytest.param(Delta(S(2), S(3)), S.Zero, id="delta of two numbers"),
    pytest.param(Delta(m, n), Delta(n, m), id="delta is symmetric"),
    pytest.param(Where(S.true, a(n), b(n)), a(n), id="where true"),
    pytest.param(Where(n > 1, a(n), a(n)), a(n), id="where of equals"),
    pytest.param(Size(n.copied(3)), Size(n), id="a copy of an axis has its size"),
]


@pytest.mark.parametrize(("made", "expected"), TERMS)
def test_terms_reduce_as_they_are_made(made: Expr, expected: Expr) -> None:
    assert made == expected


def test_parts_in_another_order_are_no_merge() -> None:
    swapped = Merge(Part(m, 1, *LENGTHS), Part(m, 0, *LENGTHS))
    assert isinstance(swapped, Merge)
    w = World({"n": 2, "d": 3, "m": 6})
    assert [int(w.element(Part(m, 0, *LENGTHS), {m: k})) for k in range(6)] == [0, 0, 0, 1, 1, 1]
    assert [int(w.element(Part(m, 1, *LENGTHS), {m: k})) for k in range(6)] == [0, 1, 2, 0, 1, 2]


def test_match_where_no_one_element_has_all_the_free_axes() -> None:
    p, v = Tensor("p"), Tensor("v")
    g, h, i, j, e, f = axes("g h i j e f")
    pattern, candidate = (sigma(At(p, g, h, i, j) * At(v, g, j, last), [j]) for last in (e, f))
    assert match(pattern, candidate) == {g: g, h: h, i: i, e: f}


def test_match_of_many_places_of_one_tensor() -> None:
    """They differ in one place: told at once, where every pairing of their reads would be 10! of them."""
    pattern, candidate = (
        sigma(Mul(*(1 + y(n, k) * x(m, k) for k in (*range(9), last))) ** S.Half, [m]) for last in (9, 10)
    )
    assert match(pattern, candidate) is None
    renamed = pattern.xreplace({n: d})
    assert match(pattern, renamed) == {n: d}
