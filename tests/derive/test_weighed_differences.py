"""A forward's weighed sums of differences are matrix products as well, where nothing tells 0 from what is nearly 0."""

import pytest
import torch
from torch import Tensor

from derive import axes, exp, index, log, maximum, mean, op, relu, scalar, sqrt, sum, tanh, tensor
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, assert_derived_at, module

d, h, i, j, k, n = axes("d h i j k n")


@op
def residuals(f, x: tensor[n, i, d], a: tensor[n, i, k], z: tensor[k, d]):
    """What is left of the points beside each centre, as a direction."""
    f.v[n, k, d] = sum(a[n, i, k] * (x[n, i, d] - z[k, d]), over=i)
    f.y[n, k, d] = f.v[n, k, d] / sqrt(sum(f.v[n, k, d] ** 2, over=d) + 1e-6)
    return f.y


@op
def diffused(f, x: tensor[n, d], w: tensor[n, n], u: tensor[d, h]):
    f.z[i, d] = sum(w[i, j] * (x[j, d] - x[i, d]), over=j)
    f.y[i, h] = tanh(sum(f.z[i, d] * u[d, h], over=d))
    return f.y


@op
def shifted(f, x: tensor[n, d], z: tensor[k, d], width: scalar = 2.0):
    """The differences are weighed by a function of the distances: one call makes these, and nothing keeps those."""
    f.gap[n, k, d] = z[k, d] - x[n, d]
    f.w[n, k] = exp(-sum(f.gap[n, k, d] ** 2, over=d) / width)
    f.y[n, d] = sum(f.w[n, k] * f.gap[n, k, d], over=k) / sum(f.w[n, k], over=k)
    return f.y


@op
def pulled(f, x: tensor[n, d], m: tensor[n], eps: scalar = 0.5):
    f.q[i, j] = sum((x[j, d] - x[i, d]) ** 2, over=d) + eps
    f.y[i, d] = sum(m[j] * (x[j, d] - x[i, d]) / (f.q[i, j] * sqrt(f.q[i, j])), over=j)
    return f.y


@op
def compared(f, x: tensor[n, d], w: tensor[n, n]):
    f.z[i, d] = sum(w[i, j] * (x[j, d] - x[i, d]), over=j)
    f.y[i, d] = relu(f.z[i, d])
    return f.y


@op
def divided(f, x: tensor[n, i, d], a: tensor[n, i, k], z: tensor[k, d]):
    f.v[n, k, d] = sum(a[n, i, k] * (x[n, i, d] - z[k, d]), over=i)
    f.y[n, k, d] = f.v[n, k, d] / sqrt(sum(f.v[n, k, d] ** 2, over=d))
    return f.y


@op
def bounded(f, x: tensor[n, i, d], a: tensor[n, i, k], z: tensor[k, d]):
    f.v[n, k] = sum(a[n, i, k] * (x[n, i, d] - z[k, d]), over=(i, d))
    f.y[n, k] = 1 / maximum(f.v[n, k], 0.5)
    return f.y


def _residuals(x: Tensor, a: Tensor, z: Tensor) -> Tensor:
    v = (a[..., None] * (x[:, :, None] - z)).sum(1)
    return v / (v.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def _shifted(x: Tensor, z: Tensor) -> Tensor:
    gap = z - x[:, None]
    w = torch.exp(-gap.square().sum(-1) / 2)
    return (w[..., None] * gap).sum(1) / w.sum(1, keepdim=True)


def _pulled(x: Tensor, m: Tensor) -> Tensor:
    gap = x - x[:, None]
    return (m[:, None] * gap / ((gap.square().sum(-1) + 0.5) ** 1.5)[..., None]).sum(1)


def _forward(made: OpCall) -> str:
    return next(part for part in code_of(made.op).split("def ") if part.startswith(f"{made.op.name}_forward"))


FAR_APART = {"extreme values", "scores far apart"}
"""Where every weight of `shifted` is 0 as it is written: a known fault, its gradient has eight digits there."""


@pytest.mark.parametrize("made", [residuals, diffused, shifted, pulled])
def test_no_forward_makes_all_differences(made: OpCall) -> None:
    forward = _forward(made)
    assert "as_float64" in forward and ", None]) " not in forward and "[:, None] - " not in forward, forward
    wrong = [d for r in verify(made.op).rows for d in r.wrong]
    known = [d for d in wrong if made is shifted and d.case.situation in FAR_APART and d.error < 1e-7]
    assert wrong == known, [str(d) for d in wrong]


@pytest.mark.parametrize("made", [compared, divided, bounded])
def test_what_is_0_stays_0_where_that_matters(made: OpCall) -> None:
    assert "as_float64" not in _forward(made)


def test_gradients() -> None:
    assert_derived_at(residuals.op, _residuals, {"n": 2, "i": 5, "d": 3, "k": 4})
    assert_derived_at(shifted.op, _shifted, {"n": 4, "d": 3, "k": 5})
    assert_derived_at(pulled.op, _pulled, {"n": 5, "d": 3})


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_float32(offset: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x, a, z = (torch.randn(s, generator=generator) for s in ((2, 40, 3), (2, 40, 4), (4, 3)))
    x, z, a = x + offset, z + offset, a.abs()
    exact = _residuals(x.double(), a.double(), z.double())
    ours, plain = module(residuals.op).residuals_forward(x, a, z)[0], _residuals(x, a, z)
    assert (ours - exact).abs().max() <= 2 * max((plain - exact).abs().max(), 1e-7)


@op
def prototypes(f, x: tensor[n, d], z: tensor[k, d], y: index(k)[n]):
    """Softmax of minus the squared distances (Snell, Swersky & Zemel, 2017); its gradient is added to at the label."""
    f.s[n, k] = -sum((x[n, d] - z[k, d]) ** 2, over=d)
    f.loss[()] = mean(log(sum(exp(f.s[n, k]), over=k)) - f.s[n, y[n]], over=n)
    return f.loss


def test_what_was_added_to_is_widened_once() -> None:
    assert code_of(prototypes.op).count("as_float64(ds)") == 1
    x, z = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((7, 3), (4, 3)))
    y = torch.tensor([0, 3, 1, 1, 2, 0, 3])
    wanted = torch.nn.functional.cross_entropy(-((x[:, None] - z) ** 2).sum(2), y)
    assert_alike(module(prototypes.op).prototypes(x, z, y), wanted, (x, z))
