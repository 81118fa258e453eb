"""What is made of places, lengths and numbers alone, and stands in two places, is a table that is computed once."""

import torch

from derive import axes, cos, exp, op, scalar, sin, size, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, assert_derived, module

t, h, c = axes("t h c")


@op
def turned(f, x: tensor[t, h], z: tensor[t, h], base: scalar = 10000.0):
    """Half of a rotary embedding (Su et al., 2021)."""
    f.y[t, h] = x[t, h] * cos(t / base ** (h / size(h))) - z[t, h] * sin(t / base ** (h / size(h)))
    return f.y


@op
def turned_backwards(f, x: tensor[t, c]):
    """What the gradient puts at other places asks for the same angles, of a copy of the axis."""
    f.y[t, c] = x[t, c] * cos(t / 9 ** (c / size(c))) + x[t, size(c) - 1 - c] * sin(t / 9 ** (c / size(c)))
    return f.y


@op
def counted(f, x: tensor[t], y: tensor[t]):
    """Places divided by a length are as soon divided twice as read."""
    f.u[t] = x[t] * (t / size(t))
    f.v[t] = y[t] * exp(-t / size(t))
    return f.u, f.v


def turns(length: int, width: int, base: float) -> torch.Tensor:
    places, waves = (torch.arange(n, dtype=torch.float64) for n in (length, width))
    return places[:, None] / base ** (waves / width)


def test_the_angles_of_waves_have_a_name() -> None:
    forward, backward = code_of(turned.op).split("@in_float32")[-2:]
    for code in (forward, backward):
        assert code.count("base **") == 1 and "angle = torch.arange(t" in code and "cos(angle)" in code, code
    assert code_of(turned_backwards.op).count("9 **") == 2  # one a pass


def test_a_quotient_of_one_axis_has_none() -> None:
    assert "t_over_t" not in code_of(counted.op)


def test_values_and_gradients() -> None:
    assert_derived(turned_backwards.op, lambda x: x * (a := turns(5, 6, 9)).cos() + x.flip(1) * a.sin(), {"x": (5, 6)})
    x, z = (torch.randn(5, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    angle = turns(5, 6, 100.0)
    assert_alike(module(turned.op).turned(x, z, 100.0), x * angle.cos() - z * angle.sin(), [x, z])
