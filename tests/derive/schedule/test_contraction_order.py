"""In what steps sums of long products are taken."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from derive.catalogue import find
from derive.contract.contraction_order import pairwise, two_at_a_time
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.nodes.products import is_matrix_product, product_factors
from derive.ir.nodes.walking import reads, walk
from derive.ir.program import Assign, AxisValue, Call, Node, Num, Program, Read, Reduce
from derive.pipeline import derive_op


def _sum(names: str, over: tuple[str, ...]) -> Reduce:
    """A sum of a product, its factors as `dy:no w:oij z:nj`."""
    product: Read | Call | None = None
    for factor in names.split():
        name, axes = factor.split(":")
        read = Read(name, tuple(axes))
        product = read if product is None else Call("mul", (product, read))
    assert product is not None
    return Reduce("sum", over, product)


def test_what_two_sums_can_share_is_taken_once_even_if_neither_would_for_itself() -> None:
    """dx and dz of a bilinear form: outer products would be as cheap for each alone."""
    given = (("dy", tuple("no")), ("w", tuple("oij")), ("x", tuple("ni")), ("z", tuple("nj")))
    statements = (
        Assign("dx", tuple("ni"), _sum("dy:no z:nj w:oij", ("o", "j"))),
        Assign("dz", tuple("nj"), _sum("dy:no x:ni w:oij", ("o", "i"))),
    )
    program = pairwise(Program("bilinear", given, (), statements, ("dx", "dz")), nominal(find("bilinear")))
    shared, dx, dz = program.statements
    assert reads(shared.value) == {"dy", "w"}
    assert reads(dx.value) == {shared.name, "z"} and reads(dz.value) == {shared.name, "x"}


def test_a_product_of_two_is_a_step_of_a_longer_one() -> None:
    """`dx = dy @ w` is there anyhow, so that `sum(dy * w * x)` starts from it and not from `x @ w`."""
    given = (("dy", tuple("no")), ("w", tuple("ho")), ("x", tuple("nh")))
    total, one = _sum("x:nh w:ho dy:no", ("h", "o")), _sum("dy:no w:ho", ("o",))
    statements = (Assign("total", tuple("n"), total), Assign("dx", tuple("nh"), one))
    program = pairwise(Program("projected", given, (), statements, ("total", "dx")), Nominal())
    products = [n for s in program.statements for n in walk(s.value) if isinstance(n, Reduce) and n.axes == ("o",)]
    assert [reads(p) for p in products] == [{"dy", "w"}]
    assert all("x" not in reads(p) for p in products)


def test_a_bilinear_backward_takes_two_large_products() -> None:
    backward = derive_op(find("bilinear")).backward
    large = [
        n for s in backward.statements for n in walk(s.value)
        if isinstance(n, Reduce) and is_matrix_product(n) and len({*n.axes, *s.axes}) >= 4
    ]  # fmt: skip
    assert len(large) == 2


def test_kernels_take_a_long_product_in_steps_even_where_its_order_is_best() -> None:
    given = (("a", tuple("ij")), ("dy", tuple("njl")), ("z", tuple("nik")), ("s", tuple("n")), ("w", tuple("nd")))
    statements = (
        Assign("db", tuple("kl"), _sum("a:ij dy:njl z:nik", ("i", "j", "n"))),
        Assign("dc", tuple("de"), _sum("s:n w:nd w:ne", ("n",))),  # no axis is summed on the way: one product
        Assign("dr", tuple("n"), _sum("s:n w:nd w:nd", ("d",))),  # no product of matrices
    )
    program = two_at_a_time(Program("long", given, (), statements, ("db", "dc", "dr")), Nominal())
    step, db, *others = program.statements
    assert isinstance(step.value, Reduce) and isinstance(db.value, Reduce)
    assert [len(product_factors(v.body)) for v in (step.value, db.value)] == [2, 2]
    assert step.name in reads(db.value) and step.axes[0] in "kl"  # a matrix, in memory, for the product that reads it
    assert [s.name for s in others] == ["dc", "dr"] and all(isinstance(s.value, Reduce) for s in others)
    assert others[1] == statements[2]


def _weighed(factor: Node, condition: Node | None) -> Reduce:
    """`sum(dy[n, o] * factor * wt[o, i, k], over=(k, o))`, or of that where a condition holds."""
    body: Node = Call("mul", (Call("mul", (Read("dy", ("n", "o")), factor)), Read("wt", ("o", "i", "k"))))
    if condition is not None:
        body = Call("where", (condition, body, Num(Fraction(0))))
    return Reduce("sum", ("k", "o"), body)


WEIGHED = (("dy", tuple("no")), ("wt", tuple("oik")), ("u", tuple("nik")))
U = Read("u", ("n", "i", "k"))


@pytest.mark.parametrize(
    ("factor", "condition"),
    [
        (Call("mul", (AxisValue("k"), Call("sin", (U,)))), None),
        (Call("sin", (Call("mul", (AxisValue("k"), U)),)), None),
        (Call("sign", (U,)), Call("gt", (U, AxisValue("k")))),
    ],
    ids=["a number of an axis", "a function of one", "a choice by a tensor"],
)
@pytest.mark.parametrize("steps", [pairwise, two_at_a_time])
def test_what_only_one_factor_knows_of_is_multiplied_into_it(steps, factor: Node, condition: Node | None) -> None:
    program = Program("f", WEIGHED, (), (Assign("dx", tuple("ni"), _weighed(factor, condition)),), ("dx",))
    found = [n for s in steps(program, Nominal()).statements for n in walk(s.value) if isinstance(n, Reduce)]
    assert {n.axes for n in found} == {("o",), ("k",)}
    (product,) = (n for n in found if n.axes == ("o",))
    assert reads(product) == {"wt", "dy"}


def test_a_triangle_stays_one_factor() -> None:
    below = Call("le", (AxisValue("k"), AxisValue("n")))
    program = Program("f", WEIGHED, (), (Assign("dx", tuple("ni"), _weighed(U, below)),), ("dx",))
    assert pairwise(program, Nominal()) == program


def test_a_step_has_its_axes_as_the_factor_that_it_meets() -> None:
    """`sum(wt[o, i, k] * dy[n, o], over=o)` is read beside `u[n, i, k]`, twice."""
    statements = (
        Assign("dx", tuple("ni"), _weighed(U, None)),
        Assign("dz", tuple("nk"), replace(_weighed(U, None), axes=("i", "o"))),
    )
    step, *_ = pairwise(Program("f", WEIGHED, (), statements, ("dx", "dz")), Nominal()).statements
    assert step.axes == U.index


def test_a_step_is_not_called_as_a_number_is() -> None:
    statements = (
        Assign("dx", tuple("ni"), _weighed(U, None)),
        Assign("dz", tuple("nk"), replace(_weighed(U, None), axes=("i", "o"))),
    )
    program = Program("f", WEIGHED, ("wt_dy",), statements, ("dx", "dz"))
    step, *_ = pairwise(program, Nominal()).statements
    assert step.name == "wt_dy_2"


def test_a_step_has_its_axes_as_the_tensors_around_it() -> None:
    """`x[n, i]` and `z[n, j]` meet it in turn: the axis that they have in common stands in front."""
    given = (("dy", tuple("no")), ("w", tuple("oij")), ("x", tuple("ni")), ("z", tuple("nj")))
    statements = (
        Assign("dx", tuple("ni"), _sum("dy:no z:nj w:oij", ("o", "j"))),
        Assign("dz", tuple("nj"), _sum("dy:no x:ni w:oij", ("o", "i"))),
    )
    step, *_ = pairwise(Program("bilinear", given, (), statements, ("dx", "dz")), Nominal()).statements
    assert step.axes == ("n", "i", "j")


def test_where_tensors_disagree_the_first_axis_of_the_larger_comes_first() -> None:
    given = (("dy", tuple("no")), ("w", tuple("oij")), ("x", tuple("in")), ("z", tuple("nj")), ("u", tuple("ji")))
    statements = (
        Assign("dx", tuple("in"), _sum("dy:no z:nj w:oij", ("o", "j"))),
        Assign("dz", tuple("nj"), _sum("dy:no x:in w:oij", ("o", "i"))),
    )
    step, *_ = pairwise(Program("bilinear", given, (), statements, ("dx", "dz")), Nominal()).statements
    assert step.axes == ("i", "n", "j")


def test_a_difference_is_multiplied_by_what_others_are_summed_to() -> None:
    """As a factor of a product of matrices it would be two products, in float64, that are subtracted."""
    given = (("r", ("e",)), ("c", ("k",)), ("b", ("e", "k")), ("w", ("k", "d")), ("dy", ("e", "d")))
    difference = Call("sub", (Read("r", ("e",)), Read("c", ("k",))))
    product = _sum("b:ek w:kd dy:ed", ("k", "d"))
    total = replace(product, body=Call("mul", (difference, product.body)))
    program = pairwise(Program("filtered", given, (), (Assign("dr", ("e",), total),), ("dr",)), Nominal())
    made, last = program.statements
    assert reads(made.value) == {"w", "dy"} and reads(last.value) == {"r", "c", "b", made.name}
