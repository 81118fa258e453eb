"""What axis arithmetic puts at a place is added through windows; places outside of the axis are left out."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, constant, eq, index, length, mean, op, sum, tensor, where
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, c, o, u, k, t, i, j, m = axes("n c o u k t i j m")
h, w, p, q, v = axes("h w p q v")


@op
def transposed(f, x: tensor[n, c, u], w: tensor[c, o, k], bias: tensor[o], out: length(t)):
    f.y[n, o, t] = bias[o] + sum(where(eq(2 * u + k - 1, t), x[n, c, u] * w[c, o, k], 0), over=(c, u, k))
    return f.y


@op
def series_product(f, a: tensor[..., i], b: tensor[..., j], s: constant[k]):
    """Times a factor of each coefficient, up to as many as there are."""
    f.c[..., k] = sum(where(eq(k, i + j), a[..., i] * b[..., j] ** 2 * s[k], 0), over=(i, j))
    return f.c


@op
def further_on(f, x: tensor[n, u, k], out: length(t)):
    f.y[n, t] = mean(where(eq(3 * u + k + 2, t), x[n, u, k] ** 2, 0), over=(u, k))
    return f.y


@op
def padded(f, x: tensor[n, t], long: length(i)):
    """Zeros before, and as many behind as there is room for."""
    f.z[n, i] = sum(where(eq(t + 2, i), x[n, t] ** 2, 0), over=t)
    f.y[n, u] = f.z[n, u] * f.z[n, u + 1]
    return f.y


def padded_by_torch(x: Tensor, long: int) -> Tensor:
    z = functional.pad(x**2, (2, long))[:, :long]
    return z[:, :-1] * z[:, 1:]


@op
def cut(f, x: tensor[n, t], g: tensor[i]):
    """The first two left out, and as many zeros behind as there is room for."""
    f.y[n, i] = g[i] * sum(where(eq(t - 2, i), x[n, t] ** 2, 0), over=t)
    return f.y


@op
def cut_and_padded(f, x: tensor[t], g: tensor[i]):
    """There and back again: what was left out is zeros."""
    f.z[i] = mean(where(eq(t, i + 2), x[t], 0), over=t)
    f.y[t] = sum(where(eq(i + 2, t), g[i] * f.z[i], 0), over=i)
    return f.y


def cut_by_torch(x: Tensor, g: Tensor) -> Tensor:
    return functional.pad(x**2, (0, len(g) + 2))[:, 2 : 2 + len(g)] * g


def cut_and_padded_by_torch(x: Tensor, g: Tensor) -> Tensor:
    z = functional.pad(x / len(x), (0, len(g) + 2))[2 : 2 + len(g)]
    return functional.pad(g * z, (2, len(x)))[: len(x)]


def transposed_by_torch(x: Tensor, w: Tensor, bias: Tensor, out: int) -> Tensor:
    full = functional.conv_transpose1d(x, w, stride=2)[:, :, 1:]
    return functional.pad(full, (0, out))[:, :, :out] + bias[:, None]


def product_by_table(a: Tensor, b: Tensor, s: Tensor) -> Tensor:
    places = torch.arange(a.shape[-1])[:, None] + torch.arange(b.shape[-1])
    meets = (places[..., None] == torch.arange(s.shape[0])).double()
    return torch.einsum("...i, ...j, ijk, k -> ...k", a, b**2, meets, s)


def overlapped(x: Tensor, out: int) -> Tensor:
    places = 3 * torch.arange(x.shape[1])[:, None] + torch.arange(x.shape[2]) + 2
    return torch.einsum("nuk, ukt -> nt", x**2, (places[..., None] == torch.arange(out)).double()) / places.numel()


@op
def filtered(f, x: tensor[n, u], w: tensor[o, k], out: length(t)):
    """Nothing tells whether x slides over w, or w over x."""
    f.y[n, t, o] = sum(where(eq(u + k, t), x[n, u] * w[o, k], 0), over=(u, k))
    return f.y


def filtered_by_torch(x: Tensor, w: Tensor, out: int) -> Tensor:
    full = functional.conv_transpose1d(x[:, None], w[None])
    return functional.pad(full, (0, out))[:, :, :out].mT


@op
def framed(f, x: tensor[h, w], rows: length(i), columns: length(j)):
    f.y[i, j] = sum(where(eq(h + 1, i) & eq(w + 1, j), x[h, w] ** 2, 0), over=(h, w))
    return f.y


@op
def transposed_plane(f, x: tensor[n, c, h, w], g: tensor[c, p, q], high: length(u), wide: length(v)):
    f.y[n, u, v] = sum(where(eq(2 * h + p, u) & eq(2 * w + q, v), x[n, c, h, w] * g[c, p, q], 0), over=(c, h, w, p, q))
    return f.y


@op
def transposed_by_one(f, x: tensor[n, c, h, w], g: tensor[c, o, p, q], high: length(u), wide: length(v)):
    """Nothing but the tensors tells places from taps: one comes first by its name in `h + p`, the other in `w + q`."""
    f.y[n, o, u, v] = sum(where(eq(h + p, u) & eq(w + q, v), x[n, c, h, w] * g[c, o, p, q], 0), over=(c, h, w, p, q))
    return f.y


@op
def put_beside(f, x: tensor[n, h], to: index(j)[n], rows: length(i), columns: length(j)):
    """One place is computed, the other looked up."""
    f.y[i, j] = sum(where(eq(h, i) & eq(to[n], j), x[n, h] ** 2, 0), over=(n, h))
    return f.y


@op
def where_all_hold(f, x: tensor[h, w], g: tensor[i], s: tensor[h], columns: length(j)):
    """Conditions on what is added, and on the place that it is added at."""
    met = eq(h + 1, i) & eq(w - 1, j)
    f.y[i, j] = mean(where(met & (g[i] > 0) & (s[h] > 0), g[i] * s[h] * x[h, w] ** 2, 0), over=(h, w))
    return f.y


@op
def diagonal(f, x: tensor[h], rows: length(i), columns: length(j)):
    """Both ask about one axis: no sum for each."""
    f.y[i, j] = sum(where(eq(h + 1, i) & eq(h + 2, j), x[h] ** 2, 0), over=h)
    return f.y


@op
def slanted(f, x: tensor[h, w], rows: length(i), columns: length(j)):
    """What one asks depends on the other's place."""
    f.y[i, j] = sum(where(eq(h + 1, i) & eq(w + i, j), x[h, w] ** 2, 0), over=(h, w))
    return f.y


def in_frame(x: Tensor, first: tuple[int, ...], lengths: tuple[int, ...]) -> Tensor:
    """A tensor from these places on among zeros, or with so many places less, cut behind these lengths."""
    ends = [(max(a, 0), n) for a, n in zip(first, lengths, strict=True)]
    wide = functional.pad(x, [end for own in reversed(ends) for end in own])
    for d, (a, n) in enumerate(zip(first, lengths, strict=True)):
        wide = wide.narrow(d, max(-a, 0), n)
    return wide


def plane_by_torch(x: Tensor, g: Tensor, high: int, wide: int) -> Tensor:
    full = functional.conv_transpose2d(x, g[:, None], stride=2)[:, 0]
    return in_frame(full, (0, 0, 0), (len(x), high, wide))


def by_one_by_torch(x: Tensor, g: Tensor, high: int, wide: int) -> Tensor:
    return in_frame(functional.conv_transpose2d(x, g), (0, 0, 0, 0), (len(x), g.shape[1], high, wide))


def beside_by_torch(x: Tensor, to: Tensor, rows: int, columns: int) -> Tensor:
    return in_frame(torch.zeros(x.shape[1], columns).double().index_add(1, to, x.T**2), (0, 0), (rows, columns))


def all_by_torch(x: Tensor, g: Tensor, s: Tensor, columns: int) -> Tensor:
    chosen = x**2 * functional.relu(s)[:, None] / x.numel()
    return in_frame(chosen, (1, -1), (len(g), columns)) * functional.relu(g)[:, None]


def diagonal_by_torch(x: Tensor, rows: int, columns: int) -> Tensor:
    return in_frame(torch.diag(x**2), (1, 2), (rows, columns))


def slanted_by_torch(x: Tensor, rows: int, columns: int) -> Tensor:
    lines = [in_frame(line, (k + 1,), (columns,)) for k, line in enumerate(x**2)]
    return in_frame(torch.stack(lines), (1, 0), (rows, columns))


R = torch.randn
TO = torch.tensor([3, 0, 3, 1, 0])
CASES: list[tuple[object, Callable[..., Tensor], tuple[object, ...]]] = [
    *((transposed, transposed_by_torch, (R(2, 3, 4), R(3, 5, 3), R(5), out)) for out in (8, 12, 5, 1, 0)),
    (transposed, transposed_by_torch, (R(3, 3, 3), R(3, 3, 3), R(3), 3)),
    (transposed, transposed_by_torch, (R(1, 1, 1), R(1, 1, 1), R(1), 1)),
    (transposed, transposed_by_torch, (R(0, 3, 4), R(3, 5, 3), R(5), 8)),
    *((filtered, filtered_by_torch, (R(rows, 4), R(5, 3), out)) for rows in (2, 0) for out in (6, 9, 3)),
    *((series_product, product_by_table, (R(2, 4), R(2, 3), R(count))) for count in (6, 9, 3, 1)),
    (series_product, product_by_table, (R(3), R(1), R(3))),
    (series_product, product_by_table, (R(0, 2), R(0, 3), R(2))),
    *((further_on, overlapped, (R(2, 4, 5), out)) for out in (16, 20, 7, 2)),
    (further_on, overlapped, (R(2, 4, 2), 13)),
    *((padded, padded_by_torch, (R(2, 4), long)) for long in (8, 6, 3, 1)),
    *((cut, cut_by_torch, (R(2, here), R(there))) for here in (6, 3, 2, 1) for there in (1, 3, 4, 6)),
    *((cut_and_padded, cut_and_padded_by_torch, (R(here), R(there))) for here in (6, 3, 2) for there in (1, 3, 4, 6)),
    *(
        (made, reference, (R(3, 4), *lengths))
        for made, reference in (
            (framed, lambda x, *lengths: in_frame(x**2, (1, 1), lengths)),
            (slanted, slanted_by_torch),
        )
        for lengths in ((5, 6), (3, 9), (2, 2), (0, 4))
    ),
    (framed, lambda x, *lengths: in_frame(x**2, (1, 1), lengths), (R(3, 3), 3, 3)),
    *((transposed_plane, plane_by_torch, (R(2, 3, 4, 5), R(3, 3, 2), *n)) for n in ((9, 10), (5, 20), (3, 1), (0, 4))),
    (transposed_plane, plane_by_torch, (R(3, 3, 3, 3), R(3, 3, 3), 3, 3)),
    *((transposed_by_one, by_one_by_torch, (R(2, 3, 4, 5), R(3, 2, 3, 2), *n)) for n in ((6, 6), (8, 4), (0, 4))),
    *((put_beside, beside_by_torch, (R(5, 3), TO, rows, 4)) for rows in (2, 3, 6)),
    *((put_beside, beside_by_torch, (R(5, 0), TO, rows, 4)) for rows in (2, 0)),
    *((where_all_hold, all_by_torch, (R(4, 5), R(n), R(4), columns)) for n, columns in ((5, 4), (2, 7), (4, 4))),
    *((diagonal, diagonal_by_torch, (R(4), rows, columns)) for rows, columns in ((7, 8), (3, 4), (4, 4))),
]


@pytest.mark.parametrize(("made", "reference", "args"), CASES)
def test_as_the_table_of_all_places_has_it(made, reference, args) -> None:
    given = [a.double().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args]
    leaves = [a for a, o in zip(given, made.op.operands, strict=True) if o.differentiable]
    assert_alike(getattr(module(made.op), made.op.name)(*given), reference(*given), leaves)


def test_no_places_at_all() -> None:
    with pytest.raises(ValueError, match="series_product, equation c: axis i must be at least 1 long, but i = 0"):
        module(series_product.op).series_product(R(2, 0), R(2, 3), R(2))


def test_a_transposed_convolution() -> None:
    code = code_of(transposed.op)
    assert "torch.nn.grad.conv1d_input(" in code and "dx = functional.conv1d(" in code, code


@pytest.mark.parametrize("made", [transposed_plane, transposed_by_one], ids=lambda made: made.op.name)
def test_a_transposed_convolution_of_planes(made) -> None:
    code = code_of(made.op)
    assert "torch.nn.grad.conv2d_input(" in code and "dx = functional.conv2d(" in code, code


def test_a_frame_is_put_around_both_axes_at_once() -> None:
    code = code_of(framed.op)
    assert "functional.pad(x.square(), (1, " in code and "dy_reached[1 : 1 + h, 1 : 1 + w]" in code, code


NO_TABLES = [transposed, series_product, further_on, padded, cut, cut_and_padded]
NO_TABLES += [framed, transposed_plane, put_beside, where_all_hold]


@pytest.mark.parametrize("made", NO_TABLES)
def test_no_table_of_all_places(made) -> None:
    code = code_of(made.op)
    assert "arange" not in code and "for at_u" not in code, code


@pytest.mark.parametrize("made", [diagonal, slanted])
def test_places_that_are_asked_of_together_are_looked_for(made) -> None:
    assert "arange" in code_of(made.op)


@op
def divided_by_its_place(f, x: tensor[u], z: tensor[t]):
    """Nothing is added at place 0, of which the reciprocal is infinite."""
    f.y[t] = z[t] + sum(where(eq(u + 1, t), x[u] / t, 0), over=u)
    return f.y


@op
def divided_by_a_tensor(f, x: tensor[u], z: tensor[t]):
    """So it is where a tensor is made of what may be infinite."""
    f.r[t] = 1 / z[t]
    f.y[t] = sum(where(eq(u + 1, t), x[u] * f.r[t], 0), over=u)
    return f.y


def test_what_scales_places_that_nothing_is_added_at_may_be_infinite() -> None:
    x, z = torch.randn(4, dtype=torch.float64), torch.arange(7, dtype=torch.float64)
    added = functional.pad(x / torch.arange(1, 5), (1, 2))
    torch.testing.assert_close(module(divided_by_its_place.op).divided_by_its_place(x, z), z + added)
    torch.testing.assert_close(module(divided_by_a_tensor.op).divided_by_a_tensor(x, z), added)


PRINT = """
from tests.derive.against_loops import code_of
from tests.derive.rules.test_reached_places import diagonal
print(code_of(diagonal.op))
"""


def test_which_of_two_places_is_reached_does_not_depend_on_the_hash_seed() -> None:
    def printed(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."}
        return subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True).stdout

    found = {printed(seed) for seed in ("3", "4")}
    assert len(found) == 1 and "y_reached" in found.pop()
