"""Matrix products: small ones in tiles of our own, larger ones through BLAS, all without it."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from derive.backends.cpu.products.contractions import with_products
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.program import Call, Program, Read
from tests.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels", "threads")

SIZES = [(1, 1, 1), (1, 40, 3), (7, 33, 5), (6, 16, 64), (13, 27, 200), (200, 27, 32), (3, 2, 1100), (130, 70, 90)]
SIZES += [(90, 200, 520), (140, 300, 530), (150, 20, 1030), (64, 35, 700), (3, 270, 2100)]  # rows, columns, inner


@pytest.fixture(scope="module")
def native(package: Package) -> ModuleType:
    return package("matmul", "batched_matmul")


WAVES = """
from derive import *
n, m, t = axes("n m t")


@op
def waves(f, x: tensor[n], y: tensor[m], T: length(t)):
    f.z[n, m] = sum(cos(x[n] * t) * sin(y[m] * t), over=t)
    return f.z
"""


@pytest.fixture(scope="module")
def nothing(package: Package) -> ModuleType:
    """A product whose inner axis is a length that is given, so that it may be 0."""
    return package(specs=WAVES)


@pytest.fixture(params=["as it is", "blas wins", "no blas"])
def blas(
    request: pytest.FixtureRequest, native: ModuleType, nothing: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> Iterator[bool]:
    """Whether there is one; `blas wins` is what a processor sees that PyTorch's BLAS has code for."""
    libraries = []
    for package, name in ((native, "matmul"), (native, "batched_matmul"), (nothing, "waves")):
        library = sys.modules[f"{package.__name__}._library"]
        libraries += [(library, library.library(f"{name}.c", t), t) for t in (torch.float32, torch.float64)]
    with monkeypatch.context() as patched:
        patched.setattr(torch.backends.mkl, "is_available", lambda: False)
        for library, made, dtype in libraries:
            if request.param == "no blas":
                made.use_blas(ctypes.c_void_p(0), 0)
            elif request.param == "blas wins":
                library._hand_over_blas(made, dtype)
    yield request.param != "no blas"
    for library, made, dtype in libraries:
        library._hand_over_blas(made, dtype)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("batch", [(), (1,), (5,)], ids=str)
def test_products_of_any_size(
    native: ModuleType, blas: bool, batch: tuple[int, ...], dtype: torch.dtype, size: tuple[int, int, int]
) -> None:
    n, m, k = size
    a, b, dy = (torch.randn(*batch, *s, dtype=dtype) for s in ((n, k), (k, m), (n, m)))
    name = "batched_matmul" if batch else "matmul"
    tolerance = 1e-14 if dtype == torch.float64 else 5e-6
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        y, saved = getattr(native, f"{name}_forward")(a, b)
        found.append([y, *getattr(native, f"{name}_backward")(dy, *saved)])
    a64, b64, dy64 = a.double(), b.double(), dy.double()
    for got, want in zip(found[0], (a64 @ b64, dy64 @ b64.mT, a64.mT @ dy64), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance * float(want.abs().max()))
    small = n * m * k <= 1 << 19 and max(size) <= 512
    if small or not blas:
        assert all(torch.equal(x, y) for others in found[1:] for x, y in zip(found[0], others, strict=True))


@pytest.mark.usefixtures("blas")
def test_long_sums_are_as_exact_as_pytorch(native: ModuleType) -> None:
    """In one run, a sum of 512 products is off by two to three times what MKL's is."""
    torch.manual_seed(0)
    a, b = torch.randn(300, 512), torch.randn(512, 300)
    exact = a.double() @ b.double()
    y, _ = native.matmul_forward(a, b)
    assert (y - exact).abs().max() <= 1.5 * (a @ b - exact).abs().max()


def test_what_is_infinite_stays_where_it_is(native: ModuleType, blas: bool) -> None:
    """Columns that are computed twice, and lanes beyond the last, must not make `inf * 0` of it."""
    a, b = torch.rand(7, 600) + 1, torch.rand(600, 45) + 1
    a[2, 599] = a[3, 0] = torch.inf
    y, _ = native.matmul_forward(a, b)
    torch.testing.assert_close(y, (a.double() @ b.double()).float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("rows, columns", [(3, 4), (1, 4), (3, 1)])
def test_a_sum_of_nothing(nothing: ModuleType, blas: bool, rows: int, columns: int) -> None:
    z, _ = nothing.waves_forward(torch.rand(rows), torch.rand(columns), 0)
    assert torch.equal(z, torch.zeros(rows, columns))
    x, y, t = torch.rand(rows), torch.rand(columns), torch.arange(5.0)
    z, _ = nothing.waves_forward(x, y, 5)
    torch.testing.assert_close(z, (x[:, None] * t).cos() @ (y[:, None] * t).sin().T)


LONG = """
from derive import *
d, i, j, k, l, m, n, p, q = axes("d i j k l m n p q")


@op
def kronecker(f, x: tensor[n, d], a: tensor[i, j], b: tensor[k, l]):
    f.z[n, i, k] = x[n, (i, k)]
    f.y[n, (j, l)] = sum(f.z[n, i, k] * a[i, j] * b[k, l], over=(i, k))
    return f.y


@op
def core(f, g: tensor[p, q], a: tensor[i, p], b: tensor[j, q]):
    f.y[i, j] = sum(g[p, q] * a[i, p] * b[j, q], over=(p, q))
    return f.y


@op
def quadratic(f, w: tensor[n, d], s: tensor[d, d]):
    f.y[n] = sum(w[n, i] * s[i, j] * w[n, j], over=(i, j))
    return f.y


@op
def pairs(f, w: tensor[n, i], s: tensor[i, j]):
    f.y[n] = sum(where(i < j, s[i, j] * w[n, i] * w[n, j], 0), over=(i, j))
    return f.y
"""


def _agrees(ours: Callable[..., Tensor], plain: Callable[..., Tensor], shapes: list[tuple[int, ...]]) -> None:
    """That a kernel and its gradients are those of a plain forward, under one random cotangent."""
    leaves = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    found, want = ours(*leaves), plain(*leaves)
    dy = torch.randn(want.shape, dtype=want.dtype)
    sides = [(y, *torch.autograd.grad(y, leaves, dy)) for y in (found, want)]
    for got, right in zip(*sides, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-12, atol=1e-12)


def test_long_products_are_taken_two_factors_at_a_time(package: Package) -> None:
    made = package(specs=LONG)
    cases = {
        "kronecker": (lambda x, a, b: x @ torch.kron(a, b), [(9, 12), (4, 5), (3, 7)], 6),
        "core": (lambda g, a, b: a @ g @ b.T, [(3, 4), (5, 3), (6, 4)], 6),
        "quadratic": (lambda w, s: ((w @ s) * w).sum(1), [(9, 5), (5, 5)], 3),
        "pairs": (lambda w, s: ((w @ s.triu(1)) * w).sum(1), [(9, 5), (5, 5)], 4),
    }
    folder = Path(made.__file__ or "").parent
    for name, (form, shapes, products) in cases.items():
        _agrees(getattr(made, name), form, shapes)
        text = (folder / f"{name}.c").read_text()
        assert len(re.findall(r"    product(?:_of_windows)?\(", text)) >= products, name


def test_a_factor_that_is_computed_first_lies_as_the_largest_of_what_it_is_made_of() -> None:
    """In `w[n] * x[n, d]`, `w` says nothing of where `d` belongs."""
    x = Read("x", ("n", "d"))
    weighed = Call("mul", (Call("mul", (Read("w", ("n",)), x)), Read("x", ("n", "e"))))
    form = Normal(Program("f", (("w", ("n",)), ("x", ("n", "d"))), (), (), ("c",)))
    form.add(Loop("c", ("d", "e"), weighed, "sum", ("n",)))
    factor, _ = with_products(form)
    assert isinstance(factor, Loop) and factor.slots == ("n", "d")


CHANNELS = """
from derive import *
n, c, o, h, w, e, d = axes("n c o h w e d")


@op
def mixed(f, x: tensor[n, c, h, w], k: tensor[o, c]):
    f.y[n, o, h, w] = sum(k[o, c] * x[n, c, h, w], over=c)
    return f.y


@op
def experts(f, x: tensor[n, d], k: tensor[e, d, h]):
    f.y[e, n, h] = sum(x[n, d] * k[e, d, h], over=d)
    return f.y
"""


@pytest.mark.parametrize("shape", [(2, 3, 5, 4, 7), (3, 1, 2, 1, 1), (2, 40, 33, 9, 40)])
def test_a_matrix_of_each_row_is_multiplied_where_it_lies(package: Package, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    made, (n, c, o, h, w) = package(specs=CHANNELS), shape
    cases = {
        "mixed": ((n, c, h, w), (o, c), "nchw,oc->nohw"),
        "experts": ((n, c), (o, c, h), "nd,edh->enh"),
    }
    for name, (first, second, equation) in cases.items():
        x, k = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in (first, second))
        want = torch.einsum(equation, x, k)
        dy = torch.randn_like(want)
        y, saved = getattr(made, f"{name}_forward")(x.detach(), k.detach())
        found = getattr(made, f"{name}_backward")(dy, *saved)
        for got, exact in zip((y, *found), (want, *torch.autograd.grad(want, (x, k), dy)), strict=True):
            torch.testing.assert_close(got, exact.detach(), rtol=1e-12, atol=1e-12)
        text = (Path(str(made.__path__[0])) / f"{name}.c").read_text()
        assert "take(" not in text[: text.index(f"int {name}_backward(")] and not re.search("_left|_right", text), text


MIXED = """
from derive import *
n, t, c, h = axes("n t c h")


@op
def tokens_mixed(f, x: tensor[n, t, c], v: tensor[t, h], w: tensor[h, t]):
    f.a[n, c, h] = tanh(sum(x[n, t, c] * v[t, h], over=t))
    f.y[n, t, c] = sum(f.a[n, c, h] * w[h, t], over=h)
    return f.y
"""


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (3, 1, 2, 1), (5, 40, 33, 9)])
def test_a_batch_of_products_writes_as_its_readers_go(package: Package, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    made, (n, t, c, h) = package(specs=MIXED), shape
    _agrees(made.tokens_mixed, lambda x, v, w: ((x.mT @ v).tanh() @ w).mT, [(n, t, c), (t, h), (h, t)])
    text = (Path(str(made.__path__[0])) / "tokens_mixed.c").read_text()
    backward = text[text.index("int tokens_mixed_backward(") :]
    assert "da[(i_n * n_c + i_c) * n_h + i_h]" in backward  # made of dy, whose channels are in the middle
    assert "da_product" not in backward


SPREAD = """
from derive import *
n, m, d, k = axes("n m d k")


@op
def summed_out(f, w: tensor[d, k], x: tensor[n, m, k]):
    f.y[n, d] = sum(w[d, k] * x[n, m, k], over=(m, k))
    return f.y


@op
def spread(f, x: tensor[n, k], z: tensor[n, m]):
    f.top[n, m] = amax(x[n, k], over=k)
    f.y[n, m] = f.top[n, m] * z[n, m]
    return f.y
"""


def test_what_is_the_same_all_along_an_axis_is_summed_once(package: Package) -> None:
    made = package(specs=SPREAD)
    cases = {
        "summed_out": (lambda w, x: x.sum(1) @ w.T, [(5, 6), (7, 4, 6)]),
        "spread": (lambda x, z: x.amax(1, keepdim=True) * z, [(7, 6), (7, 4)]),
    }
    for name, (form, shapes) in cases.items():
        _agrees(getattr(made, name), form, shapes)
    folder = Path(str(made.__path__[0]))
    text = (folder / "summed_out.c").read_text()
    assert len(re.findall(r"    product\(", text)) == 3, text
    forward = (folder / "spread.c").read_text().partition("int spread_backward(")[0]
    assert not re.search(r"n_n \* n_(m \* n_k|k \* n_m)", forward), forward
