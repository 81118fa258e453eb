"""A mask drops where its term vanishes already, whichever branch of the choice was masked out."""

import pytest
import torch

from derive import amax, axes, constant, eq, exp, index, length, log, mean, ne, oo, op, relu, sum, tensor, where
from derive.collapse.supports import Side, Support, of_definition, supports
from derive.ir.terms.elements import At, Tensor
from derive.pipeline import derive_op
from derive.schedule.definitions import Definition
from tests.derive.live import assert_alike, assert_derived, module

n, m, d, c, k = axes("n m d c k")


@op
def kept_places(f, x: tensor[n, m], w: constant[n, m]):
    f.z[n, m] = where(w[n, m] <= 0, x[n, m], -oo)
    f.top[n] = amax(f.z[n, m], over=m)
    f.u[n, m] = exp(f.z[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    return f.p


@op
def masked_places(f, x: tensor[n, m], w: constant[n, m]):
    f.z[n, m] = where(w[n, m] > 0, -oo, x[n, m])
    f.top[n] = amax(f.z[n, m], over=m)
    f.u[n, m] = exp(f.z[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    return f.p


@op
def others_alike(f, x: tensor[n, d], y: tensor[n, d], item: index(c)[n], items: length(c)):
    """Contrasted with all but other places of the same item."""
    f.s[n, m] = sum(x[n, d] * y[m, d], over=d)
    f.z[n, m] = where(eq(item[n], item[m]) & ne(n, m), -oo, f.s[n, m])
    f.top[n] = amax(f.z[n, m], over=m)
    f.loss[()] = mean(f.top[n] + log(sum(exp(f.z[n, m] - f.top[n]), over=m)) - f.z[n, n], over=n)
    return f.loss


@op
def nothing_masked(f, x: tensor[n, m], w: constant[n, m]):
    """Neither branch is a number: the choice stays."""
    f.z[n, m] = where(w[n, m] > 0, x[n, m], 2 * x[n, m])
    f.y[n, m] = exp(f.z[n, m])
    return f.y


@pytest.mark.parametrize("spec", [kept_places, masked_places, others_alike])
def test_no_mask_in_the_backward(spec):
    assert "where" not in str(derive_op(spec.op).backward)


def test_a_mask_is_asked_where_a_delta_is_one():
    """The closed form is `u/z - delta(m, n)`: a place is never masked out of its own row."""
    ds = next(d for d in derive_op(others_alike.op).closed.definitions if d.name == "ds")
    assert "delta(m, n)" in str(ds.value) and "where" not in str(ds.value), ds


def test_a_choice_of_two_tensors_stays():
    assert "where" in str(derive_op(nothing_masked.op).backward)


def test_says_on_which_side():
    assert "u is 0 unless w[n, m] <= 0" in map(str, supports(derive_op(kept_places.op).steps.op)["u"])
    assert "u is 0 where w[n, m] > 0" in map(str, supports(derive_op(masked_places.op).steps.op)["u"])


@pytest.mark.parametrize("spec", [kept_places, masked_places])
def test_gradients_of_masked_rows(spec):
    def plain(x, w):
        return x.masked_fill(w > 0, -torch.inf).softmax(1)

    assert_derived(spec.op, plain, {"x": (5, 7), "w": (5, 7)})


def test_gradients_of_a_mask_with_a_diagonal():
    x, y = (torch.randn(6, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    item = torch.tensor([0, 1, 0, 2, 1, 0])
    masked = (item[:, None] == item) & ~torch.eye(6, dtype=torch.bool)
    wanted = torch.nn.functional.cross_entropy((x @ y.T).masked_fill(masked, -torch.inf), torch.arange(6))
    assert_alike(module(others_alike.op).others_alike(x, y, item, 3), wanted, [x, y])


@op
def masked_quotient(f, x: tensor[n, m], w: tensor[n, m], c: constant[n, m]):
    """Both are 0 where nothing is kept: their quotient is nan there, and 0 times it."""
    f.p[n, m] = where(c[n, m] > 0, x[n, m], 0)
    f.q[n, m] = where(c[n, m] > 0, w[n, m], 0)
    f.r[n, m] = f.p[n, m] / f.q[n, m]
    f.y[n] = sum(where(c[n, m] > 0, f.r[n, m] ** 2 * f.q[n, m], 0), over=m)
    return f.y


def test_a_mask_stays_where_what_it_leaves_out_is_divided_by():
    def plain(x, w, c):
        p, q = torch.where(c > 0, x, 0), torch.where(c > 0, w, 0)
        return torch.where(c > 0, (p / q) ** 2 * q, 0).sum(1)

    assert_derived(masked_quotient.op, plain, {"x": (5, 7), "w": (5, 7), "c": (5, 7)})


def test_a_definition_is_zero_only_where_no_factor_of_it_divides_by_zero():
    (dr, q, w), side = map(Tensor, ("dr", "q", "w")), Side(At(Tensor("c"), n) > 0)
    known = {name: (Support(name, (n,), side),) for name in ("dr", "q")}
    assert [s.side for s in of_definition(Definition("dp", (n,), At(dr, n) / At(w, n)), known)] == [side]
    assert of_definition(Definition("dp", (n,), At(dr, n) / At(q, n)), known) == ()


@op
def squared(f, x: tensor[n, m], w: tensor[m, k]):
    """The square of what is above 0, before a layer (So et al., 2021)."""
    f.h[n, m] = relu(x[n, m])
    f.y[n, k] = sum(f.h[n, m] ** 2 * w[m, k], over=m)
    return f.y


def test_a_multiple_of_what_is_not_negative_is_not_asked_whether_it_is_above_0():
    backward = derive_op(squared.op).backward
    assert backward.returns[0] == "dh" and "where" not in str(backward) and "sign" not in str(backward), backward
    assert_derived(squared.op, lambda x, w: x.relu() ** 2 @ w, {"x": (5, 7), "w": (7, 3)})


@op
def scaled_masked(f, x: tensor[n, d], y: tensor[m, d], v: tensor[m, k], scale: tensor[()]):
    """A mean under a causal softmax of products that a learned number scales before the mask."""
    f.z[n, m] = where(m <= n, scale[()] * sum(x[n, d] * y[m, d], over=d), -oo)
    f.top[n] = amax(f.z[n, m], over=m)
    f.u[n, m] = exp(f.z[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    f.o[n, k] = sum(f.p[n, m] * v[m, k], over=m)
    return f.o


@op
def divided_masked(f, x: tensor[n, m], w: tensor[n, m], c: constant[n, m]):
    """What is masked is infinite where it is left out."""
    f.h[n, m] = where(c[n, m] > 0, x[n, m], 0)
    f.y[n] = sum(where(c[n, m] > 0, f.h[n, m] ** 2 / c[n, m] * w[n, m], 0), over=m)
    return f.y


def test_a_finite_tensor_under_a_mask_stands_without_it():
    """`dz*where(m <= n, scale, 0)` is `scale*dz`."""
    backward = derive_op(scaled_masked.op).backward
    assert "where" not in str(backward), backward

    def plain(x, y, v, scale):
        return (scale * x @ y.T).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf).softmax(1) @ v

    assert_derived(scaled_masked.op, plain, {"x": (5, 3), "y": (5, 3), "v": (5, 2), "scale": ()})


def test_what_may_not_be_finite_stays_under_its_mask():
    x, w = (torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    c = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    wanted = torch.where(c > 0, x**2 * w / torch.where(c > 0, c, 1), 0).sum(1)
    assert_alike(module(divided_masked.op).divided_masked(x, w, c), wanted, [x, w])
