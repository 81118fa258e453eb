"""The executed equations against brute force, an element at a time, and against PyTorch's own ops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from derive.catalogue import catalogue, find
from derive.notation import axes, checks, eq, length, op, sum, tensor, where
from derive.verify import places
from derive.verify.battery import BATTERY, situation
from derive.verify.cases import case_of, executed, world_of
from derive.verify.places import World
from derive.verify.reference import execute
from derive.verify.verify import verify
from tests.catalogue.references import REFERENCES
from tests.derive import evaluate
from tests.derive.specs import SPECS, Spec


def as_arrays(world: World) -> evaluate.World:
    tensors = {name: t.double().numpy() if t.is_floating_point() else t.numpy() for name, t in world.tensors.items()}
    return evaluate.World(world.sizes, tensors, world.numbers)


@pytest.mark.parametrize("spec", [pytest.param(s, id=s.name) for s in SPECS])
def test_every_equation_equals_brute_force(spec: Spec) -> None:
    start = evaluate.inputs(spec.op, spec.sizes, np.random.default_rng(0), **spec.scalars)
    slow = evaluate.forward(spec.op, start)
    tensors = {name: torch.as_tensor(t) for name, t in start.tensors.items()}
    fast = execute(spec.op, World(spec.sizes, tensors, start.scalars))
    for equation in spec.op.equations:
        got, want = fast.tensors[equation.name].numpy(), slow.tensors[equation.name]
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=equation.name)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in catalogue()])
def test_outputs_equal_an_independent_forward(op) -> None:
    reference, call = REFERENCES[op.name], BATTERY[0].make(op).call
    inputs = {name: t.abs() if name in reference.domains else t for name, t in call.inputs.items()}
    call = replace(call, inputs=inputs)
    want = reference.forward(*call.inputs.values(), **call.numbers)
    want = want if isinstance(want, tuple) else (want,)
    for got, right in zip(executed(call).values(), want, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-10, atol=1e-10)


def test_gradients_equal_an_independent_forwards() -> None:
    """Repeated places add up, ties share, and a branch that is not taken leaves no trace in the gradient."""
    for name, when in (("embedding", "repeated indices"), ("amax", "ties"), ("elu", "extreme values")):
        op = find(name)
        case = situation(when).make(op)
        leaves = {o.name: case.call.inputs[o.name].clone().requires_grad_() for o in op.differentiable}
        out = REFERENCES[name].forward(*{**case.call.inputs, **leaves}.values(), **case.call.numbers)
        for leaf, got in zip(torch.autograd.grad(out, list(leaves.values()), case.call.cotangents),
                             case.gradients.values(), strict=True):  # fmt: skip
            torch.testing.assert_close(got, leaf, rtol=1e-12, atol=1e-12)


def test_half_precision_adds_up_in_float32() -> None:
    """256 ones in bfloat16, and 256 more: a sum in bfloat16 would stay at 256."""
    op = find("add_bias")
    case = situation("long sums in bfloat16").make(op)
    ones = torch.ones(600, 4, dtype=torch.bfloat16)
    call = type(case.call)(op, (600,), case.call.inputs, {}, (ones,))
    assert math.isclose(case_of("", 0, call).gradients["b"][0], 600)
    assert world_of(call).sizes["..."] == 600


def test_every_function_of_the_notation_can_be_executed() -> None:
    assert (checks.FUNCTIONS | checks.OF_AXES) - {"digamma"} <= set(places.FUNCTIONS)  # digamma(x) is polygamma(0, x)


def test_a_sum_of_what_meets_is_executed_where_it_meets() -> None:
    """A transposed convolution of volumes: of 10**9 places of all axes 10**6 are chosen."""
    n, c, o, d, h, w, r, p, q, l, u, v = axes("n c o d h w r p q l u v")

    @op
    def transposed(
        f, x: tensor[n, c, d, h, w], k: tensor[c, o, r, p, q], deep: length(l), high: length(u), wide: length(v)
    ):
        met = eq(2 * d + r - 1, l) & eq(2 * h + p - 1, u) & eq(2 * w + q - 1, v)
        parts = where(met, x[n, c, d, h, w] * k[c, o, r, p, q], 0)
        f.y[n, o, l, u, v] = sum(parts, over=(c, d, h, w, r, p, q))
        return f.y

    generator = torch.Generator().manual_seed(0)
    x, k = (torch.randn(s, generator=generator, dtype=torch.float64) for s in ((2, 3, 5, 6, 7), (3, 2, 3, 3, 3)))
    x.requires_grad_()
    k.requires_grad_()
    lengths = {"l": 9, "u": 11, "v": 13}
    sizes = {"n": 2, "c": 3, "d": 5, "h": 6, "w": 7, "o": 2, "r": 3, "p": 3, "q": 3, **lengths}
    got = execute(transposed.op, World(sizes, {"x": x, "k": k})).tensors["y"]
    want = torch.nn.functional.conv_transpose3d(x, k, stride=2, padding=1)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    dy = torch.randn(want.shape, generator=generator, dtype=torch.float64)
    for ours, theirs in zip(torch.autograd.grad(got, (x, k), dy), torch.autograd.grad(want, (x, k), dy), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_rest_of_a_place_can_be_executed() -> None:
    n, d = axes("n d")

    @op
    def alternating(f, x: tensor[n, d]):
        f.y[n] = sum(where(eq(d % 2, 0), x[n, d], -x[n, d]) * (d // 2), over=d)
        return f.y

    assert verify(alternating.op).right


def test_a_small_number_is_added_to_what_is_left_of_equal_elements() -> None:
    """Of `1e-6 + a - b`, added from the left, half the digits are those of `a`."""
    n, d = axes("n d")

    @op
    def apart(f, a: tensor[n, d], b: tensor[n, d]):
        f.y[n] = sum((a[n, d] - b[n, d] + 1e-6) ** 2, over=d) ** 0.5
        return f.y

    assert verify(apart.op).right
