"""A weighted sum of a product that something else reads as well is a matrix times a vector."""

import pytest
import torch

from derive import axes, mean, op, relu, rsqrt, scalar, sum, tanh, tensor
from derive.contract.shared_sums import weighted_sums
from derive.facts.lengths.nominal import nominal
from derive.ir.program import Assign
from derive.pipeline import derive_op
from tests.derive.live import assert_derived, module

n, m, d = axes("n m d")


@op
def scaled_unit(f, x: tensor[..., d], g: tensor[d]):
    f.r[...] = rsqrt(sum(x[..., d] ** 2, over=d) + 1)
    f.u[..., d] = x[..., d] * f.r[...]
    f.y[..., d] = g[d] * f.u[..., d]
    return f.y


@op
def weighed_twice(f, x: tensor[n, d], z: tensor[n, d], w: tensor[d]):
    f.h[n] = mean(w[d] * x[n, d] * z[n, d], over=d)
    f.y[n] = f.h[n] ** 2
    return f.y


@op
def centred(f, x: tensor[n, d], w: tensor[d]):
    f.h[n, d] = w[d] * x[n, d]
    f.y[n, d] = f.h[n, d] - mean(f.h[n, d], over=d)
    return f.y


@op
def nothing_shared(f, x: tensor[n, d], z: tensor[n, d], w: tensor[d]):
    f.y[n] = sum(w[d] * x[n, d] * z[n, d], over=d)
    return f.y


PLAIN = {
    "scaled_unit": lambda x, g: g * x * torch.rsqrt((x**2).sum(-1, keepdim=True) + 1),
    "weighed_twice": lambda x, z, w: (w * x * z).mean(-1) ** 2,
    "centred": lambda x, w: w * x - (w * x).mean(-1, keepdim=True),
    "nothing_shared": lambda x, z, w: (w * x * z).sum(-1),
}
SHAPES = {"x": (5, 3), "z": (5, 3), "g": (3,), "w": (3,)}


@pytest.mark.parametrize("spec", [scaled_unit, weighed_twice, centred, nothing_shared])
def test_gradients(spec):
    op, made = spec.op, module(spec.op)
    generator = torch.Generator().manual_seed(0)
    args = [torch.randn(SHAPES[o.name], generator=generator, dtype=torch.float64) for o in op.operands]
    leaves = [a.clone().requires_grad_() for a in args]
    y, saved = getattr(made, f"{op.name}_forward")(*args)
    dy = torch.randn(y.shape, generator=generator, dtype=torch.float64)
    found = getattr(made, f"{op.name}_backward")(dy, *saved)
    for g, w in zip(found, torch.autograd.grad(PLAIN[op.name](*leaves), leaves, dy), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-12, atol=1e-12)


def test_one_product_for_both_gradients():
    """`sum(g * dy * x, over=d)` and `sum(r * dy * x, over=...)` read one tensor, and g multiplies nothing as large."""
    program = derive_op(scaled_unit.op).backward
    values = {s.name: str(s.value) for s in program.statements if isinstance(s, Assign)}
    assert values["dy_x"] == "dy[..., d] * x[..., d]"
    assert values["sum_du_x"] == "sum(g[d] * dy_x[..., d], over=d)"
    assert values["dg"] == "sum(r[...] * dy_x[..., d], over=...)"
    assert "du" not in values  # read once now


def test_left_alone_where_nothing_else_reads_the_product():
    forward = derive_op(nothing_shared.op).forward
    assert weighted_sums(forward, nominal(nothing_shared.op)) == forward


@op
def correlation(f, x: tensor[n, d], z: tensor[n, m]):
    f.y[d, m] = mean(x[n, d] * z[n, m], over=n)
    return f.y


def test_the_mean_of_a_product_over_more_axes_is_a_matrix_product():
    (statement,) = derive_op(correlation.op).forward.statements
    assert str(statement.value) == "sum(x[n, d] * z[n, m], over=n) / size(n)"


@op
def summed_beside(f, u: tensor[n], c: tensor[d], x: tensor[n, d], T: scalar = 1.5):
    f.a[n, d] = u[n] * c[d] * x[n, d]
    f.t[n, d] = tanh(f.a[n, d])
    f.y[n, d] = (1 - T) * (1 - c[d]) * (u[n] - 1) * (1 - f.t[n, d])
    f.z[n, d] = relu(c[d]) * (T - 1) * f.a[n, d] ** 2 * u[n] ** 2
    f.both[n, d] = f.y[n, d] + f.z[n, d]
    return f.both


def test_a_matrix_that_is_made_behind_the_first_sum_of_it() -> None:
    """`sum(c*dboth*t)` stands before the name that `sum(dboth*t)` has for what it sums."""

    def plain(u: torch.Tensor, c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        a = u[:, None] * c * x
        return -0.5 * (1 - c) * (u[:, None] - 1) * (1 - a.tanh()) + 0.5 * c.relu() * a**2 * u[:, None] ** 2

    assert_derived(summed_beside.op, plain, {"u": (5,), "c": (3,), "x": (5, 3)})


@op
def over_its_spread(f, x: tensor[n, d], g: tensor[d]):
    f.spread[n] = mean(abs(x[n, d]), over=d) + 1
    f.y[n, d] = x[n, d] + g[d] * x[n, d] / f.spread[n]
    return f.y


def test_what_rows_are_divided_by_weighs_them():
    """`dg` sums `dy * x / spread`: the product that `dx` takes with `g`, and the reciprocal of one number a row."""
    backward = derive_op(over_its_spread.op).backward
    values = [str(s.value) for s in backward.statements]
    assert [v for v in values if "1 / spread[n]" in v] == ["sum(1 / spread[n] * dy_x[n, d], over=n)"], values
    assert_derived(over_its_spread.op, lambda x, g: x + g * x / (x.abs().mean(1, keepdim=True) + 1), SHAPES)
