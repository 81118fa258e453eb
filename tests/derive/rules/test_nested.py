"""Functions many deep are differentiated step by step: in seconds, and right."""

import torch

from derive import axes, op, sum, tanh, tensor
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, module

n, c = axes("n c")


@op
def of_itself(f, x: tensor[n, c]):
    z = x[n, c]
    for _ in range(9):
        z = tanh(z)
    f.y[n] = sum(z, over=c)
    return f.y


@op
def quotients(f, x: tensor[n, c]):
    z = x[n, c]
    for _ in range(6):
        z = z / (1 + z * z)
    f.y[n, c] = z
    return f.y


@op
def four_deep(f, x: tensor[n, c]):
    f.y[n, c] = tanh(tanh(tanh(tanh(x[n, c]))))
    return f.y


def drawn() -> torch.Tensor:
    return torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_many() -> None:
    x, z = drawn(), drawn()
    wanted = x
    for _ in range(9):
        wanted = wanted.tanh()
    assert_alike(module(of_itself.op).of_itself(x), wanted.sum(1), (x,))
    wanted = z
    for _ in range(6):
        wanted = wanted / (1 + wanted * wanted)
    assert_alike(module(quotients.op).quotients(z), wanted, (z,))


def test_a_few_stay_as_they_are() -> None:
    assert len(derive_op(four_deep.op).named.equations) == 1
