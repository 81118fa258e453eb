"""A stretch of the backward has for nothing what the others keep."""

import torch

from derive import amax, axes, eq, exp, index, oo, op, pi, sin, sum, tensor, where
from derive.pipeline import derivation_of
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, assert_derived, module

n, k, d = axes("n k d")


@op
def segment_attention(f, s: tensor[k], x: tensor[n, d], src: index(n)[k], dst: index(n)[k]):
    f.m[n] = amax(where(eq(dst[k], n), s[k], -oo), over=k)
    f.u[k] = exp(s[k] - f.m[dst[k]])
    f.tot[n] = sum(where(eq(dst[k], n), f.u[k], 0), over=k)
    f.p[k] = f.u[k] / f.tot[dst[k]]
    f.y[n, d] = sum(where(eq(dst[k], n), f.p[k] * x[src[k], d], 0), over=k)
    return f.y


def test_weights_that_the_values_need_are_kept_alone() -> None:
    """The scores' gradient is `p * (...)` as `p` is kept for the values: the exponentials are not."""
    kept = derivation_of(segment_attention.op).closed.kept.names
    assert "p" in kept and "u" not in kept, kept
    generator = torch.Generator().manual_seed(0)
    s = torch.randn(9, dtype=torch.float64, generator=generator, requires_grad=True)
    x = torch.randn(4, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    src = torch.randint(4, (9,), generator=generator)
    dst = torch.tensor([0, 1, 2, 3, 0, 0, 2, 2, 1])
    each = torch.zeros(4, 9, dtype=torch.float64).index_put_((dst, torch.arange(9)), torch.ones(1, dtype=torch.float64))
    p = torch.softmax(torch.where(each > 0, s, -torch.inf), 1)
    assert_alike(module(segment_attention.op).segment_attention(s, x, src, dst), p @ x[src], [s, x])


@op
def locally_periodic(f, x: tensor[n, k], period: tensor[()], width: tensor[()]):
    """A kernel of a Gaussian process (Duvenaud, 2014)."""
    f.y[n, k] = exp(-2 * sin(pi * x[n, k] / period[()]) ** 2 - x[n, k] ** 2 / (2 * width[()] ** 2))
    return f.y


def test_what_two_stretches_have_in_common_is_made_once() -> None:
    """Neither reads `x` as `width * x_over_width`, for the other's sake: sines are of one angle."""
    code = code_of(locally_periodic.op).partition("_backward(")[2]
    assert code.count("torch.sin(") == code.count("torch.cos(") == 1, code

    def plain(x: torch.Tensor, period: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
        return (-2 * (torch.pi * x / period).sin() ** 2 - (x / width) ** 2 / 2).exp()

    assert_derived(locally_periodic.op, plain, {"x": (4, 3), "period": (), "width": ()})
