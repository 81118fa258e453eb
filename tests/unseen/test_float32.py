"""A gradient that is small beside what it is made of: as exact in float32 as autograd of a forward in plain PyTorch."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from derive.catalogue import load_file
from derive.ir.equations import Op
from tests.derive.live import module

OPS = {op.name: op for op in load_file(Path(__file__).parent / "specs.py")}
SIZES = {"b": 4, "d": 6, "i": 20, "j": 24, "k": 5, "n": 16}
SEEDS = range(6)
FEW = 2 * torch.finfo(torch.float32).eps


def coulomb(x: Tensor, q: Tensor) -> Tensor:
    r2 = (x[:, None] - x).square().sum(-1) + 0.01
    return (q[:, None] * q / r2.sqrt()).sum() / 2


def radial_basis(x: Tensor, z: Tensor, a: Tensor) -> Tensor:
    return (-0.3 * (x[:, None] - z).square().sum(-1)).exp() @ a


def mixture_nll(x: Tensor, mu: Tensor, log_var: Tensor, weight: Tensor) -> Tensor:
    distances = (x[:, None] - mu).square() * (-log_var).exp() + log_var
    return -(weight - distances.sum(-1) / 2).logsumexp(1).mean()


def residual_encoding(x: Tensor, mu: Tensor, a: Tensor) -> Tensor:
    return (a[..., None] * (x[:, None] - mu)).sum(0)


def selective_step(s: Tensor, x: Tensor, dt: Tensor, a: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    step = softplus(dt)[..., None]
    new = (-softplus(a) * step).exp() * s + step * p[:, None] * x[..., None]
    return new.mean(-1), new


def shares_with_sink(s: Tensor, sink: Tensor) -> Tensor:
    return torch.cat([s, sink[:, None]], 1).softmax(1)[:, :-1]


FORWARDS: dict[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    f.__name__: f for f in (coulomb, radial_basis, mixture_nll, residual_encoding, selective_step, shares_with_sink)
}


def inputs(op: Op, offset: float) -> list[Tensor]:
    """Random values, all of them far from 0 in units of their spread where there is an offset."""
    shapes = [[SIZES[a.base] for a in o.axes] for o in op.operands if o.differentiable]
    return [torch.randn(s) + (offset if s else 0) for s in shapes]


def gradients(forward: Callable[..., object], at: list[Tensor], dtype: torch.dtype) -> Iterable[Tensor]:
    leaves = [t.to(dtype).requires_grad_() for t in at]
    found = forward(*leaves)
    outputs = found if isinstance(found, tuple) else (found,)
    torch.manual_seed(1)
    return torch.autograd.grad(outputs, leaves, [torch.randn(y.shape).to(dtype) for y in outputs])


@pytest.mark.parametrize("offset", [0, 30])
@pytest.mark.parametrize("name", FORWARDS)
def test_at_most_twice_the_error_of_autograd(name: str, offset: float) -> None:
    made = getattr(module(OPS[name]), name)
    operands = [o.name for o in OPS[name].operands if o.differentiable]
    ours, theirs = dict.fromkeys(operands, 0.0), dict.fromkeys(operands, 0.0)
    for seed in SEEDS:
        torch.manual_seed(seed)
        at = inputs(OPS[name], offset)
        truth = gradients(FORWARDS[name], at, torch.float64)
        for errors, forward in ((ours, made), (theirs, FORWARDS[name])):
            for operand, got, want in zip(operands, gradients(forward, at, torch.float32), truth, strict=True):
                errors[operand] = max(errors[operand], float((got - want).norm() / want.norm()))
    for operand in operands:
        assert ours[operand] <= 2 * theirs[operand] + FEW, f"d{operand}: {ours[operand]:.1e}, {theirs[operand]:.1e}"
