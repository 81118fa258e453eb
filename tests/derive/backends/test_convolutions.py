"""Sums of products that windows read: a mean is one too, numbers go into kernels, a signal a group is convolved."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, eq, length, mean, op, size, sum, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived_at, module

c, h, k, n, t, u = axes("c h k n t u")
three = axes("three=3")


@op
def mean_of_each(f, x: tensor[n, c, t], w: tensor[c, k]):
    f.y[n, c, u] = mean(w[c, k] * x[n, c, u + k], over=k)
    return f.y


@op
def mean_of_all(f, x: tensor[n, c, t], w: tensor[h, c, k]):
    f.y[n, h, u] = mean(w[h, c, k] * x[n, c, u + k], over=(c, k))
    return f.y


@op
def a_filter_a_row(f, x: tensor[c, t], w: tensor[c, three]):
    f.y[c, u] = sum(w[c, three] * x[c, u + three], over=three)
    return f.y


@op
def autocorrelation(f, x: tensor[n, t], lags: length(k)):
    f.r[n, k] = sum(where(t + k < size(t), x[n, t] * x[n, t + k], 0), over=t) / size(t)
    return f.r


def _mean_of_each(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(x, w[:, None], groups=w.shape[0]) / w.shape[1]


def _mean_of_all(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(x, w) / w[0].numel()


@op
def filters_of_each(f, x: tensor[n, c, t], w: tensor[n, h, c, k]):
    f.y[n, h, u] = sum(w[n, h, c, k] * x[n, c, u + k], over=(c, k))
    return f.y


@op
def one_blur(f, x: tensor[n, c, t], w: tensor[k]):
    f.y[n, c, u] = sum(w[k] * x[n, c, 2 * u + k], over=k)
    return f.y


@op
def one_blur_padded(f, x: tensor[n, c, t], w: tensor[three]):
    inside = (t + three >= 1) & (t + three <= size(t))
    f.y[n, c, t] = sum(where(inside, w[three] * x[n, c, t + three - 1], 0), over=three)
    return f.y


@op
def blur_apart(f, x: tensor[n, c, t], w: tensor[k]):
    """Taps two places apart."""
    f.y[n, c, u] = sum(w[k] * x[n, c, u + 2 * k], over=k)
    return f.y


@op
def sharpened(f, x: tensor[n, t], w: tensor[three], a: tensor[()]):
    """An image less its blur: a gradient that windows are subtracted from."""
    inside = (t + three >= 1) & (t + three <= size(t))
    f.blur[n, t] = sum(where(inside, w[three] * x[n, t + three - 1], 0), over=three)
    f.y[n, t] = x[n, t] + a[()] * (x[n, t] - f.blur[n, t])
    return f.y


def _sharpened(x: Tensor, w: Tensor, a: Tensor) -> Tensor:
    return x + a * (x - functional.conv1d(x[:, None], w[None, None], padding=1)[:, 0])


def _blur_apart(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(x, w.expand(x.shape[1], 1, -1), dilation=2, groups=x.shape[1])


def _one_blur(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(x, w.expand(x.shape[1], 1, -1), stride=2, groups=x.shape[1])


CASES: list[tuple[OpCall, Callable[..., Tensor], dict[str, int]]] = [
    (mean_of_each, _mean_of_each, {"n": 2, "c": 3, "t": 7, "k": 4}),
    (mean_of_all, _mean_of_all, {"n": 2, "c": 3, "h": 2, "t": 7, "k": 4}),
    (a_filter_a_row, lambda x, w: functional.conv1d(x, w[:, None], groups=len(w)), {"c": 4, "t": 6, "three": 3}),
]


@pytest.mark.parametrize(("made", "plain", "lengths"), CASES)
def test_gradients(made: OpCall, plain: Callable[..., Tensor], lengths: dict[str, int]) -> None:
    assert_derived_at(made.op, plain, lengths)
    code = code_of(made.op)
    assert "functional.conv1d" in code and "conv1d_input" in code, code
    assert not any(word in code for word in ("unfold", "einsum", "for at_")), code


def test_the_number_goes_into_the_kernel() -> None:
    assert "conv1d_input((n, c, t), w / (c * k), dy)" in code_of(mean_of_all.op)


@pytest.mark.parametrize(
    ("made", "there", "back"),
    [
        (one_blur, "w.expand(c, 1, -1), stride=2, groups=c", "groups=c"),
        (one_blur_padded, "y = filtered_images(x", "filtered_images("),
    ],
)
def test_channels_that_one_kernel_filters_are_groups_and_no_rows(made: OpCall, there: str, back: str) -> None:
    """Or images by themselves, where no place is left out."""
    forward, backward = code_of(made.op).split("def ")[-2:]
    assert there in forward, forward
    assert back in backward.partition("if need_dw:")[0], backward
    found = verify(made.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_what_windows_subtract_is_no_tensor_of_its_own() -> None:
    assert ", value=-1)" in code_of(sharpened.op).split("for at_three in range(3):")[1]


@pytest.mark.parametrize(
    ("made", "plain", "lengths"),
    [
        (one_blur, _one_blur, {"n": 2, "c": 3, "t": 8, "k": 3}),
        (blur_apart, _blur_apart, {"n": 2, "c": 3, "t": 9, "k": 3}),
        (sharpened, _sharpened, {"n": 2, "t": 6, "three": 3}),
    ],
)
def test_what_one_kernel_filters_agrees_with_torch(
    made: OpCall, plain: Callable[..., Tensor], lengths: dict[str, int]
) -> None:
    assert_derived_at(made.op, plain, lengths)


@op
def one_image(f, x: tensor[c, t], w: tensor[h, c, k]):
    f.y[h, u] = sum(w[h, c, k] * x[c, u + k], over=(c, k))
    return f.y


@pytest.mark.parametrize("made", [a_filter_a_row, filters_of_each, one_image])
def test_no_rows_are_no_groups_and_no_channels(made: OpCall) -> None:
    assert "convolve(functional.conv1d, " in code_of(made.op)
    found = verify(made.op)  # among others where the first axis has no places
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_a_signal_a_group_is_convolved_with_the_image() -> None:
    assert "dw = convolve(functional.conv1d, x, dy[:, None], groups=c)" in code_of(a_filter_a_row.op)
    code = code_of(autocorrelation.op)
    assert "conv1d_weight" not in code and "unfold" not in code, code
    found = verify(autocorrelation.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]
    x = torch.randn(2, 6, dtype=torch.float64)
    lagged = torch.stack([(x[:, : 6 - lag] * x[:, lag:]).sum(1) for lag in range(3)], 1) / 6
    r, _ = module(autocorrelation.op).autocorrelation_forward(x, 3)
    torch.testing.assert_close(r, lagged, rtol=1e-12, atol=1e-12)


@op
def of_each_channel(f, x: tensor[n, t, c], w: tensor[three, c]):
    f.y[n, u, c] = sum(w[three, c] * x[n, u + 2 * three, c], over=three)
    return f.y


@op
def of_each_channel_so_far(f, x: tensor[n, t, c], w: tensor[three, c]):
    f.y[n, t, c] = sum(where(t >= three, w[three, c] * x[n, t - three, c], 0), over=three)
    return f.y


@pytest.mark.parametrize("made", [of_each_channel, of_each_channel_so_far])
def test_a_few_taps_of_each_channel_are_slices_where_channels_come_last(made: OpCall) -> None:
    code = code_of(made.op)
    assert code.count("for at_three in range(3):") == 3 and "conv1d" not in code and ".addcmul_(w[at_three], " in code
    found = verify(made.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_what_reads_back_multiplies_nothing_before_the_first_place() -> None:
    assert "t_of_y = t + 2" in code_of(of_each_channel_so_far.op)
    x, w = torch.ones(2, 9, 1), torch.tensor([[1.0], [2.0], [torch.inf]])
    y = module(of_each_channel_so_far.op).of_each_channel_so_far(x, w)
    assert y[0, :3, 0].tolist() == [1, 3, torch.inf]


@op
def spread_apart(f, x: tensor[n, c, u], w: tensor[c, h, k], places: length(t)):
    f.y[n, h, t] = sum(where(eq(u + 3 * k, t), x[n, c, u] * w[c, h, k], 0), over=(c, u, k))
    return f.y


def test_a_filter_is_what_comes_behind_what_it_filters_also_where_its_places_lie_apart() -> None:
    """As an image of stride 3 and a kernel as long as the signal it took 100 times as long."""
    code = code_of(spread_apart.op)
    assert "stride" not in code and code.count("dilation=3") == 3
    x, w = (torch.randn(shape, dtype=torch.float64) for shape in ((2, 3, 7), (3, 4, 2)))
    want = functional.conv_transpose1d(x, w, dilation=3)
    torch.testing.assert_close(module(spread_apart.op).spread_apart(x, w, want.shape[-1]), want)
