"""A filter that reads back under a condition is a convolution, as long as the condition asks for nothing else."""

import inspect

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import amax, axes, exp, log, op, sin, size, sum, tanh, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.live import assert_derived, module

c, d, k, n, o, t, five, three = axes("c d k n o t five=5 three=3")


@op
def causal(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, t] = sum(where(t >= k, w[k] * x[n, t - k], 0), over=k)
    return f.y


@op
def of_channels(f, x: tensor[n, c, t], w: tensor[o, c, k]):
    f.y[n, o, t] = sum(w[o, c, k] * where(2 * k <= t, x[n, c, t - 2 * k], 0), over=(c, k))
    return f.y


@op
def for_each_channel(f, x: tensor[n, t, d], w: tensor[d, k]):
    f.y[n, t, d] = 2 * sum(where(t - k >= 0, w[d, k] * x[n, t - k, d], 0), over=k) + x[n, t, d]
    return f.y


@op
def centred(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, t] = sum(where((t - k + 1 >= 0) & (t - k + 1 < size(t)), w[k] * x[n, t - k + 1], 0), over=k)
    return f.y


@op
def banded(f, x: tensor[n, t], w: tensor[k]):
    """The condition asks for more than that the place is one: what it leaves out stays left out."""
    f.y[n, t] = sum(where((t >= k) & (t < 3), w[k] * x[n, t - k], 0), over=k)
    return f.y


@op
def of_bounded_taps(f, x: tensor[n, c, t], w: tensor[c, k]):
    f.m[c] = amax(w[c, k], over=k)
    f.u[c, k] = exp(w[c, k] - f.m[c])
    f.s[c] = sum(f.u[c, k], over=k)
    f.taps[c, k] = tanh(f.u[c, k] / f.s[c])
    f.y[n, c, t] = sum(where(t >= k, f.taps[c, k] * x[n, c, t - k], 0), over=k)
    return f.y


@op
def of_a_state(f, x: tensor[n, c, t], a: tensor[c], b: tensor[c]):
    """A diagonal state space as the filter that it is (Gu et al., 2022)."""
    f.taps[c, t] = b[c] * exp(-exp(a[c]) * t)
    f.y[n, c, t] = sum(where(k <= t, f.taps[c, t - k] * x[n, c, k], 0), over=k)
    return f.y


@op
def as_long_as_the_signal(f, x: tensor[n, c, t], w: tensor[c, k]):
    """The filter is read back, over an axis of its own, which has to be as long as what it filters."""
    f.y[n, c, t] = sum(where(k <= t, w[c, t - k] * x[n, c, k], 0), over=k)
    return f.y


@op
def of_powers(f, x: tensor[n, c, t], a: tensor[c]):
    """A decay, as many places as it is kept for: a power by a place has no pole."""
    f.y[n, c, t] = sum(where(t >= five, a[c] ** five * x[n, c, t - five], 0), over=five)
    return f.y


@op
def of_taps_around(f, x: tensor[n, c, t], w: tensor[c, five]):
    f.taps[c, five] = sin(w[c, five]) / (1 + exp(w[c, five]))
    f.y[n, c, t] = sum(
        where((t + five >= 2) & (t + five < size(t) + 2), f.taps[c, five] * x[n, c, t + five - 2], 0), over=five
    )
    return f.y


def _causal(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(functional.pad(x, (len(w) - 1, 0))[:, None], w.flip(0)[None, None])[:, 0]


def _of_channels(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(functional.pad(x, (2 * (w.shape[2] - 1), 0)), w.flip(2), dilation=2)


def _for_each_channel(x: Tensor, w: Tensor) -> Tensor:
    padded = functional.pad(x.mT, (w.shape[1] - 1, 0))
    return 2 * functional.conv1d(padded, w.flip(1)[:, None], groups=len(w)).mT + x


def _centred(x: Tensor, w: Tensor) -> Tensor:
    return _causal(functional.pad(x, (0, 1)), w)[:, 1:]


def _of_bounded_taps(x: Tensor, w: Tensor) -> Tensor:
    return _by_channels(x, w.softmax(1).tanh())


def _of_a_state(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return _by_channels(x, b[:, None] * torch.exp(-a.exp()[:, None] * torch.arange(x.shape[2])))


def _by_channels(x: Tensor, taps: Tensor) -> Tensor:
    padded = functional.pad(x, (taps.shape[1] - 1, 0))
    return functional.conv1d(padded, taps.flip(1)[:, None], groups=len(taps))


def _of_powers(x: Tensor, a: Tensor) -> Tensor:
    return _by_channels(x, a[:, None] ** torch.arange(5))


def _of_taps_around(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(functional.pad(x, (2, 2)), (w.sin() / (1 + w.exp()))[:, None], groups=len(w))


CASES = [
    (of_bounded_taps, _of_bounded_taps, {"x": (2, 3, 7), "w": (3, 4)}),
    (of_bounded_taps, _of_bounded_taps, {"x": (2, 3, 2), "w": (3, 4)}),
    (of_a_state, _of_a_state, {"x": (2, 3, 7), "a": (3,), "b": (3,)}),
    (as_long_as_the_signal, lambda x, w: _by_channels(x, w), {"x": (2, 3, 7), "w": (3, 7)}),
    (as_long_as_the_signal, lambda x, w: _by_channels(x, w), {"x": (2, 3, 1), "w": (3, 1)}),
    (of_powers, _of_powers, {"x": (2, 3, 7), "a": (3,)}),
    (of_taps_around, _of_taps_around, {"x": (2, 3, 7), "w": (3, 5)}),
    (of_taps_around, _of_taps_around, {"x": (2, 3, 1), "w": (3, 5)}),
    (causal, _causal, {"x": (2, 7), "w": (3,)}),
    (causal, _causal, {"x": (2, 3), "w": (5,)}),
    (of_channels, _of_channels, {"x": (2, 3, 9), "w": (4, 3, 3)}),
    (for_each_channel, _for_each_channel, {"x": (2, 6, 3), "w": (3, 4)}),
    (centred, _centred, {"x": (2, 6), "w": (3,)}),
    (banded, lambda x, w: _causal(x, w) * (torch.arange(x.shape[1]) < 3), {"x": (2, 6), "w": (3,)}),
]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES)
def test_values_and_gradients(made: OpCall, plain, shapes) -> None:
    assert_derived(made.op, plain, shapes)


@pytest.mark.parametrize(
    "made",
    [
        causal,
        of_channels,
        for_each_channel,
        centred,
        of_bounded_taps,
        of_a_state,
        of_taps_around,
        as_long_as_the_signal,
    ],
    ids=lambda made: made.op.name,
)
def test_it_is_a_convolution(made: OpCall) -> None:
    code = inspect.getsource(module(made.op))
    assert "place_" not in code
    assert "index_add_" not in code
    assert code.count("conv1d") + code.count(" = filtered_images(") + code.count(" = correlated_images(") >= 3


def test_a_power_by_a_place_reads_no_places() -> None:
    code = inspect.getsource(module(of_powers.op))
    assert "place_" not in code and "index_add_" not in code, code


def test_what_is_read_is_the_image_however_far_the_taps_are_apart() -> None:
    code = inspect.getsource(module(of_channels.op))
    assert "conv1d_input((n, o, t_of_y), w.transpose(0, 1), x, dilation=2)" in code
    assert "stride=" not in code


@pytest.mark.parametrize("made", [causal, for_each_channel, centred], ids=lambda made: made.op.name)
def test_battery(made: OpCall) -> None:
    found = verify(made.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


def test_a_filter_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="as_long_as_the_signal: axis k is 7 in x but 5 in w"):
        module(as_long_as_the_signal.op).as_long_as_the_signal(torch.ones(2, 3, 7), torch.ones(3, 5))


@op
def of_two_lengths(f, u: tensor[n, c, t], x: tensor[n, c, k], w: tensor[c, k]):
    """Nothing says that the filter is as long as there are places."""
    f.y[n, c, t] = u[n, c, t] + sum(where(k <= t, w[c, t - k] * x[n, c, k], 0), over=k)
    return f.y


def test_a_filter_that_may_be_shorter_is_asked_to_be_long_enough() -> None:
    run = module(of_two_lengths.op).of_two_lengths
    with pytest.raises(ValueError, match=r"of_two_lengths, equation y: w\[c, -k \+ t\] must fit into axis k"):
        run(torch.ones(2, 3, 7), torch.ones(2, 3, 5), torch.ones(3, 5))
    assert run(torch.ones(1, 1, 2), torch.ones(1, 1, 5), torch.ones(1, 5)).tolist() == [[[2, 3]]]


def test_an_infinite_weight_reaches_no_place_before_it() -> None:
    x, w = torch.ones(2, 9), torch.tensor([1.0, 2.0, torch.inf])
    y = module(causal.op).causal(x, w)
    assert y[0, :3].tolist() == [1, 3, torch.inf]
    weights = torch.full((4, 3, 3), 1.0)
    weights[..., 2] = torch.inf
    y = module(of_channels.op).of_channels(torch.ones(2, 3, 9), weights)
    assert y[0, 0, :5].tolist() == [3, 3, 6, 6, torch.inf]


@op
def of_made_weights(f, x: tensor[n, t], w: tensor[k]):
    """Weights that may be infinite where no input is."""
    f.y[n, t] = sum(where(t >= k, log(w[k]) * x[n, t - k], 0), over=k)
    return f.y


@op
def of_reciprocals(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, t] = sum(where(t >= k, x[n, t - k] / w[k], 0), over=k)
    return f.y


@pytest.mark.parametrize("made", [banded, of_made_weights, of_reciprocals], ids=lambda made: made.op.name)
def test_any_other_reads_under_its_condition(made: OpCall) -> None:
    assert "place_t_k" in inspect.getsource(module(made.op))


@op
def of_the_last(f, g: tensor[n, t], x: tensor[n, t]):
    """Only with a 0 in the place of the last one is the factor too large, where there is none before."""
    f.y[n, t] = where(t >= 1, exp(g[n, t - 1] - g[n, t]) * x[n, t - 1], 0)
    return f.y


@op
def of_three(f, g: tensor[n, t], x: tensor[n, t]):
    f.y[n, t] = sum(
        where((t + three >= 1) & (t + three <= size(t)), exp(g[n, t + three - 1] - g[n, t]) * x[n, t + three - 1], 0),
        over=three,
    )
    return f.y


@pytest.mark.parametrize("made", [of_the_last, of_three], ids=lambda made: made.op.name)
def test_what_zeros_around_would_make_too_large_is_not_computed_of_them(made: OpCall) -> None:
    g = torch.full((1, 4), -1000.0, dtype=torch.float64, requires_grad=True)
    y = getattr(module(made.op), made.op.name)(g, torch.ones_like(g))
    assert y.tolist() == [[0, 1, 1, 1] if made is of_the_last else [2, 3, 3, 2]]
    (dg,) = torch.autograd.grad(y.sum(), g)
    assert torch.isfinite(dg).all()
