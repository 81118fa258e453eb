"""An element and a weighted mean are subtracted before anything is added to them, or multiplied and summed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import amax, axes, exp, op, sum, tensor
from derive.emit import render
from derive.notation.spec import OpCall
from derive.pipeline import derivation_of
from tests.derive.live import module

n, c = axes("n c")


@op
def nearest(f, z: tensor[n, c], tau: tensor[()]):
    """The mean of distances, weighed by how near they are: a soft minimum."""
    f.s[n, c] = -z[n, c] / tau[()]
    f.m[n] = amax(f.s[n, c], over=c)
    f.e[n, c] = exp(f.s[n, c] - f.m[n])
    f.y[n] = sum(f.e[n, c] * z[n, c], over=c) / sum(f.e[n, c], over=c)
    return f.y


@op
def largest(f, z: tensor[n, c]):
    """The same of shares: what is weighed is what they are of."""
    f.m[n] = amax(z[n, c], over=c)
    f.e[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.y[n] = sum(f.p[n, c] * z[n, c], over=c)
    return f.y


def _plainly(z: Tensor) -> Tensor:
    return (z.softmax(1) * z).sum(1)


@pytest.mark.parametrize("far", [1.0, 50.0, 1e3, 1e7])
@pytest.mark.parametrize("spec", [nearest, largest], ids=lambda s: s.op.name)
def test_a_number_is_not_lost_beside_large_elements(spec: OpCall, far: float) -> None:
    """The slope is `p * (1 + z - mean)`."""
    z = far + torch.randn(8, 40, generator=torch.Generator().manual_seed(0))
    function = getattr(module(spec.op), spec.op.name)
    others = (torch.tensor(-1.0),) if spec is nearest else ()

    def slope(forward: Callable[..., Tensor], dtype: torch.dtype, *others: Tensor) -> Tensor:
        leaf = z.to(dtype).requires_grad_()
        return torch.autograd.grad(forward(leaf, *others).sum(), leaf)[0]

    right, theirs = (slope(_plainly, dtype) for dtype in (torch.float64, torch.float32))
    ours = slope(function, torch.float32, *others)
    assert (ours - right).abs().max() <= 2 * (theirs - right).abs().max() + 5e-7


def test_a_number_comes_after_what_may_cancel() -> None:
    assert "s_plus_y_over_tau + 1" in render(derivation_of(nearest.op))
    assert "z + 1" not in render(derivation_of(largest.op))


def test_a_sum_of_elements_takes_in_that_of_their_means() -> None:
    """Apart, each of the two is as large as the square of the scores."""
    (line,) = (str(s) for s in derivation_of(nearest.op).backward.statements if s.name == "dtau")
    assert line.startswith("dtau[()] = sum(") and line.count("sum(") == 1, line
