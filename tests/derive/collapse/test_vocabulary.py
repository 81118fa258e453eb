"""A nested sum gets a name of its own, once, and only where expanding would tear it apart."""

import numpy as np
import pytest
import torch

from derive.collapse.vocabulary import name_functions, name_sums
from derive.ir.equations import Op
from derive.ir.words import text
from derive.notation import amax, axes, exp, index, maximum, mean, op, scalar, sigmoid, size, sqrt, sum, tanh, tensor
from derive.pipeline import derivation_of, derive_op
from derive.verify.verify import verify
from tests.derive.evaluate import forward, inputs
from tests.derive.live import module
from tests.derive.specs import Spec, each_spec

n, d, g, k, t = axes("n d g=3 k t")


@op
def square_of_difference(f, x: tensor[n], y: tensor[n]):
    f.z[n] = (x[n] - y[n]) ** 2
    return f.z


@op
def product_with_difference(f, x: tensor[n], y: tensor[n], w: tensor[n]):
    f.z[n] = w[n] * (x[n] + y[n])
    return f.z


@op
def difference_alone(f, x: tensor[n], y: tensor[n]):
    f.z[n] = x[n] - y[n]
    return f.z


@op
def difference_in_a_function(f, x: tensor[n], y: tensor[n]):
    f.z[n] = exp(x[n] - y[n])
    return f.z


@op
def tensor_and_number(f, x: tensor[n], eps: scalar = 1):
    f.z[n] = (x[n] + eps) ** 2
    return f.z


@op
def the_same_twice(f, x: tensor[n], y: tensor[n]):
    f.z[n] = (x[n] - y[n]) ** 2
    f.w[n] = f.z[n] * (x[n] - y[n])
    return f.w


@op
def already_named(f, x: tensor[n, d]):
    f.mu[d] = mean(x[n, d], over=n)
    f.c[n, d] = x[n, d] - f.mu[d]
    f.v[d] = mean((x[n, d] - f.mu[d]) ** 2, over=n)
    return f.c, f.v


@op
def sum_in_a_root(f, x: tensor[n], y: tensor[n]):
    f.z[n] = 1 / sqrt(x[n] ** 2 + y[n] ** 2)
    return f.z


@op
def nested_twice(f, x: tensor[n], y: tensor[n]):
    f.z[n] = x[n] * (y[n] + x[n] * (x[n] + y[n]))
    return f.z


@op
def name_is_taken(f, x: tensor[n], y: tensor[n], x_minus_y: tensor[n]):
    f.z[n] = x_minus_y[n] * (x[n] - y[n])
    return f.z


@op
def both_ways(f, x: tensor[n], y: tensor[n]):
    f.z[n] = (x[n] - y[n]) ** 2 + abs(y[n] - x[n]) * x[n] + x[n] * (y[n] - x[n])
    return f.z


@op
def excess_of_a_root(f, x: tensor[n], a: tensor[()]):
    f.z[()] = mean(a[()] * (sqrt(x[n] ** 2 + 1) - 1), over=n)
    return f.z


def test_the_excess_of_a_root_is_summed_as_that() -> None:
    """Where all of `x` are small, a sum of roots less their number has no digits left."""
    x = np.linspace(-1e-6, 1e-6, 5)
    backward = str(derive_op(excess_of_a_root.op).backward)
    assert "z_inner" in backward and str(name_sums(excess_of_a_root.op).equations[0].right) == "sqrt(x[n]**2 + 1) - 1"
    module_ = module(excess_of_a_root.op)
    z, saved = module_.excess_of_a_root_forward(torch.tensor(x), torch.tensor(2.0, dtype=torch.float64))
    _, da = module_.excess_of_a_root_backward(torch.tensor(1.0, dtype=torch.float64), *saved)
    assert float(da) == float(z) / 2


TABLE = [
    (
        both_ways,
        [
            "y_minus_x[n] = -x[n] + y[n]",
            "z[n] = abs(y_minus_x[n])*x[n] + x[n]*y_minus_x[n] + y_minus_x[n]**2",
        ],
    ),
    (square_of_difference, ["x_minus_y[n] = x[n] - y[n]", "z[n] = x_minus_y[n]**2"]),
    (product_with_difference, ["x_plus_y[n] = x[n] + y[n]", "z[n] = w[n]*x_plus_y[n]"]),
    (difference_alone, ["z[n] = x[n] - y[n]"]),
    (difference_in_a_function, ["z[n] = exp(x[n] - y[n])"]),
    (tensor_and_number, ["z[n] = (eps + x[n])**2"]),
    (the_same_twice, ["x_minus_y[n] = x[n] - y[n]", "z[n] = x_minus_y[n]**2", "w[n] = x_minus_y[n]*z[n]"]),
    (already_named, ["mu[d] = mean(x[n, d], over=n)", "c[n, d] = -mu[d] + x[n, d]", "v[d] = mean(c[n, d]**2, over=n)"]),
    (sum_in_a_root, ["z[n] = 1/sqrt(x[n]**2 + y[n]**2)"]),
    (nested_twice, ["x_plus_y[n] = x[n] + y[n]", "z_inner[n] = x[n]*x_plus_y[n] + y[n]", "z[n] = x[n]*z_inner[n]"]),
    (name_is_taken, ["x_minus_y2[n] = x[n] - y[n]", "z[n] = x_minus_y[n]*x_minus_y2[n]"]),
]


@pytest.mark.parametrize(("made", "lines"), TABLE, ids=lambda v: getattr(v, "__name__", ""))
def test_named(made: object, lines: list[str]) -> None:
    assert [str(e) for e in name_sums(made.op).equations] == lines  # type: ignore[attr-defined]


def test_what_we_named_is_not_given() -> None:
    assert [(e.name, e.given) for e in name_sums(square_of_difference.op).equations] == [
        ("x_minus_y", False),
        ("z", True),
    ]


@each_spec()
def test_outputs_are_the_same(spec: Spec) -> None:
    start = inputs(spec.op, spec.sizes, np.random.default_rng(0))
    before, after = forward(spec.op, start), forward(name_sums(spec.op), start)
    for name in spec.op.outputs:
        np.testing.assert_allclose(after.tensors[name], before.tensors[name], rtol=1e-13, err_msg=name)


def test_the_names_are_stable() -> None:
    @op
    def wide(f, x: tensor[n, d], y: tensor[n, d]):
        f.z[()] = sum((x[n, d] - y[n, d]) ** 2 * (x[n, d] + y[n, d]) ** 2, over=(n, d)) / size(n)
        return f.z

    assert name_sums(wide.op) == name_sums(wide.op)
    assert [e.name for e in name_sums(wide.op).equations] == ["x_minus_y", "x_plus_y", "z"]


# --- functions --------------------------------------------------------------------------------------------


@op
def softmax_written_out(f, x: tensor[n, d]):
    f.p[n, d] = exp(x[n, d] - amax(x[n, d], over=d)) / sum(exp(x[n, d] - amax(x[n, d], over=d)), over=d)
    return f.p


@op
def gates(f, a: tensor[n], b: tensor[n]):
    f.y[n] = 3 * tanh(a[n])
    f.z[n] = f.y[n] * sigmoid(-b[n]) + sigmoid(-b[n])
    return f.z


@op
def gates_of_one_tensor(f, z: tensor[n, g], c: tensor[n]):
    f.y[n] = sigmoid(z[n, 0]) * c[n] + sigmoid(z[n, 1]) * tanh(z[n, 2])
    return f.y


@op
def looked_up(f, x: tensor[n], top: tensor[d], of: index(d)[n]):
    f.y[n] = exp(x[n] - top[of[n]]) * x[n] - exp(x[n] - top[of[n]])
    return f.y


@op
def in_windows(f, x: tensor[t], w: tensor[k]):
    """A name would be of a tensor with all windows."""
    f.y[n] = sum(w[k] * tanh(x[2 * n + k] * w[k]), over=k)
    return f.y


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (looked_up, {"exp_x_minus_top": "exp(x[n] - top[of[n]])"}),
        (in_windows, {}),
        (softmax_written_out, {"exp_x_minus_x_max": "exp(x[n, d] - x_max[n])"}),
        (gates, {"sigmoid_minus_b": "sigmoid(-b[n])"}),  # `3*tanh(a)` knows its derivative as it is
        (
            gates_of_one_tensor,
            {"sigmoid_z_0": "sigmoid(z[n, 0])", "sigmoid_z_1": "sigmoid(z[n, 1])", "tanh_z_2": "tanh(z[n, 2])"},
        ),
    ],
)
def test_a_function_gets_a_name_once(made: Op, names: dict[str, str]) -> None:
    named = name_functions(made.op)
    assert {e.name: text(e.body) for e in named.equations if made.op.equation(e.name) is None} == names


def test_a_softmax_written_out_collapses_as_one_with_a_name_does() -> None:
    closed = derive_op(softmax_written_out.op)
    assert closed.kept == ("p",)
    assert [str(s) for s in closed.backward.statements] == [
        "sum_dp_p[n] = sum(dp[n, d] * p[n, d], over=d)",
        "dx[n, d] = p[n, d] * (dp[n, d] - sum_dp_p[n])",
    ]


@op
def thresholded(f, x: tensor[n, d, t], g: tensor[d], b: tensor[d], tau: tensor[d]):
    """A linear unit with a threshold, after responses that are normalised (Singh & Krishnan, 2019)."""
    f.r[n, d] = 1 / sqrt(mean(x[n, d, t] ** 2, over=t) + 1e-6)
    f.y[n, d, t] = maximum(g[d] * f.r[n, d] * x[n, d, t] + b[d], tau[d])
    return f.y


def test_what_an_extremum_is_of_passes_on_one_adjoint() -> None:
    """Each gradient took the shares anew, and that of `g` went through the table twice more."""
    backward = [str(s) for s in derivation_of(thresholded.op).backward.statements]
    assert _count("sign(", backward) == 1 and not _count("where(", backward), backward
    assert "dg[d] = size(t) * sum(r[n, d] * mean_dy_inner_x[n, d], over=n)" in backward, backward
    assert verify(thresholded.op).right


def _count(words: str, lines: list[str]) -> int:
    return "".join(lines).count(words)
