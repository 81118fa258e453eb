"""What a gradient makes of saved tensors alone is made by the forward, where it has most of it and keeps no more."""

import pytest
import torch
from sympy import erfc

from derive import amax, axes, constant, exp, log, log1p, maximum, op, sigmoid, size, softplus, sqrt, sum, tanh, tensor
from derive.collapse.autograd.saved import total_bytes
from derive.collapse.local_derivatives import Handing, by_local_derivatives
from derive.collapse.saving import POLICIES
from derive.collapse.search import search
from derive.emit import render
from derive.pipeline import alternatives, derive_op
from derive.show.document import document
from derive.show.explain import explain
from tests.derive.live import module

n, d, k = axes("n d k")


@op
def mish(f, x: tensor[...]):
    """x * tanh(log(1 + exp(x))) (Misra, 2019)."""
    f.t[...] = tanh(log(1 + exp(x[...])))
    f.y[...] = x[...] * f.t[...]
    return f.y


@op
def by_erfc(f, x: tensor[...]):
    """x times the normal distribution's mass below it (Hendrycks and Gimpel, 2016), by the complement."""
    f.y[...] = x[...] * erfc(-x[...] / sqrt(2)) / 2
    return f.y


@op
def gated(f, a: tensor[n, d], b: tensor[n, d]):
    f.y[n, d] = tanh(a[n, d]) * sigmoid(b[n, d])
    return f.y


@op
def gated_layer(f, x: tensor[n, d], W: tensor[d, k]):
    f.z[n, k] = sum(x[n, d] * W[d, k], over=d)
    f.y[n, k] = f.z[n, k] * sigmoid(f.z[n, k])
    return f.y


@op
def softened(f, x: tensor[n]):
    f.y[n] = softplus(x[n])
    return f.y


@op
def swapped(f, dy_dx: tensor[n], x: tensor[n]):
    f.y[n] = x[n] * sigmoid(x[n]) + dy_dx[n]
    return f.y


@op
def squared(f, x: tensor[n]):
    f.y[n] = x[n] ** 2
    return f.y


@op
def whole_softmax(f, x: tensor[n, d]):
    f.m[n] = amax(x[n, d], over=d)
    f.u[n, d] = exp(x[n, d] - f.m[n])
    f.p[n, d] = f.u[n, d] / sum(f.u[n, d], over=d)
    return f.p


@op
def pulled_and_pushed(f, x: tensor[n, d], w: constant[n, d]):
    f.near[n] = log1p(sum(w[n, d] ** 2 * exp(-2 * x[n, d]), over=d))
    f.far[n] = log1p(sum((1 + w[n, d]) ** 2 * exp(x[n, d]), over=d))
    f.y[n] = f.near[n] + f.far[n]
    return f.y


@op
def directions(f, a: tensor[n, d], b: tensor[n, d]):
    f.s[n] = maximum(sqrt(sum(a[n, d] ** 2, over=d)) * sqrt(sum(b[n, d] ** 2, over=d)), 1e-8)
    f.y[n] = sum(a[n, d] * b[n, d], over=d) / f.s[n]
    return f.y


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        (mish, ("dy_dx",)),
        (by_erfc, ("dy_dx",)),
        (gated_layer, ("dy_dz", "x", "W")),
        (swapped, ("dy_dx_local",)),
        (pulled_and_pushed, ("dy_dx",)),
        (softened, ("x",)),  # a sigmoid either way
        (squared, ("x",)),  # a product either way
        (whole_softmax, ("p",)),  # its gradient is no multiple of dp
    ],
)
def test_kept(spec, kept):
    d = derive_op(spec.op)
    assert d.kept == kept
    assert len(d.backward.statements) <= len(d.closed.kept.program.statements)


def test_roots_of_rows_are_no_reason_to_make_matrices():
    assert derive_op(directions.op).kept == ("s_sum", "s_sum2", "y", "a", "b")


@pytest.mark.parametrize("spec", [mish, by_erfc, gated, gated_layer, swapped, pulled_and_pushed])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients(spec, dtype):
    op, made = spec.op, module(spec.op)
    shapes = {"x": (5, 3), "a": (5, 3), "b": (5, 3), "W": (3, 4), "w": (5, 3)}
    if spec is swapped:
        shapes = {"x": (7,), "dy_dx": (7,)}
    generator = torch.Generator().manual_seed(0)
    args = [3 * torch.randn(shapes[o.name], generator=generator, dtype=dtype) for o in op.operands]
    exact = [a.double().requires_grad_() for a in args]
    real = [e for e, o in zip(exact, op.operands, strict=True) if o in op.differentiable]
    plain = {
        "mish": lambda x: x * torch.tanh(torch.nn.functional.softplus(x, threshold=800)),
        "by_erfc": torch.nn.functional.gelu,
        "gated": lambda a, b: torch.tanh(a) * torch.sigmoid(b),
        "gated_layer": lambda x, W: torch.nn.functional.silu(x @ W),
        "swapped": lambda dy_dx, x: torch.nn.functional.silu(x) + dy_dx,
        "pulled_and_pushed": lambda x, w: (
            torch.log1p((w**2 * torch.exp(-2 * x)).sum(1)) + torch.log1p(((1 + w) ** 2 * torch.exp(x)).sum(1))
        ),
    }[op.name]
    y, saved = getattr(made, f"{op.name}_forward")(*args)
    dy = torch.randn(y.shape, generator=generator, dtype=dtype)
    found = getattr(made, f"{op.name}_backward")(dy, *saved)
    wanted = torch.autograd.grad(plain(*exact), real, dy.double())
    for g, w in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        error = 1e-14 if dtype is torch.float64 else 1e-6
        torch.testing.assert_close(g.double(), w, rtol=0, atol=error * w.abs().max().item())


def test_never_keeps_more():
    d = derive_op(gated.op)
    assert total_bytes(d.saved, {"n": 1, "d": 1}) <= 8


def test_a_way_to_save_is_kept_to():
    assert derive_op(mish.op, save="input").kept == ("x",)
    others = {a.description: a.kept for a in alternatives(derive_op(mish.op))}
    assert others["by cost"] == ("dy_dx",)
    assert ("x",) in others.values()


def test_is_shown_where_it_is_made():
    from rich.console import Console

    d = derive_op(mish.op)
    console = Console(width=200, record=True)
    console.print(explain(d, "saving"))
    assert "dy_dx[...] = " in console.export_text()
    assert "Made by the forward, for the backward's sake\n    dy_dx[...] = " in render(d)
    assert r"\frac{\mathrm{d}y}{\mathrm{d}x}_{\ldots} &= " in document(d)


def test_a_long_chain_is_left_as_it_is():
    """A trial looks at the whole op: to try every layer of many would take time that grows as their cube."""
    i = axes("i")

    @op
    def chain(f, x: tensor[i]):
        for layer in range(12):
            below = x[i] if layer == 0 else getattr(f, f"a{layer - 1}")[i]
            getattr(f, f"z{layer}")[i] = 2 * below
            getattr(f, f"a{layer}")[i] = getattr(f, f"z{layer}")[i] * sigmoid(getattr(f, f"z{layer}")[i])
        return f.a11

    steps, policy = derive_op(chain.op).steps, POLICIES["cost"]
    closed = search(steps, policy)
    assert by_local_derivatives(steps, closed, policy) == Handing(steps.op, closed.kept)


@op
def of_two_products(f, x: tensor[n, d], w: tensor[d, k], v: constant[n, d], r: constant[d, k]):
    f.a[n, k] = sum(x[n, d] * w[d, k], over=d)
    f.b[n, k] = sum(v[n, d] * r[d, k], over=d)
    f.y[n, k] = f.a[n, k] ** 2 * f.b[n, k]
    return f.y


@op
def gated_square(f, x: tensor[n, d], gate: constant[n, d]):
    f.y[n, d] = gate[n, d] * x[n, d] ** 2
    return f.y


def test_one_tensor_is_kept_where_two_are_only_read_in_a_product() -> None:
    """Both passes do as much: `da = dy * dy_da` with `dy_da = 2 * a * b`, where products are not made again."""
    assert derive_op(of_two_products.op).kept == ("dy_da", "x", "w")
    assert derive_op(gated_square.op).kept == ("x", "gate")  # which are there in any case


@op
def ratio(f, w: tensor[k], r: constant[n, k]):
    """Of a mean and a deviation, whose differences the forward has by name."""
    f.p[n] = sum(exp(w[k]) * r[n, k], over=k)
    f.m[()] = sum(f.p[n], over=n) / size(n)
    f.s[()] = sqrt(sum((f.p[n] - f.m[()]) ** 2, over=n))
    f.y[()] = -f.m[()] / f.s[()]
    return f.y


def test_what_the_forward_has_by_name_is_not_made_again() -> None:
    derived = derive_op(ratio.op)
    assert not derived.local
    assert "p_minus_m" in [s.label for s in derived.saved]
    assert "p_minus_m_2" not in render(derived)


@op
def of_a_difference(f, a: tensor[n], b: tensor[n]):
    f.loss[n] = softplus(b[n] - a[n])
    f.total[()] = sum(f.loss[n], over=n)
    return f.total


@op
def of_differences(f, a: tensor[n, d], b: tensor[n, d]):
    f.y[n, d] = softplus(a[n, d] - b[n, d])
    return f.y


@pytest.mark.parametrize("spec", [of_a_difference, of_differences])
def test_derivatives_that_are_one_or_opposite_are_kept_once(spec):
    derived = derive_op(spec.op)
    assert len(derived.kept) == 1 and len(derived.backward.statements) == 2, derived.backward
    assert str(derived.backward).count("-") == 1, derived.backward
    shape = (4, 3) if spec is of_differences else (4,)
    a, b = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(2))
    given = getattr(module(spec.op), spec.op.name)(a, b)
    z = a - b if spec is of_differences else b - a
    value = torch.nn.functional.softplus(z)
    right = value if spec is of_differences else value.sum()
    dy = torch.randn_like(right)
    torch.testing.assert_close(torch.autograd.grad(given, (a, b), dy), torch.autograd.grad(right, (a, b), dy))
