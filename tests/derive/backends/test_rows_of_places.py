"""What an index picks for each of other axes, whole behind it, is a row for each place: no index for every element."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, eq, exp, index, op, sigmoid, sum, tensor, where
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

b, c, d, e, h, i, k, n, t, w = axes("b c d e h i k n t w")


@op
def best_expert(f, z: tensor[n, k], y: tensor[n, k, d, e], best: index(k)[n]):
    f.o[n, d, e] = sigmoid(z[n, best[n]]) * y[n, best[n], d, e]
    return f.o


@op
def twice(f, y: tensor[n, k, d], one: index(k)[n], other: index(k)[n]):
    f.o[n, d] = y[n, one[n], d] * y[n, other[n], d]
    return f.o


@op
def rows_of_a_diagonal(f, y: tensor[n, n, k, d], at: index(k)[n]):
    f.o[n, d] = y[n, n, at[n], d]
    return f.o


@op
def other_axes_first(f, y: tensor[d, n, k], at: index(k)[n, b]):
    f.o[b, n, d] = y[d, n, at[n, b]] ** 2
    return f.o


@op
def in_front(f, y: tensor[..., k, d], at: index(k)[...]):
    f.o[..., d] = y[..., at[...], d] ** 2
    return f.o


@op
def gap(f, z: tensor[n, k], at: index(k)[n]):
    f.o[n, k] = exp(z[n, k] - z[n, at[n]])
    return f.o


@op
def sampled(f, img: tensor[n, c, h, w], y: index(h)[n, t], x: index(w)[n, t]):
    f.o[n, c, t] = img[n, c, y[n, t], x[n, t]] ** 2
    return f.o


@op
def sampled_on_a_grid(f, img: tensor[n, c, h, w], y: index(h)[n, t, e], x: index(w)[n, e], g: tensor[n, t, e]):
    f.o[n, c, t, e] = g[n, t, e] * img[n, c, y[n, t, e], x[n, e]] ** 2
    return f.o


@op
def sampled_rows(f, img: tensor[n, h, w, c], y: index(h)[n, t, e], x: index(w)[n, e], g: tensor[n, t, e]):
    f.o[n, c, t] = sum(g[n, t, e] * img[n, y[n, t, e], x[n, e], c] ** 2, over=e)
    return f.o


@op
def picked_in_images(f, x: tensor[n, k], y: index(k)[n, h, w], g: tensor[h, w, n]):
    f.o[h, w, n] = g[h, w, n] * x[n, y[n, h, w]] ** 2
    return f.o


@op
def counted(f, p: tensor[n, k], y: index(k)[h, n, w], g: tensor[n, h, w]):
    f.s[n, k] = p[n, k] ** 2 + sum(where(eq(y[h, n, w], k), g[n, h, w], 0), over=(h, w))
    return f.s


def _counts(p: Tensor, y: Tensor, g: Tensor) -> Tensor:
    return p.square() + (functional.one_hot(y, p.shape[1]) * g.movedim(0, 1)[..., None]).sum((0, 2))


def places(img: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """By an index for each dimension, `[n, c, ...]`."""
    own = torch.arange(len(img)).view(-1, *[1] * (y.dim() - 1))
    return img[own, :, y, x].movedim(-1, 1).square()


def rows(y: Tensor, at: Tensor) -> Tensor:
    return y[torch.arange(len(y)), at]


def chosen(z: Tensor, y: Tensor, best: Tensor) -> Tensor:
    return rows(z, best).sigmoid()[:, None, None] * rows(y, best)


def product(y: Tensor, one: Tensor, other: Tensor) -> Tensor:
    return rows(y, one) * rows(y, other)


def stacked(y: Tensor, at: Tensor) -> Tensor:
    return torch.stack([rows(*pair).square() for pair in zip(y, at, strict=True)])


R, AT = torch.randn, torch.tensor([0, 2, 2, 1])
CASES = [
    (best_expert, chosen, (R(4, 3), R(4, 3, 5, 2), AT)),
    (best_expert, chosen, (R(4, 4), R(4, 4, 4, 4), AT)),
    (best_expert, chosen, (R(0, 3), R(0, 3, 5, 2), AT[:0])),
    (twice, product, (R(4, 3, 5), AT, AT.flip(0))),
    (twice, product, (R(4, 3, 0), AT, AT)),
    (rows_of_a_diagonal, lambda y, at: rows(y.diagonal().movedim(-1, 0), at), (R(4, 4, 3, 5), AT)),
    (other_axes_first, lambda y, at: rows(y.movedim(0, 2), at[:, 0]).square()[None], (R(5, 4, 3), AT[:, None])),
    (in_front, lambda y, at: rows(y, at).square(), (R(4, 3, 5), AT)),
    (in_front, stacked, (R(2, 2, 3, 5), AT.view(2, 2))),
    (sampled, places, (R(2, 3, 4, 3), AT.view(2, 2), AT.view(2, 2).flip(0))),
    (sampled, places, (R(0, 3, 4, 3), AT[:0, None], AT[:0, None])),
    (sampled_on_a_grid, lambda img, y, x, g: g[:, None] * places(img, y, x[:, None].expand_as(y)),
     (R(2, 5, 4, 3), torch.stack([AT, AT.flip(0)])[:, None].repeat(1, 3, 1), AT[None].repeat(2, 1), R(2, 3, 4))),
    (sampled_on_a_grid, lambda img, y, x, g: g[:, None] * places(img, y, x[:, None].expand_as(y)),
     (R(2, 0, 4, 3), AT.view(2, 1, 2), AT.view(2, 2), R(2, 1, 2))),
    (sampled_rows, lambda img, y, x, g: (g[:, None] * places(img.movedim(3, 1), y, x[:, None].expand_as(y))).sum(3),
     (R(2, 4, 3, 5), torch.stack([AT, AT.flip(0)])[:, None].repeat(1, 3, 1), AT[None].repeat(2, 1), R(2, 3, 4))),
    (picked_in_images, lambda x, y, g: g * rows(x, y[:, 0, 0]).square(), (R(4, 3), AT[:, None, None], R(1, 1, 4))),
    (picked_in_images, lambda x, y, g: g * x.gather(1, y.flatten(1)).view_as(y).square().movedim(0, -1),
     (R(2, 3), torch.stack([AT, AT.flip(0)]).view(2, 2, 2), R(2, 2, 2))),
    (picked_in_images, lambda x, y, g: g * x.gather(1, y.flatten(1)).view_as(y).square().movedim(0, -1),
     (R(0, 3), AT.view(1, 2, 2)[:0], R(2, 2, 0))),
    (counted, _counts, (R(2, 3), AT.view(2, 2)[:, :, None], R(2, 2, 1))),
    (counted, _counts, (R(2, 3), torch.stack([AT, AT, 1 - AT % 2]).view(3, 2, 2), R(2, 3, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("made", "reference", "given"), CASES)
def test_values_and_gradients(made, reference, given):
    given = [g.double().requires_grad_() if g.is_floating_point() else g for g in given]
    leaves = [g for g in given if g.is_floating_point()]
    assert_alike(getattr(module(made.op), made.op.name)(*given), reference(*given), leaves)


def test_the_rows_are_read_and_written_whole():
    code = code_of(best_expert.op)
    assert "y[torch.arange(n, device=z.device), best]" in code
    assert ".index_add_(0, n_range * k + best," in code
    assert " d_range" not in code and " e_range" not in code
    assert "functional.embedding(n_range * k + one, y.flatten(0, 1))" in code_of(twice.op)


def test_what_shares_an_axis_with_another_dimension_is_read_and_added_along_one():
    code = code_of(sampled.op)
    assert "img.flatten(2, 3).gather(2, (y * w + x)[:, None].expand(-1, c, -1))" in code
    assert ".scatter_add_(" in code and "index_put_" not in code and " n_range" not in code
    code = code_of(sampled_rows.op)
    assert "functional.embedding(" in code and ".index_add_(" in code and "index_put_" not in code


def test_several_axes_of_one_index_are_one_dimension():
    code = code_of(picked_in_images.op)
    assert "x.gather(1, y.flatten(1, 2)).unflatten(1, (h, w))" in code
    assert "1, y.flatten(1, 2), (2 * x_y)" in code and "index_put_" not in code and "n_range" not in code
    code = code_of(counted.op)
    assert ".scatter_add_(1, " in code and "index_put_" not in code and ".gather(1, " in code


@pytest.mark.parametrize("made", [sampled, sampled_rows])
def test_no_place_is_one_of_the_next_row(made):
    img, y, x = R(2, 3, 4, 5), torch.zeros(2, 2, 6, dtype=torch.int64), torch.zeros(2, 6, dtype=torch.int64)
    run = getattr(module(made.op), made.op.name)
    given = (img, y[0], x) if made is sampled else (img, y, x, R(2, 2, 6))
    x[1, 2] = 5 if made is sampled else 4
    with pytest.raises(IndexError, match="x holds"):
        run(*given)


def test_what_is_picked_keeps_its_dimension_where_it_meets_the_others():
    assert "(z - z.gather(1, at.unsqueeze(1))).exp_()" in code_of(gap.op)
