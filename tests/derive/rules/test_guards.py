"""A gather in an equation that only the branches of a condition on its index read: what they leave out is not read."""

import inspect

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive.notation import amax, axes, exp, index, log, mean, ne, op, scalar, sum, tensor, where
from derive.notation.spec import OpCall
from tests.derive.live import assert_alike, module

n, t, c, k = axes("n t c k")


@op
def in_steps(f, z: tensor[n, c], y: index(c)[n], ignore: scalar = -100):
    """Cross-entropy with part of each label spread, each step an equation."""
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.picked[n] = z[n, y[n]]
    f.nll[n] = f.lse[n] - f.picked[n]
    f.spread[n] = f.lse[n] - mean(z[n, c], over=c)
    f.each[n] = where(ne(y[n], ignore), 0.9 * f.nll[n] + 0.1 * f.spread[n], 0)
    f.loss[()] = sum(f.each[n], over=n) / sum(where(ne(y[n], ignore), 1, 0), over=n)
    return f.loss


def _in_steps(z: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(z, y, label_smoothing=0.1)


@op
def nll(f, z: tensor[..., c], y: index(c)[...]):
    f.p[...] = -log(z[..., y[...]] / sum(z[..., c], over=c))
    return f.p


@op
def of_a_call(f, z: tensor[n, t, c], y: index(c)[n, t]):
    """Read in both branches, under one condition and its opposite and under more."""
    f.p = nll(z, y)
    f.square[n, t] = f.p[n, t] ** 2
    f.loss[n] = sum(where(y[n, t] < 0, 0, f.p[n, t]), over=t) + sum(
        where((y[n, t] >= 0) & (t > 0), f.square[n, t], 0), over=t
    )
    return f.loss


def _of_a_call(z: Tensor, y: Tensor) -> Tensor:
    p = -(z.gather(2, y.clamp(min=0).unsqueeze(2)).squeeze(2) / z.sum(2)).log()
    later = torch.arange(y.shape[1]) > 0
    return torch.where(y < 0, 0, p).sum(1) + torch.where((y >= 0) & later, p**2, 0).sum(1)


@op
def inside_one_another(f, z: tensor[n, c], y: index(c)[n]):
    """Two conditions at once, of which the inner one reads by the index too."""
    f.out[n] = where(y[n] >= 0, where(z[n, y[n]] > 0.5, z[n, y[n]] ** 2, z[n, 0]), 0)
    return f.out


def _inside_one_another(z: Tensor, y: Tensor) -> Tensor:
    read = z.gather(1, y.clamp(min=0).unsqueeze(1)).squeeze(1)
    return torch.where(y >= 0, torch.where(read > 0.5, read**2, z[:, 0]), 0)


@op
def under_another(f, z: tensor[n, c], y: index(c)[n]):
    """The inner condition alone is not about the index."""
    f.out[n] = where(y[n] >= 0, where(z[n, 0] > 0.5, z[n, y[n]], 0), 0)
    return f.out


def _under_another(z: Tensor, y: Tensor) -> Tensor:
    read = z.gather(1, y.clamp(min=0).unsqueeze(1)).squeeze(1)
    return torch.where((y >= 0) & (z[:, 0] > 0.5), read, 0)


@op
def beside_more_axes(f, z: tensor[n, c], y: index(c)[n]):
    """One part of each condition has the axes of the index, the other more; neither branch reads without it."""
    f.a[n, c] = where((y[n] >= 0) & (z[n, c] > 0.5), z[n, y[n]], 0)
    f.b[n, c] = where((y[n] < 0) | (z[n, c] > 0.5), 0, z[n, y[n]] ** 2)
    f.out[n, c] = f.a[n, c] * z[n, c] + f.b[n, c]
    return f.out


def _beside_more_axes(z: Tensor, y: Tensor) -> Tensor:
    read, named, large = z.gather(1, y.clamp(min=0).unsqueeze(1)), (y >= 0).unsqueeze(1), z > 0.5
    return torch.where(named & large, read, 0) * z + torch.where(named & ~large, read**2, 0)


@op
def two_outcomes(f, z: tensor[n, c], y: index(c)[n]):
    """What is known and what is not are read at the same place, under one guard."""
    f.out[n] = where((y[n] >= 0) & (z[n, 0] > 0.5), -log(z[n, y[n]]), 0) + where(
        (y[n] >= 0) & ~(z[n, 0] > 0.5), -log(2 - z[n, y[n]]), 0
    )
    return f.out


def _two_outcomes(z: Tensor, y: Tensor) -> Tensor:
    read = z.gather(1, y.clamp(min=0).unsqueeze(1)).squeeze(1)
    return torch.where(y >= 0, -torch.where(z[:, 0] > 0.5, read, 2 - read).log(), 0)


CASES = [
    (in_steps, _in_steps, (5, 4)),
    (in_steps, _in_steps, (4, 4)),
    (of_a_call, _of_a_call, (3, 4, 5)),
    (inside_one_another, _inside_one_another, (6, 4)),
    (under_another, _under_another, (6, 4)),
    (beside_more_axes, _beside_more_axes, (5, 4)),
    (two_outcomes, _two_outcomes, (6, 4)),
]


@pytest.mark.parametrize(("made", "plain", "shape"), CASES)
def test_values_and_gradients(made: OpCall, plain, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(shape, dtype=torch.float64, generator=generator, requires_grad=True)
    y = torch.randint(0, shape[-1], shape[:-1], generator=generator)
    y[0] = -100
    assert_alike(getattr(module(made.op), made.op.name)(z, y), plain(z, y), [z])


def test_both_branches_of_a_choice_gather_once() -> None:
    forward, _, backward = inspect.getsource(module(two_outcomes.op)).partition("def two_outcomes_backward")
    assert forward.count(".gather(") == backward.count(".gather(") == 1


@op
def of_all_rows(f, z: tensor[n, c], y: index(c)[n]):
    """The condition is of one row, the sum under it over all: their axes have one name."""
    f.out[n] = where(y[n] > 1, sum(z[n, y[n]] ** 2, over=n), 0)
    return f.out


def test_a_condition_is_about_no_axis_of_a_sum_under_it() -> None:
    z = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.tensor([0, 3, 1, 2, 1])
    total = z.gather(1, y.unsqueeze(1)).square().sum()
    assert_alike(module(of_all_rows.op).of_all_rows(z, y), torch.where(y > 1, total, 0), [z])


def test_labels_that_are_not_left_out_are_checked() -> None:
    with pytest.raises(IndexError, match="y holds 4, but axis c has length 4"):
        module(in_steps.op).in_steps(torch.rand(2, 4), torch.tensor([4, -100]))


@op
def read_elsewhere(f, z: tensor[n, c], y: index(c)[n]):
    f.picked[n] = z[n, y[n]]
    f.out[n] = where(y[n] >= 0, f.picked[n], 0) + f.picked[n]
    return f.out


@op
def returned(f, z: tensor[n, c], y: index(c)[n]):
    f.picked[n] = z[n, y[n]]
    f.out[n] = where(y[n] >= 0, f.picked[n], 0)
    return f.out, f.picked


@op
def of_another_place(f, z: tensor[k, c], x: index(c)[k], y: index(c)[n]):
    f.picked[k] = z[k, x[k]]
    f.out[n, k] = where(y[n] >= 0, f.picked[k], 0)
    return f.out


@op
def of_the_condition(f, z: tensor[n, c], y: index(c)[n]):
    f.picked[n] = z[n, y[n]]
    f.out[n] = where((y[n] >= 0) & (f.picked[n] > 0), z[n, 0], 0)
    return f.out


@op
def of_more_axes(f, z: tensor[n, c], y: index(c)[n]):
    f.out[n, c] = where(z[n, c] < 0, z[n, y[n]], 0)
    return f.out


@pytest.mark.parametrize("made", [read_elsewhere, returned, of_another_place, of_the_condition, of_more_axes])
def test_what_is_read_without_the_condition_is_no_less_checked(made: OpCall) -> None:
    labels = [torch.tensor([1, -100]) for o in made.op.operands if o.kind == "index"]
    with pytest.raises(IndexError, match="holds -100"):
        getattr(module(made.op), f"{made.op.name}_forward")(torch.rand(2, 2), *labels)
