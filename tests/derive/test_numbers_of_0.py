"""A caller's number may be 0: no gradient divides by one that the equations do not divide by."""

from collections.abc import Callable

import pytest
from torch import Tensor
from torch.autograd import grad

from derive import amax, axes, concat, exp, oo, op, scalar, sigmoid, size, sqrt, sum, tanh, tensor, where
from derive.ir.equations import Op
from derive.pipeline import derive_op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, inputs_of, module

b, c, d, e, n, o = axes("b c d e n o")


@op
def scaled_tanh(f, x: tensor[n, d], s: scalar):
    f.y[n, d] = s * tanh(x[n, d])
    return f.y


@op
def scaled_sigmoid(f, x: tensor[n, d], s: scalar):
    f.y[n, d] = s * sigmoid(x[n, d])
    return f.y


@op
def scaled_root(f, x: tensor[n, d], s: scalar):
    f.y[n, d] = s * sqrt(1 + x[n, d] ** 2)
    return f.y


@op
def scaled_quotient(f, x: tensor[n, d], s: scalar):
    f.y[n, d] = s / (1 + x[n, d] ** 2)
    return f.y


@op
def scaled_layer(f, x: tensor[n, d], w: tensor[d, o], b: tensor[o], s: scalar):
    f.y[n, o] = s * tanh(sum(x[n, d] * w[d, o], over=d) + b[o])
    return f.y


@op
def scaled_inside(f, x: tensor[n, d], b: tensor[d], s: scalar):
    f.y[n, d] = tanh(s * x[n, d] + b[d])
    return f.y


@op
def scaled_share(f, x: tensor[n, d], s: scalar):
    """It divides by a sum that holds the number, which is not 0 where the number is."""
    f.y[n, d] = s**2 / (x[n, d] ** 2 + s**2)
    return f.y


@op
def capped(f, x: tensor[n, d], s: scalar):
    f.y[n, d] = s * tanh(x[n, d] / s)
    return f.y


REFERENCES: dict[str, Callable[..., Tensor]] = {
    "scaled_tanh": lambda x, s: s * x.tanh(),
    "scaled_sigmoid": lambda x, s: s * x.sigmoid(),
    "scaled_root": lambda x, s: s * (1 + x**2).sqrt(),
    "scaled_quotient": lambda x, s: s / (1 + x**2),
    "scaled_layer": lambda x, w, b, s: s * (x @ w + b).tanh(),
    "scaled_share": lambda x, s: s**2 / (x**2 + s**2),
    "scaled_inside": lambda x, b, s: (s * x + b).tanh(),
}
OPS: dict[str, Op] = {
    made.op.name: made.op
    for made in (scaled_tanh, scaled_sigmoid, scaled_root, scaled_quotient, scaled_layer, scaled_inside, scaled_share)
}
SHAPES = {"x": (3, 4), "w": (4, 5)}


@pytest.mark.parametrize("number", [0.0, -1.3])
@pytest.mark.parametrize("name", OPS)
def test_gradients(name: str, number: float) -> None:
    inputs = inputs_of(OPS[name], SHAPES | {"b": (5,) if name == "scaled_layer" else (4,)})
    ours = getattr(module(OPS[name]), name)(*inputs.values(), number)
    assert_alike(ours, REFERENCES[name](*inputs.values(), number), list(inputs.values()))


def test_what_the_equation_divides_by_may_divide_its_output() -> None:
    """The output is kept, and nothing else."""
    assert derive_op(capped.op).kept == ("y",)


@op
def attended(f, x: tensor[b, n, d], k: tensor[b, o, d], v: tensor[b, o, e], sink: tensor[b]):
    f.s[b, n, o] = where(o <= n, sum(x[b, n, d] * k[b, o, d], over=d) / sqrt(size(d)), -oo)
    f.l[b, n, c] = concat(sink[b], f.s[b, n, o], along=c)
    f.u[b, n, c] = exp(f.l[b, n, c] - amax(f.l[b, n, c], over=c))
    f.p[b, n, c] = f.u[b, n, c] / sum(f.u[b, n, c], over=c)
    f.y[b, n, e] = sum(f.p[b, n, o + 1] * v[b, o, e], over=o)
    return f.y


def test_a_length_of_0_is_divided_by_as_tensors_divide() -> None:
    made = attended.op
    assert "dx = (ds_sum @ k).div_(math.sqrt(d))" in code_of(made)
    inputs = inputs_of(made, {"x": (4, 2, 0), "k": (4, 3, 0), "v": (4, 3, 2), "sink": (4,)})
    y = getattr(module(made), made.name)(*inputs.values())
    dx, dk, dv, dsink = grad(y.sum(), list(inputs.values()))
    assert [t.shape for t in (dx, dk, dv, dsink)] == [(4, 2, 0), (4, 3, 0), (4, 3, 2), (4,)]
