"""What is the same in every window is made before the windows: its sums are convolutions and pools, in both passes."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, exp, index, length, log, mean, op, sum, tanh, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, c, h, w, k, m, u, v, t, l = axes("n c h w k m u v t l")


@op
def similarity(f, x: tensor[n, h, w], y: tensor[n, h, w], g: tensor[k, m]):
    """The structure of two images, weighed in windows."""
    f.a[n, u, v] = sum(g[k, m] * x[n, u + k, v + m], over=(k, m))
    f.b[n, u, v] = sum(g[k, m] * y[n, u + k, v + m], over=(k, m))
    f.s[n, u, v] = sum(g[k, m] * x[n, u + k, v + m] * y[n, u + k, v + m], over=(k, m)) - f.a[n, u, v] * f.b[n, u, v]
    f.r[n, u, v] = f.s[n, u, v] / (1 + sum(g[k, m] * (x[n, u + k, v + m] - y[n, u + k, v + m]) ** 2, over=(k, m)) ** 2)
    return f.r


@op
def energies(f, x: tensor[n, c, t], s: tensor[c], width: length(k)):
    """With a parameter of each channel, and strides."""
    f.y[n, c, u] = mean(tanh(s[c] * x[n, c, 2 * u + k]) * x[n, c, 2 * u + k] ** 2, over=k)
    return f.y


@op
def lags(f, x: tensor[n, t], width: length(k), frame: length(l)):
    """Through two windows: nothing of it is the same elsewhere."""
    f.y[n, u] = sum(x[n, u + k] * x[n, u + l] ** 2, over=(k, l))
    return f.y


@op
def logarithms(f, x: tensor[n, t], width: length(k)):
    """A stride may leave out places, of which there may be no logarithm."""
    f.y[n, u] = sum(log(x[n, 3 * u + k] ** 2), over=k)
    return f.y


@op
def exponentials(f, x: tensor[n, t], width: length(k)):
    """Side by side, windows read all places: each exponential is one."""
    f.y[n, u] = sum(exp(x[n, u + k]), over=k)
    return f.y


@op
def some_exponentials(f, x: tensor[n, t], places: length(u), width: length(k)):
    """There may be more places than windows read, where one may be infinite."""
    f.y[n, u] = sum(exp(x[n, u + k]), over=k)
    return f.y


@op
def ramps(f, x: tensor[n, t], width: length(k)):
    """The place in the window takes part."""
    f.y[n, u] = sum((k + 1) * x[n, u + k] ** 2 + (x[n, u + k] - k) ** 2, over=k)
    return f.y


@op
def first_channels(f, x: tensor[n, c, t], s: tensor[n, t], w: tensor[k]):
    f.y[n, u] = sum(w[k] * x[n, 0, u + k] * s[n, u + k], over=k)
    return f.y


@op
def diagonals(f, x: tensor[n, n, t], s: tensor[n, t], w: tensor[k]):
    f.y[n, u] = sum(w[k] * x[n, n, u + k] * s[n, u + k], over=k)
    return f.y


@op
def every_second(f, x: tensor[c, t], s: tensor[c, t], w: tensor[k]):
    f.y[n, u] = sum(w[k] * x[2 * n, u + k] * s[2 * n, u + k], over=k)
    return f.y


@op
def picked(f, x: tensor[c, t], s: tensor[c, t], w: tensor[k], ix: index(c)[n]):
    f.y[n, u] = sum(w[k] * x[ix[n], u + k] * s[ix[n], u + k], over=k)
    return f.y


@op
def at_every_slope(f, x: tensor[c, t], s: tensor[...], w: tensor[k]):
    f.y[..., c, u] = sum(w[k] * tanh(x[c, u + k] * s[...]), over=k)
    return f.y


def slid(z: Tensor, w: Tensor) -> Tensor:
    return (z.unfold(-1, len(w), 1) * w).sum(-1)


def similarity_by_torch(x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    def weighed(z: Tensor) -> Tensor:
        return functional.conv2d(z[:, None], g[None, None])[:, 0]

    return (weighed(x * y) - weighed(x) * weighed(y)) / (1 + weighed((x - y) ** 2) ** 2)


def energies_by_torch(x: Tensor, s: Tensor, width: int) -> Tensor:
    return (torch.tanh(s[:, None] * x) * x**2).unfold(2, width, 2).mean(3)


def lags_by_torch(x: Tensor, width: int, frame: int) -> Tensor:
    places = x.shape[1] + 1 - max(width, frame)
    return x.unfold(1, width, 1).sum(2)[:, :places] * x.square().unfold(1, frame, 1).sum(2)[:, :places]


def logarithms_by_torch(x: Tensor, width: int) -> Tensor:
    return x.unfold(1, width, 3).square().log().sum(2)


def ramps_by_torch(x: Tensor, width: int) -> Tensor:
    k, seen = torch.arange(width), x.unfold(1, width, 1)
    return ((k + 1) * seen**2 + (seen - k) ** 2).sum(2)


R = torch.randn
CASES = [
    (similarity, similarity_by_torch, (R(2, 6, 5), R(2, 6, 5), R(3, 2))),
    (similarity, similarity_by_torch, (R(3, 3, 3), R(3, 3, 3), R(3, 3))),
    (similarity, similarity_by_torch, (R(0, 4, 3), R(0, 4, 3), R(2, 1))),
    (energies, energies_by_torch, (R(2, 3, 8), R(3), 3)),
    (energies, energies_by_torch, (R(1, 1, 7), R(1), 1)),
    (lags, lags_by_torch, (R(2, 7), 3, 2)),
    (logarithms, logarithms_by_torch, (R(2, 8), 2)),
    (ramps, ramps_by_torch, (R(2, 6), 3)),
    (exponentials, lambda x, width: x.unfold(1, width, 1).exp().sum(2), (R(2, 6), 3)),
    (exponentials, lambda x, width: x.unfold(1, width, 1).exp().sum(2), (R(3, 1), 1)),
    (some_exponentials, lambda x, u, k: x[:, : u + k - 1].unfold(1, k, 1).exp().sum(2), (R(2, 8), 3, 4)),
    (first_channels, lambda x, y, w: slid(x[:, 0] * y, w), (R(3, 2, 5), R(3, 5), R(2))),
    (diagonals, lambda x, y, w: slid(x.diagonal().T * y, w), (R(3, 3, 5), R(3, 5), R(2))),
    (every_second, lambda x, y, w: slid((x * y)[::2], w), (R(5, 6), R(5, 6), R(2))),
    (picked, lambda x, y, w, ix: slid((x * y)[ix], w), (R(3, 5), R(3, 5), R(2), torch.tensor([2, 0, 0, 1]))),
    *((at_every_slope, lambda x, s, w: slid((s[..., None, None] * x).tanh(), w), (R(3, 5), s, R(2)))
      for s in (R(()), R(4), R(2, 2, 0))),
]  # fmt: skip


@pytest.mark.parametrize(("made", "reference", "args"), CASES)
def test_values_and_gradients(made, reference, args) -> None:
    given = [a.double().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args]
    leaves = [a for a in given if isinstance(a, Tensor) and a.requires_grad]
    assert_alike(getattr(module(made.op), made.op.name)(*given), reference(*given), leaves)


def test_places_that_no_window_reads_have_a_gradient_of_zero() -> None:
    x = torch.tensor([[1.0, 2.0, 0.0, 3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(module(logarithms.op).logarithms(x, 2).sum(), x)
    torch.testing.assert_close(found, 2 / x.detach().masked_fill(x.detach() == 0, torch.inf))


@pytest.mark.parametrize(
    ("made", "said", "unsaid"),
    [
        (similarity, "s = filtered_images(x_y, g).addcmul_(a, b, value=-1)", "index_put_"),
        (similarity, "dx_y = filtered_images(functional.pad(ds, ", "index_put_"),
        (similarity, ".add_(correlated_images(x_y, ds, 2))", "unfold"),
        (energies, "functional.avg_pool1d(", "unfold"),
        (energies, "[:, :, at_k : at_k + 2 * u : 2] += dtanh_s_x_x_squared_share", "patches"),
        (logarithms, "torch.log(x_squared.unfold(1, width, 3))", "torch.log(x_squared)"),
        (ramps, "x_squared.unfold(1, width, 1)", "x_minus_k"),
        (exponentials, "window_sums(exp_x, {1: width})", "torch.exp(x."),
        (some_exponentials, "torch.exp(x.narrow(1, 0, places + width - 1).unfold(1, width, 1))", "exp_x"),
    ],
)
def test_which_code_is_written(made, said: str, unsaid: str) -> None:
    code = code_of(made.op)
    assert said in code and unsaid not in code, code


i, j = axes("i j")


@op
def picked_signals(f, x: tensor[i, h], w: tensor[k], z: tensor[h], of: index(i)[j]):
    """What windows read is read at an index and at places elsewhere."""
    f.y[j, u] = sum(w[k] * x[of[j], u + k] * z[u + k], over=k) + sum(w[k] * x[-1, u + k] * x[0, u + k], over=k)
    return f.y


def test_what_is_made_before_windows_runs_over_the_axes_of_the_places_that_are_read() -> None:
    x, w, z = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 7), (2,), (7,)))
    of = torch.tensor([2, 0, 2, 1])
    wanted = (x[of] * z).unfold(1, 2, 1) @ w + (x[-1] * x[0]).unfold(0, 2, 1) @ w
    assert_alike(module(picked_signals.op).picked_signals(x, w, z, of), wanted, [x, w, z])
