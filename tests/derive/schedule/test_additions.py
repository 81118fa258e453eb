"""What a delta puts at its places is added there, forward and backward; what it leaves out is not multiplied by 0."""

from typing import Any

import pytest
import torch
from torch import Tensor

from derive import axes, constant, delta, eq, exp, index, op, relu, scalar, size, sum, tensor, where
from derive.emit import render
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, assert_derived, module

n, c, i, j = axes("n c i j")


@op
def laplacian(f, w: tensor[i, i]):
    f.degree[i] = sum(w[i, j], over=j)
    f.y[i, j] = delta(i, j) * f.degree[i] - w[i, j]
    return f.y


@op
def two_diagonals(f, v: tensor[i], u: tensor[i], a: tensor[i, i]):
    f.y[i, j] = a[j, i] - delta(i, j) * v[i] * a[i, j] + 2 * delta(i, j) * u[j]
    return f.y


@op
def diagonal_alone(f, w: tensor[i, i], x: tensor[n, i]):
    f.m[i, j] = delta(i, j) * exp(w[i, j])
    f.y[n, i] = sum(f.m[i, j] * x[n, j], over=j)
    return f.y


@op
def smoothed_targets(f, z: tensor[n, c], y: index(c)[n], eps: scalar = 0.1):
    f.q[n, c] = (1 - eps) * delta(y[n], c) + eps / size(c)
    f.d[n, c] = (z[n, c] - f.q[n, c]) ** 2
    return f.d


@op
def off_diagonal(f, z: tensor[n, i]):
    f.c[i, j] = sum(z[n, i] * z[n, j], over=n)
    f.y[()] = sum((1 - delta(i, j)) * f.c[i, j] ** 2, over=(i, j))
    return f.y


@op
def chosen_off_diagonal(f, a: tensor[i, i], s: tensor[()]):
    f.y[()] = s[()] * sum(where(eq(i, j), 0, a[i, j] ** 2), over=(i, j))
    return f.y


@op
def strictly_above(f, a: tensor[i, i], b: constant[i, i]):
    f.y[i, j] = (1 - where(j <= i, 1, 0)) * b[i, j] * exp(a[i, j])
    return f.y


def _code(spec: Any, part: str) -> str:
    return render(derive_op(spec.op)).split(f"def {spec.op.name}_{part}")[1].split("\nclass")[0].split("\ndef")[0]


@pytest.mark.parametrize("spec", [laplacian, two_diagonals, diagonal_alone], ids=lambda s: s.op.name)
def test_a_diagonal_is_added_to_the_rest(spec: Any) -> None:
    code = _code(spec, "forward")
    assert code.count(".diagonal().add_(") == 1
    assert "arange" not in code


def test_one_of_many_is_added_at_its_place() -> None:
    code = _code(smoothed_targets, "forward")
    assert "q.scatter_add_(1, y.unsqueeze(1), z.new_full((n, 1), 1 - eps))" in code
    assert "arange" not in code


def test_what_is_left_out_is_filled_in() -> None:
    assert "fill_diagonal_(c.square(), 0).sum()" in _code(off_diagonal, "forward")
    assert ".triu_(1)" in _code(strictly_above, "forward")


def test_nothing_is_copied_to_be_filled() -> None:
    """A number is multiplied before the choice, so that what is filled is a tensor of ours."""
    code = _code(chosen_off_diagonal, "backward")
    assert "clone" not in code and "fill_diagonal_(" in code


def _by_hand(name: str, t: list[torch.Tensor]) -> torch.Tensor:
    if name == "laplacian":
        return torch.diag(t[0].sum(1)) - t[0]
    if name == "two_diagonals":
        return t[2].T - torch.diag(t[0] * t[2].diagonal()) + 2 * torch.diag(t[1])
    if name == "diagonal_alone":
        return t[1] * t[0].diagonal().exp()
    if name == "smoothed_targets":
        return (t[0] - 0.9 * torch.nn.functional.one_hot(t[1], t[0].shape[1]).double() - 0.1 / t[0].shape[1]) ** 2
    if name == "off_diagonal":
        gram = t[0].T @ t[0]
        return (gram - torch.diag(gram.diagonal())).square().sum()
    if name == "chosen_off_diagonal":
        return t[1] * (t[0].square().sum() - t[0].diagonal().square().sum())
    return (t[1] * t[0].exp()).triu(1)


GIVEN = {
    "laplacian": [(5, 5)], "two_diagonals": [(5,), (5,), (5, 5)], "diagonal_alone": [(5, 5), (3, 5)],
    "smoothed_targets": [(4, 5), 5], "off_diagonal": [(4, 5)], "chosen_off_diagonal": [(5, 5), ()],
    "strictly_above": [(5, 5), (5, 5)],
}  # fmt: skip
SPECS = [laplacian, two_diagonals, diagonal_alone, smoothed_targets, off_diagonal, chosen_off_diagonal, strictly_above]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.op.name)
def test_gradients(spec: Any) -> None:
    name = spec.op.name
    made = [torch.randn(s).double() if isinstance(s, tuple) else torch.tensor([0, 4, 4, 1]) for s in GIVEN[name]]
    wanted = [t for t, o in zip(made, spec.op.operands, strict=False) if o in spec.op.differentiable]
    for t in wanted:
        t.requires_grad_()
    expected = _by_hand(name, made)
    cotangent = torch.randn(expected.shape).double()
    gradients = torch.autograd.grad(expected, wanted, cotangent)
    live = module(spec.op)
    y, saved = getattr(live, f"{name}_forward")(*(t.detach() for t in made))
    torch.testing.assert_close(y, expected.detach(), rtol=1e-12, atol=1e-12)
    found = getattr(live, f"{name}_backward")(cotangent, *saved)
    for one, other in zip(found if isinstance(found, tuple) else (found,), gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_what_is_not_on_the_diagonal_may_overflow() -> None:
    """`0 * exp(1000)` is nan; a diagonal never asks for it."""
    w = torch.zeros(3, 3).fill_diagonal_(0.5)
    w[0, 1] = 1000
    y, _ = module(diagonal_alone.op).diagonal_alone_forward(w, torch.ones(2, 3))
    assert torch.isfinite(y).all()


@op
def chosen_of_chosen(f, x: tensor[n]):
    """The gradient of the first branch stands under a choice whose other branch is 0."""
    f.b[n] = x[n] - sum(x[n], over=n)
    f.y[n] = where(n >= 1, x[n] * x[n], relu(f.b[n])) - x[n]
    return f.y


@op
def nothing(f, x: tensor[n], w: tensor[n]):
    f.a[n] = w[n] * (x[n] - x[n])
    f.y[n] = f.a[n] + x[n]
    return f.a, f.y


def test_a_choice_that_gives_way_to_another() -> None:
    def chosen(x: Tensor) -> Tensor:
        return torch.where(torch.arange(5) >= 1, x * x, (x - x.sum()).relu()) - x

    assert_derived(chosen_of_chosen.op, chosen, {"x": (5,)})
    x = torch.tensor([3.0, -1.0, -4.0, 0.5, -2.0], dtype=torch.float64, requires_grad=True)  # the first passes its relu
    assert_alike(module(chosen_of_chosen.op).chosen_of_chosen(x), chosen(x), [x])


def test_a_tensor_of_zeros_is_given_back_as_one() -> None:
    x, w = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    a, y = module(nothing.op).nothing(x, w)
    torch.testing.assert_close(a, torch.zeros_like(x), rtol=0, atol=0)
    torch.testing.assert_close(y, x, rtol=0, atol=0)
    dx, dw = torch.autograd.grad((3 * a + 2 * y).sum(), (x, w))
    torch.testing.assert_close(dx, torch.full_like(x, 2), rtol=0, atol=0)
    torch.testing.assert_close(dw, torch.zeros_like(w), rtol=0, atol=0)
