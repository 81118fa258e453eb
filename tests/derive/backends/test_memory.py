"""What is divided by its own sum is divided in its own memory; Python has the sum before that is written over."""

import pytest
import torch

from derive import axes, exp, index, mean, op, relu, size, sum, tanh, tensor, where
from derive.emit import render
from derive.output.live import build
from derive.pipeline import derivation_of
from tests.derive.live import assert_alike, module

c, n, d, k = axes("c n d k")
two, many = axes("two=2 many=40")


@op
def shares(f, x: tensor[n, k, d]):
    """Along dimensions that do not lie side by side: no call of torch's divides these."""
    f.u[n, k, d] = exp(x[n, k, d])
    f.p[n, k, d] = f.u[n, k, d] / sum(f.u[n, k, d], over=(n, d))
    return f.p


@op
def centred(f, x: tensor[n, d]):
    f.u[n, d] = tanh(x[n, d])
    f.y[n, d] = f.u[n, d] - mean(f.u[n, d], over=n)
    return f.y


@op
def divided_by_another(f, x: tensor[n, d]):
    f.u[n, d] = exp(x[n, d])
    f.y[n, d] = f.u[n, d] / (1 + sum(f.u[n, d] ** 2, over=d))
    return f.y


PLAIN = {
    "shares": lambda x: x.exp() / x.exp().sum((0, 2), keepdim=True),
    "centred": lambda x: x.tanh() - x.tanh().mean(0),
    "divided_by_another": lambda x: x.exp() / (1 + (x.exp() ** 2).sum(1, keepdim=True)),
}


@pytest.mark.parametrize("spec", [shares, centred, divided_by_another])
@pytest.mark.parametrize("shape", [(4, 3), (1, 3), (4, 1), (1, 1)])
def test_gradients(spec, shape):
    op, made = spec.op, module(spec.op)
    shape = (shape[0], 2, shape[1]) if spec is shares else shape
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    dy = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y, saved = getattr(made, f"{op.name}_forward")(x.detach())
    exact = PLAIN[op.name](x)
    torch.testing.assert_close(y, exact.detach(), rtol=1e-13, atol=1e-13)
    found = getattr(made, f"{op.name}_backward")(dy, *saved)
    torch.testing.assert_close(found, torch.autograd.grad(exact, x, dy)[0], rtol=1e-11, atol=1e-12)


def test_written_as_a_person_would():
    assert "p = exp_x_minus_x_max.div_(exp_x_minus_x_max.sum((0, 2), keepdim=True))" in render(derivation_of(shares.op))


@op
def swish(f, x: tensor[n, d]):
    f.s[n, d] = 1 / (1 + exp(-x[n, d]))
    f.y[n, d] = x[n, d] * f.s[n, d]
    f.z[n, d] = f.s[n, d] * (1 - f.s[n, d])
    return f.y, f.z


def test_what_is_computed_of_a_tensor_stands_before_it_is_written_over():
    made = module(swish.op)
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y, z, _ = made.swish_forward(x)
    s = torch.sigmoid(x)
    torch.testing.assert_close(y, x * s, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(z, s * (1 - s), rtol=1e-12, atol=1e-12)


@op
def gated_halves(f, x: tensor[n, d], w: tensor[k]):
    """A half of a tensor is no statistic of it; a weight of each feature is."""
    f.z[n, two, k] = x[n, (two, k)]
    f.y[n, k] = (f.z[n, 0, k] ** 2 + 1) * f.z[n, 1, k] * tanh(f.z[n, 0, k]) * w[k]
    return f.y


@op
def gated_places(f, x: tensor[n, many], w: tensor[n]):
    f.y[n, many] = (w[n] ** 2 + 1) * w[n] * tanh(w[n]) * x[n, many]
    return f.y


def test_a_half_is_as_large_as_the_whole():
    halves, places = render(derivation_of(gated_halves.op)), render(derivation_of(gated_places.op))
    assert "y = torch.tanh(z[:, 0]).mul_(z[:, 1]).mul_(z[:, 0].square().add_(1)).mul_(w)" in halves
    assert "y = (tanh_w * w * (w.square() + 1))[:, None] * x" in places
    x = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    a, b = x.chunk(2, 1)
    assert_alike(module(gated_halves.op).gated_halves(x, w), (a**2 + 1) * b * a.tanh() * w, [x, w])


@op
def lagged(f, x: tensor[n, d]):
    f.mu[n] = mean(x[n, d], over=d)
    f.z[n, d] = x[n, d] - f.mu[n]
    f.num[n] = sum(f.z[n, k] * f.z[n, k + 1], over=k)
    f.r[n] = f.num[n] / sum(f.z[n, d] ** 2, over=d)
    return f.r


def test_what_slices_were_added_to_is_written_over():
    assert "dx = dz.sub_(mean_dz)" in render(derivation_of(lagged.op))
    x = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    z = x - x.mean(1, keepdim=True)
    expected = (z[:, :-1] * z[:, 1:]).sum(1) / (z**2).sum(1)
    assert_alike(module(lagged.op).lagged(x), expected, [x])


@op
def all_margins(f, z: tensor[n, c], y: index(c)[n]):
    f.loss[()] = sum(relu(1 + z[n, c] - z[n, y[n]]) ** 2, over=(n, c))
    return f.loss


@op
def beside_one(f, z: tensor[n, c], y: index(c)[n]):
    f.p[n] = z[n, y[n]] ** 2
    f.s[n, c] = z[n, c]
    return f.s, f.p


def test_what_is_added_to_is_copied_unless_it_is_ours_and_spent() -> None:
    """The caller's cotangent stays as it is."""
    assert ".clone()" not in render(derivation_of(all_margins.op))
    assert "dz = ds.clone()" in render(derivation_of(beside_one.op))
    z, y = torch.randn(4, 3, dtype=torch.float64, requires_grad=True), torch.tensor([2, 0, 0, 1])
    assert_alike(
        module(all_margins.op).all_margins(z, y), (1 + z - z.gather(1, y[:, None])).relu().square().sum(), [z]
    )
    ds = torch.randn(4, 3, dtype=torch.float64)
    _, _, saved = module(beside_one.op).beside_one_forward(z.detach(), y)
    before = ds.clone()
    module(beside_one.op).beside_one_backward(ds, torch.ones(4, dtype=torch.float64), *saved)
    assert ds.equal(before)


@op
def first_beside_all(f, x: tensor[n, k], w: tensor[..., n], u: tensor[d]):
    f.b[n] = size(d) * x[n, 0]
    f.c[..., d, k] = where(k <= d, x[0, k], f.b[0])
    f.y[..., n, k, d] = f.b[n] + f.c[..., d, k] + w[..., n]
    return f.y


@pytest.mark.parametrize("leading", [(), (2,)], ids=str)
def test_a_sum_over_no_axes_is_not_added_to_in_the_memory_of_what_it_is_of(leading: tuple[int, ...]) -> None:
    """`dw.sum_to_size(n)` is dw itself where `...` is no axis: what is added to it must not be in dw as well."""
    x, w, u, dy = torch.randn(3, 4), torch.randn(*leading, 3), torch.randn(5), torch.randn(*leading, 3, 4, 5)
    made = build(first_beside_all, proven=False)
    *_, saved = made.forward(x, w, u)
    _, dw, *_ = made.backward(dy, *saved)
    assert torch.allclose(dw, dy.sum((-1, -2)))
