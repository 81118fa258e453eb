"""The lengths that costs are counted at agree with one another as an op's inputs would."""

from sympy import tanh

from derive.catalogue import find
from derive.decisions import FEW
from derive.facts.lengths.nominal import lengths_of, nominal
from derive.notation import axes, concat, constant, eq, length, op, size, sum, tensor, where
from derive.pipeline import derivation_of, derive_op
from derive.verify.verify import verify
from tests.derive.against_loops import code_of


def test_what_inputs_carry_is_alike_and_the_rest_follows() -> None:
    assert nominal(find("matmul")).lengths == {}.fromkeys(nominal(find("matmul")).lengths, 32.0)
    groups = nominal(find("groupnorm")).lengths
    assert (groups["g"], groups["k"], groups["c"]) == (FEW, 32 / FEW, 32)
    heads = nominal(find("split_heads")).lengths
    assert (heads["h"], heads["k"], heads["d"]) == (FEW, 32 / FEW, 32)


def test_a_merged_length_that_is_given_stays_and_its_parts_follow() -> None:
    lengths = lengths_of(derivation_of(find("groupnorm")).named, 64, given={"c": 128, "g": 8})
    assert (lengths["c"], lengths["g"], lengths["k"]) == (128, 8, 16)


def test_a_kernel_is_short_and_a_merged_axis_as_long_as_its_parts() -> None:
    conv = nominal(find("conv2d")).lengths
    assert (conv["p"], conv["q"], conv["h"]) == (FEW, FEW, 32)
    assert nominal(find("flatten")).elements(("...",)) == 32
    names = nominal(find("names_step")).lengths
    assert names["i"] == names["t"] * names["e"] == 32 * 32


def test_a_tensor_that_no_input_carries_costs_more() -> None:
    scores = nominal(find("attention"))
    assert scores.weighted(("...", "i", "j")) == 4 * scores.elements(("...", "i", "j"))
    assert scores.weighted(("...", "i", "d")) == scores.elements(("...", "i", "d"))
    assert scores.unweighted.weighted(("...", "i", "j")) == scores.elements(("...", "i", "j"))
    norm = nominal(find("groupnorm"))
    assert norm.weighted(("n", "g", "k", "s")) == norm.elements(("n", "c", "s"))


i, t, k = axes("i t k=3")


@op
def with_fixed_taps(f, x: tensor[t], w: tensor[k]):
    f.z[i] = concat(0, 0, x[t], along=i)
    f.y[t] = sum(w[k] * f.z[t + k], over=k)
    return f.y


def test_a_fixed_axis_of_a_window_is_its_kernel_and_the_other_is_not() -> None:
    lengths = nominal(with_fixed_taps.op).lengths
    assert (lengths["k"], lengths["t"]) == (3, 32)


n, d, l, w = axes("n d l w")


@op
def gates_at_offsets(f, x: tensor[n, w], y: tensor[n, d]):
    f.r[n, d] = tanh(x[n, d] + x[n, 2 * size(d) + d])
    f.z[n, d] = f.r[n, d] * y[n, d] + x[n, size(d) + d]
    return f.z


def test_what_is_read_at_offsets_is_as_long_as_these_need() -> None:
    lengths = nominal(gates_at_offsets.op).lengths
    assert (lengths["d"], lengths["w"]) == (32, 3 * 32)
    assert lengths_of(gates_at_offsets.op, given={"w": 40})["w"] == 40
    assert set(derivation_of(gates_at_offsets.op).kept) == {"r", "y"}


@op
def scores(f, q: tensor[n, t, d], x: tensor[n, l, d]):
    f.s[n, t, w] = sum(q[n, t, d] * x[n, t + w, d], over=d)
    return f.s


def test_what_is_compared_with_what_lies_around_it_is_long() -> None:
    lengths = nominal(scores.op).lengths
    assert (lengths["t"], lengths["w"], lengths["l"]) == (29, 4, 32)
    code = code_of(scores.op)
    assert code.count("for at_w in range(w):") == 3 and "for at_t" not in code, code
    assert verify(scores.op).right


c, o, p, u = axes("c o p u")


@op
def added_up(f, x: tensor[n, c, u], k: tensor[c, o, p], out: length(t)):
    f.y[n, o, t] = sum(where(eq(2 * u + p, t), x[n, c, u] * k[c, o, p], 0), over=(c, u, p))
    return f.y


@op
def added_up_otherwise(f, k: tensor[n, c, u], x: tensor[c, o, p], out: length(t)):
    f.y[n, o, t] = sum(where(eq(u + p, t), k[n, c, u] * x[c, o, p], 0), over=(c, u, p))
    return f.y


def test_of_two_that_meet_at_a_place_the_later_operand_is_the_filter() -> None:
    for spec in (added_up, added_up_otherwise):
        lengths = nominal(derive_op(spec.op).named).lengths
        assert (lengths["u"], lengths["p"]) == (32, FEW)


o, r = axes("o r")


@op
def through_a_rank(f, x: tensor[n, d], w: constant[o, d], a: tensor[r, d], b: tensor[o, r], s: tensor[()]):
    f.h[n, r] = sum(a[r, d] * x[n, d], over=d)
    f.y[n, o] = sum(w[o, d] * x[n, d], over=d) + s[()] * sum(b[o, r] * f.h[n, r], over=r)
    return f.y


@op
def through_a_layer(f, x: tensor[n, d], a: tensor[r, d], b: tensor[o, r]):
    f.h[n, r] = tanh(sum(a[r, d] * x[n, d], over=d))
    f.y[n, o] = sum(b[o, r] * f.h[n, r], over=r)
    return f.y


def test_what_two_products_are_taken_through_is_short_and_what_a_function_is_of_is_not() -> None:
    lengths = nominal(through_a_rank.op).lengths
    assert (lengths["r"], lengths["o"], lengths["d"]) == (FEW, 32, 32)
    assert nominal(through_a_layer.op).lengths["r"] == 32


def test_a_number_scales_the_tensors_along_the_rank() -> None:
    """Not the gradient of all outputs, which is the larger."""
    lines = [str(s) for s in derive_op(through_a_rank.op).backward.statements]
    assert not any(line.startswith("dy_sum") for line in lines), lines
    assert "dh[n, r] = s[()] * sum(b[o, r] * dy[n, o], over=o)" in lines, lines
