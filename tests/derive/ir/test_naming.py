"""Names say what is in a tensor, and are numbered as they come."""

from fractions import Fraction

import pytest

from derive import axes, log1p, mean, op, sigmoid, sum, tensor
from derive.ir.nodes.naming import labels, stem_of
from derive.ir.nodes.substituting import numbered_in_order
from derive.ir.program import Assign, Call, Node, Num, Read, Window
from derive.pipeline import derivation_of

n, m, d = axes("n m d")
corner = axes("corner=4")


def at(name: str, *places: str | int) -> Read:
    return Read(name, tuple(p if isinstance(p, str) else Window((), Num(Fraction(p))) for p in places))


ROWS = [
    (Call("sub", (at("a", "n", 2), at("a", "n", 0))), "a_2_minus_a_0"),
    (Call("sub", (at("x", "n", "d"), at("x", "m", "d"))), "x_n_minus_x_m"),
    (Call("sub", (at("x", "n"), at("y", "m"))), "x_minus_y"),
    (Call("ne", (at("y", "n"), at("y", "m"))), "y_n_is_not_y_m"),
    (Call("sub", (Read("z", ("n", at("y", "n"))), at("z", "n", "c"))), "z_y_minus_z_c"),
    (Call("mul", (Call("exp", (Call("sub", (at("L", "t"), at("L", "s"))),)), at("sum_dy_x", "t", "s"))),
     "exp_L_minus_L_sum_dy_x"),
    (Call("add", (at("u", "n"), Num(Fraction("1e-7")))), "u_plus_tiny"),
    (Call("add", (at("u", "n"), Num(Fraction("0.0015")))), "u_plus_0p0015"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "name"), ROWS)
def test_what_differs_in_two_reads_of_a_tensor_is_in_the_name(node: Node, name: str) -> None:
    assert stem_of(node) == name


def test_labels_that_are_no_names_are_left_out() -> None:
    assert labels([("x", ("t + 1",)), ("x", ("t",))]) == {("x", ("t + 1",)): "x_t_plus_1", ("x", ("t",)): "x_t"}
    assert set(labels([("x", ("(h, k)",)), ("x", ("2*t",))]).values()) == {"x"}


def test_numbers_come_in_order() -> None:
    names = ["exp_x_2", "y", "exp_x", "exp_x_10"]
    pairs = zip(["x", *names[:-1]], names, strict=True)
    statements = [Assign(name, ("n",), Read(before, ("n",))) for before, name in pairs]
    stems = {name: "exp_x" for name in names if name != "y"}
    lines = [f"{s.name} = {s.value}" for s in numbered_in_order(list(statements), stems)]
    assert lines == ["exp_x = x[n]", "y = exp_x[n]", "exp_x_2 = y[n]", "exp_x_10 = exp_x_2[n]"]


@op
def boxes(f, a: tensor[n, corner]):
    f.y[n] = (a[n, 2] - a[n, 0]) * (a[n, 3] - a[n, 1])
    return f.y


@op
def heavy_tails(f, q: tensor[n], nu: tensor[()].positive):
    f.ll[n] = (nu[()] + 3) / 2 * log1p(q[n] / nu[()])
    f.loss[()] = mean(f.ll[n], over=n)
    return f.loss


@op
def distances(f, x: tensor[n, d], w: tensor[n, m]):
    f.y[n] = sum(sigmoid((x[n, d] - x[m, d]) * w[n, m]) * (x[n, d] - x[m, d]) ** 2, over=(m, d))
    return f.y


def test_sums_of_a_function_have_it_in_their_names() -> None:
    names = [s.name for s in derivation_of(heavy_tails.op).backward.statements]
    assert "mean_log1p_nu_q" in names and "mean_nu_q" in names, names


@pytest.mark.parametrize(("spec", "wanted"), [(boxes, "a_2_minus_a_0"), (distances, "x_n_minus_x_m")])
def test_a_difference_inside_a_tensor_names_both_places(spec, wanted) -> None:
    assert wanted in [e.name for e in derivation_of(spec.op).named.equations]
