"""Finite differences: the U has its bottom near the step that is chosen for a precision."""

import math
from dataclasses import replace

import pytest
import torch

from derive import axes, constant, eq, exp, index, log, mean, ne, oo, op, sqrt, sum, tensor, where
from derive.catalogue import find
from derive.ir.equations import Op
from derive.verify.battery import BATTERY
from derive.verify.differences import curves, slope, step_for
from derive.verify.verify import moving_case, verify


def test_the_error_is_least_near_the_chosen_step() -> None:
    case = BATTERY[0].make(find("softmax"))
    for curve in curves(case, case.gradients, (torch.float64, torch.float32)):
        assert curve.chosen == step_for(curve.dtype)
        best = curve.steps[curve.errors.index(min(curve.errors))]
        assert curve.chosen / 300 < best < 30 * curve.chosen
        assert min(curve.errors) < 1e-3 * min(curve.errors[0], curve.errors[-1])


def test_a_right_gradient_agrees_and_a_slightly_wrong_one_does_not() -> None:
    case = BATTERY[0].make(find("layernorm"))
    for name, gradient in case.gradients.items():
        assert slope(case, name, gradient).error < 1e-8
        assert slope(case, name, gradient * (1 + 1e-4)).error > 1e-5


def test_a_gradient_that_is_0_is_compared_absolutely() -> None:
    """The bias before a batch normalisation has none but rounding."""
    case = BATTERY[0].make(find("names_step"))
    assert slope(case, "b1", case.gradients["b1"]).error < 1e-6


c, d, i, j, m, n = axes("c d i j m n")


@op
def root_of_square(f, x: tensor[n]):
    f.y[n] = sqrt(x[n] ** 2)
    return f.y


def test_what_has_no_slope_is_left_out() -> None:
    """The rest of the gradient is compared, and may still be wrong."""
    case = BATTERY[0].make(root_of_square.op)
    x = case.call.inputs["x"].clone()
    x[0] = 0
    at_0 = replace(case, call=replace(case.call, inputs={"x": x}))
    broken = case.gradients["x"].clone()
    broken[0] = torch.nan
    assert slope(at_0, "x", broken).error < 1e-8
    assert slope(at_0, "x", broken * (1 + 1e-4)).error > 1e-5


@op
def masked_scores(f, s: tensor[i, j], mask: constant[j]):
    """Scores of which some are pushed out of reach."""
    f.z[i, j] = s[i, j] - 1e9 * (1 - mask[j])
    return f.z


def test_what_rounding_leaves_of_large_outputs_is_no_error() -> None:
    case = BATTERY[0].make(masked_scores.op)
    assert slope(case, "s", case.gradients["s"]).error < 1e-6
    assert slope(case, "s", case.gradients["s"] * 1.1).error > 1e-2


def test_what_is_no_number_is_no_agreement() -> None:
    case = BATTERY[0].make(find("softmax"))
    huge = case.gradients["x"] + torch.finfo(torch.float64).max
    assert not slope(case, "x", huge).error <= 1e-6


@op
def to_a_partner(f, z: tensor[n, d], pair: index(m)[n]):
    """The partner may be oneself, which is out of reach: then the loss is infinite."""
    f.s[n, m] = where(eq(n, m), -oo, sum(z[n, d] * z[m, d], over=d))
    f.loss[()] = mean(log(sum(exp(f.s[n, m]), over=m)) - f.s[n, pair[n]], over=n)
    return f.loss


@op
def out_of_reach(f, s: tensor[i, j], c: constant[j]):
    """An infinity among the outputs, whatever is drawn."""
    f.z[i, j] = where(eq(j, 0), oo, c[j] * s[i, j] ** 2)
    return f.z


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("made", [to_a_partner.op, out_of_reach.op], ids=lambda made: made.name)
def test_an_infinite_output_has_no_slope_and_no_cotangent(made: Op, seed: int) -> None:
    ordinary = BATTERY[0].make(made, seed)
    case = moving_case(made, ordinary, seed)
    for name, gradient in case.gradients.items():
        assert slope(case, name, gradient).error < 1e-6
        assert slope(case, name, gradient * 1.1).error > 1e-3
    assert all(row.differences_agree for row in verify(made, seed=seed).rows)


@op
def energy_of_pairs(f, x: tensor[n, c], q: tensor[n]):
    f.r[n, m] = sqrt(sum((x[n, c] - x[m, c]) ** 2, over=c))
    f.e[()] = sum(where(ne(n, m), q[n] * q[m] / f.r[n, m], 0), over=(n, m)) / 2
    return f.e


def test_a_gradient_that_is_no_number_where_there_is_a_slope_is_wrong() -> None:
    """Autograd of these equations has 0 times infinity on the diagonal, and nan everywhere."""
    case = BATTERY[0].make(energy_of_pairs.op)
    nothing = case.gradients["x"]
    assert nothing.isnan().all()
    assert slope(case, "x", nothing).error == math.inf
    assert verify(energy_of_pairs.op).right
