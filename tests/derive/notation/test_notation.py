"""The words of a spec: what `from derive import *` gives, and what a mistake in their use is told."""

import math
from collections.abc import Callable

import pytest
from sympy import Abs, Max, Min, Rational, sympify
from sympy import sign as sympy_sign

import derive
from derive.errors import DeriveError
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Tensor
from derive.notation import amax, axes, delta, exp, index, mean, oo, op, relu, scalar, size, sum, tensor, where
from derive.notation.recorded import as_recorded

n, d, c, t, e = axes("n d c t e")

WORDS = [
    "amax",
    "amin",
    "axes",
    "clamp",
    "constant",
    "cos",
    "delta",
    "eq",
    "erf",
    "exp",
    "index",
    "log",
    "maximum",
    "mean",
    "minimum",
    "ne",
    "oo",
    "op",
    "pi",
    "relu",
    "rsqrt",
    "scalar",
    "sigmoid",
    "sign",
    "sin",
    "size",
    "softplus",
    "sqrt",
    "stop",
    "sum",
    "tanh",
    "tensor",
    "where",
]


def test_the_words_of_the_notation() -> None:
    """Specs in other repositories are written in these: the list may grow, and nothing may leave it."""
    assert set(WORDS) <= set(derive.__all__)
    assert all(hasattr(derive, word) for word in derive.__all__)


def test_axes() -> None:
    assert axes("d") == Axis("d")
    assert axes("n c") == (Axis("n"), Axis("c"))
    assert axes("n, c") == (Axis("n"), Axis("c"))


def test_reduced_axes_may_be_a_list() -> None:
    x = At(Tensor("x"), n, d)
    assert sum(x, over=[n, d]) == sum(x, over=(n, d))


# --- mistakes -----------------------------------------------------------------------------------------------


def no_axes():
    axes("")


def axis_that_is_no_name():
    axes("1d")


def axis_that_is_a_keyword():
    axes("in")


def axis_not_declared_in_the_body():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = sum(x[n], over=zz)  # noqa: F821
        return f.y


def axis_not_declared_in_the_signature():
    source = "from __future__ import annotations\n@op\ndef bad(f, x: tensor[zz]):\n    return f.x\n"
    exec(source, {"op": op, "tensor": tensor, "__name__": "spec"})


def axis_given_as_text():
    @op
    def bad(f, x: tensor["n"]):
        return f.x


def reduction_over_text():
    @op
    def bad(f, x: tensor[n]):
        f.y[()] = sum(x[n], over="n")
        return f.y


def size_of_text():
    size("n")


def index_of_text():
    index("n")


def input_without_a_kind():
    @op
    def bad(f, x):
        f.y[n] = x[n]
        return f.y


def tensor_without_axes_in_the_signature():
    @op
    def bad(f, x: tensor):
        f.y[n] = x[n]
        return f.y


def tensor_with_a_default():
    @op
    def bad(f, x: tensor[n] = 3):
        f.y[n] = x[n]
        return f.y


def tensor_used_without_axes():
    @op
    def bad(f, x: tensor[n], w: tensor[n]):
        f.y[n] = x * w[n]
        return f.y


def tensor_used_without_axes_on_the_right_of_a_sum():
    @op
    def bad(f, x: tensor[n]):
        f.z[n] = x[n] ** 2
        f.y[n] = x[n] + f.z
        return f.y


def tensor_without_axes_in_a_function():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = exp(x)
        return f.y


def slice_as_an_index():
    @op
    def bad(f, x: tensor[n, d]):
        f.y[n] = x[n, :]
        return f.y


def returns_what_no_equation_defines():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = x[n]
        return f.z


def returns_an_input():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = x[n]
        return x


def returns_nothing():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = x[n]


def returns_an_element():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = x[n]
        return f.y[n]


def expression_on_the_left():
    @op
    def bad(f, x: tensor[n]):
        f.y[n + 1] = x[n]
        return f.y


def axis_twice_on_the_left():
    @op
    def bad(f, x: tensor[n]):
        f.y[n, n] = x[n]
        return f.y


def equation_without_axes():
    @op
    def bad(f, x: tensor[n]):
        f.y = x[n] ** 2
        return f.y


def a_name_that_python_keeps():
    @op
    def bad(f, x: tensor[n]):
        getattr(f, "lambda")[n] = x[n]
        return f.x


def text_for_an_expression():
    @op
    def bad(f, x: tensor[n]):
        f.y[n] = "x[n] + "
        return f.y


MESSAGES = [
    (no_axes, 'axes() needs at least one name, as one text; write axes("n c")'),
    (axis_that_is_no_name, "'1d' cannot name an axis; use a Python identifier"),
    (axis_that_is_a_keyword, "'in' cannot name an axis; use a Python identifier"),
    (axis_not_declared_in_the_body,
     'op bad: zz is not defined; declare an axis with zz = axes("zz"), or import the function'),
    (axis_not_declared_in_the_signature,
     'op bad: zz is not defined; declare an axis with zz = axes("zz"), or import the function'),
    (axis_given_as_text, "'n' is not an axis; write its name without quotes"),
    (reduction_over_text, "op bad: sum(…, over='n'): not an axis; write it without quotes: n"),
    (size_of_text, "size('n'): not an axis; write it without quotes: n"),
    (index_of_text, "index('n'): not an axis; declare it with axes(\"…\")"),
    (input_without_a_kind,
     "op bad: input x has no kind; annotate it: x: tensor[n, d], index(c)[n], constant[n] or scalar"),
    (tensor_without_axes_in_the_signature,
     "op bad: input x is tensor without its axes; write x: tensor[n, d], or x: tensor[()] where it has none"),
    (tensor_with_a_default, "op bad: input x is a tensor with a default; only scalars and lengths take defaults"),
    (tensor_used_without_axes, "op bad: x is used without its axes; read one element: x[n]"),
    (tensor_used_without_axes_on_the_right_of_a_sum, "op bad: z is used without its axes; read one element: f.z[n]"),
    (tensor_without_axes_in_a_function, "op bad: x is used without its axes; read one element: x[n]"),
    (slice_as_an_index, "op bad: a slice `:` is not an index; name the axis: x[n, d]"),
    (returns_what_no_equation_defines, "op bad: returns z, which no equation defines; write f.z[…] = …"),
    (returns_an_input, "op bad: returns its input x; return what an equation defines, such as f.y"),
    (returns_nothing, "op bad: the spec returns nothing; end it with return f.y"),
    (returns_an_element, "op bad: returns one element, y[n]; return the whole tensor: return f.y"),
    (expression_on_the_left,
     "op bad, equation y: the left side holds n + 1, which is no axis; "
     "write axes, or (t, e) to merge two; concat puts places before or behind others"),
    (axis_twice_on_the_left,
     "op bad, equation y: an axis stands twice on the left; use delta(i, j) on the right for a diagonal, "
     "or another axis for all pairs: f.y[i, j]"),
    (
        equation_without_axes,
        "op bad: f.y is given something that is no tensor; "
        "write its axes: f.y[…] = …, or f.y[()] = … where it is one number",
    ),
    (a_name_that_python_keeps, "op bad, equation lambda: lambda cannot name a tensor; choose another name"),
    (
        text_for_an_expression,
        "op bad, equation y: 'x[n] + ' is no expression; write one value, made of elements and numbers",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "message"), MESSAGES, ids=lambda v: getattr(v, "__name__", ""))
def test_message(bad: Callable[[], None], message: str) -> None:
    with pytest.raises(DeriveError) as caught:
        bad()
    assert str(caught.value) == message


def test_an_op_is_not_called_outside_a_spec() -> None:
    @op
    def half(f, x: tensor[n]):
        f.y[n] = x[n] / 2
        return f.y

    with pytest.raises(DeriveError, match=r"^half is called outside a spec; import the generated function"):
        half(3)


# --- what is read -------------------------------------------------------------------------------------------


@op
def words(f, x: tensor[..., d], y: index(d)[...], eps: scalar = 0.5, k: scalar = 2):
    """First line.

    More.
    """
    f.a[...] = amax(x[..., d], over=d)
    f.b[..., d] = where(d <= 2, x[..., d] - f.a[...], -oo)
    f.c[...] = mean(exp(f.b[..., d]), over=d) * eps + k
    f.g[...] = f.c[...] + x[..., y[...]]
    return f.g, f.b


def test_an_op_is_its_signature() -> None:
    assert [str(o) for o in words.op.operands] == [
        "x: tensor[..., d]", "y: index(d)[...]", "eps: scalar = 0.5", "k: scalar = 2",
    ]  # fmt: skip
    assert words.op.outputs == ("g", "b")
    assert words.op.doc == "First line.\n\nMore."
    assert words.op.source == "test_notation.py"
    assert [o.name for o in words.op.differentiable] == ["x"]


def test_equations_read_as_written() -> None:
    assert [str(q) for q in words.op.equations] == [
        "a[...] = amax(x[..., d], over=d)",
        "b[..., d] = where(d <= 2, -a[...] + x[..., d], -oo)",
        "c_mean[...] = mean(exp(b[..., d]), over=d)",
        "c[...] = eps*c_mean[...] + k",
        "g[...] = c[...] + x[..., y[...]]",
    ]


LITERALS = [
    (0.5, "x[n]/2"),
    (0.044715, "8943*x[n]/200000"),
    (1e-5, "x[n]/100000"),
    (3, "3*x[n]"),
]


@pytest.mark.parametrize(("number", "text"), LITERALS, ids=[str(v) for v, _ in LITERALS])
def test_decimals_are_exact(number: float, text: str) -> None:
    @op
    def times(f, x: tensor[n]):
        f.y[n] = number * x[n]
        return f.y

    assert str(times.op.equations[0].body) == text


CANONICAL = [
    (Abs, "abs(x[n])", "sign(x[n])"),
    (sympy_sign, "sign(x[n])", "0"),
    (lambda x: Max(x, 0), None, None),
    (lambda x: Min(x, 1), None, None),
    (relu, "relu(x[n])", "where(x[n] > 0, 1, 0)"),
]


@pytest.mark.parametrize(("function", "text", "slope"), CANONICAL, ids=["Abs", "sign", "Max", "Min", "relu"])
def test_singular_functions_are_ours(function: Callable, text: str | None, slope: str | None) -> None:
    @op
    def made(f, x: tensor[n]):
        f.y[n] = function(x[n])
        return f.y

    body = made.op.equations[0].body
    assert not body.atoms(Abs, Max, Min, sympy_sign)
    if text is not None:
        assert (str(body), str(body.diff(body.args[0]))) == (text, slope)


def test_merged_axes_on_the_left() -> None:
    @op
    def flat(f, x: tensor[n, t, e]):
        f.y[n, (t, e)] = x[n, t, e] + delta(t, e)
        return f.y

    (equation,) = flat.op.equations
    assert [a.base for a in equation.axes] == ["n", "t", "e"]
    assert not equation.is_plain
    assert str(equation.left) == "y[n, (t, e)]"


def test_classes_of_the_index_stand_on_the_axis() -> None:
    @op
    def picked(f, x: tensor[n, c], y: index(c)[n]):
        f.p[n] = x[n, y[n]]
        return f.p

    operand = picked.op.operand("y")
    assert operand is not None and operand.ranges_over == c and not operand.differentiable


@pytest.mark.parametrize(
    ("written", "meant"),
    [(0.044715, "8943/200000"), (0.7978845608028654, "3989422804014327/5000000000000000"),
     (math.pi, "3141592653589793/1000000000000000"), (0.1 * 3, "3/10"), (1 - 0.9, "1/10"), (-1e-30, "-1e-30")],
)  # fmt: skip
def test_a_decimal_is_the_fraction_that_was_written(written: float, meant: str) -> None:
    assert as_recorded(sympify(written), {}) == Rational(meant)
