"""`derivative(f.u[n], x[m, d])` is the Jacobian's entry, and what is made of it has the gradients of autograd."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from derive import (
    amax,
    axes,
    concat,
    constant,
    derivative,
    eq,
    exp,
    index,
    log,
    mean,
    oo,
    op,
    relu,
    rsqrt,
    sigmoid,
    sin,
    size,
    sum,
    tanh,
    tensor,
    where,
)
from derive.catalogue import load_text
from derive.ir.equations import Op
from derive.ops.activations import softmax
from derive.ops.normalisation import layernorm
from tests.derive.live import module

NOTATION = Path(__file__).parents[2] / "docs" / "notation.md"

n, m, d, h, k, t, u, v, e, i, j = axes("n m d h k t u v e i j")


@dataclass(frozen=True)
class Case:
    """An op whose output is entries of a Jacobian, the function that this is of, and which entries they are."""

    op: Op
    of: Callable[..., Tensor]
    entries: str  # of the Jacobian by the first input, as einsum has it
    shapes: tuple[tuple[int, ...], ...]
    place: int | None = None  # of the last axis


CASES: list[Case] = []


def case(of: Callable[..., Tensor], entries: str, *shapes: tuple[int, ...], place: int | None = None):
    """Put a spec on the list."""

    def add(function: Callable[..., None]) -> None:
        CASES.append(Case(op(function).op, of, entries, shapes, place))

    return add


# --- rows for themselves ----------------------------------------------------------------------------------


def perceptron(x: Tensor, w: Tensor, b: Tensor, o: Tensor) -> Tensor:
    return torch.tanh(x @ w + b) @ o


@case(perceptron, "nnd->nd", (5, 3), (3, 4), (4,), (4,))
def all_columns(f, x: tensor[n, d], w: tensor[d, h], b: tensor[h], o: tensor[h]):
    f.u[n] = sum(tanh(sum(x[n, d] * w[d, h], over=d) + b[h]) * o[h], over=h)
    f.g[n, d] = derivative(f.u[n], x[n, d])
    return f.g


@case(perceptron, "nnd->nd", (5, 3), (3, 4), (4,), (4,), place=1)
def one_column(f, x: tensor[n, d], w: tensor[d, h], b: tensor[h], o: tensor[h]):
    f.u[n] = sum(tanh(sum(x[n, d] * w[d, h], over=d) + b[h]) * o[h], over=h)
    f.g[n] = derivative(f.u[n], x[n, 1])
    return f.g


@case(perceptron, "nmd->nmd", (5, 3), (3, 4), (4,), (4,))
def all_pairs_of_rows(f, x: tensor[n, d], w: tensor[d, h], b: tensor[h], o: tensor[h]):
    f.u[n] = sum(tanh(sum(x[n, d] * w[d, h], over=d) + b[h]) * o[h], over=h)
    f.g[n, m, d] = derivative(f.u[n], x[m, d])
    return f.g


@case(lambda x, w: torch.tanh(x @ w), "nknd->nkd", (5, 3), (3, 4))
def outputs_by_inputs(f, x: tensor[n, d], w: tensor[d, h]):
    f.y[n, h] = tanh(sum(x[n, d] * w[d, h], over=d))
    f.J[n, h, d] = derivative(f.y[n, h], x[n, d])
    return f.J


@case(lambda x, w: torch.tanh(x @ w), "nknd->nkd", (5, 3), (3, 4), place=-1)
def the_last_column(f, x: tensor[n, d], w: tensor[d, h]):
    f.y[n, h] = tanh(sum(x[n, d] * w[d, h], over=d))
    f.J[n, h] = derivative(f.y[n, h], x[n, -1])
    return f.J


@case(lambda x, g: x * g * torch.sin(x), "...d...d->...d", (2, 3, 4), (4,))
def place_by_place(f, x: tensor[..., d], g: tensor[d]):
    f.y[..., d] = x[..., d] * g[d] * sin(x[..., d])
    f.J[..., d] = derivative(f.y[..., d], x[..., d])
    return f.J


@case(lambda x, g: x * g, "ndnd->nd", (4, 3), (3,), place=0)
def a_place_of_what_is_pointwise(f, x: tensor[n, d], g: tensor[d]):
    f.y[n, d] = x[n, d] * g[d]
    f.J[n] = derivative(f.y[n, 0], x[n, 0])
    return f.J


@case(lambda x, w: torch.tanh((x * x) @ w), "nknd->nkd", (4, 3), (3, 2), place=2)
def a_column_behind_what_is_pointwise(f, x: tensor[n, d], w: tensor[d, h]):
    f.s[n, d] = x[n, d] ** 2
    f.y[n, h] = tanh(sum(f.s[n, d] * w[d, h], over=d))
    f.J[n, h] = derivative(f.y[n, h], x[n, 2])
    return f.J


# --- rows that are mixed ----------------------------------------------------------------------------------


def batchnorm(x: Tensor, g: Tensor) -> Tensor:
    c = x - x.mean(0)
    return g * c * torch.rsqrt((c * c).mean(0) + 0.1)


@case(batchnorm, "ndnd->nd", (5, 3), (3,))
def batchnorm_on_the_diagonal(f, x: tensor[n, d], g: tensor[d]):
    f.c[n, d] = x[n, d] - mean(x[n, d], over=n)
    f.y[n, d] = g[d] * f.c[n, d] * rsqrt(mean(f.c[n, d] ** 2, over=n) + 0.1)
    f.J[n, d] = derivative(f.y[n, d], x[n, d])
    return f.J


@case(batchnorm, "ndmk->ndmk", (5, 3), (3,))
def batchnorm_all(f, x: tensor[n, d], g: tensor[d]):
    f.c[n, d] = x[n, d] - mean(x[n, d], over=n)
    f.y[n, d] = g[d] * f.c[n, d] * rsqrt(mean(f.c[n, d] ** 2, over=n) + 0.1)
    f.J[n, d, m, k] = derivative(f.y[n, d], x[m, k])
    return f.J


def normed(x: Tensor, g: Tensor, w: Tensor, o: Tensor) -> Tensor:
    return torch.tanh(batchnorm(x @ w, g)) @ o


@case(normed, "nnd->nd", (5, 3), (4,), (3, 4), (4,))
def a_perceptron_with_batchnorm(f, x: tensor[n, d], g: tensor[h], w: tensor[d, h], o: tensor[h]):
    f.z[n, h] = sum(x[n, d] * w[d, h], over=d)
    f.c[n, h] = f.z[n, h] - mean(f.z[n, h], over=n)
    f.y[n, h] = g[h] * f.c[n, h] * rsqrt(mean(f.c[n, h] ** 2, over=n) + 0.1)
    f.u[n] = sum(tanh(f.y[n, h]) * o[h], over=h)
    f.J[n, d] = derivative(f.u[n], x[n, d])
    return f.J


@case(normed, "nnd->nd", (5, 3), (4,), (3, 4), (4,), place=0)
def a_column_with_batchnorm(f, x: tensor[n, d], g: tensor[h], w: tensor[d, h], o: tensor[h]):
    f.z[n, h] = sum(x[n, d] * w[d, h], over=d)
    f.c[n, h] = f.z[n, h] - mean(f.z[n, h], over=n)
    f.y[n, h] = g[h] * f.c[n, h] * rsqrt(mean(f.c[n, h] ** 2, over=n) + 0.1)
    f.u[n] = sum(tanh(f.y[n, h]) * o[h], over=h)
    f.J[n] = derivative(f.u[n], x[n, 0])
    return f.J


def attended(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.T, -1) @ x


@case(attended, "ndnd->nd", (4, 3))
def attention_on_the_diagonal(f, x: tensor[n, d]):
    f.s[n, m] = sum(x[n, d] * x[m, d], over=d)
    f.p = softmax(f.s)
    f.y[n, d] = sum(f.p[n, m] * x[m, d], over=m)
    f.J[n, d] = derivative(f.y[n, d], x[n, d])
    return f.J


@case(lambda x, o: (attended(x) @ o).sum(), "nd->nd", (4, 3), (3,))
def a_sum_by_all(f, x: tensor[n, d], o: tensor[d]):
    f.s[n, m] = sum(x[n, d] * x[m, d], over=d)
    f.p = softmax(f.s)
    f.y[n, d] = sum(f.p[n, m] * x[m, d], over=m)
    f.u[()] = sum(f.y[n, d] * o[d], over=(n, d))
    f.g[n, d] = derivative(f.u[()], x[n, d])
    return f.g


@case(lambda x: x[:, None] * x[None] + x[:, None].sin(), "ijk->ijk", (4,))
def an_outer_product(f, x: tensor[i]):
    f.y[i, j] = x[i] * x[j] + sin(x[i])
    f.J[i, j, k] = derivative(f.y[i, j], x[k])
    return f.J


@case(lambda x: x[:, None] * x[None] + x[:, None].sin(), "iji->ij", (4,))
def an_outer_product_by_its_rows(f, x: tensor[i]):
    f.y[i, j] = x[i] * x[j] + sin(x[i])
    f.J[i, j] = derivative(f.y[i, j], x[i])
    return f.J


# --- places, reductions, choices --------------------------------------------------------------------------


@case(lambda x: x.amax(-1) * x[:, 0], "nnd->nd", (4, 3))
def a_maximum(f, x: tensor[n, d]):
    f.y[n] = amax(x[n, d], over=d) * x[n, 0]
    f.J[n, d] = derivative(f.y[n], x[n, d])
    return f.J


@case(lambda x: torch.softmax(x, -1), "ndnk->ndk", (4, 3))
def softmax_by_its_scores(f, x: tensor[n, d]):
    f.p = softmax(x)
    f.J[n, d, k] = derivative(f.p[n, d], x[n, k])
    return f.J


@case(lambda x: torch.softmax(x, -1), "ndnd->nd", (4, 3))
def softmax_on_the_diagonal(f, x: tensor[n, d]):
    f.p = softmax(x)
    f.J[n, d] = derivative(f.p[n, d], x[n, d])
    return f.J


@case(lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b), "ndnk->ndk", (4, 3), (3,), (3,))
def layernorm_by_its_input(f, x: tensor[n, d], g: tensor[d], b: tensor[d]):
    f.y = layernorm(x, g, b)
    f.J[n, d, k] = derivative(f.y[n, d], x[n, k])
    return f.J


@case(lambda x, w: (x.unfold(1, 3, 2) * w).sum(-1).sin(), "nunt->nut", (2, 7), (3,))
def a_convolution(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, u] = sin(sum(x[n, 2 * u + k] * w[k], over=k))
    f.J[n, u, t] = derivative(f.y[n, u], x[n, t])
    return f.J


@case(lambda x: torch.cat([x[:, :1].sin(), x[:, :-1] * x[:, 1:]], 1), "ntnt->nt", (2, 5))
def beside_one_another(f, x: tensor[n, t]):
    f.y[n, t] = where(t >= 1, x[n, t - 1] * x[n, t], sin(x[n, t]))
    f.J[n, t] = derivative(f.y[n, t], x[n, t])
    return f.J


@case(lambda x: torch.cat([x[:, :1].sin(), x[:, :-1] * x[:, 1:]], 1).sum(1), "nnt->nt", (2, 5))
def beside_one_another_added_up(f, x: tensor[n, t]):
    f.y[n, t] = where(t >= 1, x[n, t - 1] * x[n, t], sin(x[n, t]))
    f.z[n] = sum(f.y[n, t], over=t)
    f.J[n, t] = derivative(f.z[n], x[n, t])
    return f.J


@case(lambda x: (x[:, 1:] * x[:, :-1].exp()).sum(1), "nnt->nt", (2, 5))
def windows_added_up(f, x: tensor[n, t]):
    f.y[n, u] = x[n, u + 1] * exp(x[n, u])
    f.z[n] = sum(f.y[n, u], over=u)
    f.J[n, t] = derivative(f.z[n], x[n, t])
    return f.J


@case(lambda x: (x[:, 1:] * x[:, :-1].exp()).sum(1), "nnt->nt", (2, 5), place=-1)
def the_last_of_windows_added_up(f, x: tensor[n, t]):
    f.y[n, u] = x[n, u + 1] * exp(x[n, u])
    f.z[n] = sum(f.y[n, u], over=u)
    f.J[n] = derivative(f.z[n], x[n, size(t) - 1])
    return f.J


@case(lambda x, z: torch.cat([2 * x, torch.tanh(z * x[:, :1])], 1), "nknd->nkd", (3, 2), (3, 4))
def joined(f, x: tensor[n, i], z: tensor[n, j]):
    f.y[n, k] = concat(2 * x[n, i], tanh(z[n, j] * x[n, 0]), along=k)
    f.J[n, k, i] = derivative(f.y[n, k], x[n, i])
    return f.J


@case(lambda x, z: torch.cat([2 * x, torch.tanh(z * x[:, :1])], 1).square().sum(1), "nnd->nd", (3, 2), (3, 4))
def joined_and_added_up(f, x: tensor[n, i], z: tensor[n, j]):
    f.y[n, k] = concat(2 * x[n, i], tanh(z[n, j] * x[n, 0]), along=k)
    f.s[n] = sum(f.y[n, k] ** 2, over=k)
    f.J[n, i] = derivative(f.s[n], x[n, i])
    return f.J


p = axes("p=2")


@case(lambda x: x.chunk(2, -1)[0] * torch.sigmoid(x.chunk(2, -1)[1]), "nknd->nkd", (3, 4))
def halves(f, x: tensor[n, d]):
    f.z[n, p, k] = x[n, (p, k)]
    f.y[n, k] = f.z[n, 0, k] * sigmoid(f.z[n, 1, k])
    f.J[n, k, d] = derivative(f.y[n, k], x[n, d])
    return f.J


@case(lambda x: (x.chunk(2, -1)[0] * torch.sigmoid(x.chunk(2, -1)[1])).prod(-1), "nnd->nd", (3, 4))
def halves_by_all(f, x: tensor[n, d]):
    f.z[n, p, k] = x[n, (p, k)]
    f.y[n, k] = f.z[n, 0, k] * sigmoid(f.z[n, 1, k])
    f.s[n] = exp(sum(log(f.y[n, k] ** 2), over=k) / 2) * where(f.y[n, 0] * f.y[n, 1] > 0, 1, -1)
    f.J[n, d] = derivative(f.s[n], x[n, d])
    return f.J


@case(lambda x, w: torch.tanh(x.flatten(1) @ w), "njnte->njte", (2, 3, 2), (6, 4))
def merged(f, x: tensor[n, t, e], w: tensor[i, j]):
    f.flat[n, (t, e)] = x[n, t, e]
    f.y[n, j] = tanh(sum(f.flat[n, i] * w[i, j], over=i))
    f.J[n, j, t, e] = derivative(f.y[n, j], x[n, t, e])
    return f.J


@case(lambda x, w: torch.tanh(x.flatten(1) @ w).sum(-1), "nnte->nte", (2, 3, 2), (6, 4))
def merged_backwards(f, x: tensor[n, t, e], w: tensor[i, j]):
    f.flat[n, (t, e)] = x[n, t, e]
    f.y[n] = sum(tanh(sum(f.flat[n, i] * w[i, j], over=i)), over=j)
    f.J[n, t, e] = derivative(f.y[n], x[n, t, e])
    return f.J


@case(lambda x: torch.diagonal(x) * x.sum(1), "nij->nij", (3, 3))
def a_diagonal(f, x: tensor[n, n]):
    f.y[n] = x[n, n] * sum(x[n, m], over=m)
    f.J[n, i, j] = derivative(f.y[n], x[i, j])
    return f.J


@case(lambda x: torch.diagonal(x) * x.sum(1), "nnn->n", (3, 3))
def a_diagonal_by_itself(f, x: tensor[n, n]):
    f.y[n] = x[n, n] * sum(x[n, m], over=m)
    f.J[n] = derivative(f.y[n], x[n, n])
    return f.J


@case(lambda x, w: (torch.relu(x @ w) * (x @ w).abs()).sum(-1), "nnd->nd", (4, 3), (3, 5))
def more_kinks(f, x: tensor[n, d], w: tensor[d, h]):
    f.z[n, h] = sum(x[n, d] * w[d, h], over=d)
    f.y[n] = sum(relu(f.z[n, h]) * abs(f.z[n, h]), over=h)
    f.J[n, d] = derivative(f.y[n], x[n, d])
    return f.J


@case(lambda x: torch.exp(x).sum(-1).log(), "nnd->nd", (4, 3))
def a_log_of_a_sum(f, x: tensor[n, d]):
    f.y[n] = log(sum(exp(x[n, d]), over=d))
    f.J[n, d] = derivative(f.y[n], x[n, d])
    return f.J


@case(lambda x: x * 0 + 2 * x, "ndmk->ndmk", (2, 3))
def of_itself(f, x: tensor[n, d]):
    f.y[n, d] = 2 * x[n, d]
    f.J[n, d, m, k] = derivative(f.y[n, d], x[m, k])
    return f.J


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.op.name)
def test_entries_are_those_of_jacrev(case: Case) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in case.shapes]

    def entries(*given: Tensor) -> Tensor:
        letters, _, kept = case.entries.partition("->")
        jacobian = torch.func.jacrev(case.of)(*given)
        if "..." in letters:  # of leading axes of two dimensions
            letters, kept = letters.replace("...", "xy"), kept.replace("...", "xy")
        found = torch.einsum(f"{letters}->{kept}", jacobian)
        return found if case.place is None else found[..., case.place]

    ours, expected = getattr(module(case.op), case.op.name)(*inputs), entries(*inputs)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    cotangent = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    if not expected.requires_grad:
        return
    found, right = (torch.autograd.grad(y, inputs, cotangent, allow_unused=True) for y in (ours, expected))
    for a, b, x in zip(found, right, inputs, strict=True):
        torch.testing.assert_close(
            torch.zeros_like(x) if a is None else a, torch.zeros_like(x) if b is None else b, rtol=1e-10, atol=1e-11
        )


# --- any depth, and what it is by ---------------------------------------------------------------------------


def gradients_agree(made: Op, reference: Callable[..., Tensor], *shapes: tuple[int, ...]) -> None:
    """That an op of one number and its gradients by all real inputs are those of autograd."""
    generator = torch.Generator().manual_seed(2)
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    ours, expected = getattr(module(made), made.name)(*inputs), reference(*inputs)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    tensors = (o for o in made.operands if o.is_tensor)
    leaves = [x for x, o in zip(inputs, tensors, strict=True) if o.differentiable]
    for a, b in zip(*(torch.autograd.grad(y, leaves) for y in (ours, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def of_notation(name: str) -> Op:
    """An op of the worked examples in docs/notation.md."""
    blocks = re.findall(r"^```python\n(.*?)^```", NOTATION.read_text(encoding="utf-8"), re.M | re.S)
    return next(o for o in load_text("\n".join(blocks), "words") if o.name == name)


def by_rows(u: Tensor, x: Tensor) -> Tensor:
    """The derivative of what is one number a row, by its row."""
    return torch.autograd.grad(u.sum(), x, create_graph=True)[0]


def test_the_residual_of_the_docs() -> None:
    def residual(x: Tensor, w: Tensor, b: Tensor, o: Tensor) -> Tensor:
        g = by_rows(torch.tanh(x @ w + b) @ o, x)
        return (g[:, 1] - 0.1 * by_rows(g[:, 0], x)[:, 0]).square().mean()

    gradients_agree(of_notation("heat_residual"), residual, (7, 2), (2, 5), (5,), (5,))


def test_the_penalty_of_the_docs() -> None:
    def penalty(x: Tensor, w: Tensor, b: Tensor, o: Tensor) -> Tensor:
        return (by_rows(torch.tanh(x @ w + b) @ o, x).norm(dim=1) - 1).square().mean()

    made = of_notation("gradient_penalty")
    gradients_agree(made, penalty, (7, 3), (3, 5), (5,), (5,))
    assert not any({"n"} < {a.base for a in e.axes} and len(e.axes) > 2 for e in made.equations)  # no pairs of rows


def test_a_third_derivative_through_a_called_op() -> None:
    @op
    def third(f, x: tensor[n, d], w: tensor[d, h], g: tensor[h], b: tensor[h]):
        f.z[n, h] = sum(x[n, d] * w[d, h], over=d)
        f.y = layernorm(f.z, g, b)
        f.u[n] = mean(tanh(f.y[n, h]) ** 2, over=h)
        f.a[n] = derivative(f.u[n], x[n, 1])
        f.b2[n] = derivative(f.a[n], x[n, 0])
        f.c[n] = derivative(f.b2[n], x[n, 1])
        f.loss[()] = sum(f.c[n] ** 2, over=n)
        return f.loss

    def reference(x: Tensor, w: Tensor, g: Tensor, b: Tensor) -> Tensor:
        z = x @ w  # a third derivative of F.layer_norm is wrong in some versions of PyTorch
        c = z - z.mean(-1, keepdim=True)
        y = g * c / torch.sqrt(c.square().mean(-1, keepdim=True) + 1e-5) + b
        u = torch.tanh(y).square().mean(-1)
        first = by_rows(u, x)[:, 1]
        return by_rows(by_rows(first, x)[:, 0], x)[:, 1].square().sum()

    gradients_agree(third.op, reference, (4, 3), (3, 5), (5,), (5,))


def test_a_gradient_of_a_gradient_by_cotangents() -> None:
    @op
    def laplacian(f, x: tensor[n, d], w: tensor[d, h], o: tensor[h]):
        f.u[n] = sum(sigmoid(sum(x[n, d] * w[d, h], over=d)) * o[h], over=h)
        f.g[n, d] = derivative(f.u[n], x[n, d])
        f.hess[n, d, k] = derivative(f.g[n, d], x[n, k])
        f.loss[()] = sum(f.hess[n, d, d] * f.g[n, d], over=(n, d))
        return f.loss

    def reference(x: Tensor, w: Tensor, o: Tensor) -> Tensor:
        g = by_rows(torch.sigmoid(x @ w) @ o, x)
        return torch.stack([by_rows(g[:, c], x)[:, c] * g[:, c] for c in range(x.shape[1])]).sum()

    gradients_agree(laplacian.op, reference, (4, 3), (3, 5), (5,))


def test_an_equation_is_held_as_independent() -> None:
    @op
    def held(f, x: tensor[n, d], w: tensor[d, h]):
        f.z[n, h] = sum(x[n, d] * w[d, h], over=d)
        f.s[n, h] = f.z[n, h] ** 3
        f.u[n] = sum(f.s[n, h] * f.z[n, h] * x[n, 0], over=h)
        f.g[n, h] = derivative(f.u[n], f.z[n, h])
        f.of_s[n, h] = derivative(f.u[n], f.s[n, h])
        f.loss[()] = sum(f.g[n, h] * f.of_s[n, h], over=(n, h))
        return f.loss

    def reference(x: Tensor, w: Tensor) -> Tensor:
        z = x @ w
        return (4 * z**3 * x[:, :1] * z * x[:, :1]).sum()

    gradients_agree(held.op, reference, (4, 3), (3, 5))


def test_what_is_independent_has_derivative_0_and_a_constant_has_one() -> None:
    @op
    def independent(f, x: constant[n], y: tensor[n]):
        f.u[n] = sin(x[n]) * y[n]
        f.v[n] = y[n] ** 2
        f.loss[()] = sum(derivative(f.u[n], x[n]) * (1 + derivative(f.v[n], x[n])), over=n)
        return f.loss

    gradients_agree(independent.op, lambda x, y: (torch.cos(x) * y).sum(), (5,), (5,))


def test_through_gathers_and_what_conditions_leave_out() -> None:
    @op
    def picked(f, z: tensor[n, d], y: index(d)[n], w: tensor[d]):
        f.lse[n] = log(sum(exp(z[n, d]), over=d))
        f.l[n] = where(y[n] >= 0, f.lse[n] - z[n, y[n]] * w[y[n]], 0)
        f.g[n, d] = derivative(f.l[n], z[n, d])
        f.first[n] = derivative(f.l[n], z[n, 0])
        f.loss[()] = sum(f.g[n, d] ** 3, over=(n, d)) + sum(f.first[n], over=n)
        return f.loss

    generator = torch.Generator().manual_seed(2)
    z, w = (torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in ((4, 3), (3,)))
    y = torch.tensor([2, -1, 0, 2])
    place = y.clamp(min=0)
    losses = torch.where(y >= 0, z.logsumexp(1) - z.gather(1, place[:, None])[:, 0] * w[place], 0)
    g = by_rows(losses, z)
    expected, ours = (g**3).sum() + g[:, 0].sum(), module(picked.op).picked(z, y, w)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    for a, b in zip(*(torch.autograd.grad(v, (z, w)) for v in (ours, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_scores_that_overflow_do_not_reach_a_derivative() -> None:
    @op
    def large(f, z: tensor[n, d]):
        f.p = softmax(z)
        f.q[n, d] = exp(z[n, d]) / sum(exp(z[n, k]), over=k)
        f.a[n, d] = derivative(f.p[n, d], z[n, d])
        f.b[n, d] = derivative(f.q[n, d], z[n, d])
        return f.a, f.b

    z = torch.tensor([[1000.0, 999.0, 0.0]])
    p = torch.softmax(z, -1)
    for found in module(large.op).large(z):
        torch.testing.assert_close(found, p * (1 - p))


def test_where_rows_are_mixed_it_is_no_sum_over_rows() -> None:
    (norm,) = (c for c in CASES if c.op.name == "batchnorm_on_the_diagonal")
    x, g = torch.randn(5, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    entry = module(norm.op).batchnorm_on_the_diagonal(x, g)
    summed = torch.func.vjp(lambda x: batchnorm(x, g), x)[1](torch.ones_like(x))[0]
    assert entry.abs().min() > 1e-3 and summed.abs().max() < 1e-10


# --- several entries of one op ------------------------------------------------------------------------------


def random(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def entries_are(made: Op, given: list[Tensor], *wanted: Tensor) -> None:
    """That an op returns these entries."""
    for found, right in zip(getattr(module(made), made.name)(*given), wanted, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12)


def along(letters: str, of: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Entries of a Jacobian, as einsum has it."""
    return torch.einsum(letters, torch.func.jacrev(of)(x))


def test_masked_attention() -> None:
    s = axes("s")

    @op
    def attends(f, x: tensor[n, t, d], w: tensor[d, h]):
        f.q[n, t, h] = sum(x[n, t, d] * w[d, h], over=d)
        f.s[n, t, s] = where(s <= t, sum(f.q[n, t, h] * f.q[n, s, h], over=h), -oo)
        f.p = softmax(f.s)
        f.y[n, t, d] = sum(f.p[n, t, s] * x[n, s, d], over=s)
        f.u[n] = sum(f.y[n, t, d] ** 2, over=(t, d))
        f.all[n, t, d] = derivative(f.u[n], x[n, t, d])
        f.own[n, t, d] = derivative(f.y[n, t, d], x[n, t, d])
        f.place[n, t, d] = derivative(f.y[n, t, d], x[n, 0, 1])
        return f.all, f.own, f.place

    x, w = random((2, 4, 3), (3, 5))

    def y(x: Tensor) -> Tensor:
        scores = (x @ w) @ (x @ w).transpose(1, 2)
        return torch.softmax(scores.masked_fill(~torch.ones(4, 4, dtype=torch.bool).tril(), -torch.inf), -1) @ x

    place = along("ntdnse->ntdse", y, x)[..., 0, 1]
    entries = along("nntd->ntd", lambda x: y(x).square().sum((1, 2)), x), along("ntdntd->ntd", y, x), place
    entries_are(attends.op, [x, w], *entries)


def test_what_is_added_at_places_and_read_there() -> None:
    @op
    def placed(f, x: tensor[e, d], to: index(n)[e], w: tensor[d], node: constant[n]):
        f.m[n, d] = sum(where(eq(to[e], n), tanh(x[e, d]), 0), over=e)
        f.u[n] = node[n] * sum(f.m[n, d] ** 2 * w[d], over=d)
        f.total[()] = sum(f.u[n], over=n)
        f.by_all[e, d] = derivative(f.total[()], x[e, d])
        f.pairs[n, e, d] = derivative(f.u[n], x[e, d])
        f.place[n, d] = derivative(f.u[n], x[0, d])
        f.back[e, d] = derivative(f.u[to[e]], x[e, d])
        return f.by_all, f.pairs, f.place, f.back

    x, w, node = random((5, 3), (3,), (4,))
    to = torch.tensor([0, 2, 2, 3, 0])

    def u(x: Tensor) -> Tensor:
        return node * (torch.zeros(4, 3, dtype=torch.float64).index_add(0, to, torch.tanh(x)).square() @ w)

    full = torch.func.jacrev(u)(x)
    entries_are(placed.op, [x, to, w, node], full.sum(0), full, full[:, 0], full[to, torch.arange(5)])


def test_an_embedding() -> None:
    @op
    def embedded(f, table: tensor[k, d], ix: index(k)[n], w: tensor[d]):
        f.x[n, d] = table[ix[n], d]
        f.u[n] = sum(tanh(f.x[n, d]) * w[d], over=d)
        f.by_x[n, d] = derivative(f.u[n], f.x[n, d])
        f.all[n, k, d] = derivative(f.u[n], table[k, d])
        f.there[n, d] = derivative(f.u[n], table[ix[n], d])
        f.place[n] = derivative(f.u[n], table[0, 1])
        return f.by_x, f.all, f.there, f.place

    table, w = random((4, 3), (3,))
    ix = torch.tensor([0, 2, 2, 3, 0])
    full = torch.func.jacrev(lambda table: torch.tanh(table[ix]) @ w)(table)
    there = (1 - torch.tanh(table[ix]) ** 2) * w
    entries_are(embedded.op, [table, ix, w], there, full, there, full[:, 0, 1])


def test_windows_of_every_kind() -> None:
    q = axes("q=3")

    @op
    def windows(f, x: tensor[n, t], w: tensor[k]):
        f.pool[n, u] = amax(x[n, 2 * u + q], over=q)
        f.all_of_pool[n, u, t] = derivative(f.pool[n, u], x[n, t])
        f.conv[n, t] = sum(where(t >= k, w[k] * x[n, t - k], 0), over=k)
        f.own_of_conv[n, t] = derivative(f.conv[n, t], x[n, t])
        f.s[n] = sum(tanh(f.conv[n, t]), over=t)
        f.by_all[n, t] = derivative(f.s[n], x[n, t])
        return f.all_of_pool, f.own_of_conv, f.by_all

    @op
    def circles(f, x: tensor[n, t]):
        f.turned[n, t] = (x[n, (t + 1) % size(t)] * x[n, (t - 1) % size(t)]) ** 2
        f.own[n, t] = derivative(f.turned[n, t], x[n, t])
        f.twice[n, t] = f.turned[n, (t + 1) % size(t)]
        f.own_of_twice[n, t] = derivative(f.twice[n, t], x[n, t])
        return f.own, f.own_of_twice

    x, w = random((2, 9), (3,))

    def turned(x: Tensor) -> Tensor:
        return (x.roll(-1, 1) * x.roll(1, 1)) ** 2

    def conv(x: Tensor) -> Tensor:
        return F.conv1d(F.pad(x, (2, 0))[:, None], w.flip(0)[None, None])[:, 0]

    pool = along("nunt->nut", lambda x: F.max_pool1d(x[:, None], 3, 2)[:, 0], x)
    by_all = along("nnt->nt", lambda x: conv(x).tanh().sum(1), x)
    entries_are(windows.op, [x, w], pool, along("ntnt->nt", conv, x), by_all)
    for given in (x, x[:, :1]):
        twice = along("ntnt->nt", lambda x: turned(x).roll(-1, 1), given)
        entries_are(circles.op, [given], along("ntnt->nt", turned, given), twice)


def test_leading_axes_and_an_op_that_is_called() -> None:
    @op
    def slopes(f, x: tensor[..., d], w: tensor[d, h]):
        f.y[..., h] = tanh(sum(x[..., d] * w[d, h], over=d))
        f.z[..., h] = f.y[..., h] * sum(f.y[..., k], over=k)
        f.J[..., h, d] = derivative(f.z[..., h], x[..., d])
        return f.J

    @op
    def calls(f, x: tensor[n, t, e], w: tensor[e, h]):
        f.J = slopes(x, w)
        f.r[n, t] = sum(f.J[n, t, h, e] ** 2, over=(h, e))
        f.by_x[n, t, e] = derivative(f.r[n, t], x[n, t, e])
        return f.r, f.by_x

    x, w = random((2, 3, 4), (4, 5))

    def r(x: Tensor) -> Tensor:
        def z(row: Tensor) -> Tensor:
            y = torch.tanh(row @ w)
            return y * y.sum()

        return torch.func.vmap(torch.func.jacrev(z))(x.reshape(-1, 4)).square().sum((1, 2)).reshape(2, 3)

    entries_are(calls.op, [x, w], r(x), along("ntnte->nte", r, x))


def test_the_hessian_of_cross_entropy() -> None:
    @op
    def hessian(f, z: tensor[n, k], y: index(k)[n]):
        f.m[n] = amax(z[n, k], over=k)
        f.l[n] = f.m[n] + log(sum(exp(z[n, k] - f.m[n]), over=k)) - z[n, y[n]]
        f.loss[()] = mean(f.l[n], over=n)
        f.g[n, k] = derivative(f.loss[()], z[n, k])
        f.h[n, k, j] = derivative(f.g[n, k], z[n, j])
        f.own[n, k] = derivative(f.g[n, k], z[n, k])
        return f.g, f.h, f.own

    (z,) = random((4, 3))
    y = torch.tensor([0, 2, 1, 1])

    def loss(z: Tensor) -> Tensor:
        return F.cross_entropy(z, y)

    full = torch.func.hessian(loss)(z)
    entries = torch.func.grad(loss)(z), torch.einsum("nknj->nkj", full), torch.einsum("nknk->nk", full)
    entries_are(hessian.op, [z, y], *entries)


def test_of_a_tensor_by_itself() -> None:
    @op
    def itself(f, x: tensor[n, d], w: tensor[d]):
        f.own[n, d] = derivative(x[n, d], x[n, d]) * w[d]
        f.all[n, d, m, k] = derivative(x[n, d], x[m, k]) * w[d]
        return f.own, f.all

    x, w = random((4, 3), (3,))
    ones = torch.einsum("nm,dk,d->ndmk", torch.eye(4).double(), torch.eye(3).double(), w)
    entries_are(itself.op, [x, w], w.expand(4, 3), ones)
