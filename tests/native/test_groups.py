"""Which loops share a pass: those that memory lies alike for, and no half of a fold by itself."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from derive.arithmetic import ZERO
from derive.backends.cpu.groups import Group, grouped
from derive.backends.cpu.normal import Loop, Normal
from derive.program import Call, Program, Read, Window
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
    copy = Loop("z", (D, N), Read("of_z", (N, D)))
    (group,) = _groups([_doubled("y", N, C), copy], (("of_y", (N, C)), ("of_z", (N, D))))
    assert [s.name for s in group.loops] == ["y", "z"]


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
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(native: ModuleType, threads: Callable[[int], None], name: str) -> None:
    reference, shapes = CASES[name]
    inputs = [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shapes]
    for count in (1, 2):
        threads(count)
        assert_alike(getattr(native, name)(*inputs), reference(*inputs), inputs)
