"""What the checks on a forward say, word for word: op, equation, cause, remedy."""

from collections.abc import Callable

import pytest
from sympy import Piecewise, floor, gamma

from derive.errors import DeriveError
from derive.ir.equations import Op, Operand
from derive.notation import axes, exp, index, log, mean, op, scalar, size, sqrt, sum, tensor, where

n, m, d, k, t, c, i, e = axes("n m d k t c i e")


def axis_on_the_right_only():
    @op
    def bad(f, x: tensor[n, d]):
        f.y[n] = x[n, d] ** 2
        return f.y


def axis_left_out_inside_a_reduction():
    @op
    def bad(f, x: tensor[n, d]):
        f.y[()] = sum(x[n, d], over=d)
        return f.y


def axis_reduced_and_on_the_left():
    @op
    def bad(f, x: tensor[n, d]):
        f.y[n, d] = sum(x[n, d], over=d)
        return f.y


def undefined_name():
    @op
    def bad(f, x: tensor[n]):
        f.mean_x[()] = mean(x[n], over=n)
        f.y[n] = x[n] - f.meanx[()]
        return f.y


def undefined_name_like_no_other():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = x[n] * f.zebra[n]
        return f.y


def read_before_it_is_defined():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = x[n] * f.later[n]
        f.later[n] = x[n]
        return f.y


def too_few_indices():
    @op
    def bad(f, x: tensor[n, d]):
        f.y[n] = x[n]
        return f.y


def too_many_indices_of_an_equation():
    @op
    def bad(f, x: tensor[n, d]):
        f.s[n] = sum(x[n, d], over=d)
        f.y[n, d] = f.s[n, d]
        return f.y


def pack_left_out():
    @op
    def bad(f, x: tensor[..., d]):
        f.y[n, d] = x[n, d]
        return f.y


def redefinition():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = x[n]
        f.y[n] = x[n] ** 2
        return f.y


def input_defined_again():
    @op
    def bad(f, x: tensor[n]):
        f.x[n] = x[n] ** 2
        return f.x


def no_derivative():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = floor(x[n])
        return f.y


def special_function():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = gamma(x[n])
        return f.y


def piecewise():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = Piecewise((x[n], n > 1))
        return f.y


def size_unknown():
    @op
    def bad(f, x: tensor[n]):
        f.y[n, d] = x[n] * size(d)
        return f.y


def length_of_an_axis_summed_away_unknown():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = sum(x[n], over=k)
        return f.y


def size_of_a_merge_unknown():
    @op
    def bad(f, x: tensor[n]):
        f.y[t, e] = x[((t, e),)]
        return f.y


def window_over_two_unknown_axes():
    @op
    def bad(f, x: tensor[t]):
        f.y[i] = sum(x[i + k], over=k)
        return f.y


def product_of_axes_as_an_index():
    @op
    def bad(f, x: tensor[t], w: tensor[k]):
        f.y[i] = sum(x[i * k] * w[k], over=k)
        return f.y


def half_steps():
    @op
    def bad(f, x: tensor[t]):
        f.y[i] = x[i / 2]
        return f.y


MESSAGES = [
    (axis_on_the_right_only,
     "op bad, equation y: axis d stands on the right only; put d on the left, or say how it is reduced: "
     "sum(…, over=d); its length is size(d)"),
    (axis_left_out_inside_a_reduction,
     "op bad, equation y: axis n stands on the right only; put n on the left, or say how it is reduced: "
     "sum(…, over=n); its length is size(n)"),
    (axis_reduced_and_on_the_left,
     "op bad, equation y: axis d is reduced and also stands on the left; drop d from one of the two, or reduce over an "
     "axis of another name"),
    (undefined_name, "op bad, equation y: reads meanx, which no equation defines; did you mean mean_x?"),
    (undefined_name_like_no_other,
     "op bad, equation y: reads zebra, which no equation defines; define zebra in an equation before this one"),
    (read_before_it_is_defined,
     "op bad, equation y: reads later, which no equation defines; define later in an equation before this one"),
    (too_few_indices, "op bad, equation y: x has axes [n, d] but is read as x[n]; give x exactly 2 indices"),
    (too_many_indices_of_an_equation,
     "op bad, equation y: s has axes [n] but is read as s[n, d]; give s exactly 1 index; "
     "axes merged into one stand in brackets of their own: s[(n, d),]"),
    (pack_left_out,
     "op bad, equation y: `...` of x is read as x[n, d]; write `...` where the tensor has `...`"),
    (redefinition, "op bad, equation y: y is defined already; give the equation another name"),
    (input_defined_again, "op bad, equation x: x is an input; give the equation another name"),
    (no_derivative,
     "op bad, equation y: floor has no derivative that a backward could use; use differentiable functions, or pass its "
     "value as an input without gradient (constant[...])"),
    (special_function,
     "op bad, equation y: gamma is no function of the notation; use exp, log, powers, sin, tanh, erf and the like"),
    (piecewise, "op bad, equation y: a Piecewise leaves a case open; end it with (value, True)"),
    (size_unknown,
     "op bad, equation y: no input carries axis d, so its size is unknown; give an input the axis d, "
     "an argument d_length: length(d), or a fixed length: axes(\"d=2\")"),
    (length_of_an_axis_summed_away_unknown,
     "op bad, equation y: no input carries axis k, so its size is unknown; give an input the axis k, "
     "an argument k_length: length(k), or a fixed length: axes(\"k=2\")"),
    (size_of_a_merge_unknown,
     "op bad, equation y: no input carries axis e, so its size is unknown; give an input the axis e, "
     "an argument e_length: length(e), or a fixed length: axes(\"e=2\")"),
    (window_over_two_unknown_axes,
     "op bad, equation y: no input carries axis i, so its size is unknown; give an input the axis i, "
     "an argument i_length: length(i), or a fixed length: axes(\"i=2\")"),
    (product_of_axes_as_an_index,
     "op bad, equation y: index i*k is not axis arithmetic; write whole multiples of axes, such as 2*t + k, or read an "
     "index(...)"),
    (half_steps,
     "op bad, equation y: index i/2 is not axis arithmetic; write whole multiples of axes, such as 2*t + k, or read an "
     "index(...)"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "message"), MESSAGES, ids=lambda v: getattr(v, "__name__", ""))
def test_message(bad: Callable[[], None], message: str) -> None:
    with pytest.raises(DeriveError) as caught:
        bad()
    assert str(caught.value) == message


def test_an_error_keeps_what_it_knows() -> None:
    error = DeriveError("it broke", fix="mend it")
    assert str(error) == "it broke; mend it"
    assert str(error.within("layer")) == "op layer: it broke; mend it"
    assert str(error.within("layer", "y").within("other", "z")) == "op layer, equation y: it broke; mend it"
    assert isinstance(error, ValueError)


# --- splitting ----------------------------------------------------------------------------------------------


@op
def nested(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] / sum(exp(x[n, d] - mean(x[n, d], over=d)), over=d)
    return f.y


@op
def scaled(f, x: tensor[n, d]):
    f.y[n] = -sum(x[n, d], over=d) / (size(d) - 1)
    return f.y


@op
def scaled_by_a_tensor(f, x: tensor[n, d], w: tensor[n]):
    f.y[n] = w[n] * sum(x[n, d], over=d)
    return f.y


@op
def twice_the_same(f, x: tensor[n, d]):
    f.y[n] = sum(x[n, d], over=d) / (1 + sum(x[n, d], over=d) ** 2)
    return f.y


@op
def merged_left(f, x: tensor[n, t, e]):
    f.y[((n, t),)] = sum(x[n, t, e], over=e)
    return f.y


@op
def beside_a_diagonal(f, a: tensor[n, d], b: tensor[n, d]):
    f.s[n, m] = sum(a[n, d] * b[m, d], over=d)
    f.loss[()] = mean(log(sum(exp(f.s[n, m]), over=m)) - f.s[n, n], over=n)
    return f.loss


SPLIT = [
    (nested, ["x_mean[n] = mean(x[n, d], over=d)", "y_sum[n] = sum(exp(-x_mean[n] + x[n, d]), over=d)",
              "y[n, d] = x[n, d]/y_sum[n]"]),
    (scaled, ["y[n] = -sum(x[n, d], over=d)/(size(d) - 1)"]),
    (scaled_by_a_tensor, ["x_sum[n] = sum(x[n, d], over=d)", "y[n] = w[n]*x_sum[n]"]),
    (twice_the_same, ["x_sum[n] = sum(x[n, d], over=d)", "y[n] = x_sum[n]/(x_sum[n]**2 + 1)"]),
    (merged_left, ["x_sum[n, t] = sum(x[n, t, e], over=e)", "y[(n, t)] = x_sum[n, t]"]),
    (beside_a_diagonal, ["s[n, m] = sum(a[n, d]*b[m, d], over=d)", "loss_sum[n] = sum(exp(s[n, m]), over=m)",
                         "loss[] = mean(log(loss_sum[n]) - s[n, n], over=n)"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "lines"), SPLIT, ids=lambda v: getattr(v, "__name__", ""))
def test_split(made: object, lines: list[str]) -> None:
    assert [str(x) for x in made.op.equations] == lines  # type: ignore[attr-defined]


# --- signs --------------------------------------------------------------------------------------------------


@op
def signed(f, x: tensor[n, d], eps: scalar = 1e-5, T: scalar = 2.0):
    f.var[n] = mean(x[n, d] ** 2, over=d)
    f.rstd[n] = 1 / sqrt(f.var[n] + eps)
    f.u[n, d] = exp(x[n, d])
    f.total[n] = sum(f.u[n, d], over=d)
    f.p[n, d] = f.u[n, d] / f.total[n]
    f.logp[n, d] = log(f.p[n, d])
    f.warm[n, d] = exp((x[n, d] - f.var[n]) / T)
    f.masked[n, d] = where(d <= n, f.u[n, d], 0)
    f.either[n, d] = where(d <= n, f.u[n, d], 2)
    f.y[n] = sum(f.logp[n, d] * f.masked[n, d] * f.either[n, d], over=d) * f.rstd[n]
    return f.y, f.warm


SIGNS = [("var", False, True), ("rstd", True, True), ("u", True, True), ("total", True, True), ("p", True, True),
         ("logp", None, None), ("warm", True, True), ("masked", None, True), ("either", True, True),
         ("y", None, None)]  # fmt: skip


@pytest.mark.parametrize(("name", "positive", "nonnegative"), [pytest.param(*s, id=s[0]) for s in SIGNS])
def test_what_is_known_of_a_sign(name: str, positive: bool | None, nonnegative: bool | None) -> None:
    equation = signed.op.equation(name)
    assert equation is not None
    assert bool(equation.target.is_positive) is bool(positive)
    assert bool(equation.target.is_nonnegative) is bool(nonnegative)


# --- sizes --------------------------------------------------------------------------------------------------


def length(made: Op, axis: str) -> str:
    rule = next(r for r in made.sizes if r.axis.base == axis)
    return f"{rule.operand}.{rule.position}" if rule.operand else str(rule.formula)


@op
def convolution(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, i] = sum(x[n, i + k] * w[k], over=k)
    return f.y


@op
def strided(f, x: tensor[t], w: tensor[k]):
    f.y[i] = sum(x[2 * i + 3 * k + 1] * w[k], over=k)
    return f.y


@op
def taken_apart(f, x: tensor[n, c], w: tensor[e]):
    f.y[n, t, e] = x[n, (t, e)] * w[e]
    return f.y


@op
def merged_and_read(f, x: tensor[t, e], w: tensor[k]):
    f.flat[((t, e),)] = x[t, e]
    f.y[i] = f.flat[i] ** 2
    f.z[i] = f.y[i] * sum(w[k], over=k)
    return f.z


@op
def labelled(f, x: tensor[n, c], y: index(c)[n]):
    f.p[n] = x[n, y[n]]
    return f.p


@op
def neighbours(f, x: tensor[t]):
    f.y[i] = x[i + 2] * x[i]
    return f.y


@op
def two_windows(f, x: tensor[t]):
    f.y[i] = x[i + 1] * x[i + 3]
    return f.y


SIZES = [
    (convolution, "t", "x.1"),
    (convolution, "i", "size(t) - size(k) + 1"),
    (strided, "i", "floor((-3*size(k) + size(t) + 1)/2) + 1"),
    (taken_apart, "t", "size(c)/size(e)"),
    (merged_and_read, "i", "size(e)*size(t)"),
    (labelled, "n", "x.0"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "axis", "expected"), [pytest.param(*s, id=f"{s[0].__name__}: {s[1]}") for s in SIZES])
def test_size(made: object, axis: str, expected: str) -> None:
    from sympy import simplify, sympify
    from sympy.abc import c, d, e, k, n, t  # noqa: F401

    found = length(made.op, axis)  # type: ignore[attr-defined]
    plain = {f"size({a})": a for a in "ncdtek"}
    for old, new in plain.items():
        found, expected = found.replace(old, new), expected.replace(old, new)
    if "." in expected:
        assert found == expected
    else:
        assert simplify(sympify(found) - sympify(expected)) == 0, found


@pytest.mark.parametrize(
    ("made", "longest"), [(neighbours, 5), (two_windows, 4)], ids=["read and window", "two windows"]
)
def test_an_axis_is_as_long_as_all_its_windows_allow(made: object, longest: int) -> None:
    from tests.derive.evaluate import World

    (rule,) = [r for r in made.op.sizes if r.axis.base == "i"]  # type: ignore[attr-defined]
    assert World({"t": 7}).element(rule.formula) == longest


# --- printing -----------------------------------------------------------------------------------------------

OPERANDS = [
    (Operand("x", "tensor", (n, d)), "x: tensor[n, d]"),
    (Operand("b", "tensor", ()), "b: tensor[()]"),
    (Operand("y", "index", (n,), c), "y: index(c)[n]"),
    (Operand("eps", "scalar", default=1e-5, has_default=True), "eps: scalar = 1e-05"),
    (Operand("a", "scalar"), "a: scalar"),
]


@pytest.mark.parametrize(("operand", "text"), OPERANDS, ids=[t for _, t in OPERANDS])
def test_operand_prints(operand: Operand, text: str) -> None:
    assert str(operand) == text


def test_op_prints_as_it_was_written() -> None:
    assert str(labelled.op).splitlines() == [
        "labelled(x: tensor[n, c], y: index(c)[n])",
        "  p[n] = x[n, y[n]]",
        "  return p",
    ]
