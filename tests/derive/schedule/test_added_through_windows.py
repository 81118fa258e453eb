"""What is added through windows is a convolution, also where two sums add it, or add the same."""

import inspect
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, constant, log, mean, op, sum, tensor
from derive.notation.spec import OpCall
from tests.derive.live import assert_derived, module

k, n, t, u = axes("k n t u")


@op
def two_powers(f, x: tensor[n, t], z: tensor[n, t], win: constant[k]):
    f.vx[n, u] = sum(win[k] * x[n, u + k] ** 2, over=k)
    f.vz[n, u] = sum(win[k] * z[n, u + k] ** 2, over=k)
    f.loss[()] = mean(log(f.vx[n, u] + f.vz[n, u]), over=(n, u))
    return f.loss


@op
def two_means(f, x: tensor[n, t], z: tensor[n, t], win: tensor[k]):
    f.mx[n, u] = sum(win[k] * x[n, u + k], over=k)
    f.v[n, u] = sum(win[k] * x[n, u + k] * z[n, u + k], over=k)
    f.loss[()] = mean((f.v[n, u] + f.mx[n, u]) ** 2, over=(n, u))
    return f.loss


def _windowed(x: Tensor, win: Tensor) -> Tensor:
    return functional.conv1d(x[:, None], win[None, None])[:, 0]


PLAIN: dict[str, Callable[..., Tensor]] = {
    "two_powers": lambda x, z, win: (_windowed(x**2, win.abs()) + _windowed(z**2, win.abs())).log().mean(),
    "two_means": lambda x, z, win: (_windowed(x * z, win) + _windowed(x, win)).square().mean(),
}
OPS: dict[str, OpCall] = {made.op.name: made for made in (two_powers, two_means)}


def _backward(name: str) -> str:
    return inspect.getsource(getattr(module(OPS[name].op), f"{name}_backward"))


@pytest.mark.parametrize("name", OPS)
def test_it_is_a_convolution(name: str) -> None:
    code = _backward(name)
    assert "filtered_images(" in code
    assert not re.search(r"for at_\w+ in .*\n +d[xz]", code), code


def test_what_is_added_twice_is_added_once() -> None:
    assert _backward("two_powers").count("filtered_images(") == 1


def test_gradients_of_means() -> None:
    assert_derived(two_means.op, PLAIN["two_means"], {"x": (3, 7), "z": (3, 7), "win": (3,)})


def test_gradients_of_powers() -> None:
    generator = torch.Generator().manual_seed(0)
    x, z = (torch.randn(3, 7, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2))
    win = torch.rand(3, dtype=torch.float64, generator=generator)
    found = torch.autograd.grad(module(two_powers.op).two_powers(x, z, win), (x, z))
    for ours, right in zip(found, torch.autograd.grad(PLAIN["two_powers"](x, z, win), (x, z)), strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-12, atol=1e-14)
