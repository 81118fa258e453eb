"""What axis arithmetic puts at a place is added through windows; places outside of the axis are left out."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, constant, eq, length, mean, op, sum, tensor, where
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, c, o, u, k, t, i, j, m = axes("n c o u k t i j m")


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


R = torch.randn
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
]


@pytest.mark.parametrize(("made", "reference", "args"), CASES)
def test_as_the_table_of_all_places_has_it(made, reference, args) -> None:
    given = [a.double().requires_grad_() if isinstance(a, Tensor) else a for a in args]
    leaves = [a for a, o in zip(given, made.op.operands, strict=True) if o.differentiable]
    assert_alike(getattr(module(made.op), made.op.name)(*given), reference(*given), leaves)


def test_no_places_at_all() -> None:
    with pytest.raises(ValueError, match="series_product, equation c: axis i must be at least 1 long, but i = 0"):
        module(series_product.op).series_product(R(2, 0), R(2, 3), R(2))


def test_a_transposed_convolution() -> None:
    code = code_of(transposed.op)
    assert "torch.nn.grad.conv1d_input(" in code and "dx = functional.conv1d(" in code, code


@pytest.mark.parametrize("made", [transposed, series_product, further_on, padded, cut, cut_and_padded])
def test_no_table_of_all_places(made) -> None:
    code = code_of(made.op)
    assert "arange" not in code and "for at_u" not in code, code


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
