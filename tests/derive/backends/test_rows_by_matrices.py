"""A sum of a vector and a matrix at each place of other axes is a row times a matrix, and not a sum of products."""

import pytest
import torch

from derive import axes, exp, index, op, sin, sum, tanh, tensor
from derive.ir.equations import Op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, assert_derived, module

b, h, k, v = axes("b h k v")


@op
def read(f, s: tensor[b, h, k, v], q: tensor[b, h, k]):
    f.o[b, h, v] = sum(s[b, h, k, v] * q[b, h, k], over=k)
    return f.o


@op
def rotated(f, r: tensor[..., k, v], x: tensor[..., v]):
    f.y[..., k] = sum(r[..., k, v] * x[..., v], over=v)
    return f.y


@op
def taken_away(f, s: tensor[b, k, v], q: tensor[b, k], x: tensor[b, v]):
    """The delta rule (Widrow & Hoff, 1960): what is read is broadcast again, over the axis that was summed."""
    f.o[b, v] = sum(s[b, k, v] * q[b, k], over=k)
    f.t[b, k, v] = tanh(s[b, k, v] - q[b, k] * f.o[b, v]) * (x[b, v] - f.o[b, v])
    return f.t


@op
def of_what_is_computed(f, s: tensor[b, v, k], q: tensor[b, k], g: tensor[b]):
    f.y[b, v] = sum(s[b, v, k] * exp(q[b, k]) * g[b], over=k)
    return f.y


@op
def picked(f, x: tensor[b, k], w: tensor[h, k, v], pick: index(h)[b]):
    """A layer of its own for each row: its matrix is gathered."""
    f.y[b, v] = sum(x[b, k] * w[pick[b], k, v], over=k)
    return f.y


@op
def twice_as_large(f, s: tensor[b, k, v], t: tensor[b, k, v], q: tensor[b, k]):
    f.y[b, v] = sum(s[b, k, v] * t[b, k, v] * q[b, k], over=k)
    return f.y


@op
def counted(f, i: index(h)[b, k, v], q: tensor[b, k], w: tensor[h]):
    """Whole numbers are the matrix."""
    f.y[b, v] = sum(i[b, k, v] * q[b, k], over=k) + sum(w[h], over=h)
    return f.y


@op
def mixed(f, w: tensor[h], s: tensor[h, k, v]):
    """A tensor of three dimensions is a matrix, whichever of them is summed with the vector: the first here, and its
    last two in the gradient of the vector."""
    f.y[k, v] = sum(w[h] * s[h, k, v], over=h)
    return f.y


@op
def counted_mixed(f, w: tensor[h], i: index(b)[h, k, v], q: tensor[b]):
    f.y[k, v] = sum(w[h] * i[h, k, v], over=h) + sum(q[b], over=b)
    return f.y


def rotated_reference(r: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (r * x[..., None, :]).sum(-1)


def taken_away_reference(s: torch.Tensor, q: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    o = (s * q[:, :, None]).sum(1)
    return (s - q[:, :, None] * o[:, None]).tanh() * (x - o)[:, None]


CASES = [
    (read, lambda s, q: (s * q[..., None]).sum(2), {"s": (2, 3, 5, 4), "q": (2, 3, 5)}),
    (read, lambda s, q: (s * q[..., None]).sum(2), {"s": (2, 3, 0, 4), "q": (2, 3, 0)}),
    (read, lambda s, q: (s * q[..., None]).sum(2), {"s": (1, 1, 1, 1), "q": (1, 1, 1)}),
    (rotated, rotated_reference, {"r": (3, 4), "x": (4,)}),
    (rotated, rotated_reference, {"r": (2, 5, 3, 4), "x": (2, 5, 4)}),
    (taken_away, taken_away_reference, {"s": (3, 5, 4), "q": (3, 5), "x": (3, 4)}),
    (of_what_is_computed, lambda s, q, g: (s * q.exp()[:, None] * g[:, None, None]).sum(2),
     {"s": (3, 5, 4), "q": (3, 4), "g": (3,)}),
    *((mixed, lambda w, s: torch.tensordot(w, s, 1), {"w": a[:1], "s": a})
      for a in ((5, 3, 4), (2, 2, 2), (1, 1, 1), (0, 3, 4), (3, 0, 4))),
    (twice_as_large, lambda s, t, q: (s * t * q[..., None]).sum(1), {"s": (3, 5, 4), "t": (3, 5, 4), "q": (3, 5)}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "reference", "shapes"), CASES)
def test_values_and_gradients(made, reference, shapes) -> None:
    assert_derived(made.op, reference, shapes)


ROWS: list[tuple[Op, list[str]]] = [
    (read.op, ["o = (q[:, :, None] @ s).squeeze(2)", "dq = (do[:, :, None] @ s.mT).squeeze(2)"]),
    (rotated.op, ["y = (x[..., None, :] @ r.mT).squeeze(-2)", "dx = (dy[..., None, :] @ r).squeeze(-2)"]),
    (taken_away.op, ["o = q[:, None] @ s\n", "(o * q[:, :, None])"]),
    (picked.op, ["y = rows_by_matrices(x, w, pick)", "dx = rows_by_matrices(dy, w.mT, pick)"]),
]


@pytest.mark.parametrize(("made", "lines"), ROWS)
def test_which_code_is_written(made: Op, lines: list[str]) -> None:
    assert [line for line in lines if line not in code_of(made)] == []


def test_of_two_matrices_the_products_are_summed() -> None:
    assert "y = (q[:, :, None] * s).mul_(t).sum(1)" in code_of(twice_as_large.op)


def test_whole_numbers_are_multiplied_as_real_ones() -> None:
    i = torch.randint(0, 4, (3, 5, 4))
    q, w = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 5), (4,)))
    assert "@ i.to(q.dtype)" in code_of(counted.op)
    assert_alike(module(counted.op).counted(i, q, w), (i * q[..., None]).sum(1) + w.sum(), [q, w])


@pytest.mark.parametrize("sizes", [(5, 3, 4, 2), (1, 1, 1, 1), (0, 3, 4, 2), (3, 0, 2, 2), (2, 2, 2, 2)])
def test_gathered_matrices(sizes: tuple[int, int, int, int]) -> None:
    rows, inside, out, layers = sizes
    x, w = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((rows, inside), (layers, inside, out)))
    pick = torch.arange(rows) % layers
    assert_alike(module(picked.op).picked(x, w, pick), torch.einsum("bk,bkv->bv", x, w[pick]), [x, w])


def test_a_tensor_by_a_vector() -> None:
    code = code_of(mixed.op)
    assert "y = sum_of_rows(w, s.flatten(1)).unflatten(0, (k, v))" in code, code
    assert "dw = s.flatten(1) @ dy.flatten()" in code, code


def test_whole_numbers_by_a_vector() -> None:
    w, q = (torch.randn(n, dtype=torch.float64, requires_grad=True) for n in (3, 5))
    i = torch.randint(0, 5, (3, 2, 4))
    assert_alike(module(counted_mixed.op).counted_mixed(w, i, q), torch.tensordot(w, i.double(), 1) + q.sum(), [w, q])


def test_strided_tensors_by_a_vector() -> None:
    s = torch.randn(4, 3, 5, dtype=torch.float64).permute(2, 1, 0).requires_grad_()
    w = torch.randn(10, dtype=torch.float64)[::2].requires_grad_()
    y = module(mixed.op).mixed(w, s)
    for cotangent in (torch.randn(4, 3, dtype=torch.float64).T, torch.ones(1, 1, dtype=torch.float64).expand(3, 4)):
        found = torch.autograd.grad(y, [w, s], cotangent, retain_graph=True)
        exact = torch.autograd.grad(torch.tensordot(w, s, 1), [w, s], cotangent)
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-12)


@op
def rows_weighed(f, x: tensor[b, h, v], w: tensor[b, h]):
    f.y[v] = sum(tanh(w[b, h]) * x[b, h, v], over=(b, h))
    return f.y


@op
def rows_of_any_axes_weighed(f, x: tensor[..., v], w: tensor[...]):
    f.y[v] = sum(w[...] * x[..., v], over=...)
    return f.y


@op
def waves(f, x: tensor[..., v], w: tensor[...]):
    """The weight of a row is an expression."""
    f.y[v] = sum(sin(w[...]) * x[..., v], over=...)
    return f.y


def test_what_weighs_every_row_is_one_vector() -> None:
    """Whatever axes the rows have: no product as large as the tensor is made."""
    assert "sum_of_rows(tanh_w, x)" in code_of(rows_weighed.op)
    assert "sum_of_rows(w, x)" in code_of(rows_of_any_axes_weighed.op)
    assert_derived(rows_weighed.op, lambda x, w: (w.tanh()[..., None] * x).sum((0, 1)), {"x": (2, 3, 4), "w": (2, 3)})
    for *rows, columns in ((4,), (3, 4), (2, 3, 4), (2, 0, 4), (2, 3, 0)):
        shapes = {"x": (*rows, columns), "w": tuple(rows)}
        assert_derived(rows_of_any_axes_weighed.op, lambda x, w: (w[..., None] * x).sum_to_size(x.shape[-1:]), shapes)
        assert_derived(waves.op, lambda x, w: (w.sin()[..., None] * x).sum_to_size(x.shape[-1:]), shapes)
