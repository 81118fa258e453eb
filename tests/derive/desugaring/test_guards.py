"""A gather in an equation that only the branches of a condition on its index read: what they leave out is not read."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive.notation import amax, axes, exp, index, log, mean, ne, op, scalar, sum, tensor, where
from derive.recording.spec import OpCall
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


CASES = [(in_steps, _in_steps, (5, 4)), (in_steps, _in_steps, (4, 4)), (of_a_call, _of_a_call, (3, 4, 5))]


@pytest.mark.parametrize(("made", "plain", "shape"), CASES)
def test_values_and_gradients(made: OpCall, plain, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(shape, dtype=torch.float64, generator=generator, requires_grad=True)
    y = torch.randint(0, shape[-1], shape[:-1], generator=generator)
    y[0] = -100
    assert_alike(getattr(module(made.op), made.op.name)(z, y), plain(z, y), [z])


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


@pytest.mark.parametrize("made", [read_elsewhere, returned, of_another_place, of_the_condition])
def test_what_is_read_without_the_condition_is_no_less_checked(made: OpCall) -> None:
    labels = [torch.tensor([1, -100]) for o in made.op.operands if o.kind == "index"]
    with pytest.raises(IndexError, match="holds -100"):
        getattr(module(made.op), f"{made.op.name}_forward")(torch.rand(2, 2), *labels)
