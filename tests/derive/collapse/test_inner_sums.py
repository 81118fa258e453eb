"""A weighted sum over several axes is taken over those first that the weight lacks, by the forward, once."""

import numpy as np
import pytest
import torch

from derive.notation import axes, index, log, mean, op, sum, tensor, where
from derive.rules.naming.factored_sums import name_inner_sums
from tests.derive.against_loops import code_of
from tests.derive.evaluate import forward, inputs
from tests.derive.live import assert_derived
from tests.derive.specs import Spec, each_spec

h, i, j, k, m, n, d = axes("h i j k m n d")


@op
def weighted_squares(f, x: tensor[n, d], y: tensor[n, d], w: tensor[n]):
    f.loss[()] = sum(w[n] * (x[n, d] - y[n, d]) ** 2, over=(n, d)) / sum(w[n], over=n)
    return f.loss


@op
def mean_place(f, u: tensor[n, h, d]):
    f.y[n] = mean(h * u[n, h, d], over=(h, d))
    return f.y


@op
def over_leading_axes(f, x: tensor[..., d], g: tensor[d]):
    f.y[()] = sum(g[d] * log(x[..., d] ** 2 + 1), over=(..., d))
    return f.y


@op
def along_edges(f, x: tensor[n, d], w: tensor[k], one: index(n)[k], other: index(n)[k]):
    f.y[()] = sum(w[k] * (x[one[k], d] - x[other[k], d]) ** 2, over=(k, d)) / 2
    return f.y


@op
def two_lights(f, x: tensor[n, m, d], v: tensor[n], w: tensor[m]):
    f.y[()] = sum(v[n] * w[m] * x[n, m, d], over=(n, m, d))
    return f.y


@op
def left_alone(f, x: tensor[n, d], w: tensor[n], v: tensor[d], a: tensor[n, i], g: tensor[()]):
    f.all[()] = sum(x[n, d] * x[n, d] ** 3, over=(n, d))
    f.one[n] = sum(v[d] * x[n, d], over=d)
    f.both[()] = sum(w[n] * x[n, d] * v[d], over=(n, d))
    f.matrices[d] = sum(a[n, i] * x[n, d], over=(n, i))
    f.number[()] = sum(g[()] * x[n, d], over=(n, d))
    f.masked[()] = sum(where(n > 1, w[n], 0) * x[n, d], over=(n, d))
    f.window[j] = sum(w[k] * x[j + k, d], over=(k, d))
    return f.all, f.one, f.both, f.matrices, f.number, f.masked, f.window


TABLE = [
    (weighted_squares, ["loss_sum2[n] = sum((x[n, d] - y[n, d])**2, over=d)",
                        "loss_sum[] = sum(loss_sum2[n]*w[n], over=n)"]),
    (mean_place, ["u_mean[n, h] = mean(u[n, h, d], over=d)", "y[n] = mean(h*u_mean[n, h], over=h)"]),
    (over_leading_axes, ["y_sum[d] = sum(log(x[..., d]**2 + 1), over=...)", "y[] = sum(g[d]*y_sum[d], over=d)"]),
    (two_lights, ["x_sum[n, m] = sum(x[n, m, d], over=d)", "y[] = sum(v[n]*w[m]*x_sum[n, m], over=(n, m))"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "lines"), TABLE, ids=lambda v: getattr(v, "__name__", ""))
def test_named(made: object, lines: list[str]) -> None:
    assert [str(e) for e in name_inner_sums(made.op).equations][: len(lines)] == lines  # type: ignore[attr-defined]


def test_a_sum_stays_where_each_factor_has_its_axes_or_none_has_all() -> None:
    assert name_inner_sums(left_alone.op) == left_alone.op  # type: ignore[attr-defined]


def test_places_weigh_what_a_fused_loop_sums() -> None:
    assert name_inner_sums(mean_place.op, fused=True) == mean_place.op  # type: ignore[attr-defined]
    assert name_inner_sums(two_lights.op, fused=True) == name_inner_sums(two_lights.op)  # type: ignore[attr-defined]


@each_spec()
def test_outputs_are_the_same(spec: Spec) -> None:
    start = inputs(spec.op, spec.sizes, np.random.default_rng(0))
    before, after = forward(spec.op, start), forward(name_inner_sums(spec.op), start)
    for name in spec.op.outputs:
        np.testing.assert_allclose(after.tensors[name], before.tensors[name], rtol=1e-11, atol=1e-12, err_msg=name)


def test_the_gradient_of_the_weight_is_the_sum_that_the_forward_has() -> None:
    code = code_of(weighted_squares.op)
    assert code.count(".square()") == 1 and code.count(".sum(1)") == 1
    assert code_of(along_edges.op).count(".square()") == 1


CASES = [
    (weighted_squares, lambda x, y, w: (w[:, None] * (x - y) ** 2).sum() / w.sum(),
     {"x": (4, 4), "y": (4, 4), "w": (4,)}),
    (weighted_squares, lambda x, y, w: (w[:, None] * (x - y) ** 2).sum() / w.sum(),
     {"x": (3, 0), "y": (3, 0), "w": (3,)}),
    (mean_place, lambda u: (torch.arange(u.shape[1])[:, None] * u).mean((1, 2)), {"u": (2, 3, 5)}),
    (over_leading_axes, lambda x, g: (g * torch.log(x**2 + 1)).sum(), {"x": (2, 3, 4), "g": (4,)}),
    (over_leading_axes, lambda x, g: (g * torch.log(x**2 + 1)).sum(), {"x": (4,), "g": (4,)}),
    (two_lights, lambda x, v, w: torch.einsum("nmd,n,m->", x, v, w), {"x": (3, 3, 3), "v": (3,), "w": (3,)}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "reference", "shapes"), CASES)
def test_values_and_gradients(made, reference, shapes) -> None:
    assert_derived(made.op, reference, shapes)
