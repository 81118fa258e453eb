"""A sum over an axis of two to four places is a sum of what is read at each."""

import pytest
import torch
from torch import Tensor

from derive import axes, concat, mean, op, sum, tanh, tensor
from derive.emit import render
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from generated._functions import sum_of_few
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

n, c, h, w, d, k, two, pair, three, five = axes("n c h w d k two=2 pair=2 three=3 five=5")


@op
def enlarged(f, x: tensor[n, c, h]):
    f.z[n, c, h, two] = x[n, c, h]
    f.y[n, c, (h, two)] = f.z[n, c, h, two]
    return f.y


@op
def enlarged_twice(f, x: tensor[n, h, w]):
    f.z[n, h, two, w, pair] = x[n, h, w]
    f.y[n, (h, two), (w, pair)] = f.z[n, h, two, w, pair]
    return f.y


@op
def beside_itself(f, x: tensor[n, h]):
    f.z[n, two, h] = x[n, h]
    f.y[n, (two, h)] = f.z[n, two, h]
    return f.y


@op
def totals(f, x: tensor[..., three]):
    f.y[...] = sum(x[..., three], over=three)
    return f.y


@op
def averages(f, x: tensor[..., three], w: tensor[d, three], v: tensor[d, five]):
    f.a[...] = sum(x[..., three], over=three)
    f.b[three] = mean(w[d, three], over=d)
    f.c[d] = mean(w[d, three], over=three)
    f.e[d] = mean(v[d, five], over=five)
    f.y[..., d] = f.a[...] + f.c[d] * f.e[d] + sum(w[d, three] ** 2, over=three) * f.b[2]
    return f.y


@op
def to_each(f, x: tensor[n, three], z: tensor[d, three]):
    """Of what is computed."""
    f.y[n, d] = sum(abs(x[n, three] - z[d, three]) ** 3, over=three) + sum(x[n, three] ** 2, over=three) / 2
    return f.y


@op
def turned(f, q: tensor[h, w, five]):
    f.y[w, h] = mean(tanh(q[h, w, five]), over=five)
    return f.y


@op
def enlarged_beside(f, x: tensor[n, c, h], z: tensor[n, d, w]):
    """Upsampled, and joined with what was skipped (Ronneberger, Fischer & Brox, 2015)."""
    f.up[n, c, (h, two)] = x[n, c, h]
    f.joined[n, k, w] = concat(f.up[n, c, w], z[n, d, w], along=k)
    f.y[n, k, w] = f.joined[n, k, w] ** 2
    return f.y


def test_beside_a_slice() -> None:
    code = code_of(enlarged_beside.op)
    assert "dx = djoined[:, :c, : 2 * h : 2] + djoined[:, :c, 1 : 1 + 2 * h : 2]" in code, code
    plain = lambda x, z: torch.cat([x.repeat_interleave(2, 2), z], 1).square()  # noqa: E731
    assert_derived(enlarged_beside.op, plain, {"x": (2, 3, 4), "z": (2, 2, 8)})


def test_what_is_computed_is_multiplied_by_ones() -> None:
    code = render(derivation_of(to_each.op))
    assert "sum_of_few(" in code and ".sum(2)" not in code, code
    assert "sum_of_few(tanh_q) / 5).T" in render(derivation_of(turned.op))

    def plain(x: Tensor, z: Tensor) -> Tensor:
        return ((x[:, None] - z).abs() ** 3).sum(2) + x.square().sum(1, keepdim=True) / 2

    for rows in (2, 500):  # few elements, and many
        assert_derived(to_each.op, plain, {"x": (rows, 3), "z": (4, 3)})
        assert_derived(turned.op, lambda q: q.tanh().mean(2).T, {"q": (rows, 3, 5)})
    assert verify(to_each.op).right


@pytest.mark.parametrize("places", [1, 2, 3, 16])
@pytest.mark.parametrize("rows", [(), (0,), (7,), (900,), (30, 40)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sums_of_few(rows: tuple[int, ...], places: int, dtype: torch.dtype) -> None:
    whole = torch.randn(*rows, places, dtype=torch.float64).to(dtype)
    turned = torch.randn(places, *rows[::-1], dtype=torch.float64).to(dtype).permute(*range(len(rows), -1, -1))
    for t in (whole, turned):
        for keepdim in (False, True):
            found, wanted = sum_of_few(t, keepdim), t.double().sum(-1, keepdim=keepdim)
            assert found.shape == wanted.shape and found.dtype == dtype
            off = (found.double() - wanted).abs()
            assert (off <= 4 * torch.finfo(dtype).eps * t.double().abs().sum(-1, keepdim=keepdim)).all()
    if rows == (900,):
        whole[3, 0], whole[4, 0] = torch.inf, torch.nan
        assert torch.equal(sum_of_few(whole).isfinite(), whole.isfinite().all(-1))


def test_behind_leading_dimensions() -> None:
    assert "y = x[..., 0] + x[..., 1] + x[..., 2]" in render(derivation_of(totals.op))
    for leading in ((), (4,), (2, 5), (0,)):
        assert_derived(totals.op, lambda x: x.sum(-1), {"x": (*leading, 3)})


@pytest.mark.parametrize(
    ("made", "reference", "sizes", "said"),
    [
        (enlarged, lambda x: x.repeat_interleave(2, 2), {"x": (3, 2, 4)}, "dx = dy[:, :, ::2] + dy[:, :, 1::2]"),
        (
            enlarged_twice,
            lambda x: x.repeat_interleave(2, 1).repeat_interleave(2, 2),
            {"x": (3, 2, 5)},
            "dy[:, ::2, ::2] + dy[:, 1::2, ::2] + dy[:, ::2, 1::2] + dy[:, 1::2, 1::2]",
        ),
        (beside_itself, lambda x: x.repeat(1, 2), {"x": (3, 5)}, "dx = dy[:, :h] + dy[:, h : 2 * h]"),
    ],
)
def test_values_gradients_and_code(made, reference, sizes, said) -> None:
    assert said in render(derivation_of(made.op)), render(derivation_of(made.op))
    for shape in (sizes, {name: (1,) * len(own) for name, own in sizes.items()}):
        assert_derived(made.op, reference, shape)


def test_longer_axes_and_what_is_computed_are_summed_at_once() -> None:
    code = render(derivation_of(averages.op)).partition("_backward(")[0]
    assert "c = (w[:, 0] + w[:, 1] + w[:, 2]) / 3" in code
    for summed in ("b = w.mean(0)", "e = sum_of_few(v", "sum_of_few(w.square()"):
        assert summed in code, code

    def reference(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return x.sum(-1)[..., None] + w.mean(1) * v.mean(1) + w.square().sum(1) * w.mean(0)[2]

    for leading in ((), (4,), (2, 5)):
        assert_derived(averages.op, reference, {"x": (*leading, 3), "w": (6, 3), "v": (6, 5)})
