"""An index off its axis is refused by name, wherever the length of the axis comes from and however it is read by."""

import pytest
import torch
from torch import Tensor

from derive.notation import axes, concat, constant, delta, eq, index, length, op, sum, tensor, where
from derive.notation.spec import OpCall
from tests.derive.live import assert_alike, module

n, c, d, i, j = axes("n c d i j")
k = axes("k=3")


@op
def of_fixed_length(f, x: tensor[n, k], y: index(k)[n]):
    f.out[n] = x[n, y[n]] ** 2
    return f.out


@op
def of_given_length(f, x: tensor[n, c], y: index(c)[n], classes: length(c)):
    f.out[n] = x[n, y[n]] ** 2
    return f.out


@op
def of_joined_length(f, x: tensor[n, i], y: index(c)[n]):
    """No input has the axis."""
    f.joined[n, c] = concat(x[n, i], 2, along=c)
    f.out[n] = f.joined[n, y[n]] ** 2
    return f.out


@op
def one_hot(f, x: tensor[n, c], y: index(c)[n]):
    """The forward only compares; the backward reads by the index."""
    f.out[n, c] = delta(y[n], c) * x[n, 0]
    return f.out


@op
def all_others(f, x: tensor[n, c], y: index(c)[n]):
    f.out[n] = sum((1 - delta(y[n], c)) * x[n, c] ** 2, over=c)
    return f.out


@op
def guarded(f, x: tensor[n, k], y: index(k)[n]):
    f.out[n] = where(y[n] >= 0, x[n, y[n]], 0)
    return f.out


@op
def guarded_joined(f, x: tensor[n, i], y: index(c)[n]):
    f.joined[n, c] = concat(x[n, i], 2, along=c)
    f.out[n] = where(y[n] >= 0, f.joined[n, y[n]], 0)
    return f.out


@op
def guarded_columns(f, x: tensor[d, c], y: index(c)[n], w: constant[n]):
    """Columns are read by subscripts, of which PyTorch counts negative ones from the end."""
    f.out[d, n] = where(w[n] > 0, x[d, y[n]], 0)
    return f.out


OFF = [
    (of_fixed_length, 3, (), "equation out: y holds 3, but axis k has length 3; give values 0 to 2"),
    (of_fixed_length, -1, (), "equation out: y holds -1, but axis k has length 3"),
    (of_given_length, -1, (3,), "equation out: y holds -1, but axis c has length 3"),
    (of_joined_length, 4, (), "equation out: y holds 4, but axis c has length 4"),
    (one_hot, -1, (), "equation out: y holds -1, but axis c has length 3"),
    (all_others, 3, (), "equation out: y holds 3, but axis c has length 3"),
    (guarded, 3, (), "equation out: y holds 3, but axis k has length 3"),
    (guarded_joined, 4, (), "equation out: y holds 4, but axis c has length 4"),
    (guarded_columns, -1, (torch.ones(2),), "equation out: y holds -1, but axis c has length 3"),
]


@pytest.mark.parametrize(("made", "value", "more", "message"), OFF)
def test_what_lies_off_its_axis_is_named(made: OpCall, value: int, more: tuple[object, ...], message: str) -> None:
    with pytest.raises(IndexError, match=f"{made.op.name}, {message}"):
        getattr(module(made.op), f"{made.op.name}_forward")(torch.rand(2, 3), torch.tensor([0, value]), *more)


def _read(x: Tensor, y: Tensor) -> Tensor:
    return x.gather(1, y.clamp(min=0).unsqueeze(1)).squeeze(1)


def _named(x: Tensor, y: Tensor) -> Tensor:
    return y.unsqueeze(1) == torch.arange(x.shape[1])


def _with_two(x: Tensor) -> Tensor:
    return torch.cat([x, torch.full_like(x[:, :1], 2)], 1)


ON = [
    (of_fixed_length, [0, 2, 1, 2], (), lambda x, y: _read(x, y) ** 2),
    (of_given_length, [0, 2, 1, 2], (3,), lambda x, y: _read(x, y) ** 2),
    (of_joined_length, [0, 3, 1, 2], (), lambda x, y: _read(_with_two(x), y) ** 2),
    (one_hot, [0, 2, 1, 2], (), lambda x, y: _named(x, y) * x[:, :1]),
    (all_others, [0, 2, 1, 2], (), lambda x, y: (~_named(x, y) * x**2).sum(1)),
    (guarded, [0, -100, 1, 2], (), lambda x, y: torch.where(y >= 0, _read(x, y), 0)),
    (guarded_joined, [0, -100, 3, 2], (), lambda x, y: torch.where(y >= 0, _read(_with_two(x), y), 0)),
    (
        guarded_columns, [0, -100, 1, 2], (torch.tensor([1, -1, 1, 1]),),
        lambda x, y: torch.where(y >= 0, x[:, y.clamp(min=0)], 0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("made", "labels", "more", "plain"), ON)
def test_values_and_gradients(made: OpCall, labels: list[int], more: tuple[object, ...], plain) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    y = torch.tensor(labels)
    assert_alike(getattr(module(made.op), made.op.name)(x, y, *more), plain(x, y), [x])


@op
def compared(f, x: tensor[n, c], y: index(c)[n]):
    """A choice compares in the backward too: what lies outside is no place."""
    f.out[n, c] = where(eq(y[n], c), x[n, 0], 0) + where(y[n] >= 0, delta(y[n], c) * x[n, 1], 0)
    return f.out


def test_what_a_choice_compares_may_lie_outside() -> None:
    x = torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.tensor([0, -100, 3, 2])
    assert_alike(module(compared.op).compared(x, y), _named(x, y) * (x[:, :1] + x[:, 1:2]), [x])
