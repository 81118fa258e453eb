"""Tensors seen under other axes: kernels read and write them where they lie, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """from derive import *

n, m, d, h, e, t, u, i, j = axes("n m d h e=2 t u i j")


@op
def rotated(f, x: tensor[t, d], c: tensor[h]):
    f.z[t, h, e] = x[t, (h, e)]
    f.y[t, (h, e)] = concat(c[h] * f.z[t, h, 1], exp(f.z[t, h, 0]), along=e)
    return f.y


@op
def heads(f, q: tensor[t, d], k: tensor[u, d]):
    f.a[h, t, e] = q[t, (h, e)]
    f.b[h, e, u] = k[u, (h, e)]
    f.s[h, t, u] = tanh(sum(f.a[h, t, e] * f.b[h, e, u], over=e))
    return f.s


@op
def turned(f, x: tensor[n, m]):
    f.z[m, n] = x[n, m] ** 2
    f.w[n, m] = f.z[m, n]
    f.y[n] = sum(f.w[n, m] * f.w[n, m], over=m) - sum(exp(f.w[n, m]), over=m)
    return f.y


@op
def crossed(f, x: tensor[d], g: tensor[n, m]):
    f.z[m, n] = x[(n, m),]
    f.d[n] = sum(f.z[m, n] * g[n, m], over=m)
    f.y[n, m] = f.d[n] * f.z[m, n] + f.z[0, n]
    return f.y


@op
def handed_on(f, x: tensor[t, d]):
    f.z[t, h, e] = x[t, (h, e)]
    f.y[t, h] = sum(f.z[t, h, e] ** 2, over=e)
    return f.y, f.z


@op
def framed(f, x: tensor[t, u], g: tensor[i, j]):
    f.y[i, j] = g[i, j] * sum(where(eq(t + 1, i) & eq(u + 1, j), x[t, u], 0), over=(t, u))
    return f.y
"""

T, U, H, E, N, M = 5, 7, 3, 2, 6, 4


def _rotated(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    z = x.reshape(T, H, E)
    return torch.stack([c * z[..., 1], z[..., 0].exp()], -1).reshape(T, H * E)


def _heads(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.einsum("the,uhe->htu", q.reshape(T, H, E), k.reshape(U, H, E)))


def _turned(x: torch.Tensor) -> torch.Tensor:
    return (x**4).sum(1) - (x**2).exp().sum(1)


def _crossed(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    z = x.reshape(N, M)
    return (z * g).sum(1, keepdim=True) * z + z[:, :1]


def _handed_on(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = x.reshape(T, H, E)
    return (z**2).sum(-1), z * 1


def _framed(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (1, 1, 1, 1)) * g


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "rotated": (_rotated, ((T, H * E), (H,))),
    "heads": (_heads, ((T, H * E), (U, H * E))),
    "turned": (_turned, ((N, M),)),
    "crossed": (_crossed, ((N * M,), (N, M))),
    "handed_on": (_handed_on, ((T, H * E),)),
    "framed": (_framed, ((T, U), (T + 2, U + 2))),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_views_are_read_and_written_in_place(native: ModuleType, name: str) -> None:
    form, shapes = CASES[name]
    given = [torch.randn(s, dtype=torch.float64) for s in shapes]
    leaves = [a.clone().requires_grad_() for a in given]
    want = form(*leaves)
    want = want if isinstance(want, tuple) else (want,)
    dys = [torch.randn_like(y) for y in want]
    *outputs, saved = getattr(native, f"{name}_forward")(*given)
    found = getattr(native, f"{name}_backward")(*dys, *saved)
    gradients = found if isinstance(found, tuple) else (found,)
    for got, right in zip((*outputs, *gradients), (*want, *torch.autograd.grad(want, leaves, dys)), strict=True):
        torch.testing.assert_close(got, right, rtol=1e-11, atol=1e-11)


def test_a_view_takes_no_memory(native: ModuleType) -> None:
    folder = Path(native.__file__ or "").parent
    for name, views in (("rotated", ("z", "dz")), ("heads", ("a", "b")), ("crossed", ("z",))):
        text = (folder / f"{name}.c").read_text()
        made = {v for v in views if f"restrict {v} = take(" in text or f" {v}_rows" in text or f"real {v}[" in text}
        assert not made, f"{name}: {made}"


UNEQUAL = """from derive import *

n, m = axes("n m")


@op
def seen(f, x: tensor[m], v: tensor[m], w: tensor[n]):
    f.g[m] = v[m] * x[m]
    f.y[n] = x[n]
    f.o[n] = exp(f.y[n]) * w[n]
    return f.g, f.o


@op
def laid_out(f, x: tensor[m], v: tensor[m], w: tensor[n]):
    f.g[m] = v[m] * x[m]
    f.z[m] = exp(x[m])
    f.y[n] = f.z[n]
    f.o[n] = f.y[n] * w[n]
    return f.g, f.y, f.o


@op
def chosen(f, x: tensor[m], v: tensor[m], w: tensor[n]):
    f.g[m] = v[m] * x[m]
    f.o[n] = where(w[n] > 0, x[n], 0)
    return f.g, f.o
"""


@pytest.mark.parametrize(("m", "n"), [(7, 4), (4, 7)])
def test_an_axis_shorter_than_the_dimension_is_refused(package: Package, m: int, n: int) -> None:
    """Also where the tensor would be read through, and under a condition that is false where there is nothing."""
    made = package(specs=UNEQUAL)
    x, v, w = torch.randn(m), torch.randn(m), torch.randn(n)
    w[m:] = -1
    for name in ("seen", "laid_out", "chosen"):
        with pytest.raises(ValueError, match=rf"{name}.*axis (m|n)"):
            getattr(made, f"{name}_forward")(x, v, w)


PHASES = """from derive import *

n, c, h, w, i, j, p, q = axes("n c h w i j p=3 q=3")


@op
def phases(f, x: tensor[n, c, h, w]):
    f.y[n, (p, q, c), i, j] = x[n, c, (i, p), (j, q)]
    return f.y
"""


@pytest.mark.filterwarnings("error")
def test_parts_of_given_lengths_are_merged_anew(package: Package) -> None:
    made = package(specs=PHASES)
    x = torch.randn(2, 4, 6, 9, dtype=torch.float64, requires_grad=True)
    want = x.reshape(2, 4, 2, 3, 3, 3).permute(0, 3, 5, 1, 2, 4).reshape(2, 36, 2, 3)
    assert torch.equal(made.phases(x), want)
    (dx,) = torch.autograd.grad(made.phases(x), x, want)
    assert torch.equal(dx, x)
    assert (Path(str(made.__path__[0])) / "phases.c").exists()
