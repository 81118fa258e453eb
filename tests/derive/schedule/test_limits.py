"""A number and the function that it is the limit of are added first: what they leave of one another is not lost."""

from collections.abc import Callable

import pytest
import torch
from sympy import erf
from torch import Tensor

from derive import axes, exp, op, sqrt, tanh, tensor
from derive.notation.spec import OpCall
from tests.derive.live import module

n = axes("n")


@op
def weighed(f, x: tensor[n]):
    """The slope is the share below x, of which little is left, and a density."""
    f.y[n] = x[n] * (1 + erf(x[n] / sqrt(2))) / 2
    return f.y


@op
def less_than_all(f, x: tensor[n]):
    f.y[n] = 1 - tanh(x[n]) + exp(-x[n]) / 1000
    return f.y


PLAIN: list[tuple[OpCall, Callable[[Tensor], Tensor]]] = [
    (weighed, lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2),
    (less_than_all, lambda x: 1 - torch.tanh(x) + torch.exp(-x) / 1000),
]


@pytest.mark.parametrize(("spec", "plain"), PLAIN, ids=lambda p: p.op.name if isinstance(p, OpCall) else "")
def test_far_from_zero(spec: OpCall, plain: Callable[[Tensor], Tensor]) -> None:
    x = torch.linspace(4.0, 7.0, 200) * (-1 if spec is weighed else 1)
    function = getattr(module(spec.op), spec.op.name)

    def slope(forward: Callable[[Tensor], Tensor], dtype: torch.dtype) -> Tensor:
        leaf = x.to(dtype).requires_grad_()
        return torch.autograd.grad(forward(leaf).sum(), leaf)[0]

    truth = slope(plain, torch.float64)
    ours, theirs = (((slope(f, torch.float32) - truth) / truth).abs().max() for f in (function, plain))
    assert ours <= 2 * theirs
