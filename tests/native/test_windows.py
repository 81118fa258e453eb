"""Products and sums through windows: convolutions of every layout, and sums that are no product, of any size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from derive.ir.equations import Op
from derive.verify.subjects import tensors_in
from tests.native.running import assert_right

pytestmark = pytest.mark.usefixtures("kernels", "threads")

SPECS = """
from derive import *
n, t, o, c, l, k, p, q, h, w, i, j, g, r = axes("n t o c l k p q h w i j g r")


@op
def plain(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q]):
    f.y[n, o, i, j] = sum(x[n, c, i + p, j + q] * k[o, c, p, q], over=(c, p, q))
    return f.y


@op
def biased(f, x: tensor[n, c, l], w: tensor[o, c, k], b: tensor[o]):
    f.y[n, o, t] = sum(x[n, c, t + k] * w[o, c, k], over=(c, k)) + b[o]
    return f.y


@op
def begun(f, x: tensor[c, l], w: tensor[o, c, k], z: tensor[o, t]):
    f.y[o, t] = tanh(z[o, t]) + sum(x[c, t + k] * w[o, c, k], over=(c, k))
    return f.y


@op
def followed(f, x: tensor[n, c, l], w: tensor[o, c, k], b: tensor[o]):
    f.z[n, o, t] = sum(x[n, c, t + k] * w[o, c, k], over=(c, k)) + b[o]
    f.y[n, o, t] = tanh(f.z[n, o, t]) * f.z[n, o, t]
    return f.y


@op
def no_batch(f, x: tensor[c, h, w], k: tensor[o, c, p, q]):
    f.y[o, i, j] = sum(x[c, i + p, j + q] * k[o, c, p, q], over=(c, p, q))
    return f.y


@op
def channels_last(f, x: tensor[n, h, w, c], k: tensor[p, q, c, o]):
    f.y[n, i, j, o] = sum(x[n, i + p, j + q, c] * k[p, q, c, o], over=(c, p, q))
    return f.y


@op
def another_order(f, x: tensor[c, n, w, h], k: tensor[c, p, q, o]):
    f.y[o, n, j, i] = sum(x[c, n, j + q, i + p] * k[c, p, q, o], over=(c, p, q))
    return f.y


@op
def grouped(f, x: tensor[n, g, c, h, w], k: tensor[g, o, c, p, q]):
    f.y[n, g, o, i, j] = sum(x[n, g, c, i + p, j + q] * k[g, o, c, p, q], over=(c, p, q))
    return f.y


@op
def volumes(f, x: tensor[n, c, l, h, w], k: tensor[o, c, r, p, q]):
    f.y[n, o, t, i, j] = sum(x[n, c, t + r, i + p, j + q] * k[o, c, r, p, q], over=(c, r, p, q))
    return f.y


@op
def dilated(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q]):
    f.y[n, o, i, j] = sum(x[n, c, i + 2 * p, j + 3 * q] * k[o, c, p, q], over=(c, p, q))
    return f.y


@op
def in_steps(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q]):
    f.y[n, o, i, j] = sum(x[n, c, 2 * i + p, 3 * j + q] * k[o, c, p, q], over=(c, p, q))
    return f.y


@op
def in_steps_with_gaps(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q]):
    f.y[n, o, i, j] = sum(x[n, c, 4 * i + 6 * p, 3 * j + 2 * q] * k[o, c, p, q], over=(c, p, q))
    return f.y


@op
def steps_along_one(f, x: tensor[n, c, h, w], k: tensor[o, c, p, q]):
    f.y[n, o, i, j] = sum(x[n, c, i + p, 2 * j + q] * k[o, c, p, q], over=(c, p, q))
    return f.y


@op
def tiled(f, x: tensor[n, c, l], w: tensor[o, c, k]):
    f.y[n, o, t] = sum(x[n, c, 4 * t + k] * w[o, c, k], over=(c, k))
    return f.y


@op
def bank(f, x: tensor[n, l], w: tensor[o, k]):
    f.y[n, o, t] = sum(x[n, t + k] * w[o, k], over=k)
    return f.y


@op
def each_channel(f, x: tensor[n, c, h, w], k: tensor[c, p, q]):
    f.y[n, c, i, j] = sum(x[n, c, i + p, j + q] * k[c, p, q], over=(p, q))
    return f.y


@op
def each_channel_last(f, x: tensor[n, l, c], w: tensor[k, c]):
    f.y[n, t, c] = sum(x[n, t + k, c] * w[k, c], over=k)
    return f.y


@op
def each_channel_dilated(f, x: tensor[n, c, h, w], k: tensor[c, p, q]):
    f.y[n, c, i, j] = sum(x[n, c, i + 2 * p, j + 3 * q] * k[c, p, q], over=(p, q))
    return f.y


@op
def each_signal(f, x: tensor[n, c, l], w: tensor[c, k]):
    f.y[n, c, t] = sum(x[n, c, t + k] * w[c, k], over=k)
    return f.y


@op
def each_volume(f, x: tensor[c, l, h, w], k: tensor[c, r, p, q]):
    f.y[c, t, i, j] = sum(x[c, t + r, i + p, j + q] * k[c, r, p, q], over=(r, p, q))
    return f.y


@op
def at_one_column(f, x: tensor[n, k], w: tensor[h, w]):
    f.y[n, i] = sum(w[2 * i + k, 0] * x[n, k], over=k)
    return f.y


@op
def of_chosen(f, x: tensor[n, l], w: tensor[h], ix: index(l)[k]):
    f.y[n, i] = sum(w[i + k] * x[n, ix[k]], over=k)
    return f.y


@op
def image(f, x: tensor[h, w], k: tensor[p, q]):
    f.y[i, j] = sum(x[i + p, j + q] * k[p, q], over=(p, q))
    return f.y


@op
def spread(f, x: tensor[n, h, w], k: tensor[p, q]):
    f.y[n, i, j] = sum((x[n, i + p, j + q] - k[p, q]) ** 2, over=(p, q))
    return f.y


@op
def diagonal_taps(f, x: tensor[n, h, w], k: tensor[p, q]):
    f.y[n, i, j] = sum(x[n, i + p, j + p] * k[p, q], over=(p, q))
    return f.y


@op
def rows_apart(f, x: tensor[r, h, w], k: tensor[p, q], ix: index(r)[i]):
    f.y[i, j] = sum(x[ix[i], i + p, j + q] * k[p, q], over=(p, q))
    return f.y


@op
def taps_apart(f, x: tensor[r, h, w], k: tensor[p, q], ix: index(r)[p]):
    f.y[i, j] = sum(x[ix[p], i + p, j + q] * k[p, q], over=(p, q))
    return f.y


@op
def one_image(f, x: tensor[c, h, w], k: tensor[c, p, q]):
    f.y[c, i, j] = sum(x[c, i + p, j + q] * k[c, p, q], over=(p, q))
    return f.y


@op
def both_ways(f, x: tensor[n, h, w], k: tensor[p, q], z: tensor[n, i]):
    f.y[n, i, j] = z[n, i] * sum(x[n, i + p, j + p + q] * k[p, q], over=(p, q))
    return f.y


@op
def many_slopes(f, x: tensor[h, w], k: tensor[p, q, o]):
    f.y[i, j, o] = sum(tanh(x[i + p, j + q] * k[p, q, o]), over=(p, q))
    return f.y
"""


def _windows(x: Tensor, dim: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """A dimension as two: where windows begin, and the places of each."""
    count = (x.shape[dim] - dilation * (size - 1) - 1) // step + 1
    places = torch.arange(count)[:, None] * step + torch.arange(size) * dilation
    return x.index_select(dim, places.reshape(-1)).unflatten(dim, (count, size))


Pair = tuple[int, int]


def _two(x: Tensor, dim: int, sizes: Pair, steps: Pair = (1, 1), far: Pair = (1, 1)) -> Tensor:
    first = _windows(x, dim, sizes[0], steps[0], far[0])
    return _windows(first, dim + 2, sizes[1], steps[1], far[1])


def _biased(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("nctk,ock->not", _windows(x, 2, w.shape[2]), w) + b[:, None]


def _followed(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    z = _biased(x, w, b)
    return z.tanh() * z


def _volumes(x: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("nctripjq,ocrpq->notij", _windows(_two(x, 3, (k.shape[3], k.shape[4])), 2, k.shape[2]), k)


def _sum(equation: str, dim: int, *steps: Pair, first: int = -2) -> Callable[..., Tensor]:
    """A sum over two windows, whose sizes the kernel has from dimension `first` on."""
    return lambda x, k: torch.einsum(equation, _two(x, dim, (k.shape[first], k.shape[first + 1]), *steps), k)


REFERENCES: dict[str, Callable[..., Tensor]] = {
    "plain": _sum("ncipjq,ocpq->noij", 2),
    "biased": _biased,
    "begun": lambda x, w, z: z.tanh() + torch.einsum("ctk,ock->ot", _windows(x, 1, w.shape[2]), w),
    "followed": _followed,
    "no_batch": _sum("cipjq,ocpq->oij", 1),
    "channels_last": _sum("nipjqc,pqco->nijo", 1, first=0),
    "another_order": lambda x, k: torch.einsum("cnjqip,cpqo->onji", _two(x, 2, (k.shape[2], k.shape[1])), k),
    "grouped": _sum("ngcipjq,gocpq->ngoij", 3),
    "volumes": _volumes,
    "dilated": _sum("ncipjq,ocpq->noij", 2, (1, 1), (2, 3)),
    "in_steps": _sum("ncipjq,ocpq->noij", 2, (2, 3)),
    "in_steps_with_gaps": _sum("ncipjq,ocpq->noij", 2, (4, 3), (6, 2)),
    "steps_along_one": _sum("ncipjq,ocpq->noij", 2, (1, 2)),
    "tiled": lambda x, w: torch.einsum("nctk,ock->not", _windows(x, 2, w.shape[2], 4), w),
    "bank": lambda x, w: torch.einsum("ntk,ok->not", _windows(x, 1, w.shape[1]), w),
    "each_channel": _sum("ncipjq,cpq->ncij", 2),
    "each_channel_last": lambda x, w: torch.einsum("ntkc,kc->ntc", _windows(x, 1, w.shape[0]), w),
    "each_channel_dilated": _sum("ncipjq,cpq->ncij", 2, (1, 1), (2, 3)),
    "each_signal": lambda x, w: torch.einsum("nctk,ck->nct", _windows(x, 2, w.shape[1]), w),
    "each_volume": lambda x, k: torch.einsum(
        "ctripjq,crpq->ctij", _windows(_two(x, 2, (k.shape[2], k.shape[3])), 1, k.shape[1]), k
    ),
    "image": _sum("ipjq,pq->ij", 0),
    "spread": lambda x, k: ((_two(x, 1, (k.shape[0], k.shape[1])) - k[:, None]) ** 2).sum((2, 4)),
}

CASES = [
    ("plain", (1, 1, 1, 1), (1, 1, 1, 1)),
    ("plain", (2, 3, 5, 6), (4, 3, 2, 3)),
    ("plain", (3, 4, 9, 18), (13, 4, 3, 3)),  # rows of 16
    ("plain", (2, 17, 6, 34), (7, 17, 3, 3)),  # of 32; sums of more than DEEPEST
    ("plain", (1, 3, 12, 33), (5, 3, 2, 2)),
    ("plain", (1, 5, 40, 66), (150, 5, 1, 5)),  # more than COPIED rows
    ("plain", (2, 2, 30, 12), (3, 2, 5, 5)),  # rows of 8, several of them in a vector
    ("biased", (2, 3, 40), (5, 3, 4), (5,)),
    ("biased", (3, 16, 300), (16, 16, 5), (16,)),
    ("begun", (3, 70), (5, 3, 4), (5, 67)),
    ("followed", (2, 3, 70), (5, 3, 4), (5,)),
    ("no_batch", (3, 20, 37), (20, 3, 3, 3)),
    ("channels_last", (2, 9, 11, 5), (3, 2, 5, 17)),
    ("channels_last", (2, 35, 40, 3), (2, 2, 3, 40)),  # more than TALLEST rows
    ("another_order", (13, 3, 30, 10), (13, 3, 4, 25)),
    ("grouped", (2, 3, 4, 8, 21), (3, 5, 4, 3, 2)),
    ("volumes", (2, 3, 4, 7, 20), (6, 3, 2, 3, 3)),
    ("dilated", (2, 3, 12, 50), (4, 3, 3, 4)),
    ("in_steps", (2, 3, 15, 100), (4, 3, 3, 2)),
    ("in_steps", (1, 2, 7, 7), (1, 2, 3, 3)),
    ("in_steps_with_gaps", (2, 3, 23, 110), (4, 3, 3, 5)),
    ("in_steps_with_gaps", (2, 3, 8, 70), (4, 3, 1, 2)),  # phases without taps
    ("steps_along_one", (2, 3, 9, 90), (14, 3, 2, 3)),
    ("tiled", (2, 3, 150), (5, 3, 4)),  # windows that do not overlap
    ("tiled", (2, 3, 153), (5, 3, 2)),  # places that no window reads
    ("bank", (3, 90), (8, 11)),
    ("bank", (1, 3), (1, 3)),
    ("each_channel", (2, 3, 7, 12), (3, 3, 3)),
    ("each_channel", (2, 3, 70, 40), (3, 3, 3)),  # more than ROWS rows
    ("each_channel", (1, 2, 20, 25), (2, 9, 8)),  # more than ROWS places
    ("each_channel", (1, 2, 9, 30), (2, 4, 5)),  # sums at once, of which two are left
    ("each_channel", (9, 2, 5, 600), (2, 2, 3)),  # long rows
    ("each_channel", (3, 2, 5, 8), (2, 2, 3)),  # a plane of less than FOUR, in float32
    ("each_channel", (3, 2, 8, 12), (2, 3, 3)),
    ("each_channel", (1, 2, 70, 400), (2, 3, 5)),  # of more rows than PLANE has, which are no whole number of them
    ("each_channel", (1, 2, 9, 1300), (2, 3, 2)),
    ("each_channel", (2, 2, 12, 60), (2, 1, 3)),  # windows of one place along an axis
    ("each_channel", (2, 2, 12, 60), (2, 3, 1)),
    ("each_channel", (2, 2, 12, 60), (2, 1, 1)),
    ("each_channel_dilated", (2, 3, 12, 50), (3, 3, 4)),
    ("each_channel_dilated", (1, 2, 40, 301), (2, 6, 2)),
    ("each_signal", (2, 3, 60), (3, 4)),
    ("each_signal", (2, 3, 5000), (3, 65)),
    ("each_signal", (2, 3, 3000), (3, 65)),
    ("each_volume", (2, 5, 9, 21), (2, 2, 3, 3)),
    ("each_channel_last", (3, 40, 19), (4, 19)),
    ("image", (30, 47), (3, 5)),
    ("spread", (3, 11, 40), (2, 3)),
    ("spread", (3, 11, 9), (2, 4)),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("name", "shapes"), [(n, s) for n, *s in CASES], ids=[f"{k}" for k in range(len(CASES))])
def test_agrees_with_autograd(
    native: ModuleType,
    threads: Callable[[int], None],
    name: str,
    shapes: list[tuple[int, ...]],
    count: int,
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(0)
    threads(count)
    leaves = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]
    want = REFERENCES[name](*leaves)
    cotangent = torch.randn_like(want)
    wanted = (want, *torch.autograd.grad(want, leaves, cotangent))
    y, saved = getattr(native, f"{name}_forward")(*(x.detach().to(dtype) for x in leaves))
    found = (y, *tensors_in(getattr(native, f"{name}_backward")(cotangent.to(dtype), *saved)))
    for got, exact in zip(found, wanted, strict=True):
        most = float(exact.detach().abs().max())
        tolerance = 1e-12 if dtype == torch.float64 else 2e-5
        torch.testing.assert_close(got.double(), exact.detach(), rtol=0, atol=tolerance * max(most, 1.0))


ALONE = {
    "diagonal_taps": ((2, 9, 40), (3, 2)),
    "rows_apart": ((3, 9, 41), (3, 2)),
    "taps_apart": ((3, 9, 41), (3, 2)),
    "both_ways": ((2, 9, 45), (3, 2), (2, 7)),
    "many_slopes": ((9, 41), (3, 2, 20)),
}


@pytest.mark.parametrize("name", ALONE)
def test_taps_that_say_more_of_a_place_are_added_there(native: ModuleType, name: str) -> None:
    """Where more than the row depends on a tap, what meets at the row does not meet there."""
    torch.manual_seed(0)
    args = [torch.randn(*s, dtype=torch.float64) for s in ALONE[name]]
    args += [torch.randint(0, 3, (7 if name == "rows_apart" else 3,))] if name.endswith("_apart") else []
    leaves = [a.requires_grad_() for a in args if a.is_floating_point()]
    rows, columns = 7, args[0].shape[-1] - (2 if name == "diagonal_taps" else 3 if name == "both_ways" else 1)
    x, k = args[:2]
    p, q = k.shape[:2]
    wanted = torch.zeros(*({"diagonal_taps": (2,), "both_ways": (2,)}.get(name, ())), rows, columns, *k.shape[2:])
    for a in range(p):
        for b in range(q):
            first = a if name == "diagonal_taps" else a + b if name == "both_ways" else b
            part = x[..., a : a + rows, first : first + columns]
            if name == "rows_apart":
                part = part[args[-1], torch.arange(rows)]
            elif name == "taps_apart":
                part = part[args[-1][a]]
            wanted = wanted + ((part[..., None] * k[a, b]).tanh() if name == "many_slopes" else part * k[a, b])
    wanted = wanted * args[2][:, :, None] if name == "both_ways" else wanted
    dy = torch.randn_like(wanted)
    y, saved = getattr(native, f"{name}_forward")(*(a.detach() for a in args))
    found = (y, *tensors_in(getattr(native, f"{name}_backward")(dy, *saved)))
    for got, exact in zip(found, (wanted, *torch.autograd.grad(wanted, leaves, dy)), strict=True):
        torch.testing.assert_close(got, exact.detach(), rtol=1e-11, atol=1e-11)


def test_an_infinite_tap_adds_to_its_own_places_alone(native: ModuleType) -> None:
    """Zeros between rows are no places: what an infinite weight makes of them is not added."""
    torch.manual_seed(0)
    x, k = torch.randn(2, 3, 9, 21, dtype=torch.float64), torch.randn(3, 2, 3, dtype=torch.float64)
    k[1, 0, 2] = float("inf")
    y, saved = native.each_channel_forward(x, k)
    dx = native.each_channel_backward(torch.ones_like(y), *saved).dx
    assert dx[:, 1, :8, 2:].isinf().all()
    assert dx[:, 1, 8].isfinite().all() and dx[:, 1, :, :2].isfinite().all() and dx[:, ::2].isfinite().all()


def test_one_place_of_a_dimension_is_no_window(native: ModuleType, ops: dict[str, Op]) -> None:
    for name in ("at_one_column", "of_chosen"):
        assert_right(ops[name])


@pytest.fixture(scope="module")
def over_memory(package: Callable[..., ModuleType]) -> ModuleType:
    return package(specs=SPECS, workspace=True)


@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5])
def test_sums_at_once_end_where_their_tensor_does(over_memory: ModuleType, taps: int) -> None:
    """The gradient of a filter lies in a longer tensor: what is behind it stays."""
    x, k = torch.randn(2, 9, 40), torch.randn(2, 3, taps)
    y, saved = over_memory.one_image_forward(x, k)
    dy = torch.randn_like(y)
    want = over_memory.one_image_backward(dy, *saved)
    behind = torch.full((k.numel() + 64,), 7.0)
    out = type(want)(torch.empty_like(x), behind[: k.numel()].view_as(k))
    over_memory.one_image_backward_out(dy, *saved, out=out)
    torch.testing.assert_close(out.dk, want.dk, rtol=0, atol=0)
    assert (behind[k.numel() :] == 7).all()


def test_what_is_added_is_where_the_sum_begins(native: ModuleType) -> None:
    for name in ("biased", "begun"):
        text = Path(f"{native.__path__[0]}/{name}.c").read_text()
        forward = text[: text.index(f"int {name}_backward(")]
        assert "restrict y_sum" not in forward and "{y" in forward, forward


def test_no_patches_are_laid_out(native: ModuleType) -> None:
    for name in ("plain", "channels_last", "no_batch", "dilated", "volumes"):
        text = Path(f"{native.__path__[0]}/{name}.c").read_text()
        assert text.count("product_of_windows(") == 3 and "_left" not in text and "_right" not in text, name


def test_what_is_beside_a_window_is_not_taken(native: ModuleType) -> None:
    """What is no number stays in the windows that it lies in, though vectors read beyond them."""
    torch.manual_seed(0)
    x, k = torch.randn(2, 3, 9, 21, dtype=torch.float64), torch.randn(4, 3, 2, 3, dtype=torch.float64)
    x[:, :, 4, 11] = float("nan")
    for name, kernel in (("plain", k), ("each_channel", k[0])):
        y, saved = getattr(native, f"{name}_forward")(x, kernel)
        expected = REFERENCES[name](x, kernel)
        assert torch.equal(y.isnan(), expected.isnan()) and y.isnan().any()
        dy = torch.randn_like(y)
        dy[0, 0, 3, 7] = float("nan")
        dx = tensors_in(getattr(native, f"{name}_backward")(dy, *saved))[0]
        want = torch.zeros_like(dx, dtype=torch.bool)
        want[0, slice(None) if name == "plain" else 0, 3:5, 7:10] = True
        assert torch.equal(dx.isnan(), want)
