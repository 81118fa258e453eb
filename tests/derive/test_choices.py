"""Conditions on numbers alone: Python chooses the branch. And the power 0, which is flat at 0 as well."""

import pytest
import torch

from derive.adjoint.chain_rule import stepwise
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Tensor
from derive.notation import amax, axes, constant, exp, index, length, ne, oo, op, scalar, size, sqrt, sum, tensor, where
from tests.derive.against_loops import code_of, compare
from tests.derive.live import assert_alike, module

n, d, m, k = axes("n d m k")


@op
def to_a_power(f, x: tensor[n], e: scalar):
    f.y[n] = x[n] ** e
    return f.y


@op
def either(f, x: tensor[n, d], k: scalar, s: scalar):
    f.y[n, d] = where((k > 0) & ~(s < 1), x[n, d] ** 2, exp(x[n, d])) + where(k > s, x[n, d], 1) * where(k > 0, s, k)
    return f.y


@op
def unless_alone(f, x: tensor[n, d]):
    f.y[n, d] = where(size(d) > 1, x[n, d], 0)
    return f.y


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0])
def test_a_power_is_as_flat_at_zero_as_torchs(exponent) -> None:
    live, x, dy = module(to_a_power.op), torch.tensor([0.0, -1.5, 2.0], requires_grad=True), torch.tensor([3.0, 5, 7])
    live.to_a_power(x, exponent).backward(dy)
    (expected,) = torch.autograd.grad(x**exponent, x, dy)
    torch.testing.assert_close(x.grad, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k, s", [(1.0, 2.0), (1.0, 0.5), (-1.0, 2.0), (-1.0, -2.0)])
def test_a_number_chooses_between_tensors(k, s) -> None:
    x, dy = (torch.randn(3, 4, dtype=torch.float64, requires_grad=r) for r in (True, False))
    module(either.op).either(x, k, s).backward(dy)
    y = (x**2 if k > 0 and not s < 1 else x.exp()) + (x if k > s else torch.ones_like(x)) * (s if k > 0 else k)
    torch.testing.assert_close(x.grad, torch.autograd.grad(y, x, dy)[0], rtol=1e-12, atol=1e-12)


def test_only_the_branch_that_is_chosen_is_computed() -> None:
    assert "x.square() if (s >= 1) & (k > 0) else torch.exp(x)" in code_of(either.op)


@pytest.mark.parametrize("length", [4, 1])
def test_a_length_chooses(length) -> None:
    compare(unless_alone.op, {"n": 3, "d": length})


@op
def masked_first(f, x: tensor[n, d]):
    f.total[n, d] = sum(where(m > d, 0, x[n, m]), over=m)
    f.peak[n, d] = amax(where(m > d, -oo, x[n, m]), over=m)
    return f.total, f.peak


@op
def others_left_out(f, x: tensor[n, d], of: index(k)[n], segments: length(k)):
    f.y[k, d] = sum(where(ne(of[n], k), 0.0, x[n, d]), over=n)
    return f.y


@op
def above_zero(f, x: tensor[n]):
    f.y[n] = where(x[n] <= 0, 0, x[n])
    return f.y


@op
def beyond_a_root(f, x: tensor[n]):
    f.y[n] = where(sqrt(n - 3) > 1, 0, x[n])
    return f.y


def test_a_condition_of_places_that_is_nan_does_not_hold() -> None:
    x = torch.randn(7, dtype=torch.float64, requires_grad=True)
    roots = (torch.arange(7, dtype=torch.float64) - 3).sqrt()
    assert_alike(module(beyond_a_root.op).beyond_a_root(x), x.masked_fill(roots > 1, 0), [x])


def test_what_is_masked_out_may_stand_first() -> None:
    source = code_of(masked_first.op)
    assert "x.cumsum(1)" in source and "x.cummax(1)" in source, source
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    total, peak = module(masked_first.op).masked_first(x)
    assert_alike(total + peak, x.cumsum(1) + x.cummax(1).values, [x])


def test_a_sum_of_all_but_others_is_a_scatter() -> None:
    assert "index_add_" in code_of(others_left_out.op)
    x, of = torch.randn(5, 2, dtype=torch.float64, requires_grad=True), torch.tensor([2, 0, 2, 2, 0])
    wanted = torch.zeros(4, 2, dtype=torch.float64).index_add(0, of, x)
    assert_alike(module(others_left_out.op).others_left_out(x, of, 4), wanted, [x])


def test_a_value_that_is_compared_stays_where_it_was() -> None:
    assert module(above_zero.op).above_zero(torch.tensor([torch.nan, -1.0, 2.0])).tolist()[1:] == [0, 2]
    assert module(above_zero.op).above_zero(torch.tensor([torch.nan])).isnan().all()


@op
def under_both(f, x: tensor[n], s: constant[n], a: tensor[n], c: constant[n]):
    """What is chosen where a condition holds, and then where it does not, is never chosen."""
    f.d[n] = x[n] * s[n]
    f.g[n] = where(c[n] <= 0, f.d[n], 0)
    f.y[n] = where(c[n] <= 0, 0, f.g[n] - x[n]) * a[n]
    return f.y


def test_a_product_of_a_mask_and_its_opposite_is_no_choice() -> None:
    x, s, a, c = (torch.randn(7, dtype=torch.float64, requires_grad=r) for r in (True, False, True, False))
    expected = torch.where(c <= 0, 0, torch.where(c <= 0, x * s, 0) - x) * a
    assert_alike(module(under_both.op).under_both(x, s, a, c), expected, [x, a])


@op
def shared_out(f, x: tensor[n], c: constant[n], s: scalar = 0.1):
    """Two parts of one choice, of which the caller says how large each is."""
    f.a[n] = where(c[n] > 0, (1 - s) * x[n], 0)
    f.b[n] = where(c[n] > 0, s * x[n], 0)
    f.y[n] = f.a[n] + f.b[n]
    return f.y


@op
def unless_none(f, x: tensor[n], c: constant[n], s: scalar):
    f.y[n] = where((c[n] > 0) & (s > 0), x[n] ** 2 / s, 0)
    return f.y


def test_parts_of_one_choice_add_up() -> None:
    assert "dx = dy * c_above_zero" in code_of(shared_out.op)
    x, c = torch.randn(7, dtype=torch.float64, requires_grad=True), torch.randn(7, dtype=torch.float64)
    assert_alike(module(shared_out.op).shared_out(x, c), torch.where(c > 0, x, 0), [x])


@pytest.mark.parametrize("s", [0.0, 2.0])
def test_a_number_that_a_choice_asks_of_stays_inside(s: float) -> None:
    """Divided by 0 outside of the choice, what it leaves out would be nan."""
    x, c = torch.randn(7, dtype=torch.float64, requires_grad=True), torch.randn(7, dtype=torch.float64)
    expected = torch.where(c > 0, x**2 / s, 0) if s else 0 * x
    assert_alike(module(unless_none.op).unless_none(x, c, s), expected, [x])


@op
def guarded_quotient(f, k: tensor[n, m], x: tensor[n, m]):
    f.r[n, m] = x[n, m] ** 2
    f.y[n, m] = where(ne(n, m), k[n, m] / where(ne(n, m), f.r[n, m], 1), 0)
    return f.y


def test_an_inner_choice_that_asks_the_same_has_been_answered() -> None:
    x, y, z = (At(Tensor(name), n) for name in "xyz")
    above = x > 0
    assert Where(above, Where(above, x, y), z) == Where(above, x, z)
    assert Where(above, x, Where(above, y, z)) == Where(above, x, z)
    assert Where(above, x, Where(x < 0, y, z)).args[2] == Where(x < 0, y, z)
    (dr,) = [a.value for a in stepwise(guarded_quotient.op).adjoints if a.of == "r"]
    assert str(dr).count("Ne(") == 2, dr
    guarded = Where(above, 1 / Where(above, x, 1), 0)
    assert guarded.diff(x) == -Where(above, Where(above, x, 1) ** -2, 0)
