"""One index along one dimension is `index_select`, which a CPU does in a fifth of the time of `x[index]`."""

import pytest
import torch

from derive import axes, index, op, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

b, c, d, e, h, m, n, t, v, w = axes("b c d e h m n t v w")


@op
def slices(f, x: tensor[v, d, e], to: index(v)[n], of: index(v)[n]):
    f.y[n, d, e] = x[to[n], d, e] * x[of[n], d, e]
    return f.y


@op
def numbers(f, x: tensor[v], to: index(v)[n, t]):
    f.y[n, t] = x[to[n, t]] ** 2
    return f.y


@op
def in_the_middle(f, x: tensor[..., v, e], to: index(v)[n, t]):
    f.y[..., n, t, e] = x[..., to[n, t], e] ** 2
    return f.y


@op
def turned(f, x: tensor[b, v, e], to: index(v)[n], g: tensor[n, b, e]):
    f.y[n, b, e] = g[n, b, e] * x[b, to[n], e] ** 2
    return f.y


@op
def pixels(f, x: tensor[c, h, w], i: index(h)[n], j: index(w)[n]):
    f.y[c, n] = x[c, i[n], j[n]] ** 2
    return f.y


@op
def grid(f, x: tensor[h, w, c], i: index(h)[n], j: index(w)[m]):
    f.y[n, m, c] = x[i[n], j[m], c] ** 2
    return f.y


@op
def one_pixel(f, x: tensor[c, h, w], i: index(h)[()], j: index(w)[()]):
    f.y[c] = x[c, i[()], j[()]] ** 2
    return f.y


@op
def behind_a_place(f, x: tensor[n, m, v, t], to: index(v)[n]):
    f.z[n, m, v, t] = x[n, m, v, t] ** 2
    f.y[n, t] = f.z[n, 0, to[n], t] * x[n, 1, to[n], t]
    return f.y


def integers(high, *shape):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(2))


R = torch.randn
ROWS, OTHER, TABLE = integers(5, 7), integers(5, 7), integers(5, 3, 4)
MANY = integers(40, 3000), integers(30, 3000)
CASES = [
    (slices, lambda x, to, of: x[to] * x[of], (R(5, 2, 3), ROWS, OTHER)),
    (slices, lambda x, to, of: x[to] * x[of], (R(2, 3, 5).movedim(2, 0), ROWS, OTHER)),
    (slices, lambda x, to, of: x[to] * x[of], (R(5, 2, 3), ROWS[:0], OTHER[:0])),
    (numbers, lambda x, to: x[to] ** 2, (R(5), TABLE)),
    (numbers, lambda x, to: x[to] ** 2, (R(5), TABLE[:0])),
    (in_the_middle, lambda x, to: x[:, to] ** 2, (R(2, 5, 3), TABLE)),
    (in_the_middle, lambda x, to: x[to] ** 2, (R(5, 3), TABLE)),
    (turned, lambda x, to, g: g * x[:, to].transpose(0, 1) ** 2, (R(2, 5, 3), ROWS, R(7, 2, 3))),
    (pixels, lambda x, i, j: x[:, i, j] ** 2, (R(3, 5, 4), ROWS, OTHER % 4)),
    (pixels, lambda x, i, j: x[:, i, j] ** 2, (R(3, 40, 30), *MANY)),
    (pixels, lambda x, i, j: x[:, i, j] ** 2, (R(3, 30, 40).mT, *MANY)),
    (pixels, lambda x, i, j: x[:, i, j] ** 2, (R(3, 0, 30), ROWS[:0], OTHER[:0])),
    (grid, lambda x, i, j: x[i[:, None], j] ** 2, (R(40, 30, 2), MANY[0][:50], MANY[1][:60])),
    (behind_a_place, lambda x, to: (x[:, 0] ** 2 * x[:, 1])[range(7), to], (R(7, 2, 5, 3), ROWS)),
    (one_pixel, lambda x, i, j: x[:, i, j] ** 2, (R(5000, 4, 3), torch.tensor(3), torch.tensor(2))),
]


@pytest.mark.parametrize("whole", [torch.int64, torch.int32])
@pytest.mark.parametrize(("made", "reference", "given"), CASES)
def test_values_and_gradients(made, reference, given, whole):
    given = [g.double().requires_grad_() if g.is_floating_point() else g.to(whole) for g in given]
    leaves = [g for g in given if g.is_floating_point()]
    assert_alike(getattr(module(made.op), made.op.name)(*given), reference(*given), leaves)


def test_one_dimension_is_read_by_one_call():
    assert "dy * x.index_select(0, to)" in code_of(slices.op)
    assert "x.index_select(0, to.flatten()).unflatten(0, (n, t))" in code_of(numbers.op)
    assert "x.index_select(-2, to.flatten()).unflatten(-2, (n, t))" in code_of(in_the_middle.op)
    assert "x.index_select(1, to)" in code_of(turned.op)
    assert "at_places(x, 1, i, j)" in code_of(pixels.op) and "at_places(x, 0, i[:, None], j)" in code_of(grid.op)


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_place_that_is_none_is_refused_by_name(wrong):
    bad = torch.tensor([0, wrong, 1])
    for made, given, name in [
        (slices, (R(5, 2, 3), bad, bad.clamp(0, 4)), "to"),
        (numbers, (R(5), bad[:, None]), "to"),
        (turned, (R(2, 5, 3), bad, R(3, 2, 3)), "to"),
        (pixels, (R(3, 5, 5), bad.clamp(0, 4), bad), "j"),
        (pixels, (R(3000, 5, 5), bad, bad.clamp(0, 4)), "i"),
    ]:
        with pytest.raises(IndexError, match=f"{name} holds {wrong}, but axis"):
            getattr(module(made.op), made.op.name)(*given)
