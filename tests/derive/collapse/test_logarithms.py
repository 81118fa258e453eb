"""A logarithm of a softmax that is written by way of its log-sum-exp, and the softmax itself, are closed."""

from typing import Any

import pytest
import torch

from derive import amax, axes, constant, exp, log, mean, op, scalar, sum, tensor, where
from derive.collapse.logarithms import logarithms_apart, without_logarithms
from derive.emit import render
from derive.ir.equations import Op
from derive.pipeline import derive_op
from tests.derive.live import module

n, c, d = axes("n c d")


@op
def entropy(f, z: tensor[n, c]):
    """The entropy of a softmax, from its logarithm."""
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.logp[n, c] = z[n, c] - f.lse[n]
    f.h[n] = -sum(exp(f.logp[n, c]) * f.logp[n, c], over=c)
    return f.h


@op
def distilled(f, z: tensor[n, c], p: constant[n, c], tau: constant[n]):
    """A cross-entropy whose logarithm stands inside its sum."""
    f.m[n] = amax(z[n, c] / tau[n], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, d] / tau[n] - f.m[n]), over=d))
    f.loss[n] = -sum(p[n, c] * (z[n, c] / tau[n] - f.lse[n]), over=c)
    return f.loss


@op
def other_exponential(f, z: tensor[n, c], v: constant[n, c]):
    """What the logarithm is of is made of another tensor than what it is taken from."""
    f.m[n] = amax(v[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(v[n, c] - f.m[n]), over=c))
    f.logp[n, c] = z[n, c] - f.lse[n]
    f.h[n] = -sum(exp(f.logp[n, c]) * f.logp[n, c], over=c)
    return f.h


@op
def told_by_a_condition(f, z: tensor[n, c]):
    """A comparison is of the very number that the author compares."""
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.y[n, c] = where(z[n, c] - f.lse[n] > -2, z[n, c], 0)
    return f.y


@op
def weights(f, z: tensor[n, c]):
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.p[n, c] = exp(z[n, c] - f.lse[n])
    return f.p


@op
def at_a_temperature(f, z: tensor[n, c], q: tensor[n, c], tau: scalar):
    f.m[n] = amax(z[n, c], over=c)
    f.logp[n, c] = (z[n, c] - f.m[n]) / tau - log(sum(exp((z[n, c] - f.m[n]) / tau), over=c))
    f.y[n] = sum(exp(f.logp[n, c]) * (f.logp[n, c] - q[n, c]), over=c)
    return f.y


def _equations(op: Op) -> list[str]:
    return [f"{e.left} = {e.body}" for e in op.equations]


def test_a_log_sum_exp_is_taken_off_in_two_parts() -> None:
    assert "logp[n, c] = -log(lse_sum[n]) - m[n] + z[n, c]" in _equations(logarithms_apart(entropy.op))
    (loss,) = (e.body for e in logarithms_apart(distilled.op).equations if e.name == "loss")
    assert "lse[n]" not in str(loss) and "log(lse_sum[n])" in str(loss)


@pytest.mark.parametrize("same", [other_exponential, told_by_a_condition, weights])
def test_it_stays_whole_where_it_is_not_of_the_same_differences_or_inside_a_function(same: Any) -> None:
    assert logarithms_apart(same.op) == same.op


def test_the_exponential_of_a_logarithm_is_a_quotient() -> None:
    assert "p[n, c] = exp(-m[n] + z[n, c])/lse_sum[n]" in _equations(without_logarithms(weights.op))


def test_so_it_is_however_the_difference_is_divided() -> None:
    """`exp(log p)` is no second exponential of each element."""
    forward = render(derive_op(at_a_temperature.op)).split("def at_a_temperature_forward")[1].split("def ")[0]
    assert forward.count("torch.exp(") + forward.count(".exp_()") == 1


def test_the_entropy_has_the_gradient_of_the_textbook() -> None:
    """`dz = -dh * p * (log p + h)`, of which the forward makes all but the cotangent."""
    backward = render(derive_op(entropy.op)).split("def entropy_backward")[1].split("\nclass")[0]
    assert "exp" not in backward and ".sum(" not in backward
    assert "dz = -dh[:, None] * h_logp" in backward


@pytest.mark.parametrize("spec", [entropy, distilled, other_exponential], ids=lambda s: s.op.name)
def test_gradients(spec: Any) -> None:
    live = module(spec.op)
    z = torch.randn(5, 7, dtype=torch.float64)
    given = {"entropy": (), "distilled": (torch.rand(5, 7).double(), torch.rand(5).double() + 0.5),
             "other_exponential": (torch.randn(5, 7).double(),)}[spec.op.name]  # fmt: skip
    cotangent = torch.randn(5, dtype=torch.float64)

    def by_hand(z: torch.Tensor) -> torch.Tensor:
        if spec is entropy:
            return torch.distributions.Categorical(logits=z).entropy()
        if spec is distilled:
            return -(given[0] * (z / given[1][:, None]).log_softmax(1)).sum(1)
        logp = z - given[0].logsumexp(1, keepdim=True)
        return -(logp.exp() * logp).sum(1)

    z.requires_grad_()
    expected = torch.autograd.grad(by_hand(z), z, cotangent)[0]
    y, saved = getattr(live, f"{spec.op.name}_forward")(z.detach(), *given)
    torch.testing.assert_close(y, by_hand(z).detach(), rtol=1e-12, atol=1e-12)
    found = getattr(live, f"{spec.op.name}_backward")(cotangent, *saved)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_digits_of_large_logits_are_kept() -> None:
    """`z - (m + log(s))` has none of `log(s)` left where `z` is 1e8 in float32; `z - m - log(s)` has all."""
    live = module(entropy.op)
    z = 1e8 + 64 * torch.randint(0, 2, (4, 9)).float()
    h, saved = live.entropy_forward(z)
    exact = torch.distributions.Categorical(logits=z.double()).entropy()
    torch.testing.assert_close(h.double(), exact, rtol=1e-6, atol=1e-6)
    dz = live.entropy_backward(torch.ones(4), *saved)
    assert dz.abs().max() < 1e-5  # the two values are so far apart that the larger ones share all weight


def test_mean_over_a_batch_is_left_to_the_cotangent() -> None:
    @op
    def loss(f, z: tensor[n, c]):
        f.m[n] = amax(z[n, c], over=c)
        f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
        f.p[n, c] = exp(z[n, c] - f.lse[n])
        f.h[()] = mean(-sum(f.p[n, c] * (z[n, c] - f.lse[n]), over=c), over=n)
        return f.h

    backward = render(derive_op(loss.op)).split("def loss_backward")[1].split("\nclass")[0]
    assert "exp" not in backward and ".sum(" not in backward
