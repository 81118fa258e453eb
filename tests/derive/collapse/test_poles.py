"""What may be infinite where a choice leaves out reaches nothing: the gradient is a number there."""

import math

import pytest
import torch

from derive import axes, exp, log, mean, ne, op, sqrt, sum, tensor, where
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, module

n, m, c, p = axes("n m c p")


@op
def energy_of_pairs(f, x: tensor[n, p], q: tensor[n]):
    """Coulomb's law: on the diagonal the distance is 0, and the slope of its root infinite."""
    f.r[n, m] = sqrt(sum((x[n, p] - x[m, p]) ** 2, over=p))
    f.e[()] = sum(where(ne(n, m), q[n] * q[m] / f.r[n, m], 0), over=(n, m)) / 2
    return f.e


@op
def screened(f, x: tensor[n, p], q: tensor[n]):
    f.r[n, m] = sqrt(sum((x[n, p] - x[m, p]) ** 2, over=p))
    f.e[()] = sum(where(n < m, q[n] * q[m] * exp(-f.r[n, m]), 0), over=(n, m))
    return f.e


@op
def information(f, joint: tensor[n, c]):
    f.a[n] = sum(joint[n, c], over=c)
    f.b[c] = sum(joint[n, c], over=n)
    f.i[n, c] = joint[n, c] * (log(joint[n, c]) - log(f.a[n]) - log(f.b[c]))
    f.loss[()] = sum(where(joint[n, c] > 0, f.i[n, c], 0), over=(n, c))
    return f.loss


@op
def information_in_one(f, joint: tensor[n, c]):
    logs = log(joint[n, c]) - log(sum(joint[n, c], over=c)) - log(sum(joint[n, c], over=n))
    f.loss[()] = sum(where(joint[n, c] > 0, joint[n, c] * logs, 0), over=(n, c))
    return f.loss


@op
def divergence(f, x: tensor[n, c], z: tensor[n, c]):
    f.m[n, c] = (x[n, c] + z[n, c]) / 2
    first = where(x[n, c] > 0, x[n, c] * (log(x[n, c]) - log(f.m[n, c])), 0)
    f.h[n] = sum(first + where(z[n, c] > 0, z[n, c] * (log(z[n, c]) - log(f.m[n, c])), 0), over=c) / 2
    return f.h


@op
def of_those_kept(f, x: tensor[n, c], z: tensor[n, c]):
    f.s[n, c] = exp(x[n, c]) + z[n, c] ** 2
    f.w[n, c] = log(f.s[n, c])
    f.y[n] = mean(where(ne(n, c), f.w[n, c] * z[n, c], 0), over=c)
    return f.y


def drawn(*shape: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(len(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=g).requires_grad_()


def apart(x: torch.Tensor) -> torch.Tensor:
    """Distances, those on the diagonal 1."""
    squares = ((x[:, None] - x) ** 2).sum(2)
    return (squares + torch.eye(len(x), dtype=x.dtype)).sqrt()


@pytest.mark.parametrize("many", [1, 2, 5])
def test_a_root_of_0_on_a_diagonal(many: int) -> None:
    x, q = drawn(many, 3), drawn(many)
    others = 1 - torch.eye(many, dtype=x.dtype)
    wanted = (q[:, None] * q / apart(x) * others).sum() / 2
    assert_alike(module(energy_of_pairs.op).energy_of_pairs(x, q), wanted, (x, q))
    wanted = (q[:, None] * q * (-apart(x)).exp()).triu(1).sum()
    assert_alike(module(screened.op).screened(x, q), wanted, (x, q))


def test_a_logarithm_of_0() -> None:
    joint = torch.tensor([[0.5, 0.2, 0.0], [0.1, 0.0, 0.2]], dtype=torch.float64, requires_grad=True)
    a, b = joint.detach().sum(1, keepdim=True), joint.detach().sum(0)
    logs = torch.where(joint > 0, joint.detach().log() - a.log() - b.log(), 0)
    for o in (information, information_in_one):
        found = getattr(module(o.op), o.op.name)(joint)
        torch.testing.assert_close(found, (joint * logs).sum(), rtol=1e-12, atol=0)
        (ours,) = torch.autograd.grad(found, joint)
        torch.testing.assert_close(ours, torch.where(joint > 0, logs + 1, 0) - 2, rtol=1e-12, atol=1e-12)


def test_logarithms_of_0_of_two() -> None:
    x = torch.tensor([[0.5, 0.0, 0.0, 0.5]], dtype=torch.float64, requires_grad=True)
    z = torch.tensor([[0.5, 0.5, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    h = module(divergence.op).divergence(x, z)
    torch.testing.assert_close(h, torch.tensor([math.log(2) / 2], dtype=torch.float64), rtol=1e-12, atol=0)
    dx, dz = torch.autograd.grad(h.sum(), (x, z))
    # of x*log(x/m) + z*log(z/m) the derivative by x is log(x/m): where x is 0 the other term alone has one, -z/m/2
    torch.testing.assert_close(dx, torch.tensor([[0, -1, 0, math.log(2)]], dtype=torch.float64) / 2)
    torch.testing.assert_close(dz, torch.tensor([[0, math.log(2), 0, -1]], dtype=torch.float64) / 2)


def test_what_is_above_0_stays_outside() -> None:
    x, z = drawn(4, 4), drawn(4, 4)
    others = 1 - torch.eye(4, dtype=x.dtype)
    wanted = ((x.exp() + z**2).log() * z * others).mean(1)
    assert_alike(module(of_those_kept.op).of_those_kept(x, z), wanted, (x, z))
    ds = derive_op(of_those_kept.op).steps.adjoint("s")
    assert ds is not None and str(ds.value) == "dw[n, c]/s[n, c]"
