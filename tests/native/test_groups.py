"""Which loops share a pass: those that memory lies alike for, and no half of a fold by itself."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest
import torch

from derive.backends.cpu.schedule.groups import Group, grouped
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.nodes.arithmetic import ZERO
from derive.ir.program import Call, Node, Num, Program, Read, Window
from tests.derive.live import assert_alike

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """from derive import *

n, m, c, t, u, i, j, k, l = axes("n m c t u i j k l")


@op
def messages(f, K: tensor[n, m], q: tensor[n, c], g: tensor[m]):
    f.p[n, c] = q[n, c] / (1 + sum(q[n, c] ** 2, over=c))
    f.y[m, c] = sum(where(ne(n, m), exp(K[n, m]) * g[m], 0) * f.p[n, c], over=n)
    return f.y


@op
def local_filters(f, x: tensor[n, c, t, u], w: tensor[n, i, j, k, l]):
    f.y[n, c, i, j] = sum(w[n, i, j, k, l] * x[n, c, i + k, j + l], over=(k, l))
    return f.y


@op
def of_few(f, x: tensor[n, c, k], at: index(k)[n, c]):
    f.p[n, c, k] = exp(x[n, c, k] - amax(x[n, c, k], over=k))
    f.q[n, c] = x[n, c, at[n, c]] / sum(f.p[n, c, k], over=k)
    f.y[()] = sum(f.q[n, c] ** 2, over=(n, c))
    return f.y


@op
def of_few_masked(f, x: tensor[n, c, k], mask: constant[n]):
    f.y[n, c] = mask[n] / sum(exp(x[n, c, k]), over=k)
    return f.y


@op
def few_columns(f, x: tensor[k, n, c], g: tensor[n, c]):
    f.y[k, n, c] = g[n, c] * x[k, n, c] / sum(x[k, n, c] ** 2, over=k)
    return f.y


@op
def blended(f, w: tensor[n], x: tensor[n, t, c]):
    f.y[t, c] = sum(w[n] * x[n, t, c], over=n)
    f.low[n] = amin(x[n, t, c], over=(t, c))
    return f.y, f.low


@op
def centred(f, x: tensor[n, t, c], g: tensor[t]):
    f.mu[n] = mean(x[n, t, c], over=(t, c))
    f.z[n, t, c] = x[n, t, c] - f.mu[n]
    f.y[n, t, c] = g[t] * f.z[n, t, c] * rsqrt(mean(f.z[n, t, c] ** 2, over=(t, c)) + 1)
    return f.y


@op
def weighted_rows(f, x: tensor[n, c], g: tensor[n]):
    f.s[n] = tanh(g[n])
    f.w[n] = f.s[n] * exp(-g[n] ** 2)
    f.y[n, c] = f.w[n] * x[n, c] + f.s[n]
    return f.y


@op
def pulled(f, x: tensor[n, c], z: tensor[m, c], a: tensor[n, m], b: tensor[n, n]):
    f.y[n, c] = sum(a[n, m] * (x[n, c] - z[m, c]), over=m) - sum(b[n, k] * (x[n, c] - x[k, c]), over=k)
    return f.y


@op
def picked(f, x: tensor[n, c], w: tensor[c, k], at: index(k)[n]):
    f.y[n] = tanh(sum(x[n, c] * w[c, at[n]], over=c))
    return f.y


@op
def signed(f, z: tensor[n, c], y: index(c)[n]):
    f.o[n, c] = z[n, c] * where(eq(c, y[n]), 1, -1)
    return f.o
"""

N, C, D = "n", "c", "d"


def _groups(loops: list[Loop], given: tuple[tuple[str, tuple[str, ...]], ...]) -> list[Group]:
    form = Normal(Program("f", given, (), (), ("y", "z")), list(loops), dict(given))
    for s in loops:
        form.dims[s.name] = s.slots
    return [g for g in grouped(list(loops), form) if isinstance(g, Group)]


def _doubled(name: str, *axes: str) -> Loop:
    return Loop(name, axes, Call("add", (Read(f"of_{name}", axes), Read(f"of_{name}", axes))))


@pytest.mark.parametrize("rows_first", [True, False])
def test_what_lies_along_rows_shares_no_pass_with_what_lies_along_columns(rows_first: bool) -> None:
    rows, columns = _doubled("y", N, C), _doubled("z", D, N)
    loops = [rows, columns] if rows_first else [columns, rows]
    groups = _groups(loops, (("of_y", (N, C)), ("of_z", (D, N))))
    assert [[s.name for s in g.loops] for g in groups] == [[s.name] for s in loops]


def test_what_lies_either_way_joins_rows() -> None:
    """A transposed copy goes in strides on one side in any case."""
    copy = Loop("z", (C, N), Read("of_y", (N, C)))
    (group,) = _groups([_doubled("y", N, C), copy], (("of_y", (N, C)),))
    assert [s.name for s in group.loops] == ["y", "z"]


def test_loops_that_share_no_tensor_share_no_pass() -> None:
    loops = [_doubled("y", N, C), _doubled("z", N, D)]
    groups = _groups(loops, (("of_y", (N, C)), ("of_z", (N, D))))
    assert [([s.name for s in g.loops], g.outer) for g in groups] == [(["y"], (N, C)), (["z"], (N, D))]


def test_a_fold_is_not_cut_in_two_where_nothing_joins_either_half() -> None:
    at = Window((("t", 1), ("k", 1)), ZERO)
    fold = Loop("y", (N, "t"), Call("mul", (Read("w", (N, "t", "k", "l")), Read("x", (N, at, "l")))), "sum", ("k", "l"))
    (group,) = _groups([fold], (("w", (N, "t", "k", "l")), ("x", (N, "u", "l"))))
    assert group.loops == (fold,)


CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "messages": (
        lambda K, q, g: (K.exp() * g * (1 - torch.eye(*K.shape, dtype=K.dtype))).T @ (q / (1 + (q**2).sum(1))[:, None]),
        ((37, 19), (37, 5), (19,)),
    ),
    "local_filters": (
        lambda x, w: torch.einsum("ncijkl, nijkl -> ncij", x.unfold(2, 3, 1).unfold(3, 2, 1), w),
        ((2, 3, 9, 40), (2, 7, 39, 3, 2)),
    ),
    "weighted_rows": (
        lambda x, g: (g.tanh() * torch.exp(-(g**2)))[:, None] * x + g.tanh()[:, None],
        ((37, 41), (37,)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(native: ModuleType, threads: Callable[[int], None], name: str) -> None:
    reference, shapes = CASES[name]
    inputs = [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shapes]
    for count in (1, 2):
        threads(count)
        assert_alike(getattr(native, name)(*inputs), reference(*inputs), inputs)


def _of_few(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    p = (x - x.amax(-1, keepdim=True)).exp()
    return ((x.gather(-1, y[..., None])[..., 0] / p.sum(-1)) ** 2).sum()


@pytest.mark.parametrize("shape", [(40, 3, 5), (700, 3, 4), (1, 1, 1), (4, 4, 4), (9, 2, 40)], ids=str)
def test_many_rows_of_few_places_whatever_their_axes(
    native: ModuleType, threads: Callable[[int], None], shape: tuple[int, ...]
) -> None:
    """Those of several outer axes are rows one after another where memory has them so."""
    n, c, k = shape
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64).requires_grad_()
    columns = torch.randn(k, n, c, dtype=torch.float64).requires_grad_()
    y, mask, g = torch.randint(k, (n, c)), torch.randn(n).double(), torch.randn(n, c).double().requires_grad_()
    first: list[torch.Tensor] = []
    for count in (1, 2):
        threads(count)
        assert_alike(native.of_few(x, y), _of_few(x, y), [x])
        assert_alike(native.of_few_masked(x, mask), mask[:, None] / x.exp().sum(-1), [x])
        assert_alike(native.few_columns(columns, g), g * columns / (columns**2).sum(0), [columns, g])
        made = native.of_few_forward(x.detach(), y)[0]
        assert torch.equal(made, first[0] if first else made)
        first.append(made)


def _centred(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    z = x - x.mean((1, 2), keepdim=True)
    return g[:, None] * z * ((z**2).mean((1, 2), keepdim=True) + 1).rsqrt()


@pytest.mark.parametrize("shape", [(40, 5, 3), (3, 40, 31), (1, 1, 1), (4, 4, 4), (700, 2, 3)], ids=str)
def test_rows_over_several_axes(native: ModuleType, threads: Callable[[int], None], shape: tuple[int, ...]) -> None:
    """They are rows over one axis where memory has them so, however short the last of them is."""
    torch.manual_seed(0)
    x, w, g = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in (shape, shape[:1], shape[1:2]))
    for count in (1, 2):
        threads(count)
        (y, low), (expected, lowest) = native.blended(w, x), (torch.einsum("n, ntc -> tc", w, x), x.amin((1, 2)))
        assert_alike(y + low.sum(), expected + lowest.sum(), [w, x])
        assert_alike(native.centred(x, g), _centred(x, g), [x, g])
    broken = x.detach().clone()
    broken[0, -1, -1] = torch.nan
    assert native.blended(w.detach(), broken)[1].isnan().tolist() == [k == 0 for k in range(shape[0])]


@pytest.mark.parametrize(("n", "m", "c"), [(5, 7, 3), (3, 70, 33), (70, 2, 100), (60, 70, 20), (4, 5, 300)])
def test_sums_over_rows_of_what_lies_along_columns(
    native: ModuleType, threads: Callable[[int], None], n: int, m: int, c: int
) -> None:
    """The columns become vectors where they fill some: along rows `x` would be read at a stride."""
    torch.manual_seed(0)
    x, z, a, b = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in ((n, c), (m, c), (n, m), (n, n)))
    expected = (a[..., None] * (x[:, None] - z)).sum(1) - (b[..., None] * (x[:, None] - x)).sum(1)
    for count in (1, 2):
        threads(count)
        assert_alike(native.pulled(x, z, a, b), expected, [x, z, a, b])
    forward = Path(native.__path__[0], "pulled.c").read_text().split("int pulled_backward(")[0]
    assert "if (n_c >= at_most(MANY, NARROW))" in forward


@pytest.mark.parametrize(("n", "c", "k"), [(7, 3, 5), (300, 70, 4), (2, 5, 90)])
def test_what_is_added_to_columns_by_an_index(
    native: ModuleType, threads: Callable[[int], None], n: int, c: int, k: int
) -> None:
    """Threads share the axis that no index is of, and vectors run along it, as what is added lies in memory."""
    torch.manual_seed(0)
    x, w = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in ((n, c), (c, k)))
    at = torch.randint(k, (n,))
    for count in (1, 2):
        threads(count)
        assert_alike(native.picked(x, w, at), (x * w[:, at].T).sum(1).tanh(), [x, w])
    backward = Path(native.__path__[0], "picked.c").read_text().split("int picked_backward(")[1]
    added = backward.splitlines()
    line = next(j for j, text in enumerate(added) if "dw[i_c" in text and "+=" in text)
    assert "i_c = from" in added[line - 1] and "simd" in added[line - 2] and "i_n = 0" in added[line - 3]


def test_a_place_that_is_only_compared_is_one(native: ModuleType) -> None:
    """As in PyTorch, which puts a value there: a label that is no class is refused by name."""
    z = torch.ones(2, 3)
    assert native.signed(z, torch.tensor([0, 2])).tolist() == [[1, -1, -1], [-1, -1, 1]]
    for label in (3, -1):
        with pytest.raises(IndexError, match=f"^signed, equation o: y holds {label}, but axis c has length 3"):
            native.signed(z, torch.tensor([0, label]))


def test_axes_that_lie_one_after_another_are_one(native: ModuleType) -> None:
    def source(name: str) -> str:
        return Path(native.__path__[0], f"{name}.c").read_text()

    assert all("const int64_t n_n_c = n_n * n_c;" in source(name) for name in ("of_few", "few_columns"))
    assert "const int64_t n_t_c = n_t * n_c;" in source("blended")
    assert "const int64_t i_t = 0;" in source("centred")  # the gain has one of the two alone, in another pass
    forward = source("of_few_masked").partition("int of_few_masked_backward(")[0]
    assert "const int64_t i_n = 0;" not in forward and "n_n_c" not in forward  # the mask has one of the two alone


def _of_rows(value: Node) -> list[Loop]:
    """A value for each row, and rows that read it."""
    product = Call("mul", (Read("h", (N,)), Read("z", (N, C))))
    return [Loop("h", (N,), value), Loop("y", (N, C), product)]


GIVEN = (("x", (N,)), ("z", (N, C)))


def test_a_costly_value_of_rows_is_made_for_many_rows_at_once() -> None:
    before, rows = _groups(_of_rows(Call("tanh", (Read("x", (N,)),))), GIVEN)
    assert ([s.name for s in before.loops], before.lane) == (["h"], N)
    assert ([s.name for s in rows.loops], rows.lane) == (["y"], None)


def test_a_value_that_is_cheap_or_needs_its_row_is_made_beside_it() -> None:
    cheap = _of_rows(Call("neg", (Read("x", (N,)),)))
    of_row = [Loop("s", (N,), Read("z", (N, C)), "sum", (C,)), *_of_rows(Call("log", (Read("s", (N,)),)))]
    for loops in (cheap, of_row):
        (group,) = _groups(loops, GIVEN)
        assert group.loops == tuple(loops)


def _next(axis: str) -> Window:
    return Window(((axis, 1),), Num(Fraction(1)))


SHIFTED = (("u", (N, C)), ("v", (N, C)))
START = Loop("y", (N, C), Read("u", (N, C)))
ALONG_ROWS = Loop("y", (N, _next("cc")), Read("v", (N, "cc")), "add")
ACROSS = Loop("y", (_next("nn"), C), Read("v", ("nn", C)), "add")


def test_what_is_added_to_one_tensor_is_added_in_any_order() -> None:
    """What a row adds to itself is added with the row; what rows add to the next comes after, shared out by columns."""
    rows, columns = _groups([START, ACROSS, ALONG_ROWS], SHIFTED)
    assert (rows.outer, rows.loops) == ((N,), (START, ALONG_ROWS))
    assert columns.loops == (ACROSS,) and columns.outer


def test_what_reads_the_tensor_or_sets_it_keeps_its_place() -> None:
    largest = Loop("y", (N, _next("cc")), Read("v", (N, "cc")), "raise")
    reads = Loop("z", (N, C), Read("y", (N, C)))
    for later in (largest, reads):
        found = [s for g in _groups([START, ACROSS, later], SHIFTED) for s in g.loops]
        assert found.index(ACROSS) < found.index(later)


def test_additions_through_shifts_are_shared_out() -> None:
    """Each place is added to once: no group of them runs on one thread alone."""
    assert all(g.outer for g in _groups([ACROSS, ALONG_ROWS], (*SHIFTED, ("y", (N, C)))))
