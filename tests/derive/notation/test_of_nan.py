"""Of nan no comparison holds: `~(x > 0)` is not `x <= 0`, and `eq(x, x)` is not always true."""

import torch
from torch import Tensor

from derive import axes, eq, index, ne, op, tensor, where
from derive.notation.spec import OpCall
from tests.derive.live import module

m, n = axes("m n")
NAN = float("nan")


@op
def not_above(f, x: tensor[n], a: tensor[n], b: tensor[n]):
    f.y[n] = where(~(x[n] > 0), a[n], b[n])
    return f.y


@op
def filled(f, x: tensor[n], a: tensor[n], b: tensor[n]):
    f.y[n] = where(eq(x[n], x[n]), b[n], a[n])
    return f.y


@op
def filled_first(f, x: tensor[n], a: tensor[n], b: tensor[n]):
    f.y[n] = where(ne(x[n], x[n]), a[n], b[n])
    return f.y


@op
def else_gathered(f, x: tensor[n], a: tensor[m], kind: index(m)[n]):
    f.y[n] = where(x[n] > 0, x[n], a[kind[n]])
    return f.y


def _gradients(spec: OpCall, *leaves: Tensor, rest: tuple[Tensor, ...] = ()) -> tuple[Tensor, ...]:
    y = getattr(module(spec.op), spec.op.name)(*leaves, *rest)
    return (y, *torch.autograd.grad(y, leaves, torch.arange(1.0, 5.0)))


def test_choices() -> None:
    x = torch.tensor([1.0, -1.0, NAN, 0.0], requires_grad=True)
    a, b = torch.tensor([10.0, 11, 12, 13], requires_grad=True), torch.tensor([20.0, 21, 22, 23], requires_grad=True)
    for spec, chosen in ((not_above, ~(x > 0)), (filled, x != x), (filled_first, x != x)):
        y, dx, da, db = _gradients(spec, x, a, b)
        dy = torch.arange(1.0, 5.0)
        torch.testing.assert_close(y, torch.where(chosen, a, b))
        torch.testing.assert_close((dx, da, db), (torch.zeros(4), dy * chosen, dy * ~chosen))


def test_what_is_gathered_in_the_other_branch() -> None:
    x = torch.tensor([1.0, -1.0, NAN, 0.0], requires_grad=True)
    a, kind = torch.tensor([5.0, 6.0, 7.0], requires_grad=True), torch.tensor([0, 1, 2, 1])
    y, dx, da = _gradients(else_gathered, x, a, rest=(kind,))
    assert y.tolist() == [1.0, 6.0, 7.0, 6.0]
    assert (dx.tolist(), da.tolist()) == ([1.0, 0.0, 0.0, 0.0], [0.0, 6.0, 3.0])
