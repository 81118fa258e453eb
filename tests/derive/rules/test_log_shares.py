"""The logarithm of a share of exponentials is finite where the share underflows, however the share is named."""

import inspect
import math

import pytest
import torch
from torch import Tensor

from derive import amax, axes, constant, exp, index, log, maximum, mean, oo, op, scalar, sum, tensor, where
from derive.pipeline import derivation_of
from derive.rules.stability.log_shares import with_logs_of_shares
from tests.derive.live import assert_derived_at, module

c, k, n, t = axes("c k n t")


def shares(f, z):
    f.m[n] = amax(z[n, c], over=c)
    f.e[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)


@op
def entropy(f, z: tensor[n, c]):
    shares(f, z)
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def in_one_line(f, z: tensor[n, c], q: tensor[n, c]):
    f.m[n] = amax(z[n, c], over=c)
    f.h[n] = -sum(q[n, c] * log(exp(z[n, c] - f.m[n]) / sum(exp(z[n, k] - f.m[n]), over=k)), over=c)
    return f.h


@op
def at_labels(f, z: tensor[n, c], y: index(c)[n]):
    shares(f, z)
    f.loss[()] = -mean(log(f.p[n, y[n]]), over=n)
    return f.loss


@op
def divergence(f, z: tensor[n, c], w: tensor[n, c]):
    shares(f, z)
    f.top[n] = amax(w[n, c], over=c)
    f.q[n, c] = exp(w[n, c] - f.top[n]) / sum(exp(w[n, c] - f.top[n]), over=c)
    f.loss[n] = sum(f.p[n, c] * log(f.p[n, c] / f.q[n, c]), over=c)
    return f.loss


@op
def over_two_axes(f, z: tensor[n, t, c]):
    f.m[n] = amax(z[n, t, c], over=(t, c))
    f.e[n, t, c] = exp(z[n, t, c] - f.m[n])
    f.s[n] = sum(f.e[n, t, c], over=(t, c))
    f.p[n, t, c] = f.e[n, t, c] / f.s[n]
    f.lp[n, t, c] = log(f.p[n, t, c])
    f.h[n] = -sum(f.p[n, t, c] * f.lp[n, t, c], over=(t, c))
    return f.h


@op
def without_maximum(f, z: tensor[n, c]):
    f.e[n, c] = exp(z[n, c])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def largest_of_all(f, z: tensor[n, c]):
    f.m[()] = amax(z[n, c], over=(n, c))
    f.e[n, c] = exp(z[n, c] - f.m[()])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def largest_of_others(f, z: tensor[n, c], w: tensor[n, c]):
    f.m[n] = amax(w[n, c], over=c)
    f.e[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def largest_or_0(f, z: tensor[n, c]):
    """Of numbers far below 0 the sum has no term near 1."""
    f.m[n] = maximum(amax(z[n, c], over=c), 0)
    f.e[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def of_the_negative(f, z: tensor[n, c]):
    f.m[n] = -amax(z[n, c], over=c)
    f.e[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def read_merged(f, z: tensor[n, t, c]):
    f.m[n] = amax(z[n, t, c], over=(t, c))
    f.e[n, t, c] = exp(z[n, t, c] - f.m[n])
    f.s[n] = sum(f.e[n, t, c], over=(t, c))
    f.p[n, (t, c)] = f.e[n, t, c] / f.s[n]
    f.h[n] = -sum(f.p[n, k] * log(f.p[n, k]), over=k)
    return f.h


@op
def by_the_reciprocal(f, z: tensor[n, c]):
    f.m[n] = amax(z[n, c], over=c)
    f.e[n, c] = exp(z[n, c] - f.m[n])
    f.r[n] = 1 / sum(f.e[n, c], over=c)
    f.p[n, c] = f.e[n, c] * f.r[n]
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def of_exponentials(f, z: tensor[n, c]):
    f.e[n, c] = exp(z[n, c])
    f.y[n] = sum(f.e[n, c] * log(f.e[n, c]), over=c)
    return f.y


@op
def at_a_temperature(f, z: tensor[n, c], q: tensor[n, c], tau: scalar = 0.5):
    """What a student learns of a teacher's shares (Hinton et al., 2015)."""
    f.m[n] = amax(z[n, c], over=c)
    f.e[n, c] = exp((z[n, c] - f.m[n]) / tau)
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(q[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def at_a_learned_temperature(f, z: tensor[n, c], t: tensor[n]):
    """It may be negative: then nothing that is summed is as large as 1."""
    f.m[n] = amax(z[n, c], over=c)
    f.e[n, c] = exp((z[n, c] - f.m[n]) * t[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = sum(log(f.p[n, c]), over=c)
    return f.h


@op
def entropy_under_a_mask(f, z: tensor[n, c], keep: constant[n, c]):
    f.w[n, c] = where(keep[n, c] > 0, z[n, c], -oo)
    f.m[n] = amax(f.w[n, c], over=c)
    f.e[n, c] = exp(f.w[n, c] - f.m[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(where(f.p[n, c] > 0, f.p[n, c] * log(f.p[n, c]), 0), over=c)
    return f.h


def test_shares_of_nothing_have_no_entropy() -> None:
    """They are no numbers, and none is above 0."""
    z, keep = torch.randn(2, 3, dtype=torch.float64), torch.tensor([[0.0, 0, 0], [1, 0, 1]], dtype=torch.float64)
    h, *_ = module(entropy_under_a_mask.op).entropy_under_a_mask_forward(z, keep)
    torch.testing.assert_close(h, torch.stack([z.new_zeros(()), _entropy(z[1:, [0, 2]])[0]]))


def _entropy(z: Tensor) -> Tensor:
    return -(z.softmax(-1) * z.log_softmax(-1)).sum(-1)


def _divergence(z: Tensor, w: Tensor) -> Tensor:
    return (z.softmax(-1) * (z.log_softmax(-1) - w.log_softmax(-1))).sum(-1)


@pytest.mark.parametrize(
    ("made", "reference"),
    [
        (entropy, _entropy),
        (without_maximum, _entropy),
        (largest_of_all, _entropy),
        (of_the_negative, _entropy),
        (largest_or_0, _entropy),
        (by_the_reciprocal, _entropy),
        (read_merged, lambda z: _entropy(z.flatten(1))),
        (of_exponentials, lambda z: (z * z.exp()).sum(-1)),
        (divergence, _divergence),
        (in_one_line, lambda z, q: -(q * z.log_softmax(-1)).sum(-1)),
        (over_two_axes, lambda z: _entropy(z.flatten(1))),
        (at_a_temperature, lambda z, q: -(q * (2 * z).log_softmax(-1)).sum(-1)),
        (largest_of_others, lambda z, w: _entropy(z) + 0 * w.sum(-1)),
    ],
    ids=lambda value: getattr(getattr(value, "op", None), "name", ""),
)
def test_values_and_gradients(made, reference):
    assert_derived_at(made.op, reference, {"n": 5, "t": 3, "c": 4})


FAR = torch.tensor([[0.0, -300.0, 1.0], [120.0, 0.0, 500.0]])


def test_labels_whose_share_is_0_cost_what_they_are_far():
    labels = torch.tensor([1, 0])
    loss, saved = module(at_labels.op).at_labels_forward(FAR, labels)
    assert math.isclose(loss.item(), torch.nn.functional.cross_entropy(FAR, labels).item(), rel_tol=1e-6)
    expected = (FAR.softmax(-1) - torch.nn.functional.one_hot(labels, 3)) / 2
    torch.testing.assert_close(module(at_labels.op).at_labels_backward(torch.tensor(1.0), *saved), expected)


@pytest.mark.parametrize("made", [entropy, over_two_axes], ids=lambda made: made.op.name)
def test_a_share_of_0_adds_nothing(made):
    z = FAR[:, None] if made is over_two_axes else FAR
    derived = module(made.op)
    h, saved = getattr(derived, f"{made.op.name}_forward")(z)
    torch.testing.assert_close(h, _entropy(FAR))
    assert getattr(derived, f"{made.op.name}_backward")(torch.ones(2), *saved).isfinite().all()


def test_a_share_at_a_temperature_costs_what_it_is_far():
    derived, q = module(at_a_temperature.op), torch.rand(2, 3)
    h, saved = derived.at_a_temperature_forward(FAR, q)
    torch.testing.assert_close(h, -(q * (2 * FAR).log_softmax(-1)).sum(-1))
    assert derived.at_a_temperature_backward(torch.ones(2), *saved).dz.isfinite().all()


def test_a_share_at_a_temperature_that_may_be_negative_stays_as_it_is_written():
    assert with_logs_of_shares(at_a_learned_temperature.op) == at_a_learned_temperature.op
    assert with_logs_of_shares(at_a_temperature.op) != at_a_temperature.op


def test_a_divergence_is_finite_where_both_shares_are_0():
    derived = module(divergence.op)
    loss, saved = derived.divergence_forward(FAR, 2 * FAR)
    torch.testing.assert_close(loss, _divergence(FAR, 2 * FAR))
    assert all(g.isfinite().all() for g in derived.divergence_backward(torch.ones(2), *saved))


def _forward(made) -> str:
    return inspect.getsource(getattr(module(made.op), f"{made.op.name}_forward"))


def test_the_logarithm_has_a_name_once():
    assert _forward(entropy).count("log_p = z_minus_m.sub_(torch.log(e_sum))") == 1
    assert "lp = z_minus_m.sub_(torch.log(s))" in _forward(over_two_axes)
    assert "log_p[" not in _forward(over_two_axes)
    assert "torch.log(p" not in _forward(by_the_reciprocal)
    assert "log_e" not in _forward(of_exponentials)


UNSURE = [largest_of_all, largest_of_others]


@pytest.mark.parametrize("made", UNSURE, ids=lambda made: made.op.name)
def test_a_sum_that_may_be_far_from_1_keeps_the_logarithm_of_the_share(made):
    """Where all of a row is 50, `z - log(s)` has the digits of 50, and the logarithm of the share its own."""
    assert "torch.log(p)" in _forward(made)


def test_far_below_a_number_that_bounds_a_maximum_the_sum_has_a_term_near_1_all_the_same():
    """Another maximum is taken off: with the one that is written all exponentials are 0."""
    z = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).mul(8).round().div(8) - 300
    torch.testing.assert_close(module(largest_or_0.op).largest_or_0(z), _entropy(z), rtol=1e-6, atol=1e-6)


@op
def beside_others(f, z: tensor[n, c], y: index(c)[n]):
    shares(f, z)
    f.loss[n] = -log(f.p[n, y[n]]) + 1 - f.p[n, y[n]]
    return f.loss


def test_the_maximum_is_taken_off_before_anything_is_added():
    z = 10_000 + torch.randn(64, 9, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(64) % 9
    exact = torch.nn.functional.cross_entropy(z.double(), labels, reduction="none")
    exact += 1 - z.double().softmax(-1).gather(1, labels[:, None]).squeeze(1)
    loss, _ = module(beside_others.op).beside_others_forward(z, labels)
    torch.testing.assert_close(loss.double(), exact, rtol=1e-6, atol=0)


@op
def entropy_of_what_is_there(f, z: tensor[n, c]):
    """As it is written where a share may be 0."""
    shares(f, z)
    f.h[n] = -sum(where(f.p[n, c] > 0, f.p[n, c] * log(f.p[n, c]), 0), over=c)
    return f.h


@op
def weighed_by_another(f, z: tensor[n, c], w: tensor[n, c]):
    """What else stands beside the logarithm may be infinite where the share is 0."""
    shares(f, z)
    f.h[n] = sum(where(f.p[n, c] > 0, f.p[n, c] * log(f.p[n, c]) * w[n, c] ** 2, 0), over=c)
    return f.h


def test_an_entropy_that_asks_is_one_without_the_question() -> None:
    """Its shares are above 0 or 0, and add up to 1: nothing is compared but where the logarithm is taken."""
    made = derivation_of(entropy_of_what_is_there.op)
    backward = str(made.backward) + str(made.local)
    assert "maximum" not in backward and "log_p + 1" not in backward and "sum_p" not in backward, backward
    assert_derived_at(entropy_of_what_is_there.op, _entropy, {"n": 3, "c": 4})
    assert_derived_at(weighed_by_another.op, _weighed_by_another, {"n": 3, "c": 4})


def _entropy(z: Tensor) -> Tensor:
    return -(z.softmax(1) * z.log_softmax(1)).sum(1)


def _weighed_by_another(z: Tensor, w: Tensor) -> Tensor:
    return (z.softmax(1) * z.log_softmax(1) * w.square()).sum(1)


@pytest.mark.parametrize("made", [entropy_of_what_is_there, weighed_by_another], ids=lambda made: made.op.name)
def test_what_is_left_out_has_no_part(made) -> None:
    z = torch.tensor([[0.5, -math.inf, 0.1, -1.0], [0.0, -800.0, 0.3, -math.inf]], dtype=torch.float64)
    there, w = torch.tensor([[True, False, True, True], [True, False, True, False]]), torch.ones_like(z)
    leaf = z.clone().requires_grad_()
    found = getattr(module(made.op), made.op.name)(leaf, *([w] if made is weighed_by_another else []))
    found.sum().backward()
    sign = 1 if made is weighed_by_another else -1
    for row in range(2):
        kept = z[row, there[row]].clone().requires_grad_()
        right = sign * (kept.softmax(0) * kept.log_softmax(0)).sum()
        right.backward()
        torch.testing.assert_close(found[row], right, rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(leaf.grad[row, there[row]], kept.grad, rtol=1e-12, atol=1e-15)
        assert not leaf.grad[row, ~there[row]].any()
