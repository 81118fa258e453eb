"""What the backward only compares is kept as the comparison, a byte an element, where the forward makes it anyway."""

import pytest
import torch

from derive import (
    amax,
    axes,
    eq,
    exp,
    index,
    log,
    maximum,
    mean,
    op,
    scalar,
    sigmoid,
    softplus,
    sqrt,
    sum,
    tanh,
    tensor,
    where,
)
from derive.collapse.autograd.saved import total_bytes
from derive.collapse.conditions import Handed, with_dear, with_functions
from derive.emit import render
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.equations import Op
from derive.ir.nodes.walking import reads
from derive.ir.program import Assign, Call, Program, Read, Reduce
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, module

i, j, k = axes("i j k")


@op
def leaky(f, x: tensor[i], slope: scalar = 0.1):
    f.y[i] = where(x[i] > 0, x[i], slope * x[i])
    return f.y


@op
def leaky_inside(f, a: tensor[i], b: tensor[i]):
    f.h[i] = a[i] + b[i]
    f.y[i] = where(f.h[i] > 1, f.h[i], f.h[i] / 2)
    return f.y


@op
def larger_of_two(f, u: tensor[i], v: tensor[i]):
    f.y[i] = where(u[i] > v[i], 3 * u[i], v[i])
    return f.y


@op
def between(f, x: tensor[i]):
    f.y[i] = where(x[i] < -1, 2 * x[i], where(x[i] > 1, 3 * x[i], x[i]))
    return f.y


@op
def squared_above(f, x: tensor[i]):
    f.y[i] = where(x[i] > 0, x[i] ** 2, x[i])
    return f.y


@op
def pairs(f, u: tensor[i], s: tensor[i, j], v: tensor[j]):
    f.y[i, j] = where(u[i] > v[j], s[i, j], 2 * s[i, j])
    return f.y


@op
def rectified(f, x: tensor[i]):
    f.y[i] = maximum(x[i], 0)
    return f.y


@pytest.mark.parametrize(
    ("spec", "kept", "size"),
    [
        (leaky.op, ("x_above_zero",), 1),
        (leaky_inside.op, ("h_above_one",), 1),
        (larger_of_two.op, ("u_above_v",), 1),
        (between.op, ("x_below_minus_1", "x_above_one"), 2),
        (squared_above.op, ("x",), 4),  # its values are wanted as well
        (pairs.op, ("u", "v"), 8),  # what is compared is smaller than the comparison
        (rectified.op, ("x",), 4),  # the forward makes no comparison
    ],
    ids=lambda s: s.name if isinstance(s, Op) else "",
)
def test_what_is_kept(spec: Op, kept: tuple[str, ...], size: int) -> None:
    d = derive_op(spec)
    assert (d.kept, total_bytes(d.saved, {"i": 1, "j": 1})) == (kept, size)
    assert d.forward.returns == (*spec.outputs, *kept)
    assert {n for n, _ in d.backward.given} == {"dy", *kept}


def test_from_the_inputs_means_the_inputs() -> None:
    assert derive_op(leaky.op, save="input").kept == ("x",)


@pytest.mark.parametrize("spec", [leaky.op, leaky_inside.op, larger_of_two.op, between.op], ids=lambda s: s.name)
def test_gradients(spec: Op) -> None:
    """By the condition as it was: also at a tie, and where an input changes before the backward."""
    live = module(spec)
    values = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0], dtype=torch.float64)
    inputs = [values.clone() + k for k, o in enumerate(spec.operands) if o.is_tensor]
    y, saved = getattr(live, f"{spec.name}_forward")(*inputs)
    assert all(t.dtype == torch.bool for t in saved if isinstance(t, torch.Tensor))
    own = [x.clone().requires_grad_() for x in inputs]
    a, b = own[0], own[-1]
    plain = {
        "leaky": lambda: torch.where(a > 0, a, 0.1 * a),
        "leaky_inside": lambda: torch.where(a + b > 1, a + b, (a + b) / 2),
        "larger_of_two": lambda: torch.where(a > b, 3 * a, b),
        "between": lambda: torch.where(a < -1, 2 * a, torch.where(a > 1, 3 * a, a)),
    }[spec.name]()
    torch.testing.assert_close(y, plain.detach(), rtol=1e-12, atol=1e-12)
    dy = torch.randn(6, dtype=torch.float64)
    found = getattr(live, f"{spec.name}_backward")(dy, *saved)
    torch.testing.assert_close(
        tuple(found) if len(own) > 1 else (found,), torch.autograd.grad(plain, own, dy), rtol=1e-12, atol=1e-12
    )


@op
def gated_state(f, c: tensor[i, j], o: tensor[i, j], W: tensor[j]):
    f.y[i] = sum(sigmoid(o[i, j]) * c[i, j] * W[j], over=j)
    return f.y


def test_a_tensor_that_is_read_in_one_function_is_kept_as_that():
    d = derive_op(gated_state.op)
    assert d.kept == ("sigmoid_o", "c", "W") or d.kept == ("c", "sigmoid_o", "W"), d.kept
    assert "sigmoid(" not in str(d.backward)
    assert [s.label for s in d.saved] == list(d.kept)
    made = module(gated_state.op)
    shapes = ((5, 3), (5, 3), (3,))
    generator = torch.Generator().manual_seed(0)
    args = [torch.randn(s, dtype=torch.float64, generator=generator) for s in shapes]
    leaves = [a.clone().requires_grad_() for a in args]
    saved = made.gated_state_forward(*args)[1]
    c, o, W = leaves
    exact = (torch.sigmoid(o) * c * W).sum(1)
    dy = torch.randn(5, dtype=torch.float64, generator=generator)
    for g, e in zip(made.gated_state_backward(dy, *saved), torch.autograd.grad(exact, leaves, dy), strict=True):
        torch.testing.assert_close(g, e, rtol=1e-12, atol=1e-12)


@op
def dynamic_tanh(f, x: tensor[i, j], a: tensor[()], g: tensor[j]):
    f.y[i, j] = g[j] * tanh(a[()] * x[i, j])
    return f.y


@op
def dynamic_exp(f, x: tensor[i, j], a: tensor[()], g: tensor[j]):
    f.y[i, j] = g[j] * exp(a[()] * x[i, j])
    return f.y


def test_what_takes_long_is_handed_on_beside_what_it_is_of() -> None:
    assert derive_op(dynamic_tanh.op).kept == ("y_tanh", "x", "a", "g")
    assert " tanh(" not in str(derive_op(dynamic_tanh.op).backward)
    for spec, save in ((dynamic_exp, "cost"), (dynamic_tanh, "least"), (dynamic_tanh, "kernel")):
        assert derive_op(spec.op, save=save).kept == ("x", "a", "g")
    x, a, g = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in ((5, 3), (), (3,)))
    _, saved = module(dynamic_tanh.op).dynamic_tanh_forward(x.detach(), a.detach(), g.detach())
    dy = torch.randn(5, 3, dtype=torch.float64)
    exact = torch.autograd.grad(g * torch.tanh(a * x), (x, a, g), dy)
    torch.testing.assert_close(
        tuple(module(dynamic_tanh.op).dynamic_tanh_backward(dy, *saved)), exact, rtol=1e-12, atol=1e-12
    )


@op
def mish_of_mish(f, x: tensor[i, j]):
    f.a[i, j] = x[i, j] * tanh(softplus(x[i, j]))
    f.y[i, j] = f.a[i, j] * tanh(softplus(f.a[i, j]))
    return f.y


def test_what_only_another_function_is_of_is_not_handed_on_beside_it() -> None:
    derivation = derive_op(mish_of_mish.op)
    assert derivation.kept == ("a_tanh", "x")
    assert set(derivation.kept) <= {n for s in derivation.backward.statements for n in reads(s.value)}


def test_no_more_is_handed_on_than_autograd_keeps() -> None:
    d, lengths = derive_op(dynamic_tanh.op, save="kernel"), nominal(dynamic_tanh.op)
    known = Handed(d.forward, d.backward, 1)
    tight = 4 * (lengths.elements(("i", "j")) + lengths.elements("j") + 1)
    assert with_dear(known, ["dy"], tight, lengths) == known
    assert with_dear(known, ["dy"], 2 * tight, lengths).forward.returns == ("y", "y_tanh", "x", "a", "g")


@op
def with_a_margin(f, x: tensor[i, j], y: index(j)[i], b: scalar = 0.3):
    """The share of one place of a row, which an angle is added to."""
    f.c[i, j] = tanh(x[i, j])
    f.d[i] = f.c[i, y[i]] - b * sqrt(1 - f.c[i, y[i]] ** 2)
    f.z[i, j] = where(eq(j, y[i]), f.d[i], 2 * f.c[i, j])
    f.top[i] = amax(f.z[i, j], over=j)
    f.loss[()] = mean(f.top[i] + log(sum(exp(f.z[i, j] - f.top[i]), over=j)) - f.z[i, y[i]], over=i)
    return f.loss


@op
def angle_at_a_place(f, x: tensor[i, k], w: tensor[j, k], y: index(j)[i], b: scalar = 0.3):
    f.c[i, j] = sum(x[i, k] * w[j, k], over=k)
    f.z[i, j] = where(eq(j, y[i]), f.c[i, j] - b * sqrt(1 + f.c[i, y[i]] ** 2), f.c[i, j])
    f.top[i] = amax(f.z[i, j], over=j)
    f.loss[()] = mean(f.top[i] + log(sum(exp(f.z[i, j] - f.top[i]), over=j)) - f.z[i, y[i]], over=i)
    return f.loss


def test_of_what_is_read_at_some_places_alone_these_are_handed_on() -> None:
    assert {"c_y"} == {n for n in derive_op(angle_at_a_place.op).kept if n.startswith("c")}
    assert "c" in derive_op(with_a_margin.op).kept  # its slope is asked at every place
    code = render(derive_op(angle_at_a_place.op))
    assert "z = c.scatter_(1, y.unsqueeze(1), " in code, code  # and so it may be written over
    x, w = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in ((5, 3), (4, 3)))
    y = torch.tensor([0, 3, 1, 1, 2])
    c = x @ w.T
    own = torch.nn.functional.one_hot(y, 4).bool()
    z = torch.where(own, c - 0.3 * torch.sqrt(1 + c[torch.arange(5), y] ** 2)[:, None], c)
    right = torch.autograd.grad(torch.nn.functional.cross_entropy(z, y) * 1.3, (x, w))
    found = torch.autograd.grad(module(angle_at_a_place.op).angle_at_a_place(x, w, y, 0.3) * 1.3, (x, w))
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)


@op
def decayed(f, a: tensor[i], x: tensor[i, k]):
    """Each state is what came before, fading (SSD: Dao & Gu, 2024)."""
    f.c[i] = sum(where(j <= i, a[j], 0), over=j)
    f.l[i, j] = where(j <= i, exp(f.c[i] - f.c[j]), 0)
    f.y[i, k] = sum(f.l[i, j] * x[j, k], over=j)
    return f.y


def test_one_table_is_kept_and_the_output_not_counted() -> None:
    """By way of the output, which the caller holds, rows need no sum; an unmasked table is none beside it."""
    d = derive_op(decayed.op)
    assert set(d.kept) == {"l", "y", "x"}, d.kept
    made = module(decayed.op)
    generator = torch.Generator().manual_seed(0)
    a, x = (torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in ((6,), (6, 3)))
    c = a.cumsum(0)
    assert_alike(made.decayed(a, x), (c[:, None] - c).exp().tril() @ x, [a, x])


def test_no_function_over_more_axes_is_handed_on_in_place_of_a_tensor() -> None:
    table = Call("exp", (Call("sub", (Read("c", ("i",)), Read("c", ("j",)))),))
    total = Assign("y", ("i",), Reduce("sum", ("j",), table))
    forward = Program("f", (("x", ("i",)),), (), (Assign("c", ("i",), Read("x", ("i",))), total), ("y", "c"))
    rows = Assign("dx", ("i",), Reduce("sum", ("j",), Call("mul", (Read("dy", ("j",)), table))))
    backward = Program("f", (("dy", ("i",)), ("c", ("i",))), (), (rows,), ("dx",))
    handed = with_functions(Handed(forward, backward, 1), ["c"], Nominal())
    assert handed.forward.returns == ("y", "c")
