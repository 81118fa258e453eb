"""A sum over an axis of two to four places is a sum of what is read at each."""

import pytest
from torch import Tensor

from derive import axes, mean, op, sum, tensor
from derive.emit import render
from tests.derive.live import assert_derived

n, c, h, w, d, two, pair, three, five = axes("n c h w d two=2 pair=2 three=3 five=5")


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


def test_behind_leading_dimensions() -> None:
    assert "y = x[..., 0] + x[..., 1] + x[..., 2]" in render(totals.op.derivation)
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
    assert said in render(made.op.derivation), render(made.op.derivation)
    for shape in (sizes, {name: (1,) * len(own) for name, own in sizes.items()}):
        assert_derived(made.op, reference, shape)


def test_longer_axes_and_what_is_computed_are_summed() -> None:
    code = render(averages.op.derivation).partition("_backward(")[0]
    assert "c = (w[:, 0] + w[:, 1] + w[:, 2]) / 3" in code
    for summed in ("b = w.mean(0)", "e = v.mean(1", "w.square().sum(1)"):
        assert summed in code, code

    def reference(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return x.sum(-1)[..., None] + w.mean(1) * v.mean(1) + w.square().sum(1) * w.mean(0)[2]

    for leading in ((), (4,), (2, 5)):
        assert_derived(averages.op, reference, {"x": (*leading, 3), "w": (6, 3), "v": (6, 5)})
