"""What the backward names has the axes of what it meets, and of what reads it: no transposes, and nothing gathered."""

import pytest
import torch
from torch.nn.functional import group_norm, silu

from derive import (
    amax,
    amin,
    axes,
    constant,
    length,
    maximum,
    mean,
    op,
    relu,
    rsqrt,
    scalar,
    sigmoid,
    sqrt,
    sum,
    tensor,
)
from derive.ir.equations import Op
from derive.pipeline import derivation_of, derive_op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

n, c, d, g, k = axes("n c d g k")


@op
def two_sums(f, a: tensor[n, d], b: tensor[n, d], w: tensor[d]):
    f.y[n] = sum(a[n, d] * b[n, d] * w[d], over=d)
    f.z[d] = sum(a[n, d] * b[n, d], over=n)
    return f.y, f.z


@op
def norm_silu(f, x: tensor[n, c], gamma: tensor[c], beta: tensor[c], groups: length(g)):
    f.z[n, g, k] = x[n, (g, k)]
    f.mu[n, g] = mean(f.z[n, g, k], over=k)
    f.r[n, g] = rsqrt(mean((f.z[n, g, k] - f.mu[n, g]) ** 2, over=k) + 1e-5)
    f.xhat[n, (g, k)] = (f.z[n, g, k] - f.mu[n, g]) * f.r[n, g]
    f.a[n, c] = gamma[c] * f.xhat[n, c] + beta[c]
    f.y[n, c] = f.a[n, c] * sigmoid(f.a[n, c])
    return f.y


@op
def cosine(f, x: tensor[n, d], w: tensor[c, d], low: scalar = 1e-8):
    f.xx[n] = sum(x[n, d] ** 2, over=d)
    f.ww[c] = sum(w[c, d] ** 2, over=d)
    f.y[n, c] = sum(x[n, d] * w[c, d], over=d) / maximum(sqrt(f.xx[n] * f.ww[c]), low)
    return f.y


def test_in_the_order_of_what_it_meets() -> None:
    named = derive_op(two_sums.op).backward.statements[0]
    assert str(named) == "dz_plus_dy_w[n, d] = dz[d] + dy[n] * w[d]"


def test_in_the_order_of_what_it_is_a_part_of() -> None:
    axes = [s.axes for s in derive_op(cosine.op).backward.statements if set(s.axes) == {"n", "c"}]
    assert len(axes) > 3 and set(axes) == {("n", "c")}


def test_over_the_parts_that_it_reads() -> None:
    """What is normalised over groups is kept as the channels read it; from the inputs it is made over groups again."""
    assert "xhat" in derivation_of(norm_silu.op).kept
    again = list(map(str, derive_op(norm_silu.op, save="input").backward.statements))
    assert "xhat[n, (g, k)] = r[n, g] * z_minus_mu[n, g, k]" in again


def test_gradients_of_a_norm_over_groups() -> None:
    at = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 6), (6,), (6,))]
    dy = torch.randn(3, 6, dtype=torch.float64)
    wanted = torch.autograd.grad(silu(group_norm(at[0], 2, at[1], at[2])), at, dy)
    found = torch.autograd.grad(module(norm_silu.op).norm_silu(*at, 2), at, dy)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


@op
def squared_errors(f, x: tensor[n, d], w: tensor[d, c], t: constant[n, c]):
    f.loss[()] = sum((sum(x[n, d] * w[d, c], over=d) - t[n, c]) ** 2, over=(n, c))
    return f.loss


@op
def hidden_total(f, x: tensor[n, d], w: tensor[d, c]):
    """The right matrix is written first, and meets no tensor of both axes."""
    f.y[c] = sum(relu(sum(w[d, c] * x[n, d], over=d)), over=n)
    return f.y


@op
def both_ways(f, x: tensor[n, d], y: tensor[k, d]):
    """Chamfer distance: each point's nearest of the others."""
    f.loss[()] = sum(amin(sum((x[n, d] - y[k, d]) ** 2, over=d), over=k), over=n) + sum(
        amin(sum((x[n, d] - y[k, d]) ** 2, over=d), over=n), over=k
    )
    return f.loss


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (squared_errors.op, ["(x @ w).sub_(t)", "dx = dloss_sum_minus_t @ w.T", "dw = x.T @ dloss_sum_minus_t"]),
        (hidden_total.op, ["y_sum = x @ w\n"]),
        (both_ways.op, ["loss_sum = pair_distances(x, y, p=2)\n"]),
    ],
)
def test_a_sum_inside_lies_as_what_it_meets_or_as_it_is_multiplied(made: Op, lines: list[str]) -> None:
    """Not by the alphabet, in which `c` is before `n` and `k` before `n`."""
    code = code_of(made)
    assert [line for line in lines if line not in code] == [], code


@op
def hinges(f, x: tensor[n, d], a: tensor[k, d], b: tensor[k, d]):
    """The axis that is summed is in no tensor behind another."""
    f.y[n, d] = sum(a[k, d] * relu(b[k, d] - x[n, d]), over=k)
    return f.y


@op
def dilated(f, x: tensor[n, d], a: tensor[k, d], b: tensor[k, d]):
    f.y[n, d] = amax(b[k, d] - a[k, d] * x[n, d], over=k)
    return f.y


@op
def larger_of_pairs(f, x: tensor[n, d], y: tensor[k, d]):
    """Rows of a few coordinates are slow to add up: they are summed in front of the points."""
    f.s[n, k] = sum(maximum(x[n, d], y[k, d]), over=d)
    return f.s


@pytest.mark.parametrize("made", [hinges.op, dilated.op])
def test_what_is_larger_than_any_operand_lies_so_that_none_is_transposed(made: Op) -> None:
    code = code_of(made)
    assert ".T" not in code and "permute" not in code, code


def test_what_is_summed_stays_in_front_of_what_lies_side_by_side() -> None:
    assert "torch.maximum(x[:, :, None], y.T).sum(1)" in code_of(larger_of_pairs.op)


def test_values_of_what_is_larger_than_any_operand() -> None:
    shapes = {"x": (4, 3), "a": (2, 3), "b": (2, 3)}
    assert_derived(hinges.op, lambda x, a, b: (a[:, None] * (b[:, None] - x).relu()).sum(0), shapes)
    assert_derived(dilated.op, lambda x, a, b: (b[:, None] - a[:, None] * x).amax(0), shapes)
