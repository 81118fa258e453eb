"""What depends on the place along an axis of two or three is said for each place, and joined."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, constant, eq, exp, op, sum, tensor, where
from derive.emit import render
from derive.notation.spec import OpCall
from derive.pipeline import derivation_of
from derive.verify.verify import verify, verify_kernels
from tests.derive.live import assert_derived, chooses

n, d, t, r, xyz = axes("n d t r=2 xyz=3")


@op
def rotated(f, x: tensor[..., d], c: constant[t], s: constant[t]):
    """Rotary embedding, told by the place of a half."""
    f.z[..., r, t] = x[..., (r, t)]
    f.w[..., r, t] = where(
        eq(r, 0), f.z[..., 0, t] * c[t] - f.z[..., 1, t] * s[t], f.z[..., 1, t] * c[t] + f.z[..., 0, t] * s[t]
    )
    f.y[..., (r, t)] = f.w[..., r, t]
    return f.y


@op
def by_signs(f, x: tensor[..., r, t], c: constant[t], s: constant[t]):
    f.y[..., r, t] = x[..., r, t] * c[t] + (2 * r - 1) * x[..., 1 - r, t] * s[t]
    return f.y


@op
def cross(f, a: tensor[n, xyz], b: tensor[n, xyz]):
    f.c[n, xyz] = where(
        eq(xyz, 0), a[n, 1] * b[n, 2] - a[n, 2] * b[n, 1],
        where(eq(xyz, 1), a[n, 2] * b[n, 0] - a[n, 0] * b[n, 2], a[n, 0] * b[n, 1] - a[n, 1] * b[n, 0]),
    )  # fmt: skip
    return f.c


@op
def with_a_mask(f, a: tensor[n, r], m: constant[n]):
    f.c[n, r] = where((r < 1) & (m[n] > 0), exp(a[n, r]), a[n, 1 - r])
    return f.c


@op
def merged(f, a: tensor[n, t]):
    f.c[n, r, d] = where(eq(r, 0), a[n, (r, d)], 2 * a[n, (r, d)])
    return f.c


@op
def merged_at_once(f, x: tensor[..., d], c: constant[t], s: constant[t]):
    """The halves turned where they are merged again."""
    f.z[..., r, t] = x[..., (r, t)]
    f.y[..., (r, t)] = f.z[..., r, t] * c[t] + where(eq(r, 0), -f.z[..., 1, t], f.z[..., 0, t]) * s[t]
    return f.y


@op
def one_of_two(f, a: tensor[n, r]):
    """Nothing at one place has no axes to be joined by."""
    f.c[n, r] = where(r < 1, a[n, r], 0)
    return f.c


p_0 = axes("place_0 place_1")[0]


@op
def beside_such_an_axis(f, x: tensor[n, p_0], z: tensor[n, p_0]):
    """An axis called as those of one place are."""
    f.s[n, p_0, r] = where(eq(r, 0), x[n, p_0], 2 * z[n, p_0])
    f.y[n, r] = sum(f.s[n, p_0, r] ** 2, over=p_0)
    return f.y


def test_an_axis_of_one_place_has_a_name_of_its_own() -> None:
    assert verify(beside_such_an_axis.op).right
    reference = lambda x, z: torch.stack([(x**2).sum(1), (4 * z**2).sum(1)], 1)  # noqa: E731
    assert_derived(beside_such_an_axis.op, reference, {"x": (2, 3), "z": (2, 3)})


def _turned(a: Tensor, b: Tensor, c: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    return a * c - b * s, b * c + a * s


SHAPES: dict[str, tuple[int, ...]] = {"x": (3, 4), "c": (2,), "s": (2,)}
CASES: dict[OpCall, tuple[Callable[..., Tensor], dict[str, tuple[int, ...]]]] = {
    rotated: (lambda x, c, s: torch.cat(_turned(x[..., :2], x[..., 2:], c, s), -1), SHAPES),
    by_signs: (lambda x, c, s: torch.stack(_turned(x[..., 0, :], x[..., 1, :], c, s), -2), SHAPES | {"x": (3, 2, 2)}),
    cross: (lambda a, b: torch.linalg.cross(a, b), {"a": (4, 3), "b": (4, 3)}),
    with_a_mask: (
        lambda a, m: torch.stack([torch.where(m > 0, a[:, 0].exp(), a[:, 1]), a[:, 0]], 1),
        {"a": (5, 2), "m": (5,)},
    ),
    merged_at_once: (lambda x, c, s: torch.cat(_turned(x[..., :2], x[..., 2:], c, s), -1), SHAPES),
    merged: (lambda a: torch.stack([a[:, :3], 2 * a[:, 3:]], 1), {"a": (4, 6)}),
}


@pytest.mark.parametrize("made", CASES, ids=lambda made: made.op.name)
def test_each_place_is_computed_once(made: OpCall) -> None:
    code = render(derivation_of(made.op))
    assert ("torch.stack(" in code or "stacked_last(" in code) and "arange" not in code and ".sum(" not in code, code
    assert_derived(made.op, *CASES[made])


def test_what_is_nothing_at_a_place_stays_a_choice() -> None:
    assert chooses(render(derivation_of(one_of_two.op)))


@pytest.mark.parametrize("made", [rotated, merged_at_once, cross])
def test_in_every_situation(made: OpCall) -> None:
    assert verify_kernels(made.op).right
