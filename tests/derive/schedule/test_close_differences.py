"""Sums in which large numbers nearly cancel, in float32 and far from 0: as close as float64 of the same numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from derive import axes, constant, exp, expm1, index, log, mean, op, sum, tensor
from tests.derive.live import as_tuple, module

n, c = axes("n c")


@op
def entropy(f, z: tensor[n, c]):
    f.p[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=c)
    f.h[n] = -sum(f.p[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def of_labels(f, z: tensor[n, c], y: index(c)[n]):
    f.loss[()] = mean(log(sum(exp(z[n, c]), over=c)) - z[n, y[n]], over=n)
    return f.loss


@op
def ratio_less_its_logarithm(f, a: tensor[n], b: tensor[n]):
    f.y[n] = expm1(a[n] - b[n]) - (a[n] - b[n])
    return f.y


@op
def of_four(f, a: tensor[n], b: tensor[n], u: constant[n], v: constant[n]):
    f.y[n] = a[n] - b[n] - u[n] + v[n]
    return f.y


@op
def in_brackets(f, a: tensor[n], b: tensor[n], u: tensor[n]):
    f.y[n] = u[n] - (a[n] - b[n])
    return f.y


def plain_entropy(z: Tensor) -> Tensor:
    logp = z.log_softmax(1)
    return -(logp.exp() * logp).sum(1)


CASES: dict[str, tuple[object, Callable[..., Tensor], Callable[[Tensor], tuple[Tensor, ...]]]] = {
    "entropy": (entropy, plain_entropy, lambda z: (100 + z,)),
    "labels": (of_labels, cross_entropy, lambda z: (100 + z, torch.arange(len(z)) % z.shape[1])),
    "ratio": (
        ratio_less_its_logarithm,
        lambda a, b: (a - b).expm1() - (a - b),
        lambda z: (z[:, 0] - 10, z[:, 0] - 10 + 1e-3 * z[:, 1]),
    ),
    "four": (of_four, lambda a, b, u, v: (a - b) - (u - v), lambda z: tuple(z[:, k] - 500 for k in range(4))),
    "brackets": (
        in_brackets,
        lambda a, b, u: u - (a - b),
        lambda z: (z[:, 0] - 300, 1e-3 * z[:, 1] - 300, 1e-3 * z[:, 2]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_few_digits_are_lost(name: str) -> None:
    """At most twice the rounding of what has the least: the same in PyTorch, written with care."""
    made, right, inputs = CASES[name]
    z = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    given = inputs(z)
    exact = [t.double().requires_grad_() if t.is_floating_point() else t for t in given]
    plain = [t.clone().requires_grad_() if t.is_floating_point() else t for t in given]
    found: dict[str, list[Tensor]] = {}
    wanted = right(*exact)
    cotangent = torch.randn(wanted.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    kinds = [o.kind for o in made.op.operands]
    leaves = [k for k, kind in enumerate(kinds) if kind == "tensor"]
    for way, args, value in (("exact", exact, wanted), ("plain", plain, right(*plain))):
        slopes = torch.autograd.grad(value, [args[k] for k in leaves], cotangent.to(value.dtype))
        found[way] = [value.detach(), *slopes]
    y, saved = getattr(module(made.op), f"{made.op.name}_forward")(*given)
    gradients = getattr(module(made.op), f"{made.op.name}_backward")(cotangent.float(), *saved)
    for ours, plainly, best in zip([y, *as_tuple(gradients)], found["plain"], found["exact"], strict=True):
        off, theirs = ((t.double() - best).norm() / best.norm() for t in (ours, plainly))
        assert off <= 2 * max(float(theirs), 5e-8), (name, float(off), float(theirs))
