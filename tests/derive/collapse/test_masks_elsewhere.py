"""What a mask leaves out of a tensor is not left out where the tensor is read at other places."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, exp, index, ne, oo, op, tensor, where
from derive.ir.equations import Op
from tests.derive.live import assert_alike, assert_derived, inputs_of, module

i, j, t = axes("i j t")


@op
def transposed(f, a: tensor[i, i], g: tensor[i, i]):
    f.r[i, j] = where(a[i, j] > 0, a[i, j], 0)
    f.p[i, j] = f.r[j, i] * g[i, j]
    f.q[i, j] = f.p[i, j] ** 2
    f.y[i, j] = where(a[i, j] > 0, f.q[i, j], 0)
    return f.y


@op
def exp_transposed(f, x: tensor[i, i], g: tensor[i, i]):
    f.z[i, j] = where(j <= i, x[i, j], -oo)
    f.u[i, j] = exp(f.z[j, i])
    f.p[i, j] = f.u[i, j] * g[i, j]
    f.y[i, j] = where(j <= i, f.p[i, j], 0)
    return f.y


@op
def first_row(f, x: tensor[t], g: tensor[t], h: tensor[t]):
    f.u[t] = where(t <= 2, x[t], 0)
    f.p[t] = f.u[0] * g[t]
    f.q[t] = f.p[t] * h[t]
    f.y[t] = where(t <= 2, f.q[t], 0)
    return f.y


@op
def gathered(f, x: tensor[t], g: tensor[t], h: tensor[t], to: index(t)[t], label: index(t)[t]):
    f.u[t] = where(ne(label[t], 0), x[t], 0)
    f.p[t] = f.u[to[t]] * g[t]
    f.q[t] = f.p[t] * h[t]
    f.y[t] = where(ne(label[t], 0), f.q[t], 0)
    return f.y


REFERENCES: dict[str, Callable[..., Tensor]] = {
    "transposed": lambda a, g: torch.where(a > 0, (a.relu().T * g) ** 2, 0),
    "exp_transposed": lambda x, g: (x.exp().tril().T * g).tril(),
    "first_row": lambda x, g, h: torch.where(torch.arange(5) <= 2, x[0] * g * h, 0),
}


@pytest.mark.parametrize("made", [transposed.op, exp_transposed.op, first_row.op], ids=lambda made: made.name)
def test_values_and_gradients(made: Op) -> None:
    assert_derived(made, REFERENCES[made.name], {o.name: (5,) * len(o.axes) for o in made.operands})


def test_at_gathered_places() -> None:
    inputs = inputs_of(gathered.op, dict.fromkeys(("x", "g", "h", "to", "label"), (5,)))
    x, g, h = inputs["x"], inputs["g"], inputs["h"]
    to, label = torch.tensor([4, 2, 0, 3, 3]), torch.tensor([1, 0, 2, 0, 1])
    expected = torch.where(label != 0, torch.where(label != 0, x, 0)[to] * g * h, 0)
    assert_alike(module(gathered.op).gathered(x, g, h, to, label), expected, [x, g, h])
