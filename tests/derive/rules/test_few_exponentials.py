"""A few exponentials added up: logarithms and shares for numbers of any size, and -oo among them."""

import math
from math import inf

import pytest
import torch

from derive import (
    axes,
    constant,
    exp,
    log,
    log1p,
    logaddexp,
    maximum,
    op,
    scalar,
    sin,
    sum,
    tanh,
    tensor,
    where,
)
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, module

n, t = axes("n t")


@op
def of_two(f, a: tensor[n, t], b: tensor[t]):
    f.y[n, t] = log(exp(a[n, t]) + exp(b[t]))
    return f.y


@op
def of_two_with_names(f, a: tensor[n, t], b: tensor[t]):
    f.p[n, t] = exp(a[n, t])
    f.q[t] = exp(b[t])
    f.total[n, t] = f.p[n, t] + f.q[t]
    f.y[n, t] = log(f.total[n, t] / 3)
    return f.y


@op
def of_one_and_a_number(f, a: tensor[n, t]):
    f.y[n, t] = log(3 + 2 * exp(a[n, t])) + log1p(4 * exp(-a[n, t]))
    return f.y


@op
def with_numbers(f, a: tensor[n, t], k: scalar):
    f.y[n, t] = logaddexp(a[n, t], k) + logaddexp(2 * k, k) * a[n, t] + logaddexp(a[n, t], t)
    return f.y


@op
def of_three(f, a: tensor[n, t]):
    """A step of a recursion over paths that stay, or come from one or two places before (CTC: Graves, 2006)."""
    one = where(t >= 1, exp(a[n, t - 1]), 0)
    f.y[n, t] = log(exp(a[n, t]) + one + where(t >= 2, exp(a[n, t - 2]), 0))
    return f.y


@op
def mixture(f, x: tensor[n], w: tensor[t], mu: tensor[t], c: constant[t]):
    f.u[n, t] = exp(-((x[n] - mu[t]) ** 2) / 2)
    f.v[n, t] = exp(-((x[n] - c[t]) ** 2) / 2)
    f.loss[()] = sum(log(w[t] * f.u[n, t] + (1 - w[t]) * f.v[n, t]), over=(n, t))
    return f.loss


@op
def shares(f, a: tensor[n, t], b: tensor[n, t], c: tensor[t]):
    f.s[n, t] = exp(a[n, t]) + exp(b[n, t]) + exp(c[t])
    f.p[n, t] = exp(a[n, t]) / f.s[n, t]
    f.q[n, t] = exp(c[t]) / f.s[n, t]
    return f.p, f.q


@op
def less_a_maximum(f, a: tensor[n, t], b: tensor[n, t], c: tensor[n, t]):
    f.m[n, t] = maximum(a[n, t], maximum(b[n, t], c[n, t]))
    f.y[n, t] = f.m[n, t] + log(exp(a[n, t] - f.m[n, t]) + exp(b[n, t] - f.m[n, t]) + exp(c[n, t] - f.m[n, t]))
    return f.y


@op
def less_one_that_has_no_name(f, a: tensor[n, t], b: tensor[n, t]):
    m = maximum(a[n, t], b[n, t])
    f.y[n, t] = m + log(exp(a[n, t] - m) + exp(b[n, t] - m))
    return f.y


@op
def of_small(f, a: tensor[n, t], b: tensor[n, t]):
    f.y[n, t] = log(exp(tanh(a[n, t])) + exp(sin(b[n, t])))
    return f.y


@op
def odds(f, a: tensor[n, t], z: tensor[n, t]):
    """The logarithms of `1 - p` and of `1 + w*p` have more digits as they stand."""
    f.y[n, t] = log(exp(a[n, t]) / (1 - exp(a[n, t]))) + log(1 + z[n, t] ** 2 * exp(a[n, t]))
    return f.y


@op
def wanted_itself(f, a: tensor[n, t], z: tensor[n, t]):
    f.s[n, t] = 2 + exp(a[n, t])
    f.y[n, t] = log(f.s[n, t]) * z[n, t] + z[n, t] / f.s[n, t]
    return f.y


@op
def asked_of_the_sum(f, a: tensor[n, t], b: tensor[n, t]):
    """What is asked of a sum is asked of all of it."""
    f.s[n, t] = exp(a[n, t]) + exp(b[n, t]) + 1
    f.y[n, t] = where(f.s[n, t] > 2, log(f.s[n, t]), 0)
    return f.y


def drawn(*shapes: tuple[int, ...], far: float) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(*s, dtype=torch.float64, generator=g).mul_(far).requires_grad_() for s in shapes]


FAR = pytest.mark.parametrize("far", [1.0, 3e3])


@FAR
def test_two(far: float) -> None:
    a, b = drawn((5, 4), (4,), far=far)
    assert_alike(module(of_two.op).of_two(a, b), torch.logaddexp(a, b), (a, b))
    wanted = torch.logaddexp(a, b) - math.log(3)
    assert_alike(module(of_two_with_names.op).of_two_with_names(a, b), wanted, (a, b))
    assert "logaddexp" in str(derive_op(of_two_with_names.op).forward)


def test_where_both_are_nothing_so_is_the_sum() -> None:
    a = torch.tensor([[-inf, -inf, 1.0]], dtype=torch.float64)
    b = torch.tensor([-inf, 2.0, -inf], dtype=torch.float64)
    assert torch.equal(module(of_two.op).of_two(a, b), torch.tensor([[-inf, 2.0, 1.0]], dtype=torch.float64))


@FAR
def test_one_and_a_number(far: float) -> None:
    (a,) = drawn((5, 4), far=far)
    three, four, zero = (torch.full_like(a, v) for v in (math.log(3), math.log(4), 0))
    wanted = torch.logaddexp(three, a + math.log(2)) + torch.logaddexp(zero, four - a)
    assert_alike(module(of_one_and_a_number.op).of_one_and_a_number(a), wanted, (a,))


@FAR
def test_numbers_of_the_caller_and_places(far: float) -> None:
    (a,) = drawn((5, 4), far=far)
    k, places = torch.tensor(far / 2, dtype=torch.float64), torch.arange(4, dtype=torch.float64)
    wanted = torch.logaddexp(a, k) + torch.logaddexp(2 * k, k) * a + torch.logaddexp(a, places)
    assert_alike(module(with_numbers.op).with_numbers(a, far / 2), wanted, (a,))


@FAR
def test_three_of_which_some_are_left_out(far: float) -> None:
    (a,) = drawn((5, 6), far=far)
    with torch.no_grad():
        a[0, :2] = -inf  # with no path to the first two places there is none yet at the third, but for its own
    before = torch.nn.functional.pad(a, (2, 0), value=-inf)
    wanted = torch.stack([before[:, 2:], before[:, 1:-1], before[:, :-2]]).logsumexp(0)
    found = module(of_three.op).of_three(a)
    assert torch.allclose(found, wanted, rtol=1e-12)
    weight = torch.randn(5, 6, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((y * weight).sum(), a, retain_graph=True)[0] for y in (found, wanted))
    assert torch.allclose(ours[1:], theirs[1:], rtol=1e-10)
    (of_reached,) = torch.autograd.grad(module(of_three.op).of_three(a[:1, 2:]).sum(), a)
    assert of_reached.isfinite().all()


def mixed(x, w, mu, c) -> torch.Tensor:
    """The mixture with what a weight of 0 leaves out no part of the largest exponent, and no larger than exp(60)."""
    u, v = (-((x[:, None] - of) ** 2) / 2 for of in (mu, c))
    largest = torch.maximum(u.masked_fill(w == 0, -inf), v.masked_fill(w == 1, -inf)).detach()
    first, second = ((e - largest).clamp(max=60).exp() for e in (u, v))
    return (largest + (w * first + (1 - w) * second).log()).sum()


@FAR
@pytest.mark.parametrize("ends", [False, True])
def test_weighed(far: float, ends: bool) -> None:
    """A weight of 0 has a gradient too: what it would let in."""
    x, mu, c = drawn((5,), (4,), (4,), far=1)
    weights = [0.0, 1.0, 0.3, 0.0] if ends else [0.1, 0.2, 0.7, 0.9]
    w = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        x *= far
    assert_alike(module(mixture.op).mixture(x, w, mu, c.detach()), mixed(x, w, mu, c.detach()), (x, w, mu))


@FAR
def test_shares(far: float) -> None:
    a, b, c = drawn((5, 4), (5, 4), (4,), far=far)
    wanted = torch.stack([a, b, c.expand(5, 4)]).softmax(0)
    p, q = module(shares.op).shares(a, b, c)
    weights = drawn((5, 4), (5, 4), far=1)
    ours = (weights[0] * p).sum() + (weights[1] * q).sum()
    theirs = (weights[0] * wanted[0]).sum() + (weights[1] * wanted[2]).sum()
    assert_alike(ours, theirs, (a, b, c))


def test_what_is_small_stays_as_it_is() -> None:
    assert "largest" not in str(derive_op(less_a_maximum.op).forward)
    assert "logaddexp" not in str(derive_op(less_one_that_has_no_name.op).forward)
    for o in (odds, wanted_itself, of_small, asked_of_the_sum):
        forward = str(derive_op(o.op).forward)
        assert not any(word in forward for word in ("largest", "logaddexp", "softplus"))


def test_no_gradient_goes_through_the_largest() -> None:
    steps = derive_op(mixture.op).steps
    assert [e.name for e in steps.op.equations if e.free]
    assert not any(steps.adjoint(e.name) for e in steps.op.equations if e.free)
