"""Sums over more axes than their terms have, and products of matrices, are left out where sums read them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, constant, mean, op, size, sqrt, sum, tanh, tensor
from derive.emit import render
from derive.ir.equations import Op
from derive.ir.program import Assign
from derive.pipeline import derivation_of, derive_op
from tests.derive.live import assert_derived

b, d, e, i, j, o = axes("b d e i j o")


@op
def relative(f, q: tensor[b, i, d], p: tensor[b, j, d], r: tensor[i, j, d]):
    f.y[b, i, j] = sum(q[b, i, d] * (p[b, j, d] + r[i, j, d]), over=d)
    return f.y


@op
def relative_by_name(f, q: tensor[b, i, d], p: tensor[b, j, d], r: tensor[i, j, d]):
    f.pr[b, i, j, d] = p[b, j, d] + r[i, j, d]
    f.y[b, i, j] = sum(q[b, i, d] * f.pr[b, i, j, d], over=d)
    return f.y


@op
def both_shifted(f, q: tensor[i, d], p: tensor[j, d], u: tensor[j, d], v: tensor[i, d]):
    f.y[i, j] = sum((q[i, d] + u[j, d]) * (p[j, d] + v[i, d]), over=d)
    return f.y


@op
def pairs(f, x: tensor[i, d], w: tensor[d, o], v: tensor[d, o]):
    f.h[i, j, d] = x[i, d] + x[j, d]
    f.y[i, j, o] = tanh(sum(f.h[i, j, d] * w[d, o], over=d)) * sum(f.h[i, j, d] * v[d, o], over=d)
    return f.y


@op
def averaged(f, x: tensor[i, d], z: tensor[j, d], w: tensor[d, o]):
    f.h[i, j, d] = x[i, d] + z[j, d]
    f.y[i, o] = mean(f.h[i, j, d] * w[d, o], over=(j, d))
    return f.y


@op
def apart(f, x: tensor[i, d], w: tensor[d, o]):
    f.y[i, j, o] = tanh(sum((x[i, d] - x[j, d]) * w[d, o], over=d))
    return f.y


@op
def returned(f, x: tensor[i, d], z: tensor[j, d], w: tensor[d, o]):
    f.h[i, j, d] = x[i, d] + z[j, d]
    f.y[j, o] = sum(f.h[i, j, d] * w[d, o], over=(i, d))
    return f.y, f.h


@op
def squashed(f, x: tensor[i, d], z: tensor[j, d]):
    f.h[i, j, d] = x[i, d] + z[j, d]
    f.y[i, j] = sum(tanh(f.h[i, j, d]), over=d)
    return f.y


@op
def mean_of_sums(f, x: tensor[i, b, d], z: tensor[j, b, d]):
    f.y[i, j] = mean(-sum(x[i, b, d] * z[j, b, d], over=d) / sqrt(size(d)), over=b)
    return f.y


@op
def weighted_sums(f, x: tensor[i, b, d], z: tensor[j, b, d], w: constant[b]):
    f.s[i, j, b] = sum(x[i, b, d] * z[j, b, d], over=d)
    f.y[i, j] = mean(w[b] * f.s[i, j, b], over=b)
    return f.y


@op
def mean_of_squares(f, x: tensor[i, b, d], z: tensor[j, b, d]):
    f.s[i, j, b] = sum(x[i, b, d] * z[j, b, d], over=d)
    f.y[i, j] = mean(f.s[i, j, b] ** 2, over=b)
    return f.y


@op
def mean_of_affine(f, x: tensor[i, d], w: tensor[d, o], c: tensor[o]):
    f.y[i] = mean(sum(x[i, d] * w[d, o], over=d) + c[o], over=o)
    return f.y


@op
def mean_of_a_layer(f, x: tensor[i, d], w: tensor[d, o], c: tensor[o], v: constant[o]):
    """What is added has a name together with the product, and both are weighed."""
    f.h[i, o] = sum(x[i, d] * w[d, o], over=d) + c[o]
    f.y[i] = mean(v[o] * f.h[i, o], over=o)
    return f.y


@op
def less_a_bias(f, x: tensor[i, d], w: tensor[d, o], c: tensor[o]):
    """The two may be all but equal."""
    f.y[i] = mean(sum(x[i, d] * w[d, o], over=d) - c[o], over=o)
    return f.y


@op
def less_a_named_bias(f, x: tensor[i, d], w: tensor[d, o], c: tensor[o]):
    f.y_sum[i, o] = sum(x[i, d] * w[d, o], over=d) - c[o]
    f.y[i] = mean(f.y_sum[i, o], over=o)
    return f.y


@op
def between_biases(f, x: tensor[i, d], w: tensor[d, o], c: tensor[o], v: tensor[o]):
    f.y[i] = mean(sum(x[i, d] * w[d, o], over=d) - c[o] + v[o], over=o)
    return f.y


@op
def with_one_a_row(f, x: tensor[i, d], w: tensor[d, o], r: tensor[i]):
    """What is added lacks the axis that is summed."""
    f.h[i, o] = sum(x[i, d] * w[d, o], over=d) + r[i]
    f.y[i] = sum(f.h[i, o], over=o)
    return f.y


@op
def mean_with_one_a_row(f, x: tensor[i, d], w: tensor[d, o], r: tensor[i]):
    f.y[i] = mean(sum(x[i, d] * w[d, o], over=d) + r[i], over=o)
    return f.y


@op
def beside_a_matrix(f, x: tensor[i, d], w: tensor[d, o], r: tensor[i, o]):
    """Which is as large as the product."""
    f.y[i] = mean(sum(x[i, d] * w[d, o], over=d) + r[i, o], over=o)
    return f.y


def _pairs(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    h = x[:, None] + x
    return (h @ w).tanh() * (h @ v)


REFERENCES: dict[str, Callable[..., Tensor]] = {
    "relative": lambda q, p, r: torch.einsum("bid,bijd->bij", q, p[:, None] + r),
    "relative_by_name": lambda q, p, r: torch.einsum("bid,bijd->bij", q, p[:, None] + r),
    "both_shifted": lambda q, p, u, v: ((q[:, None] + u) * (p + v[:, None])).sum(2),
    "pairs": _pairs,
    "averaged": lambda x, z, w: ((x[:, None] + z) @ w).mean(1) / w.shape[0],
    "apart": lambda x, w: ((x[:, None] - x) @ w).tanh(),
    "mean_of_affine": lambda x, w, c: (x @ w + c).mean(1),
    "mean_of_a_layer": lambda x, w, c, v: ((x @ w + c) * v).mean(1),
    "less_a_bias": lambda x, w, c: (x @ w - c).mean(1),
    "less_a_named_bias": lambda x, w, c: (x @ w - c).mean(1),
    "between_biases": lambda x, w, c, v: (x @ w - c + v).mean(1),
    "with_one_a_row": lambda x, w, r: (x @ w + r[:, None]).sum(1),
    "mean_with_one_a_row": lambda x, w, r: (x @ w + r[:, None]).mean(1),
    "beside_a_matrix": lambda x, w, r: (x @ w + r).mean(1),
    "mean_of_sums": lambda x, z: torch.einsum("ibd,jbd->ij", x, z) / (-x.shape[1] * x.shape[2] ** 0.5),
    "weighted_sums": lambda x, z, w: torch.einsum("ibd,jbd,b->ij", x, z, w) / len(w),
    "mean_of_squares": lambda x, z: torch.einsum("ibd,jbd->ijb", x, z).square().mean(2),
    "squashed": lambda x, z: (x[:, None] + z).tanh().sum(2),
}
_SPECS = [relative, relative_by_name, both_shifted, pairs, averaged, apart, returned, squashed]
_SPECS += [mean_of_affine, mean_of_a_layer, less_a_bias, beside_a_matrix, less_a_named_bias]
_SPECS += [between_biases, with_one_a_row, mean_with_one_a_row, mean_of_sums, weighted_sums, mean_of_squares]
OPS: dict[str, Op] = {made.op.name: made.op for made in _SPECS}
SIZES = {"b": 2, "d": 3, "i": 4, "j": 5, "o": 6}


def _over(made: Op, *wanted: str) -> list[str]:
    """What the forward and the backward make over these axes."""
    derived = derive_op(made)
    statements = [*derived.forward.statements, *derived.backward.statements]
    return [s.name for s in statements if isinstance(s, Assign) and set(s.axes) == set(wanted)]


@pytest.mark.parametrize("name", ["relative", "relative_by_name"])
def test_what_is_larger_than_its_terms_is_not_made(name: str) -> None:
    assert _over(OPS[name], "b", "i", "j", "d") == []


def test_factors_that_are_such_sums_are_all_multiplied_out() -> None:
    assert _over(OPS["both_shifted"], "i", "j", "d") == []


@pytest.mark.parametrize("name", ["pairs", "averaged"])
def test_nor_is_the_gradient_that_is_summed_over_the_same_axes(name: str) -> None:
    assert _over(OPS[name], "i", "j", "d") == []


@pytest.mark.parametrize("name", ["mean_of_sums", "weighted_sums"])
def test_a_mean_of_sums_is_one_sum(name: str) -> None:
    assert _over(OPS[name], "i", "j", "b") == []


@pytest.mark.parametrize("name", ["mean_of_affine", "mean_of_a_layer", "with_one_a_row", "mean_with_one_a_row"])
def test_so_is_one_of_sums_with_a_bias(name: str) -> None:
    assert not {"h", "y_sum"} & set(_over(OPS[name], "i", "o"))


@pytest.mark.parametrize("name", ["less_a_bias", "beside_a_matrix", "less_a_named_bias", "between_biases"])
def test_what_is_subtracted_or_as_large_stays_beside_the_product(name: str) -> None:
    assert "y_sum" in _over(OPS[name], "i", "o")


def test_a_mean_of_their_squares_is_not() -> None:
    assert _over(OPS["mean_of_squares"], "i", "j", "b")


def test_any_other_is() -> None:
    assert _over(OPS["squashed"], "i", "j", "d")


def test_a_difference_is_not_multiplied_out() -> None:
    """Its terms may be all but equal, and what remains of them less exact than either."""
    assert "x[i, d] - x[j, d]" in str(derive_op(OPS["apart"]).forward)


def test_so_is_what_is_returned() -> None:
    assert "h" in _over(OPS["returned"], "i", "j", "d")


@pytest.mark.parametrize("name", REFERENCES)
def test_values_and_gradients(name: str) -> None:
    shapes = {o.name: tuple(SIZES[a.base] for a in o.axes) for o in OPS[name].operands}
    assert_derived(OPS[name], REFERENCES[name], shapes)


@op
def two_sums(f, q: tensor[b, o, i, d], k: tensor[b, j, d], r: tensor[i, j, d], v: tensor[b, j, e]):
    f.m[b, i, d, e] = sum((k[b, j, d] + r[i, j, d]) * v[b, j, e], over=j)
    f.y[b, o, i, e] = sum(q[b, o, i, d] * f.m[b, i, d, e], over=d)
    return f.y


@pytest.mark.parametrize("save", ["cost", "kernel"])
def test_a_sum_of_a_sum_is_written_out_as_the_first_has_left_it(save: str) -> None:
    """The value of the second still read the first, which was gone."""
    derive_op(two_sums.op, save)


@op
def filter_by_filter(f, x: tensor[b, d, i], w: tensor[o, d, e]):
    """As one says it who thinks of an image at a time: the taps first, then the channels."""
    f.y[b, o, j] = sum(sum(x[b, d, j + e] * w[o, d, e], over=e), over=d)
    return f.y


@op
def channel_by_channel(f, x: tensor[b, d, i], w: tensor[o, d, e], c: tensor[o]):
    f.taps[b, o, j, e] = sum(x[b, d, 2 * j + e] * w[o, d, e], over=d)
    f.y[b, o, j] = sum(f.taps[b, o, j, e], over=e) + c[o]
    return f.y


def test_a_sum_of_what_windows_read_is_one_sum() -> None:
    """It is one convolution, without the tensor that lies between."""
    for made, calls in ((filter_by_filter, "conv1d(x, w)"), (channel_by_channel, "conv1d(x, w, c, stride=2)")):
        forward = render(derivation_of(made.op)).partition("_forward(")[2].partition("def ")[0]
        assert calls in forward, forward
        assert "sum(" not in "".join(line.partition("#")[0] for line in forward.splitlines()), forward
    shapes = {"x": (2, 3, 9), "w": (4, 3, 2)}
    assert_derived(filter_by_filter.op, lambda x, w: torch.conv1d(x, w), shapes)
    assert_derived(channel_by_channel.op, lambda x, w, c: torch.conv1d(x, w, c, stride=2), shapes | {"c": (4,)})
