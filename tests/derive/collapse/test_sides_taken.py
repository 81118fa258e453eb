"""An extremum beside its own share is the side that it takes, and what a side less the other passes on is no choice."""

import pytest
import torch
from sympy import Expr
from torch.nn import functional

from derive import axes, maximum, mean, minimum, op, scalar, sqrt, sum, tensor
from derive.collapse.sides_taken import use_sides
from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Tensor
from derive.pipeline import derivation_of, derive_op
from derive.verify.verify import verify
from tests.derive.live import assert_alike, module

n, d = axes("n d")


@op
def huber(f, a: tensor[n], b: tensor[n], width: scalar = 1.0):
    """Its square part and its linear part, as many libraries have it."""
    f.r[n] = abs(a[n] - b[n])
    f.q[n] = minimum(f.r[n], width)
    f.loss[()] = mean(f.q[n] ** 2 / 2 + width * (f.r[n] - f.q[n]), over=n)
    return f.loss


@op
def unnamed(f, a: tensor[n], width: scalar = 1.0):
    f.y[n] = minimum(a[n], width) ** 2 / 2 + width * (a[n] - minimum(a[n], width))
    return f.y


@op
def above(f, a: tensor[n, d], b: tensor[n, d]):
    """What is above `b` in `a`, squared, and the linear rest."""
    f.q[n, d] = maximum(a[n, d], b[n, d])
    f.y[n, d] = f.q[n, d] ** 2 / 2 - b[n, d] * f.q[n, d]
    return f.y


@op
def of_another(f, a: tensor[n], b: tensor[n], c: tensor[n]):
    """No pair: what is taken away is a third."""
    f.q[n] = minimum(a[n], b[n])
    f.y[n] = f.q[n] ** 2 / 2 - c[n] * f.q[n]
    return f.y


@pytest.mark.parametrize("spec", [huber, unnamed, above, of_another], ids=lambda o: o.op.name)
def test_battery(spec):
    found = verify(spec.op)
    assert found.right, [(r.line, [str(e) for e in r.wrong]) for r in found.rows if r.wrong]


def test_the_gradient_is_what_was_bounded():
    derived = derive_op(huber.op)
    assert "side" in {s.law for s in derived.closed.steps}
    assert "where" not in str(derived.backward) and "width -" not in str(derived.backward), derived.backward
    assert "where" not in str(derive_op(unnamed.op).backward)


def test_small_residuals_keep_their_digits():
    torch.manual_seed(0)
    a = (torch.randn(200) * 1e-4).requires_grad_()
    b = (torch.randn(200) * 1e-4).requires_grad_()
    ours = torch.autograd.grad(module(huber.op).huber(a, b), (a, b))
    right = torch.autograd.grad(functional.huber_loss(a.double(), b.double()), (a, b))
    for x, y in zip(ours, right, strict=True):
        assert (x - y).abs().max() < 3e-7 * y.abs().max()


def test_a_side_less_another_value_stays_a_choice():
    assert "side" not in {s.law for s in derive_op(of_another.op).closed.steps}


k = axes("k")


@op
def normed_twice(f, v: tensor[n, d, k]):
    f.u[n, d, k] = v[n, d, k] / maximum(sqrt(sum(v[n, d, k] ** 2, over=d)), 1e-6)
    f.y[n, (d, k)] = f.u[n, d, k] / maximum(sqrt(sum(f.u[n, d, k] ** 2, over=(d, k))), 1e-6)
    return f.y


def test_a_norm_over_its_own_floor_is_1() -> None:
    derived = derivation_of(normed_twice.op)
    assert "u_sum" not in derived.kept  # whose root is kept
    v = torch.randn(3, 4, 5, dtype=torch.float64)
    v[0, :, 1] *= 1e-7  # below the floor
    v.requires_grad_()
    inner = torch.nn.functional.normalize(v, dim=1, eps=1e-6)
    wanted = torch.nn.functional.normalize(inner.flatten(1), dim=1, eps=1e-6)
    assert_alike(module(normed_twice.op).normed_twice(v), wanted, (v,))


s, e, u = (At(Tensor(name), Axis("n")) for name in "seu")
larger = maximum(s, 1)
share = larger.diff(s)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (s * share / larger, share),
        (s**2 * share / larger, s * share),
        (s * share / larger**2, share / larger),
        (u * share / larger, u * share / larger),  # nothing is divided by `s`, which may be 0
        (s**e * share / larger, s**e * share / larger),
        (s * share / larger**e, s * share / larger**e),
        (s / larger, s / larger),
    ],
)
def test_a_side_over_what_is_the_larger(value: Expr, expected: Expr) -> None:
    assert use_sides(value, {})[0] == expected
