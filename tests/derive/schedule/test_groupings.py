"""The forward adds each sum as its author wrote it: in float32 it has the bits of the spelling, step by step."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor

from derive import axes, exp, mean, op, relu, scalar, tanh, tensor
from derive.emit import render
from derive.ir.equations import Op
from derive.pipeline import derive_op
from tests.derive.live import module

d, n = axes("d n")

SPELLINGS: dict[str, Callable[..., Any]] = {
    "in_order": lambda w, x, y, z: z + x + y + w,
    "with_a_number": lambda w, x, y, z: y + x + 3 + w,
    "number_first": lambda w, x, y, z: 0.1 + z + x,
    "less": lambda w, x, y, z: z + x - w + y,
    "less_in_brackets": lambda w, x, y, z: z - (x + y + w),
    "in_brackets": lambda w, x, y, z: z + (y + (x + w)),
    "pairs": lambda w, x, y, z: (z + y) + (x + w),
    "turned": lambda w, x, y, z: -(z + y + x),
    "halved": lambda w, x, y, z: (z + y + x) / 2,
    "in_a_product": lambda w, x, y, z: (z + y + x) * (w + z + x),
    "inside_a_function": lambda w, x, y, z: w + relu(y + x + w) + z,
    "of_functions": lambda w, x, y, z: relu(w) + z + relu(x) + relu(-y),
}
"""What is one operation of PyTorch for each sign: no product that a fused call would round once."""


def spelt_as(spelling: Callable[..., Any]) -> Op:
    def spelt(f, w: tensor[n, d], x: tensor[n, d], y: tensor[n, d], z: tensor[n, d]):
        f.o[n, d] = spelling(w[n, d], x[n, d], y[n, d], z[n, d])
        return f.o

    return op(spelt).op


def random(*shape: int) -> Tensor:
    """Normal numbers of four sizes, whose sums are rounded in every order otherwise."""
    return torch.randn(shape) * 10.0 ** torch.randint(-2, 3, shape)


@pytest.mark.parametrize("name", SPELLINGS)
def test_sums_are_added_as_they_are_written(name: str) -> None:
    torch.manual_seed(0)
    spelling, made = SPELLINGS[name], spelt_as(SPELLINGS[name])
    tensors = [random(50, 40) for _ in "wxyz"]
    own = dict(spelling.__globals__, relu=torch.relu)
    expected = FunctionType(spelling.__code__, own)(*tensors)
    o, _ = module(made).spelt_forward(*tensors)
    assert torch.equal(o, expected)


@op
def in_an_exponent(f, s: tensor[n, d], a: tensor[n]):
    """1 wherever s + a is above 0, as it is written."""
    f.b[n, d] = -relu(s[n, d] + a[n])
    f.y[n, d] = exp((s[n, d] + a[n] + f.b[n, d]) / 0.05)
    return f.y


@op
def over_several_equations(f, w: tensor[n, d], x: tensor[n, d], y: tensor[d], z: tensor[n]):
    f.a[n, d] = y[d] + x[n, d] + z[n]
    f.o[n, d] = relu(w[n, d]) + f.a[n, d] + x[n, d]
    f.m[n] = mean(y[d] + relu(w[n, d]) + x[n, d], over=d)
    return f.o, f.m


@op
def with_reductions(f, x: tensor[n, d], y: tensor[n], eps: scalar = 0.3):
    f.o[n] = y[n] + mean(x[n, d], over=d) + eps + relu(y[n])
    return f.o


@op
def inside(f, x: tensor[n, d], y: tensor[n, d], z: tensor[n, d]):
    f.o[n, d] = z[n, d] + x[n, d] + y[n, d]
    return f.o


@op
def calling(f, x: tensor[n, d], y: tensor[n, d], z: tensor[n, d]):
    f.o = inside(y, z, x)
    return f.o


def test_what_a_partial_sum_cancels_is_exact() -> None:
    torch.manual_seed(0)
    s, a = torch.randn(500, 40), torch.randn(500)
    y, _ = module(in_an_exponent.op).in_an_exponent_forward(s, a)
    assert torch.equal(y[s + a[:, None] > 0], torch.ones_like(y)[s + a[:, None] > 0])
    assert "s_plus_a = s + a[:, None]" in render(derive_op(in_an_exponent.op))


def test_equations_that_read_one_another() -> None:
    torch.manual_seed(0)
    w, x, y, z = random(50, 40), random(50, 40), random(40), random(50)
    o, m, _ = module(over_several_equations.op).over_several_equations_forward(w, x, y, z)
    assert torch.equal(o, torch.relu(w) + (y + x + z[:, None]) + x)
    assert torch.equal(m, (y + torch.relu(w) + x).mean(1))


def test_reductions_and_numbers_of_the_caller() -> None:
    torch.manual_seed(0)
    x, y = random(50, 40), random(50)
    o, _ = module(with_reductions.op).with_reductions_forward(x, y)
    assert torch.equal(o, y + x.mean(1) + 0.3 + torch.relu(y))


def test_an_op_inside_of_another() -> None:
    torch.manual_seed(0)
    x, y, z = (random(50, 40) for _ in "xyz")
    o, _ = module(calling.op).calling_forward(x, y, z)
    assert torch.equal(o, x + y + z)


@op
def with_products(f, w: tensor[n, d], x: tensor[n, d], y: tensor[n, d], z: tensor[n, d]):
    """Fused calls round a product and a sum once."""
    f.o[n, d] = z[n, d] - x[n, d] * y[n, d] + tanh(w[n, d]) - 3 * (y[n, d] + x[n, d])
    return f.o


def test_products_lose_no_more_than_the_spelling() -> None:
    torch.manual_seed(0)
    w, x, y, z = (random(50, 40) for _ in "wxyz")
    o, _ = module(with_products.op).with_products_forward(w, x, y, z)
    exact = z.double() - x.double() * y.double() + w.double().tanh() - 3 * (y.double() + x.double())
    spelling = z - x * y + w.tanh() - 3 * (y + x)
    assert (o - exact).abs().mean() <= 1.02 * (spelling - exact).abs().mean()
    code = render(derive_op(with_products.op))
    assert "torch.addcmul(z, x, y, value=-1)" in code
