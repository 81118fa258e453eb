"""An adjoint that differs from 0 at random places is never multiplied out to see whether it is 0."""

import pytest
import torch
from sympy import digamma

from derive.catalogue import find
from derive.collapse import vanishing
from derive.collapse.chance import Instance
from derive.ir.equations import Op
from derive.notation import axes, exp, mean, op, sqrt, sum, tensor
from derive.pipeline import derivation_of
from derive.verify.places import World
from derive.verify.reference import execute

n, k, d, e, s = axes("n k d e s")
r, t, u, v = axes("r=8 t=8 u=8 v=8")
OPS = ["layernorm", "causal_attention", "names_step", "groupnorm", "softplus", "conv1d", "rotary", "l2_normalize"]


@op
def two_blocks(f, x: tensor[n, d], w: tensor[d, e], u: tensor[e, k]):
    """A norm, a product, a norm, a product: no adjoint of it is 0."""
    f.m[n] = mean(x[n, d], over=d)
    f.v[n] = mean((x[n, d] - f.m[n]) ** 2, over=d)
    f.z[n, e] = sum((x[n, d] - f.m[n]) / sqrt(f.v[n] + 1e-5) * w[d, e], over=d)
    f.p[n] = mean(f.z[n, e], over=e)
    f.q[n] = mean((f.z[n, e] - f.p[n]) ** 2, over=e)
    f.y[n, k] = sum((f.z[n, e] - f.p[n]) / sqrt(f.q[n] + 1e-5) * u[e, k], over=e)
    return f.y


@op
def of_a_gamma(f, x: tensor[n, d]):
    """Not evaluated by chance: `math` has no `digamma`."""
    f.a[n, d] = digamma(x[n, d])
    f.b[n, d] = exp(x[n, d])
    f.y[n] = sum(f.a[n, d] * f.b[n, d], over=d)
    return f.y


@op
def of_large_blocks(f, x: tensor[r, t, u, v, n], w: tensor[n, k]):
    """More places than are evaluated, in an input."""
    f.a[n] = sum(x[r, t, u, v, n], over=(r, t, u, v))
    f.b[k] = sum(f.a[n] * w[n, k], over=n)
    f.m[()] = mean(f.b[k], over=k)
    f.y[k] = f.b[k] - f.m[()]
    return f.y


@pytest.mark.parametrize("made", [find(name) for name in OPS], ids=lambda made: made.name)
def test_the_forward_is_that_of_the_reference(made: Op) -> None:
    steps = derivation_of(made).steps
    instance = Instance.of(steps)
    world = World(instance.lengths, {name: _dense(v) for name, v in instance.tensors.items()}, instance.numbers)
    inputs = {o.name: world.tensors[o.name] for o in steps.op.operands if o.is_tensor}
    inputs = {name: t.long() if steps.op.operand(name).kind == "index" else t for name, t in inputs.items()}
    found = execute(steps.op, World(instance.lengths, inputs, instance.numbers))
    for equation in steps.op.equations:
        torch.testing.assert_close(world.tensors[equation.name], found.tensors[equation.name], msg=equation.name)


def _dense(elements: dict[tuple[int, ...], float]) -> torch.Tensor:
    shape = [1 + max(places) for places in zip(*elements, strict=True)]
    return torch.tensor([elements[place] for place in sorted(elements)], dtype=torch.float64).reshape(shape)


def test_what_is_not_0_is_not_multiplied_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vanishing, "_put_in", lambda value, known: pytest.fail(f"{value} is multiplied out"))
    derivation_of(two_blocks.op).closed  # noqa: B018


def test_what_is_too_large_may_vanish() -> None:
    op = of_large_blocks.op
    instance = Instance.of(derivation_of(op).steps)
    assert {"w"} <= instance.tensors.keys() and not {"x", "a", "b"} & instance.tensors.keys()
    assert instance.may_vanish(op.equations[0].axes, op.equations[0].right)
    assert derivation_of(op).closed


def test_what_cannot_be_evaluated_may_vanish() -> None:
    op = of_a_gamma.op
    instance = Instance.of(derivation_of(op).steps)
    assert "a" not in instance.tensors and "y" not in instance.tensors
    a, b = (next(e.left for e in op.equations if e.name == name) for name in ("a", "b"))
    assert instance.may_vanish(a.index, a) and not instance.may_vanish(b.index, b)
    assert instance.may_vanish(b.index, b - b)
