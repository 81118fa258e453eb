"""Terms that only what lacks an axis tells apart stay one term wherever an adjoint is put, and count as one."""

import torch

from derive import amax, axes, constant, exp, index, log, mean, op, scalar, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_alike, module

n, c = axes("n c")


@op
def two_labels(f, z: tensor[n, c], y: index(c)[n], w: index(c)[n], lam: constant[n], s: scalar = 0.1):
    """Smoothed cross-entropy of two mixed examples (Zhang et al., 2018): nine terms, of three kinds."""
    f.m[n] = amax(z[n, c], over=c)
    f.logp[n, c] = z[n, c] - f.m[n] - log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.a[n] = lam[n] * f.logp[n, y[n]] + (1 - lam[n]) * f.logp[n, w[n]]
    f.loss[()] = -mean((1 - s) * f.a[n] + s * mean(f.logp[n, c], over=c), over=n)
    return f.loss


def test_what_adds_up_to_1_is_not_summed() -> None:
    """The shares of the labels and of the smoothing do, whatever they are: it is one pass."""
    lines = [str(s) for s in derivation_of(two_labels.op).backward.statements]
    assert not any("over=c" in line for line in lines), lines
    assert [line for line in lines if line.startswith("dz[n, c] = ") and "+=" not in line] == [
        "dz[n, c] = dlogp_sum[n] * exp_z_minus_m[n, c] - s * dloss[()] / (size(c) * size(n))"
    ]


def test_it_is_right() -> None:
    z = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    y, w, lam = torch.tensor([0, 2, 2, 1]), torch.tensor([3, 2, 0, 1]), torch.tensor([0.2, 0.5, 1, 0]).double()

    def of(t: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(z, t, reduction="none", label_smoothing=0.1)

    assert_alike(module(two_labels.op).two_labels(z, y, w, lam), (lam * of(y) + (1 - lam) * of(w)).mean(), [z])
