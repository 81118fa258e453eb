"""Sums behind one factor are one, also where one of them holds a sum."""

from collections.abc import Callable
from functools import partial

import pytest
import torch

from derive import amax, axes, constant, emit, exp, op, size, sum, tanh, tensor
from derive.ir.algebra import sigma
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.reductions import Sigma
from derive.pipeline import derivation_of
from derive.schedule.merged_sums import merge_sums
from tests.derive.live import module

n, c, d = axes("n c d")


@op
def tempered(f, z: tensor[n, c], beta: tensor[()]):
    """A softmax under a temperature that is learned (Hinton et al., 2015)."""
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(beta[()] * (z[n, c] - f.m[n]))
    f.s[n] = sum(f.u[n, c], over=c)
    f.p[n, c] = f.u[n, c] / f.s[n]
    return f.p


def test_the_gradient_of_a_temperature_is_one_sum() -> None:
    lines = [str(s) for s in derivation_of(tempered.op).backward.statements]
    assert len(lines) == 4, lines
    assert "s" not in derivation_of(tempered.op).kept


def test_it_is_right() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    beta = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    dp = torch.randn(4, 7, generator=generator, dtype=torch.float64)
    right = torch.autograd.grad((beta * z).softmax(1), (z, beta), dp)
    found = torch.autograd.grad(module(tempered.op).tempered(z, beta), (z, beta), dp)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)


def test_no_axis_is_that_of_a_sum_inside() -> None:
    """`sum(a*b) - sum(a*sum(b))`: the sum of both runs over an axis of another name than the one inside it."""
    a, b = (At(Tensor(name), n, c) for name in "ab")
    apart = sigma(a * b, [n, c]) - sigma(a * sigma(b, [c]), [n, c])
    (whole,) = [s for s in merge_sums(apart, set()).atoms(Sigma) if len(s.over) == 2]
    (inner,) = whole.body.atoms(Sigma)
    assert not set(inner.over) & set(whole.over), whole


def _divided_by_its_length(f, x: tensor[n, d], w: tensor[d, c]):
    """A layer whose sums are divided by how many it makes: the gradient of `x` is a mean, of products."""
    f.h[n, d] = tanh(x[n, d])
    f.y[n, c] = sum(f.h[n, d] * w[d, c], over=d) / size(c)
    return f.y


def _each_by_a_number(f, x: tensor[n], w: tensor[c]):
    """The same of one column: a matrix by a vector."""
    f.h[n] = tanh(x[n])
    f.y[n, c] = f.h[n] * w[c] / size(c)
    return f.y


@pytest.mark.parametrize("forward, expected", [
    (_divided_by_its_length, "dh = (dy @ w.T).div_(c)"),
    (_each_by_a_number, "sum_dy_w = dy @ w"),
])  # fmt: skip
def test_a_mean_of_products_is_the_matrix_product_divided(forward: Callable[..., object], expected: str) -> None:
    a_mean = op(forward).op
    assert expected in emit.render(derivation_of(a_mean))
    generator = torch.Generator().manual_seed(0)
    make = partial(torch.randn, generator=generator, dtype=torch.float64)
    shapes = [(4, 5), (5, 7)] if forward is _divided_by_its_length else [(4,), (7,)]
    x, w = (make(*shape).requires_grad_() for shape in shapes)
    y = (x.tanh() @ w if x.ndim == 2 else x.tanh()[:, None] * w) / 7
    right = torch.autograd.grad(y, (x, w), dy := make(4, 7))
    found = torch.autograd.grad(getattr(module(a_mean), a_mean.name)(x, w), (x, w), dy)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)


@op
def weighed_messages(f, x: tensor[n, d], a: tensor[c, d], k: constant[n, c], w: tensor[d]):
    f.h[n, c, d] = tanh(x[n, d] + a[c, d])
    f.y[n, d] = sum(k[n, c] * f.h[n, c, d], over=c) * w[d]
    return f.y


def test_what_takes_nearly_all_of_a_product_of_matrices_is_taken_before_it_adds_up() -> None:
    """`sum(k*dy) - sum(k*dy*h**2)` is `sum(k*dy*(1 - h**2))`: where `h` is nearly 1, both are nearly one number."""
    lines = [str(s) for s in derivation_of(weighed_messages.op).backward.statements]
    (da,) = [line for line in lines if line.startswith("da[")]
    assert " - sum" not in da and "one_minus_h_squared" in da, lines
    torch.manual_seed(0)
    x, a, w, k = torch.randn(50, 3) + 3, torch.randn(40, 3) + 3, torch.randn(3), torch.rand(50, 40)
    dy = torch.randn(50, 3)

    def gradient(function: Callable[..., torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        leaves = [t.to(dtype).requires_grad_() for t in (x, a, w)]
        y = function(leaves[0], leaves[1], k.to(dtype), leaves[2])
        return torch.autograd.grad(y, leaves, dy.to(dtype))[1].double()

    def plain(x: torch.Tensor, a: torch.Tensor, k: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (k[:, :, None] * (x[:, None] + a).tanh()).sum(1) * w

    exact, theirs = (gradient(plain, dtype) for dtype in (torch.float64, torch.float32))
    ours = gradient(module(weighed_messages.op).weighed_messages, torch.float32)
    assert (ours - exact).norm() <= 2 * (theirs - exact).norm()


def test_products_of_matrices_of_which_nothing_is_taken_stay() -> None:
    a, b, h = (At(Tensor(name), *i) for name, i in (("a", (n, d)), ("b", (d, c)), ("h", (n, d, c))))
    two = sigma(a * b, [d]) + sigma(h, [d])
    assert merge_sums(two, set()) == two
