"""A sum of what is read back from where it stands runs over the places read: a correlation is a convolution."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, exp, index, length, mean, op, size, sum, tensor, where
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

c, d, h, i, n, s, t, u, v, w = axes("c d h i n s t u v w")


@op
def correlated(f, x: tensor[n, t], y: tensor[n, t], lags: length(u)):
    f.r[n, u] = sum(where(t >= u, x[n, t] * y[n, t - u], 0), over=t)
    return f.r


@op
def channels_correlated(f, x: tensor[n, c, t], y: tensor[n, d, t], lags: length(u)):
    f.r[c, d, u] = sum(where(t - u >= 0, x[n, c, t] * y[n, d, t - u], 0), over=(n, t))
    return f.r


@op
def with_a_shorter_one(f, x: tensor[n, t], y: tensor[n, s], lags: length(u)):
    f.r[n, u] = sum(where((t >= u) & (t - u < size(s)), x[n, t] * y[n, t - u], 0), over=t)
    return f.r


@op
def in_two_dimensions(f, x: tensor[n, h, w], y: tensor[n, h, w], up: length(u), aside: length(v)):
    f.r[n, u, v] = sum(where((h >= u) & (w >= v), x[n, h, w] * y[n, h - u, w - v], 0), over=(h, w))
    return f.r


@op
def from_one_ahead(f, x: tensor[n, t], y: tensor[n, t], lags: length(u)):
    f.r[n, u] = sum(where((t - u + 1 >= 0) & (t - u + 1 < size(t)), x[n, t] * y[n, t - u + 1], 0), over=t)
    return f.r


@op
def with_itself(f, x: tensor[n, t], lags: length(u)):
    f.r[u] = mean(where(t >= 2 * u, x[n, t] * x[n, t - 2 * u], 0), over=(n, t))
    return f.r


@op
def weighed(f, x: tensor[n, t], y: tensor[n, t], z: tensor[t], lags: length(u)):
    f.r[n, u] = sum(where(t >= u, exp(z[t]) * x[n, t] * y[n, t - u], 0), over=t)
    return f.r


@op
def half_of_it(f, x: tensor[n, t], y: tensor[n, t], lags: length(u)):
    """What else is asked of the place stays asked of it."""
    f.r[n, u] = sum(where((t >= u) & (t < 3), x[n, t] * y[n, t - u], 0), over=t)
    return f.r


@op
def chosen(f, x: tensor[n, t], y: tensor[n, t], at: index(t)[t], lags: length(u)):
    """A place that is read by an index is none of axis arithmetic."""
    f.r[n, u] = sum(where(t >= u, x[n, at[t]] * y[n, t - u], 0), over=t)
    return f.r


@op
def under_another_name(f, x: tensor[n, s], y: tensor[n, s], lags: length(u)):
    f.r[n, u] = sum(where(t >= u, x[n, t] * y[n, t - u], 0), over=t)
    return f.r


def frames(x: Tensor, lags: int, long: int, ahead: int = 0, step: int = 1) -> Tensor:
    """`[..., u, t]`: the numbers from `step * u - ahead` on, zeros beyond the ends."""
    padded = functional.pad(x, (ahead, step * lags + long))
    return torch.stack([padded[..., step * u : step * u + long] for u in range(lags)], -2)


def lagged(x: Tensor, y: Tensor, lags: int, **how: int) -> Tensor:
    return (frames(x, lags, y.shape[-1], **how) * y[..., None, :]).sum(-1)


def _channels(x: Tensor, y: Tensor, lags: int) -> Tensor:
    return torch.einsum("ncut, ndt -> cdu", frames(x, lags, y.shape[-1]), y)


def _planes(x: Tensor, y: Tensor, up: int, aside: int) -> Tensor:
    rows = frames(x.mT, up, y.shape[1]).movedim(1, -1)  # [n, u, h, w]
    return (frames(rows, aside, y.shape[2]) * y[:, None, :, None]).sum((2, 4))


R = torch.randn
CASES = [
    (correlated, lagged, (R(2, 7), R(2, 7), 4)),
    (correlated, lagged, (R(2, 3), R(2, 3), 5)),
    (channels_correlated, _channels, (R(3, 2, 7), R(3, 4, 7), 4)),
    (with_a_shorter_one, lagged, (R(2, 7), R(2, 4), 5)),
    (with_a_shorter_one, lagged, (R(2, 4), R(2, 7), 6)),
    (in_two_dimensions, _planes, (R(2, 5, 7), R(2, 5, 7), 3, 4)),
    (from_one_ahead, lambda x, y, lags: lagged(x, y, lags, ahead=1), (R(2, 7), R(2, 7), 4)),
    (with_itself, lambda x, lags: lagged(x, x, lags, step=2).sum(0) / x.numel(), (R(2, 7), 3)),
    (weighed, lambda x, y, z, lags: lagged(z.exp() * x, y, lags), (R(2, 7), R(2, 7), R(7), 4)),
    (half_of_it, lambda x, y, lags: lagged(x * (torch.arange(7) < 3), y, lags), (R(2, 7), R(2, 7), 4)),
    (chosen, lambda x, y, at, lags: lagged(x[:, at], y, lags), (R(2, 4), R(2, 4), torch.tensor([3, 0, 0, 1]), 3)),
    (under_another_name, lagged, (R(2, 7), R(2, 7), 4)),
]


@pytest.mark.parametrize(("made", "reference", "given"), CASES)
def test_values_and_gradients(made, reference, given):
    given = [g.double().requires_grad_() if torch.is_tensor(g) and g.is_floating_point() else g for g in given]
    leaves = [g for g in given if torch.is_tensor(g) and g.is_floating_point()]
    assert_alike(getattr(module(made.op), made.op.name)(*given), reference(*given), leaves, 1e-11)


@pytest.mark.parametrize("made", [correlated, channels_correlated, with_a_shorter_one, in_two_dimensions, with_itself])
def test_no_place_is_gathered(made):
    code = code_of(made.op)
    assert "functional.conv" in code and "index_add_" not in code and "arange" not in code
