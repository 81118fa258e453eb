"""Sigmoids and their logarithms, however they are written, are finite wherever they are, and so are their gradients."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch
from sympy import cosh
from torch import Tensor
from torch.nn import functional

from derive import axes, constant, exp, log, log1p, maximum, mean, minimum, op, scalar, sigmoid, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.live import as_tuple, assert_alike, module

d, n = axes("d n")


@op
def inverse(f, x: tensor[n, d], b: tensor[d]):
    f.y[n, d] = 1 / (1 + exp(-x[n, d] - b[d]))
    return f.y


@op
def fraction(f, x: tensor[n]):
    f.y[n] = exp(2 * x[n]) / (1 + exp(2 * x[n]))
    return f.y


@op
def times(f, x: tensor[n]):
    f.y[n] = x[n] / (exp(-x[n]) + 1)
    return f.y


@op
def squared(f, x: tensor[n]):
    f.y[n] = exp(-x[n]) / (1 + exp(-x[n])) ** 2
    return f.y


@op
def logarithm(f, x: tensor[n]):
    f.y[n] = log(1 + exp(x[n])) + 3 * log1p(exp(-x[n]))
    return f.y


@op
def preference(f, a: tensor[n], r: tensor[n], beta: scalar = 0.5):
    f.loss[()] = -mean(log(sigmoid(beta * (a[n] - r[n]))), over=n)
    return f.loss


@op
def entropy(f, x: tensor[n], t: constant[n]):
    p = 1 / (1 + exp(-x[n]))
    f.loss[()] = -mean(t[n] * log(p) + (1 - t[n]) * log(1 - p), over=n)
    return f.loss


@op
def of_others(f, x: tensor[n], z: tensor[n]):
    """No sigmoid: what is added is no 1, or the exponential is of something else."""
    f.y[n] = 1 / (2 + exp(-x[n])) + exp(z[n]) / (1 + exp(x[n] * z[n]))
    return f.y


@op
def above(f, x: tensor[n]):
    f.y[n] = maximum(x[n], 0) + log1p(exp(-abs(x[n])))
    return f.y


@op
def above_in_steps(f, x: tensor[n]):
    f.a[n] = abs(x[n])
    f.u[n] = exp(-f.a[n])
    f.y[n] = maximum(x[n], 0) + log(1 + f.u[n])
    return f.y


@op
def below(f, x: tensor[n]):
    f.y[n] = 2 * minimum(x[n], 0) - 2 * log(1 + exp(-abs(x[n])))
    return f.y


@op
def targets(f, x: tensor[n], t: constant[n]):
    """As it is written, no term cancels another where `t` is 1."""
    f.loss[()] = mean(maximum(x[n], 0) - t[n] * x[n] + log1p(exp(-abs(x[n]))), over=n)
    return f.loss


@op
def by_name(f, x: tensor[n], t: constant[n]):
    f.p[n] = sigmoid(x[n])
    f.loss[()] = -mean(t[n] * log(f.p[n]) + (1 - t[n]) * log(1 - f.p[n]), over=n)
    return f.loss


@op
def focal(f, x: tensor[n], t: constant[n]):
    """A choice between both has a name too; what is left out has no share."""
    f.p[n] = sigmoid(x[n])
    f.pt[n] = where(t[n] > 0.5, f.p[n], 1 - f.p[n])
    f.loss[n] = -((1 - f.pt[n]) ** 2) * log(f.pt[n])
    f.kept[n] = log(where(t[n] > 0.5, f.p[n], 2))
    return f.loss, f.kept


@op
def in_steps(f, x: tensor[n]):
    f.u[n] = exp(-x[n])
    f.below[n] = 1 + f.u[n]
    f.s[n] = f.below[n] ** -1
    f.y[n] = x[n] * f.s[n]
    return f.y


@op
def named_fraction(f, x: tensor[n]):
    f.u[n] = exp(x[n])
    f.y[n] = x[n] * f.u[n] / (f.u[n] + 1) + log(1 + f.u[n])
    return f.y


@op
def tangent(f, x: tensor[n]):
    f.u[n] = exp(2 * x[n])
    f.y[n] = (f.u[n] - 1) / (f.u[n] + 1)
    return f.y


@op
def tangent_of_both(f, x: tensor[n]):
    f.over[n] = (exp(x[n]) - exp(-x[n])) / 2
    f.under[n] = (exp(x[n]) + exp(-x[n])) / 2
    f.y[n] = 3 * f.over[n] / f.under[n]
    return f.y


@op
def tangent_by_sigmoid(f, x: tensor[n], b: tensor[n]):
    f.y[n] = 2 / (1 + exp(-2 * x[n])) - 1 + b[n]
    return f.y


@op
def log_cosine(f, x: tensor[n], z: tensor[n]):
    f.loss[()] = mean(log(cosh(x[n] - z[n])), over=n)
    return f.loss


@op
def log_cosine_in_steps(f, x: tensor[n]):
    f.u[n] = exp(x[n])
    f.v[n] = exp(-x[n])
    f.c[n] = (f.u[n] + f.v[n]) / 2
    f.y[n] = log(f.c[n])
    return f.y


@op
def log_cosine_by_name(f, x: tensor[n]):
    f.c[n] = cosh(x[n])
    f.y[n] = 3 * log(f.c[n])
    return f.y


@op
def one_of_two(f, x: tensor[n], z: tensor[n]):
    f.first[n] = exp(x[n])
    f.second[n] = exp(z[n])
    f.p[n] = f.first[n] / (f.first[n] + f.second[n])
    f.loss[n] = -log(f.p[n])
    return f.loss, f.p


def log_cosh(x: Tensor) -> Tensor:
    return x.abs() + torch.log1p(torch.exp(-2 * x.abs())) - math.log(2)


PLAIN: dict[str, Callable[..., Tensor]] = {
    "log_cosine": lambda x, z: log_cosh(x - z).mean(),
    "log_cosine_in_steps": log_cosh,
    "log_cosine_by_name": lambda x: 3 * log_cosh(x),
    "inverse": lambda x, b: torch.sigmoid(x + b),
    "fraction": lambda x: torch.sigmoid(2 * x),
    "times": functional.silu,
    "squared": lambda x: torch.sigmoid(x) * torch.sigmoid(-x),
    "logarithm": lambda x: -functional.logsigmoid(-x) - 3 * functional.logsigmoid(x),
    "in_steps": functional.silu,
    "named_fraction": lambda x: functional.silu(x) + functional.softplus(x),
    "tangent": torch.tanh,
    "tangent_of_both": lambda x: 3 * torch.tanh(x),
    "tangent_by_sigmoid": lambda x, b: torch.tanh(x) + b,
    "preference": lambda a, r: -functional.logsigmoid(0.5 * (a - r)).mean(),
    "above": functional.softplus,
    "above_in_steps": functional.softplus,
    "below": lambda x: 2 * functional.logsigmoid(x),
    "targets": lambda x, t: functional.binary_cross_entropy_with_logits(x, t),
    "by_name": lambda x, t: functional.binary_cross_entropy_with_logits(x, t),
    "entropy": lambda x, t: functional.binary_cross_entropy_with_logits(x, t),
}
OPS: dict[str, OpCall] = {
    made.op.name: made
    for made in (
        inverse, fraction, times, squared, logarithm, preference, entropy, above, above_in_steps, below, targets,
        by_name, focal,
        of_others, in_steps, named_fraction, tangent, tangent_of_both, tangent_by_sigmoid, one_of_two,
        log_cosine, log_cosine_in_steps, log_cosine_by_name,
    )
}


@pytest.mark.parametrize("name", PLAIN)
def test_values_and_gradients_are_finite_and_right(name: str) -> None:
    made = OPS[name].op
    wide = torch.tensor([-800.0, -120, -89, -30, -1, 0, 0.5, 17, 89, 120, 800], dtype=torch.float64)
    operands = [o for o in made.operands if o.is_tensor]
    inputs = [torch.linspace(0.1, 0.9, 11 if o.axes[0] == n else 3, dtype=torch.float64) for o in operands]
    inputs[0] = wide[:, None].repeat(1, 3) if len(operands[0].axes) == 2 else wide.clone()
    leaves = [x.requires_grad_() for x, o in zip(inputs, operands, strict=True) if o.differentiable]
    (ours,) = as_tuple(getattr(module(made), name)(*inputs))
    assert_alike(ours, PLAIN[name](*inputs), leaves)


@pytest.mark.parametrize("name", OPS)
def test_battery(name: str) -> None:
    found = verify(OPS[name].op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def _code(name: str) -> str:
    return inspect.getsource(module(OPS[name].op)).partition(f"def {name}_forward")[2]


@pytest.mark.parametrize("name", OPS)
def test_nothing_is_exponentiated(name: str) -> None:
    assert ("exp" in _code(name).replace("expand", "").replace("expected", "")) == (name == "of_others")


def test_what_both_sigmoids_multiply_needs_neither() -> None:
    assert "torch.sigmoid(x).sub_(t).mul_(dloss / n)" in _code("entropy")


def test_one_of_two_is_a_sigmoid_of_their_difference() -> None:
    x = torch.tensor([-800.0, -3, 0.5, 90, 800], dtype=torch.float64, requires_grad=True)
    z = torch.tensor([700.0, -2, 0.5, -95, 798], dtype=torch.float64, requires_grad=True)
    assert_alike(module(one_of_two.op).one_of_two(x, z)[0], functional.softplus(z - x), [x, z])
    assert_alike(module(one_of_two.op).one_of_two(x, z)[1], torch.sigmoid(x - z), [x, z])


def test_a_tangent_keeps_its_digits_near_0() -> None:
    x = torch.tensor([1e-4, -3e-3, 1e-6])
    for name in ("tangent", "tangent_of_both", "tangent_by_sigmoid"):
        rest = () if name != "tangent_by_sigmoid" else (torch.zeros(3),)
        factor = 3 if name == "tangent_of_both" else 1
        torch.testing.assert_close(getattr(module(OPS[name].op), name)(x, *rest), factor * x, rtol=1e-5, atol=0)


def test_the_logarithm_of_a_cosine_is_finite_in_float32_and_its_difference_is_taken_first() -> None:
    x, z = torch.tensor([300.0, -1e3, 1000.5]), torch.tensor([0.0, 0.0, 1000.25])
    found = module(log_cosine.op).log_cosine(x, z)
    torch.testing.assert_close(found, log_cosh(x.double() - z.double()).mean().float(), rtol=1e-6, atol=0)
    assert "x_minus_z = x - z" in _code("log_cosine")


def test_softplus_by_a_maximum_is_one_function() -> None:
    for name in ("above", "above_in_steps", "below"):
        assert "softplus(" in _code(name) and "clamp" not in _code(name) and "abs(" not in _code(name), _code(name)


def test_beside_a_third_term_a_value_keeps_its_digits_and_a_gradient_is_that_of_pytorch() -> None:
    x = torch.tensor([20.0, 30.0, -25.0, 0.3], requires_grad=True)
    t = torch.tensor([1.0, 1.0, 0.0, 1.0])
    loss = module(targets.op).targets(x, t)
    exact = torch.nn.functional.softplus(-(2 * t - 1).double() * x.detach().double(), threshold=60)
    torch.testing.assert_close(loss.detach().double(), exact.mean(), rtol=1e-6, atol=0)
    loss.backward()
    z = x.detach().requires_grad_()
    torch.nn.functional.binary_cross_entropy_with_logits(z, t).backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-6, atol=1e-12)


def test_a_logarithm_of_a_choice_is_a_softplus_of_one() -> None:
    assert "torch.log" not in _code("focal") and "math.log" in _code("focal"), _code("focal")
    x = torch.tensor([-120.0, -2, 0.5, 17, 120], dtype=torch.float64, requires_grad=True)
    for t in (torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)):
        (loss, kept), z = module(focal.op).focal(x, t), (2 * t - 1) * x
        assert_alike(loss, torch.sigmoid(-z) ** 2 * -functional.logsigmoid(z), [x], 1e-10)
        right = torch.where(t > 0.5, functional.logsigmoid(x), torch.log(torch.tensor(2.0, dtype=torch.float64)))
        assert_alike(kept, right, [x])
