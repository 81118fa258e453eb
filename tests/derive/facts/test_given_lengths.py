"""A length that is an argument: that of an axis which an input has as well, or how many places of an axis are read."""

import re
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation import amax, axes, exp, length, mean, op, scalar, sigmoid, size, sqrt, sum, tensor
from derive.notation.spec import OpCall
from derive.output.live import build
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import as_tuple, module

n, m, d, e, k = axes("n m d e k")
pair = axes("pair=2")


@op
def mean_product(f, x: tensor[n, d], w: tensor[d], count: length(d)):
    f.y[n] = sum(x[n, d] * w[d], over=d) / size(d)
    return f.y


@op
def plain_mean(f, x: tensor[..., k], count: length(k)):
    f.y[...] = sum(x[..., k], over=k) / size(k)
    return f.y


@op
def partial_rms(f, x: tensor[..., d], gamma: tensor[d], part: length(k), eps: scalar = 1e-6):
    f.ms[...] = mean(x[..., k] ** 2, over=k)
    f.y[..., d] = x[..., d] / sqrt(f.ms[...] + eps) * gamma[d]
    return f.y


@op
def part_of_features(f, x: tensor[n, d], w: tensor[k], part: length(k)):
    f.y[n] = sum(x[n, k] * w[k], over=k)
    return f.y


@op
def off_part(f, x: tensor[n, d], part: length(k)):
    f.y[n, d] = x[n, d] - mean(x[n, k], over=k)
    return f.y


@op
def of_both(f, x: tensor[n, d], rows: length(m), part: length(k)):
    f.y[m, k] = x[m, k] * sum(x[n, d], over=(n, d))
    return f.y


@op
def part_of_made(f, x: tensor[n, d], part: length(k)):
    """Of a tensor that the op makes and returns."""
    f.h[n, d] = exp(x[n, d])
    f.y[n, k] = f.h[n, k] ** 2 + x[n, k]
    return f.h, f.y


@op
def part_shares(f, x: tensor[n, d], part: length(k)):
    f.p[n, k] = exp(x[n, k]) / sum(exp(x[n, k]), over=k)
    f.y[n] = sum(f.p[n, k] * x[n, k], over=k)
    return f.y


@op
def highest_of_part(f, x: tensor[n, d], part: length(k)):
    f.y[n] = amax(x[n, k], over=k)
    return f.y


@op
def gated(f, x: tensor[n, d], half: length(e)):
    f.y[n, e] = x[n, e] * sigmoid(x[n, e + size(e)])
    return f.y


def _rms(x: Tensor, gamma: Tensor, part: int) -> Tensor:
    return x / (x[..., :part].square().mean(-1, keepdim=True) + 1e-6).sqrt() * gamma


PARTS: dict[str, tuple[OpCall, tuple[tuple[int, ...], ...], list[list[int]], Callable]] = {
    "rms": (partial_rms, ((2, 3, 7), (7,)), [[4], [1], [7]], _rms),
    "features": (part_of_features, ((5, 7), (3,)), [[3]], lambda x, w, part: x[:, :part] @ w),
    "off": (off_part, ((5, 7),), [[3], [7]], lambda x, part: x - x[:, :part].mean(1, keepdim=True)),
    "both": (of_both, ((5, 7),), [[2, 3], [5, 7]], lambda x, rows, part: x[:rows, :part] * x.sum()),
    "made": (part_of_made, ((5, 7),), [[3], [7], [0]], lambda x, part: (x.exp(), x.exp()[:, :part] ** 2 + x[:, :part])),
    "shares": (part_shares, ((5, 7),), [[3], [7]], lambda x, part: (x[:, :part].softmax(1) * x[:, :part]).sum(1)),
    "highest": (highest_of_part, ((5, 7),), [[3], [7]], lambda x, part: x[:, :part].amax(1)),
    "gated": (gated, ((5, 7),), [[3], [2]], lambda x, part: x[:, :part] * x[:, part : 2 * part].sigmoid()),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("save", ["cost", "least", "input"])
def test_as_many_places_are_read_as_the_caller_says(name: str, save: str) -> None:
    made, shapes, every, plain = PARTS[name]
    live = build(made, save=save)
    generator = torch.Generator().manual_seed(0)
    for lengths in every:
        leaves = [torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes]
        found, wanted = (as_tuple(function(*leaves, *lengths)) for function in (live, plain))
        cotangents = [torch.randn(y.shape, dtype=y.dtype, generator=generator) for y in wanted]
        gradients = (torch.autograd.grad(ys, leaves, cotangents) for ys in (found, wanted))
        for ours, right in (*zip(found, wanted, strict=True), *zip(*gradients, strict=True)):
            torch.testing.assert_close(ours, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "made", [mean_product.op, plain_mean.op, partial_rms.op, part_of_features.op, gated.op], ids=lambda o: o.name
)
def test_in_every_situation(made: Op) -> None:
    found = verify(made)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


X, W = torch.ones(5, 8), torch.ones(8)


@pytest.mark.parametrize("workspace", [False, True])
def test_an_argument_is_as_long_as_the_axis_of_an_input(workspace: bool) -> None:
    live = build(mean_product, workspace=workspace)
    says = re.escape("mean_product: count is 4, but axis d is 8 in x; give count=8, or another x")
    for function in (live, live.forward):
        with pytest.raises(ValueError, match=says):
            function(X, W, 4)
    torch.testing.assert_close(live(X, W, 8), torch.ones(5))
    with pytest.raises(ValueError, match="plain_mean: count is 99, but axis k is 8 in x"):
        build(plain_mean)(X, 99)
    with pytest.raises(ValueError, match="part_of_features: part is 4, but axis k is 8 in w"):
        build(part_of_features)(X, W, 4)


def test_so_it_is_where_results_are_written_over() -> None:
    functions = vars(sys.modules[build(mean_product, workspace=True).forward.__module__])
    out = functions["mean_product_forward"](X, W, 8)
    with pytest.raises(ValueError, match="mean_product: count is 4, but axis d is 8 in x"):
        functions["mean_product_forward_out"](X, W, 4, out=out)
    with pytest.raises(ValueError, match="mean_product_forward_out: count is -1, expected the length of an axis"):
        functions["mean_product_forward_out"](X, W, -1, out=out)


def test_no_more_places_are_read_than_there_are() -> None:
    says = re.escape("partial_rms, equation ms: x[..., k] must fit into axis d, but d = 8 and part = 9")
    with pytest.raises(ValueError, match=says):
        build(partial_rms)(X, W, 9)


def test_no_length_is_below_0() -> None:
    says = "part is -1, expected the length of an axis; give 0 or more"
    with pytest.raises(ValueError, match=says):
        build(partial_rms)(X, W, -1)
    with pytest.raises(ValueError, match=says):
        build(off_part)(X, -1)


def test_a_read_along_the_own_axis_is_no_slice() -> None:
    """Where no length is given either, two axes of one tensor's dimension are of one length."""

    @op
    def weighed(f, x: tensor[n, d], w: tensor[k]):
        f.y[n] = sum(x[n, k] * w[k], over=k)
        return f.y

    for made in (mean_product, plain_mean, weighed):
        assert "[:, :" not in code_of(made.op)
        assert "[..., :" not in code_of(made.op)
    assert "check_given" not in code_of(weighed.op)


def test_one_length_is_said_once() -> None:
    with pytest.raises(DeriveError, match="b is the length of axis k, which is the argument a already; leave b out"):

        @op
        def twice(f, x: tensor[n], a: length(k), b: length(k)):
            f.y[n, k] = x[n] + k
            return f.y

    with pytest.raises(DeriveError, match="a is the length of axis pair, which is 2 already, where the axis is made"):

        @op
        def fixed(f, x: tensor[n], a: length(pair)):
            f.y[n, pair] = x[n] + pair
            return f.y


def test_it_is_checked_where_it_is_compiled() -> None:
    function = module(mean_product.op).mean_product_forward
    torch.testing.assert_close(torch.compile(function, backend="eager", fullgraph=True)(X, W, 8)[0], torch.ones(5))
    with pytest.raises(ValueError, match="count is 4, but axis d is 8 in x"):
        torch.compile(function, backend="eager")(X, W, 4)
