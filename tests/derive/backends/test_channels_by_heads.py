"""Filters that several channels share, heads behind the places that they filter: a few slices, no transposed image."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, concat, delta, exp, mean, op, sum, tensor, where
from derive.output.live import build
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, assert_derived, module

b, h, n, r, t, five = axes("b h n r t five=5")


@op
def causal(f, x: tensor[b, t, h, r], k: tensor[h, five]):
    f.y[b, t, h, r] = sum(where(t >= five, k[h, five] * x[b, t - five, h, r], 0), over=five)
    return f.y


@op
def forwards(f, x: tensor[b, t, h, r], k: tensor[h, five]):
    f.y[b, n, h, r] = sum(k[h, five] * x[b, n + five, h, r], over=five)
    return f.y


@op
def taps_first(f, x: tensor[b, t, h, r], k: tensor[five, h]):
    f.y[b, n, h, r] = sum(k[five, h] * x[b, n + five, h, r], over=five)
    return f.y


@op
def heads_in_front(f, x: tensor[b, h, t], k: tensor[h, five]):
    f.y[b, h, n] = sum(k[h, five] * x[b, h, n + five], over=five)
    return f.y


def valid(x: Tensor, k: Tensor) -> Tensor:
    _, _, _, each = x.shape
    taps = k.repeat_interleave(each, 0)[:, None]
    return functional.conv1d(x.flatten(2).mT, taps, groups=len(taps)).mT.unflatten(2, x.shape[2:])


def _causal(x: Tensor, k: Tensor) -> Tensor:
    return valid(functional.pad(x, (0, 0, 0, 0, 4, 0)), k.flip(1))


CASES = [(causal, _causal), (forwards, valid), (taps_first, lambda x, k: valid(x, k.T))]


@pytest.mark.parametrize("sizes", [(2, 7, 3, 4), (1, 5, 1, 1), (3, 6, 2, 1), (2, 9, 5, 5)])
@pytest.mark.parametrize(("made", "reference"), CASES)
def test_values_and_gradients(made, reference, sizes):
    kernel = (5, sizes[2]) if made is taps_first else (sizes[2], 5)
    assert_derived(made.op, reference, {"x": sizes, "k": kernel})


@pytest.mark.parametrize("made", [causal, forwards, taps_first])
def test_each_turn_takes_a_slice(made):
    code = code_of(made.op)
    assert "conv" not in code and ".expand(5, h, r).contiguous()" in code and ".sum((0, 1)).sum(1)" in code


def test_what_lies_last_is_left_to_torch():
    assert "functional.conv1d(x, k[:, None], groups=h)" in code_of(heads_in_front.op)


def test_the_gradient_of_the_filter_keeps_its_digits():
    generator = torch.Generator().manual_seed(0)
    x, k = (torch.randn(*shape, generator=generator) for shape in ((8, 512, 8, 16), (8, 5)))
    cotangent = torch.randn(8, 512, 8, 16, generator=generator)

    def slope(function, dtype):
        kernel = k.to(dtype).requires_grad_()
        return torch.autograd.grad(function(x.to(dtype), kernel), kernel, cotangent.to(dtype))[0].double()

    right = slope(_causal, torch.float64)
    ours, autograds = (
        (slope(function, torch.float32) - right).abs().max() for function in (module(causal.op).causal, _causal)
    )
    assert ours <= 2 * autograds


rows, columns, all_rows = axes("rows columns all_rows")


@op
def means_at_own_places(f, x: tensor[rows, columns]):
    f.a[all_rows, rows] = concat(x[rows, columns], x[rows, columns], x[rows, columns], along=all_rows)
    f.y[all_rows] = sum(delta(all_rows, rows) * mean(f.a[(rows, columns), 1], over=columns), over=rows)
    return f.y, f.a


def test_what_was_padded_is_not_repeated() -> None:
    """`dy` is read at `j // size(columns)`, which is a row, and was padded to all rows."""
    x, dy, da = torch.randn(3, 2), torch.randn(6), torch.zeros(6, 3)
    made = build(means_at_own_places, proven=False)
    *_, saved = made.forward(x)
    dx = made.backward(dy, da, *saved)
    by_row = dy[:3].repeat_interleave(2) / 2  # of a[:, 1], which is x[1] three times
    assert torch.allclose(dx[1], by_row[:2] + by_row[2:4] + by_row[4:]) and not dx[[0, 2]].any()


@op
def beside_its_exponentials(f, x: tensor[rows, columns]):
    f.a[rows, columns] = x[(columns, rows), columns] * x[rows, columns]
    f.y[rows, all_rows] = concat(f.a[rows, columns], exp(x[rows, columns]), along=all_rows)
    return f.y


def test_what_was_joined_is_not_flattened_whole() -> None:
    """`dy` is read at `j % size(rows)` and `j // size(rows)`, a column, and has those of the exponentials behind it."""
    x = torch.randn(5, 1, dtype=torch.float64, requires_grad=True)
    wanted = torch.cat([x * x, x.exp()], 1)
    found = module(beside_its_exponentials.op).beside_its_exponentials(x)
    assert_alike(found, wanted, (x,))
