"""Ties with a maximum of something computed: told by the numbers that the forward compared, in every way of saving."""

import pytest
import torch

from derive.notation import amax, amin, axes, exp, oo, op, rsqrt, tensor, where
from derive.output.live import build

n, d, k, t = axes("n d k t")


def _slope(x):
    return rsqrt(exp(x / (x**2 + 1)))


@op
def of_an_expression(f, x: tensor[n, d], o: tensor[d]):
    f.b[n] = amax((o[d] + x[n, d]) * (2 * x[n, d]) * _slope(x[n, d]), over=d)
    return f.b


@op
def of_a_tensor(f, x: tensor[n, d], o: tensor[d]):
    f.a[n, d] = (o[d] + x[n, d]) * (2 * x[n, d]) * _slope(x[n, d])
    f.b[n] = amin(f.a[n, d], over=d)
    return f.b


@op
def of_what_is_chosen(f, x: tensor[n, d], o: tensor[d]):
    f.a[n, d] = (o[d] + x[n, d]) * (2 * x[n, d]) * _slope(x[n, d])
    f.w[n, d] = where(d <= n, f.a[n, d], -oo)
    f.b[n] = amax(f.w[n, d], over=d)
    return f.b


@op
def of_windows(f, x: tensor[n, d], o: tensor[k]):
    f.b[n, t] = amax(x[n, t + k] * o[k] / 3 + o[k], over=k)
    return f.b


@op
def between_extremes(f, x: tensor[n, d], o: tensor[d]):
    f.s[n, d] = x[n, d] * o[d] / 7
    f.low[n] = amin(f.s[n, d], over=d)
    f.y[n, d] = (f.s[n, d] - f.low[n]) / (amax(f.s[n, d], over=d) - f.low[n] + 1)
    return f.y


def _computed(x, o):
    return (o + x) * 2 * x * torch.rsqrt(torch.exp(x / (x**2 + 1)))


def _between(x, o):
    s = x * o / 7
    low = s.amin(-1, keepdim=True)
    return (s - low) / (s.amax(-1, keepdim=True) - low + 1)


def _windowed(x, o):
    return (x.unfold(-1, len(o), 1) * o / 3 + o).amax(-1)


_LATER = torch.ones(5, 6).triu(1).bool()
FORWARDS = [
    (of_an_expression, lambda x, o: _computed(x, o).amax(-1), 6),
    (of_a_tensor, lambda x, o: _computed(x, o).amin(-1), 6),
    (of_what_is_chosen, lambda x, o: _computed(x, o).masked_fill(_LATER, -torch.inf).amax(-1), 6),
    (of_windows, _windowed, 3),
    (between_extremes, _between, 6),
]  # fmt: skip


@pytest.mark.parametrize("save", ["cost", "least", "input"])
@pytest.mark.parametrize(("spec", "forward", "width"), FORWARDS, ids=lambda v: getattr(v, "name", None))
def test_the_gradient_goes_to_the_extreme(spec, forward, width, save) -> None:
    live = build(spec.op, save)
    for seed in range(8):  # whether the last bits differ is a matter of luck
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(5, 6, generator=generator, dtype=torch.float64, requires_grad=True)
        o = torch.randn(width, generator=generator, dtype=torch.float64, requires_grad=True)
        y = forward(x, o)
        dy = torch.randn(y.shape, generator=generator, dtype=torch.float64)
        *_, saved = live.forward(x.detach(), o.detach())
        for got, want in zip(live.backward(dy, *saved), torch.autograd.grad(y, (x, o), dy), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
