"""The chain rule over equations: each index rule by its text, and every rule by finite differences."""

import numpy as np
import pytest
from sympy import cosh, polygamma, sinh

from derive.adjoint.chain_rule import stepwise
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation import amax, axes, cos, delta, index, log, op, sin, sum, tensor
from derive.notation.spec import OpCall
from tests.derive import specs
from tests.derive.evaluate import World, backward, differences, forward, inputs, with_cotangents
from tests.derive.specs import Spec, each_spec

n, m, d, k, t, e, i = axes("n m d k t e i")


def adjoint(of: str, op_: Op) -> tuple[str, tuple[str, ...]]:
    found = stepwise(op_).adjoint(of)
    assert found is not None
    return str(found), tuple(r for c in found.contributions for r in c.rules)


RULES = [
    ("broadcast, so summed", specs.broadcast_row, "b",
     "db[d] = 2*sum(b[d]*dy[n', d]*x[n', d], over=n')", "summed over n, which b lacks"),
    ("broadcast of a number", specs.broadcast_number, "w", None, "summed over d, n, which w lacks"),
    ("reduced, so broadcast back", specs.reduce_sum, "x",
     "dx[n, d] = 3*ds[n]*x[n, d]**2", "broadcast back over d"),
    ("mean of all", specs.reduce_mean_of_all, "x",
     "dx[n, d] = 2*ds[]*x[n, d]/(size(d)*size(n))", "broadcast back over n, d"),
    ("gather, so scatter-add", specs.gather_rows, "table",
     "dtable[v, d] = 2*table[v, d]*sum(delta(ix[k'], v)*dy[k', d], over=k')", "a gather becomes a scatter-add"),
    ("batched gather", specs.gather_batched, "x", None, "a gather becomes a scatter-add"),
    ("window shifts back", specs.window, "x", None, "a window shifts back"),
    ("window read of the other factor", specs.window, "w",
     "dw[k] = sum(dy[i']*x[i' + k], over=i')", "summed over i, which w lacks"),
    ("diagonal", specs.diagonal, "s",
     "ds[n, m] = delta(m, n)*dy[n]*y[n]", "a diagonal scatters onto the diagonal"),
    ("merged axes", specs.merged, "x", "dx[n, t, e] = 2*dy[n, (t, e)]*x[n, t, e]", None),
    ("parts", specs.parts, "x",
     "dx[n, k] = dx_apart[n, part(k, 0), part(k, 1)]", "merged axes are taken apart"),
    ("permuted", specs.permuted, "x", "dx[n, m] = 2*dy[m, n]*x[n, m]", None),
    ("output read again", specs.output_read_again, "y", "dy_total[n] = 2*ds[]*y[n] + dy[n]", None),
    ("through its own output", specs.output_read_again, "x", "dx[n] = dy_total[n]*y[n]", None),
    ("unused", specs.unused_input, "idle", "didle[d] = 0", None),
]  # fmt: skip


def canonical(text: str) -> str:
    """Products and sums in whatever order: the characters decide."""
    return "".join(sorted(text.replace(" ", "")))


@pytest.mark.parametrize(("spec", "of", "line", "rule"), [pytest.param(*r[1:], id=r[0]) for r in RULES])
def test_rule(spec: object, of: str, line: str | None, rule: str | None) -> None:
    text, rules = adjoint(of, spec.op)  # type: ignore[attr-defined]
    if line is not None:
        assert canonical(text) == canonical(line), text
    if rule is not None:
        assert rule in rules


def test_what_is_taken_apart_is_named() -> None:
    """The parts of `x` are a tensor of their own, whose adjoint is merged again as a whole."""
    assert "dy[n', d, e]" in (text := adjoint("w", specs.parts.op)[0]) and "x_apart[n', d, e]" in text


def test_nothing_reaches_integer_inputs_or_constants() -> None:
    assert {a.of for a in stepwise(specs.gather_rows.op).adjoints} == {"table"}
    assert {a.of for a in stepwise(specs.constant_input.op).adjoints} == {"x"}


def test_an_adjoint_takes_another_name_where_its_own_is_taken() -> None:
    @op
    def taken(f, x: tensor[n], dx: tensor[n]):
        f.y[n] = x[n] * dx[n]
        return f.y

    assert [a.target.name for a in stepwise(taken.op).adjoints] == ["grad_x", "ddx"]


# --- by finite differences ----------------------------------------------------------------------------------


def check_gradients(op_: Op, world: World, rng: np.random.Generator, *, tolerance: float = 2e-8) -> None:
    """Every input's stepwise adjoint against central differences of the evaluated forward."""
    steps = stepwise(op_)
    done, cotangents = with_cotangents(steps, forward(op_, world), rng)
    done = backward(steps, done)
    for operand in op_.differentiable:
        target = next(a.target.name for a in steps.adjoints if a.of == operand.name)
        expected = differences(op_, world, cotangents, operand.name)
        scale = max(1.0, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(done.tensors[target] / scale, expected / scale, atol=tolerance, err_msg=operand.name)


@each_spec()
def test_stepwise_equals_finite_differences(spec: Spec) -> None:
    rng = np.random.default_rng(1)
    check_gradients(spec.op, inputs(spec.op, spec.sizes, rng), rng)


COINCIDENT = [
    "matrix_product",
    "bilinear",
    "gather_two_axes",
    "weighted_average",
    "standardise",
    "causal",
    "broadcast_row",
]


@each_spec(*COINCIDENT)
def test_sizes_may_coincide(spec: Spec) -> None:
    rng = np.random.default_rng(2)
    check_gradients(spec.op, inputs(spec.op, dict.fromkeys(spec.sizes, 2), rng), rng)


LENGTH_ONE = [
    "matrix_product",
    "gather_batched",
    "weighted_average",
    "normalised_weights",
    "merged_then_read",
    "pack_and_last",
]


@each_spec(*LENGTH_ONE)
def test_axes_of_length_one(spec: Spec) -> None:
    rng = np.random.default_rng(3)
    check_gradients(spec.op, inputs(spec.op, dict.fromkeys(spec.sizes, 1), rng), rng)


# --- singular points ----------------------------------------------------------------------------------------


def gradient(made: object, of: str, sizes: dict[str, int], **tensors: np.ndarray) -> np.ndarray:
    """The stepwise gradient of the sum of all outputs."""
    op_ = made.op  # type: ignore[attr-defined]
    steps = stepwise(op_)
    done = forward(op_, World(sizes, tensors, {o.name: o.default for o in op_.operands if o.kind == "scalar"}))
    done = done.having(**{c.target.name: np.ones(done.tensors[c.of].shape) for c in steps.cotangents})
    return backward(steps, done).tensors[f"d{of}"]


@op
def largest(f, x: tensor[n, d]):
    f.m[n] = amax(x[n, d], over=d)
    return f.m


TIES = [
    pytest.param([[1.0, 3.0, 3.0]], [[0, 1 / 2, 1 / 2]], id="two"),
    pytest.param([[2.0, 2.0, 2.0]], [[1 / 3, 1 / 3, 1 / 3]], id="all"),
    pytest.param([[0.0, -0.0, -1.0]], [[1 / 2, 1 / 2, 0]], id="both zeros"),
    pytest.param([[5.0, 1.0, 2.0]], [[1, 0, 0]], id="none"),
]


@pytest.mark.parametrize(("x", "expected"), TIES)
def test_ties_share_evenly(x: list[list[float]], expected: list[list[float]]) -> None:
    found = gradient(largest, "x", {"n": 1, "d": 3}, x=np.array(x))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_a_repeated_row_gathers_every_gradient() -> None:
    @op
    def rows(f, table: tensor[n, d], ix: index(n)[k]):
        f.y[k, d] = table[ix[k], d]
        return f.y

    found = gradient(rows, "table", {"n": 4, "d": 2, "k": 5}, table=np.zeros((4, 2)), ix=np.array([2, 0, 2, 2, 3]))
    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [3, 3], [1, 1]])


def test_relu_and_where_at_zero() -> None:
    found = gradient(specs.masks, "w", {"n": 1}, x=np.zeros(1), w=np.zeros(1))
    # where(x > 0, ...) takes 3*w; relu'(0) = 0; maximum(0, 0) shares: 3 + 0 + 1/2.
    np.testing.assert_allclose(found, [3.5])


# --- one axis twice on an input -----------------------------------------------------------------------------


def square_input() -> object:
    @op
    def square(f, s: tensor[n, n]):
        f.y[()] = sum(s[n, n] ** 2, over=n)
        return f.y

    return square


def test_an_input_with_one_axis_twice_is_refused_or_right() -> None:
    """`tensor[n, n]` is a square matrix: off the diagonal its gradient is 0."""
    try:
        made = square_input()
    except ValueError:
        return
    found = gradient(made, "s", {"n": 2}, s=np.array([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(found, [[2, 0], [0, 8]])


def test_delta_of_two_axes_keeps_only_the_diagonal() -> None:
    @op
    def diagonal_matrix(f, x: tensor[n], y: tensor[m]):
        f.z[n, m] = delta(n, m) * x[n] + 0 * y[m]
        return f.z

    found = gradient(diagonal_matrix, "x", {"n": 2, "m": 2}, x=np.ones(2), y=np.ones(2))
    np.testing.assert_array_equal(found, [1, 1])


@op
def log_cosh(f, x: tensor[n], s: tensor[n]):
    f.y[n] = log(cosh(x[n])) + log(cos(s[n]))
    return f.y


@op
def quotients(f, x: tensor[n], s: tensor[n]):
    f.y[n] = sinh(x[n]) / cosh(x[n]) + sinh(s[n]) / cosh(s[n])
    return f.y


@pytest.mark.parametrize("spec", [log_cosh, quotients], ids=["log_cosh", "quotients"])
def test_a_quotient_of_sinh_and_cosh_is_tanh(spec: OpCall) -> None:
    """Both overflow where their quotient is 1, and so do their squares where the square of it is."""
    values = {a.target.name: a.value for a in stepwise(spec.op).adjoints}
    assert not any(v.has(sinh, cosh, sin, cos) for v in values.values())


def test_a_function_without_a_derivative_by_what_is_read_is_refused() -> None:
    @op
    def of_order(f, x: tensor[n], y: tensor[n]):
        f.z[n] = polygamma(x[n], y[n])
        return f.z

    with pytest.raises(DeriveError) as caught:
        stepwise(of_order.op)
    assert str(caught.value) == (
        "equation z: SymPy knows no derivative by x[n]; use functions of it that have one, "
        "or pass its value as an input without gradient (constant[...])"
    )
