"""Elements of one tensor are added and subtracted in turns: what neighbours share cancels before it is rounded."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, index, op, tensor
from derive.notation.spec import OpCall
from derive.pipeline import derivation_of
from tests.derive.live import module

n, t, u, h, w, i, j = axes("n t u h w i j")


@op
def bend(f, x: tensor[n, t]):
    f.y[n, u] = x[n, u + 2] - 2 * x[n, u + 1] + x[n, u]
    return f.y


@op
def around(f, x: tensor[h, w]):
    f.y[i, j] = x[i + 2, j + 1] + x[i, j + 1] + x[i + 1, j + 2] + x[i + 1, j] - 4 * x[i + 1, j + 1]
    return f.y


@op
def twist(f, x: tensor[h, w]):
    f.y[i, j] = x[i + 1, j + 1] - x[i + 1, j] - x[i, j + 1] + x[i, j]
    return f.y


PLAIN: list[tuple[OpCall, Callable[[Tensor], Tensor]]] = [
    (bend, lambda x: x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]),
    (around, lambda x: x[2:, 1:-1] - 4 * x[1:-1, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]),
    (twist, lambda x: x[1:, 1:] - x[1:, :-1] - x[:-1, 1:] + x[:-1, :-1]),
]


@pytest.mark.parametrize(("spec", "plain"), PLAIN, ids=lambda p: p.op.name if isinstance(p, OpCall) else "")
def test_far_from_zero(spec: OpCall, plain: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(12, 40, generator=torch.Generator().manual_seed(0)) + 1e4
    truth = plain(x.double())
    ours, theirs = (float((y - truth).abs().max()) for y in (getattr(module(spec.op), spec.op.name)(x), plain(x)))
    assert ours <= 2 * theirs + 1e-6


@op
def decayed(f, c: tensor[n], g: tensor[n]):
    f.y[i, j] = c[i] - c[j] + g[j]
    return f.y


@op
def translated(f, e: tensor[n, t], r: tensor[n, t], head: index(n)[h], tail: index(n)[h]):
    f.y[h, t] = e[head[h], t] + r[head[h], t] - e[tail[h], t]
    return f.y


def test_a_difference_of_one_tensor_comes_before_what_is_added_to_it() -> None:
    """Of running sums, which are large where they differ little; what an index chooses is left as it is read."""
    c = torch.linspace(-5e4, -4.9e4, 50)
    g = torch.rand(50, generator=torch.Generator().manual_seed(0))
    truth = c.double()[:, None] - c.double() + g.double()
    assert float((module(decayed.op).decayed(c, g) - truth).abs().max()) <= 1e-4
    forward = str(derivation_of(translated.op).forward)  # type: ignore[attr-defined]
    assert "y[h, t] = e[head[h], t] + r[head[h], t] - e[tail[h], t]" in forward
