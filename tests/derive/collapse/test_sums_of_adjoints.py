"""The sum of a named adjoint is read from it."""

import torch

from derive import amax, axes, constant, exp, log, mean, op, sigmoid, sum, tensor
from derive.catalogue import find
from derive.output.live import build
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

n, m, d, k = axes("n m d k")


@op
def odds(f, x: constant[n, d], w: tensor[d], bias: tensor[()], y: constant[n]):
    """The bias stands beside the product inside a function, which is read twice."""
    f.p[n] = sigmoid(sum(x[n, d] * w[d], over=d) + bias[()])
    f.loss[()] = -mean(y[n] * log(f.p[n] ** 2 + 1) + f.p[n] ** 3, over=n)
    return f.loss


def test_the_gradient_of_a_bias_is_a_sum_of_that_of_the_product() -> None:
    lines = [str(s) for s in derivation_of(odds.op).backward.statements]
    assert "dbias[()] = sum(dp_sum[n], over=n)" in lines, lines
    assert any(step.law == "reassociate" and "dp_sum" in step.reason for step in derivation_of(odds.op).closed.steps)


@op
def bumps(f, x: tensor[n], c: tensor[d], height: tensor[()]):
    f.r[n, d] = (x[n] - c[d]) ** 2
    f.y[n, d] = exp(2 * height[()]) * exp(-f.r[n, d] / 2)
    return f.y


def test_a_gradient_that_is_a_multiple_of_the_sum() -> None:
    lines = [str(s) for s in derivation_of(bumps.op).backward.statements]
    assert "sum_dy_y[()] = sum(dy_y[n, d], over=(d, n))" in lines, lines
    assert "dheight[()] = 2 * sum_dy_y[()]" in lines, lines


@op
def mixture(f, z: tensor[n, d], loss_of: tensor[n, d]):
    """Two softmaxes: of what is added to log-probabilities, responsibilities, which sum to 1."""
    f.top[n] = amax(z[n, d], over=d)
    f.logp[n, d] = z[n, d] - f.top[n] - log(sum(exp(z[n, d] - f.top[n]), over=d))
    f.joint[n, d] = f.logp[n, d] - loss_of[n, d] ** 2
    f.most[n] = amax(f.joint[n, d], over=d)
    f.loss[()] = -mean(f.most[n] + log(sum(exp(f.joint[n, d] - f.most[n]), over=d)), over=n)
    return f.loss


def test_a_sum_of_responsibilities_is_known() -> None:
    """The gradient of the weights is a difference of two softmaxes, without a sum over the first."""
    backward = derivation_of(mixture.op).backward.statements
    assert not any(" = sum(" in str(s) for s in backward), [str(s) for s in backward]
    generator = torch.Generator().manual_seed(0)
    z, x = (torch.randn(7, 5, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2))
    right = torch.autograd.grad(-torch.logsumexp(torch.log_softmax(z, 1) - x**2, 1).mean() * 1.7, (z, x))
    found = torch.autograd.grad(module(mixture.op).mixture(z, x) * 1.7, (z, x))
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)


def test_a_gradient_that_is_asked_for_stays_though_it_is_0() -> None:
    """A bias before a batchnorm moves nothing, as the sum of what comes back to it shows."""
    lines = [str(s) for s in derivation_of(find("names_step")).backward.statements]
    assert "db1[h] = sum(dhprebn[n, h], over=n)" in lines, lines


def test_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    x, w, bias, y = (torch.randn(s, generator=generator, dtype=torch.float64) for s in ((5, 3), (3,), (), (5,)))
    leaves = w.requires_grad_(), bias.requires_grad_()
    p = torch.sigmoid(x @ w + bias)
    right = torch.autograd.grad(-(y * (p**2 + 1).log() + p**3).mean(), leaves)
    found = torch.autograd.grad(module(odds.op).odds(x, w, bias, y), leaves)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


@op
def excited(f, x: tensor[n, m, d], s: tensor[n, k], w: tensor[k, d], b: tensor[d]):
    """The gate of a squeeze-and-excitation block: its gradient is itself a sum, over the places of an image."""
    f.g[n, d] = sigmoid(sum(s[n, k] * w[k, d], over=k) + b[d])
    f.y[n, m, d] = x[n, m, d] * f.g[n, d]
    return f.y


def test_the_gradient_of_a_bias_beside_what_gates_many_places() -> None:
    lines = [str(s) for s in derivation_of(excited.op).backward.statements]
    assert "db[d] = sum(dg_sum[n, d], over=n)" in lines, lines
    reference = lambda x, s, w, b: x * (s @ w + b).sigmoid()[:, None]  # noqa: E731
    assert_derived(excited.op, reference, {"x": (2, 3, 4), "s": (2, 5), "w": (5, 4), "b": (4,)})
    assert_derived(excited.op, reference, {"x": (3, 3, 3), "s": (3, 3), "w": (3, 3), "b": (3,)})


c = axes("c")


@op
def first_planes(f, x: tensor[c, n, d], o: tensor[n, d]):
    f.y[n, d, c] = x[0, n, d] + o[0, d]
    return f.y


def test_a_place_alone_says_nothing_of_how_long_an_axis_is() -> None:
    """`delta(0, c)` and `delta(0, n)` are one function of a place, but `do` has fewer places than `dx`."""
    made = build(first_planes, proven=False)
    x, o, dy = torch.randn(4, 3, 2), torch.randn(3, 2), torch.randn(3, 2, 4)
    *_, saved = made.forward(x, o)
    _, do = made.backward(dy, *saved)
    assert do.shape == o.shape
    assert torch.allclose(do[0], dy.sum((0, 2))) and not do[1:].any()
