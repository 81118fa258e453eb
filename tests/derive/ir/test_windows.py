"""Reads through windows: which become convolutions, pools or slices, and that each agrees with loops."""

import re

import pytest
import torch
from torch.nn import functional

from derive.emit import render
from derive.notation import amax, axes, concat, length, mean, oo, op, size, sqrt, sum, tanh, tensor
from derive.pipeline import derivation_of
from tests.derive.against_loops import code_of, compare, named
from tests.derive.live import assert_alike, module

n, c, o, g, l, t, k, h, w, p, q, d, m = axes("n c o g l t k h w p q d m")
r, i, j, u, v = axes("r i j u v")
three, p2, q2 = axes("three=3 p2=2 q2=2")


@op
def along_one_axis(f, x: tensor[n, c, l], a: tensor[o, c, k], b: tensor[o]):
    f.y[n, o, t] = sum(x[n, c, 2 * t + 3 * k] * a[o, c, k], over=(c, k)) + b[o]
    return f.y


@op
def channels_last(f, x: tensor[n, l, c], a: tensor[k, c, o], b: tensor[o]):
    f.y[n, t, o] = sum(x[n, t + k, c] * a[k, c, o], over=(c, k)) + b[o]
    return f.y


@op
def pairs_of_heads(f, x: tensor[n, t, h, m], a: tensor[t, k]):
    """The place is behind three axes and before another."""
    f.z[n, t, h, p2, k] = x[n, t, h, (p2, k)] ** 2
    f.y[n, t, h, k] = f.z[n, t, h, 0, k] * a[t, k] - f.z[n, t, h, 1, k]
    return f.y


@op
def filtered(f, x: tensor[..., l], a: tensor[k]):
    f.y[..., t] = sum(x[..., 2 * t + k] * a[k], over=k)
    return f.y


@op
def one_filter(f, x: tensor[n, c, h, w], a: tensor[c, p, q]):
    f.y[n, i, j] = sum(x[n, c, i + 2 * p, j + q + 1] * a[c, size(p) - 1 - p, q], over=(c, p, q))
    return f.y


@op
def rows_alone(f, x: tensor[n, c, h, w], a: tensor[c, p]):
    f.y[n, c, i, w] = sum(x[n, c, i + 2 * p, w] * a[c, p], over=p)
    return f.y


@op
def in_groups(f, x: tensor[n, g, c, h, w], a: tensor[g, o, c, p, q]):
    f.y[n, g, o, i, j] = sum(x[n, g, c, 2 * i + p, 3 * j + q] * a[g, o, c, p, q], over=(c, p, q))
    return f.y


@op
def volumes(f, x: tensor[c, h, w, l], a: tensor[o, c, p, q, k]):
    f.y[o, i, j, t] = sum(x[c, i + p, j + q, t + k] * a[o, c, p, q, k], over=(c, p, q, k))
    return f.y


@op
def behind_the_first(f, x: tensor[n, c, l], a: tensor[o, c, k]):
    f.y[n, o, t] = sum(x[n, c, 2 * t + k + 1] * a[o, c, k], over=(c, k))
    return f.y


@op
def places_given(f, x: tensor[n, c, l], a: tensor[o, c, k], s: tensor[n, o, t]):
    f.y[n, o, t] = s[n, o, t] * sum(x[n, c, t + k] * a[o, c, k], over=(c, k))
    return f.y


@op
def two_scales(f, x: tensor[n, c, l], a: tensor[o, c, k], b: tensor[o, c, p]):
    f.y[n, o, t] = sum(x[n, c, t + k] * a[o, c, k], over=(c, k)) + sum(x[n, c, 2 * t + p] * b[o, c, p], over=(c, p))
    return f.y


@op
def one_further(f, x: tensor[n, l], a: tensor[k], b: tensor[k]):
    """The second windows start one later, so the first leave the last element out."""
    f.y[n, t] = sum(x[n, t + k] * a[k], over=k) + sum(x[n, t + k + 1] * b[k], over=k)
    return f.y


@op
def two_kernels(f, x: tensor[n, c, h, w], a: tensor[c, p], b: tensor[c, q]):
    f.y[n, c, i, j] = sum(x[n, c, i + p, j + q] * a[c, p] * b[c, q], over=(p, q))
    return f.y


@op
def kernel_of_each_place(f, x: tensor[n, l, d], a: tensor[n, t, k]):
    f.y[n, t, d] = sum(a[n, t, k] * x[n, t + k, d], over=k)
    return f.y


@op
def kernels_by_place(f, x: tensor[n, c, h, w], a: tensor[n, u, v, p, q]):
    f.y[n, c, u, v] = sum(x[n, c, u + p, v + q] * a[n, u, v, p, q], over=(p, q))
    return f.y


@op
def scores_nearby(f, a: tensor[n, t, d], x: tensor[n, l, d], width: length(k) = 2):
    f.y[n, t, k] = sum(a[n, t, d] * x[n, t + k, d], over=d) / sqrt(size(d))
    return f.y


@op
def stacked(f, x: tensor[n, c, l], a: tensor[o, c, k], b: tensor[m, o, p]):
    f.z[n, o, t] = sum(x[n, c, t + k] * a[o, c, k], over=(c, k)) ** 2
    f.y[n, m, u] = sum(f.z[n, o, 2 * u + p] * b[m, o, p], over=(o, p))
    return f.y


@op
def window_means(f, x: tensor[n, c, h, w], height: length(p) = 2, width: length(q) = 2):
    f.y[n, c, i, j] = mean(x[n, c, 2 * i + p, 3 * j + q + 1], over=(p, q))
    return f.y


@op
def window_maxima(f, x: tensor[n, c, l], width: length(k) = 2):
    f.y[n, c, t] = amax(x[n, c, t + 2 * k], over=k)
    return f.y


@op
def window_variance(f, x: tensor[..., l], width: length(k) = 2):
    f.mu[..., t] = mean(x[..., t + k], over=k)
    f.y[..., t] = mean((x[..., t + k] - f.mu[..., t]) ** 2, over=k)
    return f.y


@op
def row_maxima(f, x: tensor[n, l]):
    f.y[n, t] = amax(x[n, 2 * t + p2], over=p2)
    return f.y


@op
def differences(f, x: tensor[n, l]):
    f.y[n, t] = x[n, t + 1] - x[n, t]
    return f.y


@op
def two_places(f, x: tensor[n, d]):
    f.y[n] = x[n, 0] * x[n, 2]
    return f.y


@op
def taps_turned(f, x: tensor[n, c, l], a: tensor[o, c, k]):
    f.y[n, o, t] = sum(x[n, c, 2 * t - 3 * k + 3 * size(k) - 3] * a[o, c, k], over=(c, k))
    return f.y


@op
def taps_turned_in_a_function(f, x: tensor[n, l], a: tensor[k]):
    f.y[n, t] = sum(tanh(x[n, t - k + size(k) - 1] * a[k]), over=k)
    return f.y


@op
def each_tap_turned(f, x: tensor[n, l], a: tensor[k]):
    f.y[n, t, k] = x[n, t - k + size(k) - 1] * a[k]
    return f.y


@op
def places_turned(f, x: tensor[n, l], a: tensor[k]):
    f.y[n, t] = sum(x[n, k - t + size(l) - size(k)] * a[k], over=k)
    return f.y


@op
def toeplitz(f, x: tensor[n, l], a: tensor[k]):
    f.y[n, i] = sum(x[n, j] * a[i - j + size(l) - 1], over=j)
    return f.y


@op
def second_order(f, x: tensor[n, l], a: tensor[k, k]):
    """Both axes of the kernel are short, though the one has its length from the other."""
    f.y[n, t] = sum(a[k, m] * x[n, t + k] * x[n, t + m], over=(k, m))
    return f.y


@op
def even_and_odd(f, x: tensor[n, l]):
    f.y[n, t] = x[n, 2 * t] * x[n, 2 * t + 1]
    return f.y


@op
def padded_ahead(f, x: tensor[n, c, t], a: tensor[o, c, three]):
    """Its places are as many as the input has, its taps are fixed: nothing but that tells which is which."""
    f.z[n, c, l] = concat(0, 0, 0, 0, x[n, c, t], along=l)
    f.y[n, o, t] = sum(a[o, c, three] * f.z[n, c, t + 2 * three], over=(c, three))
    return f.y


@op
def gated_by_another(f, x: tensor[n, c, l], a: tensor[o, c, k], b: tensor[o, c, k]):
    f.u[n, o, t] = sum(a[o, c, k] * x[n, c, t + k], over=(c, k))
    f.v[n, o, t] = sum(b[o, c, k] * x[n, c, t + k], over=(c, k))
    f.y[n, o, t] = f.u[n, o, t] * tanh(f.v[n, o, t])
    return f.y


@op
def pooled_softly(f, x: tensor[n, h, w]):
    f.z[n, u, v, p2, q2] = tanh(x[n, 2 * u + p2, 2 * v + q2])
    f.y[n, u, v] = sum(f.z[n, u, v, p2, q2] ** 3, over=(p2, q2))
    return f.y


@op
def means_of_pairs(f, x: tensor[n, g, c, h, w]):
    """A level of a pyramid over the last two axes of what has three in front, as correlations of two images have."""
    f.y[n, g, c, u, v] = mean(x[n, g, c, 2 * u + p2, 2 * v + q2], over=(p2, q2))
    return f.y


@op
def maxima_of_pairs(f, x: tensor[n, g, c, l]):
    f.y[n, g, c, u] = amax(x[n, g, c, 2 * u + p2], over=p2)
    return f.y


@op
def bordered(f, x: tensor[..., t, c]):
    f.y[..., l, c] = concat(-oo, x[..., t, c] ** 2, -oo, -oo, along=l)
    return f.y


@op
def padded_with_two_numbers(f, x: tensor[n, t]):
    f.y[n, l] = concat(0, x[n, t], 1, along=l)
    return f.y


CASES = [
    (pairs_of_heads, {"n": 2, "t": 3, "h": 2, "m": 6, "k": 3}),
    (pairs_of_heads, {"n": 2, "t": 2, "h": 2, "m": 4, "k": 2}),
    (means_of_pairs, {"n": 2, "g": 3, "c": 2, "h": 4, "w": 5}),
    (means_of_pairs, {"n": 2, "g": 0, "c": 2, "h": 4, "w": 6}),
    (means_of_pairs, {"n": 2, "g": 2, "c": 2, "h": 2, "w": 2}),
    (maxima_of_pairs, {"n": 2, "g": 3, "c": 2, "l": 7}),
    (maxima_of_pairs, {"n": 2, "g": 3, "c": 0, "l": 6}),
    (pooled_softly, {"n": 2, "h": 4, "w": 5}),
    (pooled_softly, {"n": 0, "h": 4, "w": 6}),
    (even_and_odd, {"n": 2, "l": 6}),
    (even_and_odd, {"n": 2, "l": 7}),
    (even_and_odd, {"n": 2, "l": 1}),
    (along_one_axis, {"n": 2, "c": 3, "l": 9, "o": 4, "k": 2}),
    (along_one_axis, {"n": 2, "c": 1, "l": 10, "o": 1, "k": 1}),
    (along_one_axis, {"n": 0, "c": 3, "l": 9, "o": 4, "k": 2}),
    (channels_last, {"n": 2, "c": 3, "l": 6, "o": 3, "k": 3}),
    (one_filter, {"n": 2, "c": 3, "h": 7, "w": 6, "p": 3, "q": 2}),
    (one_filter, {"n": 2, "c": 1, "h": 1, "w": 2, "p": 1, "q": 1}),
    (one_filter, {"n": 0, "c": 2, "h": 5, "w": 6, "p": 2, "q": 2}),
    (rows_alone, {"n": 2, "c": 3, "h": 5, "w": 3, "p": 2}),
    (in_groups, {"n": 2, "g": 2, "c": 3, "o": 2, "h": 5, "w": 6, "p": 2, "q": 2}),
    (in_groups, {"n": 1, "g": 1, "c": 1, "o": 1, "h": 4, "w": 3, "p": 1, "q": 3}),
    (volumes, {"c": 2, "o": 3, "h": 3, "w": 4, "l": 3, "p": 2, "q": 1, "k": 3}),
    (behind_the_first, {"n": 2, "c": 2, "l": 7, "o": 3, "k": 2}),
    (behind_the_first, {"n": 2, "c": 2, "l": 8, "o": 3, "k": 2}),
    (places_given, {"n": 2, "c": 2, "l": 7, "o": 3, "k": 3, "t": 5}),
    (places_given, {"n": 2, "c": 2, "l": 7, "o": 3, "k": 3, "t": 2}),
    (two_scales, {"n": 2, "c": 2, "l": 8, "o": 3, "k": 3, "p": 2}),
    (one_further, {"n": 2, "l": 7, "k": 3}),
    (two_kernels, {"n": 2, "c": 3, "h": 4, "w": 5, "p": 2, "q": 3}),
    (kernel_of_each_place, {"n": 2, "l": 6, "d": 3, "t": 4, "k": 3}),
    (kernels_by_place, {"n": 2, "c": 3, "h": 6, "w": 5, "u": 4, "v": 4, "p": 3, "q": 2}),
    (kernels_by_place, {"n": 0, "c": 3, "h": 6, "w": 5, "u": 4, "v": 4, "p": 3, "q": 2}),
    (kernels_by_place, {"n": 2, "c": 3, "h": 6, "w": 5, "u": 4, "v": 4, "p": 1, "q": 1}),
    (scores_nearby, {"n": 2, "l": 6, "d": 3, "t": 4, "k": 2}),
    (gated_by_another, {"n": 2, "c": 2, "l": 7, "o": 3, "k": 2}),
    (stacked, {"n": 2, "c": 2, "l": 8, "o": 3, "k": 2, "m": 2, "p": 3}),
    (window_means, {"n": 2, "c": 3, "h": 5, "w": 8, "p": 2, "q": 2}),
    (window_maxima, {"n": 2, "c": 3, "l": 7, "k": 2}),
    (row_maxima, {"n": 2, "l": 6}),
    (row_maxima, {"n": 0, "l": 7}),
    (differences, {"n": 2, "l": 5}),
    (differences, {"n": 2, "l": 1}),
    (two_places, {"n": 2, "d": 4}),
    (taps_turned, {"n": 2, "c": 2, "l": 9, "o": 3, "k": 3}),
    (taps_turned, {"n": 2, "c": 2, "l": 10, "o": 3, "k": 3}),
    (taps_turned, {"n": 1, "c": 1, "l": 1, "o": 1, "k": 1}),
    (taps_turned_in_a_function, {"n": 2, "l": 7, "k": 3}),
    (each_tap_turned, {"n": 2, "l": 7, "k": 3}),
    (places_turned, {"n": 2, "l": 7, "k": 3}),
    (toeplitz, {"n": 2, "l": 4, "j": 4, "k": 6}),
    (second_order, {"n": 2, "l": 6, "k": 3, "k2": 3}),
]


@pytest.mark.parametrize("strides", ["plain", "transposed"])
@pytest.mark.parametrize(("made", "sizes"), CASES, ids=named(CASES))
def test_against_loops(made: object, sizes: dict[str, int], strides: str) -> None:
    compare(made.op, sizes, strides=strides)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("batch", "places"), [(2, 6), (0, 6), (2, 1), (0, 1)])
def test_padded_ahead(batch: int, places: int) -> None:
    x = torch.randn(batch, 2, places, dtype=torch.float64, requires_grad=True)
    a = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    wanted = functional.conv1d(functional.pad(x, (4, 0)), a, dilation=2)
    assert_alike(module(padded_ahead.op).padded_ahead(x, a), wanted, [x, a])


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (0, 4, 3), (2, 0, 3)])
def test_bordered(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y, wanted = module(bordered.op).bordered(x), functional.pad(x**2, (0, 0, 1, 2), value=-torch.inf)
    torch.testing.assert_close(y, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        *(torch.autograd.grad(out[..., 1:-2, :].sum(), x)[0] for out in (y, wanted)), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("pack", [(), (3,), (2, 3), (0, 2)])
@pytest.mark.parametrize("made", [filtered, window_variance], ids=["filtered", "window_variance"])
def test_leading_axes(made: object, pack: tuple[int, ...]) -> None:
    compare(made.op, {"l": 6, "k": 2}, pack)  # type: ignore[attr-defined]


# spec: what its module says and what it does not
WRITTEN = [
    (along_one_axis, "y = functional.conv1d(x, a, b, stride=2, dilation=3)", "einsum"),
    (along_one_axis, "dx = torch.nn.grad.conv1d_input((n, c, l), a, dy, stride=2, dilation=3)", "for "),
    (along_one_axis, "da = torch.nn.grad.conv1d_weight(x, (o, c, k), dy, stride=2, dilation=3)", "unfold"),
    (padded_ahead, "z = functional.pad(x, (4, 0))", "torch.cat"),
    (bordered, "y = functional.pad(x.square(), (0, 0, 1, 2), value=-math.inf)", "torch.cat"),
    (padded_with_two_numbers, "torch.cat", "pad("),
    (padded_ahead, "functional.conv1d(z, a, dilation=2)", "permute"),
    (padded_ahead, "conv1d_input((n, c, l), a, dy, dilation=2)", "permute"),
    (padded_ahead, "conv1d_weight(z, (o, c, 3), dy, dilation=2)", "permute"),
    (pooled_softly, "x.unfold(1, 2, 2).unfold(2, 2, 2)", "narrow"),
    (pooled_softly, "2 * u, : 2 * v].unflatten(1, (u, 2)).unflatten(3, (v, 2)).copy_(dz.transpose(2, 3))", "for at_"),
    (channels_last, "y = functional.conv1d(x.mT, a.transpose(0, 2), b).mT", "unfold"),
    (one_filter, "(q - 1, q - 1, 2 * (p - 1), 2 * (p - 1))), a.flip(2)[:, None], dilation=(2, 1)", "2d_input"),
    (rows_alone, "functional.conv2d(x, a[:, None, :, None], dilation=(2, 1), groups=c)", "unfold"),
    (volumes, "convolve(functional.conv3d, x, a)", "unfold"),
    (behind_the_first, "dx[:, :, 1:] = torch.nn.grad.conv1d_input((n, c, l - 1), a, dy, stride=2)", "for "),
    (places_given, "conv1d(x[:, :, : t + k - 1], a)", "unfold"),
    (gated_by_another, "dx += torch.nn.grad.conv1d_input((n, c, l), b, dv)", "einsum"),
    (two_kernels, "functional.conv2d(x, (a[:, :, None] * b[:, None])[:, None], groups=c)", "index_put_"),
    (kernel_of_each_place, "for at_k in range(k):", "conv"),
    (kernel_of_each_place, "dx[:, at_k : at_k + t].addcmul_(", "patches"),
    (scores_nearby, "for at_k in range(width):", "conv"),
    (window_maxima, "+= dx_share * (x[:, :, 2 * at_k : 2 * at_k + t] == y)", "patches"),
    (window_maxima, "sum_x_y += (x[:, :, 2 * at_k : 2 * at_k + t] == y).view(torch.int8)", ".unfold("),
    (window_means, "window_sums(x[:, :, :, 1:], {2: height, 3: width}, steps={2: 2, 3: 3}).div_(", "patches"),
    (window_maxima, "functional.max_pool1d(x, width, stride=1, dilation=2)", "index_put_"),
    (means_of_pairs, "y = window_sums(x, {3: 2, 4: 2}, steps={3: 2, 4: 2}).div_(4)", ".unfold("),
    (maxima_of_pairs, "pool1d(x.flatten(0, 2)[:, None], 2, stride=2).squeeze(1).unflatten(0, (n, g, c))", "patches"),
    (window_variance, "x.unfold(-1, width, 1).mean(-1", "mT"),
    (differences, "y = x[:, 1:] - x[:, :t]", "narrow"),
    (two_places, "x[:, 0] * x[:, 2]", "+="),
    (even_and_odd, "t = l // 2", "min("),
    (second_order, "for at_m in range(m):", "range(t)"),
    (taps_turned, "y = functional.conv1d(x, a.flip(2), stride=2, dilation=3)", "arange"),
    (taps_turned, "conv1d_input((n, c, l), a.flip(2), dy, stride=2, dilation=3)", "index_put_"),
    (taps_turned, "conv1d_weight(x, (o, c, k), dy, stride=2, dilation=3).flip(2)", "unfold"),
    (taps_turned_in_a_function, "y = (a.flip(0) * x.unfold(1, k, 1)).tanh_().sum(2)", "arange"),
    (taps_turned_in_a_function, "dx[:, at_k : at_k + t] += a[k - 1 - at_k] * dy * ", "index_put_"),
    (each_tap_turned, "y = a * x.unfold(1, k, 1).flip(2)", "arange"),
    (places_turned, ", a).flip(1)", "arange"),
    (toeplitz, "y = convolve(functional.conv1d, a[None], x.flip(1)[:, None])", "arange"),
    (toeplitz, "dx = convolve(torch.nn.grad.conv1d_weight, a[None, None], (n, 1, l), dy[None]).s", "index_put_"),
]


@pytest.mark.parametrize(("made", "said", "unsaid"), WRITTEN, ids=named(WRITTEN))
def test_written_as_a_person_would(made: object, said: str, unsaid: str) -> None:
    source = code_of(made.op)  # type: ignore[attr-defined]
    assert said in source and unsaid not in source, source


@pytest.mark.parametrize(
    ("made", "shapes", "error"),
    [
        (
            in_groups,
            [(1, 2, 3, 4, 1), (2, 3, 3, 2, 2)],
            "in_groups, equation y: x[n, g, c, 2*i + p, 3*j + q] must fit into axis w, but w = 1 and q = 2",
        ),
        (
            stacked,
            [(2, 3, 4), (5, 3, 2), (2, 5, 4)],
            "equation y: z[n, o, p + 2*u] must fit into axis t, but t = 3 and p = 4",
        ),
        (
            places_given,
            [(1, 1, 5), (1, 1, 3), (1, 1, 4)],
            "x[n, c, k + t] must fit into axis l, but l = 5 and k = 3 and t = 4",
        ),
    ],
)
def test_windows_that_do_not_fit(made: object, shapes: list[tuple[int, ...]], error: str) -> None:
    name = made.op.name  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=re.escape(error)):
        getattr(module(made.op), name)(*(torch.zeros(s) for s in shapes))  # type: ignore[attr-defined]


@op
def added_to_later(f, x: tensor[k], w: tensor[n], o: tensor[m]):
    f.g[k, n] = x[k] * w[n]
    f.h[n, l, k, m] = f.g[k, 3 * l + m] * f.g[k, n] + o[m]
    f.p[()] = f.h[0, size(l) - 1, size(k) - 1, 0]
    return f.p


def test_a_gradient_that_is_added_to_has_its_own_order_of_axes() -> None:
    args = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in (3, 3, 3)]
    assert torch.autograd.gradcheck(module(added_to_later.op).added_to_later, args)


def test_places_in_a_window_are_added_as_slices() -> None:
    """Rows of a few elements are slow to add up: the places stand in front."""
    code = render(derivation_of(kernels_by_place.op))
    assert "a.permute(3, 4, 0, 1, 2).contiguous()" in code and "y.addcmul_(a_by_" in code


@op
def mixed_with_its_neighbour(f, x: tensor[n, l], a: tensor[n, l], b: tensor[n]):
    f.y[n, t] = a[n, t] * x[n, t] + b[n] * x[n, t + 1] - 3 * x[n, t + 2]
    return f.y


def test_products_are_added_to_slices_in_one_pass() -> None:
    code = code_of(mixed_with_its_neighbour.op)
    assert re.search(r"dx\[:, \S.*\]\.addcmul_\(", code), code
    assert "+= " not in code.partition("_backward(")[2].partition("class ")[0], code
    for sizes in ({"n": 2, "l": 7}, {"n": 3, "l": 3}, {"n": 2, "l": 2}):
        compare(mixed_with_its_neighbour.op, sizes)
