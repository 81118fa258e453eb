"""A matrix product is added to a matrix of ours as it is computed; never to what is given, saved or read again."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, index, op, scalar, sum, tanh, tensor
from derive.ir.equations import Op
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, module

b, d, e, g, i, j, n = axes("b d e g i j n")


@op
def recurrent(f, x: tensor[n, i], h: tensor[n, j], w: tensor[d, i], u: tensor[d, j], bias: tensor[d]):
    f.z[n, d] = sum(w[d, i] * x[n, i], over=i) + sum(u[d, j] * h[n, j], over=j) + bias[d]
    f.y[n, d] = tanh(f.z[n, d])
    return f.y


@op
def residual(f, x: tensor[n, i], w: tensor[d, i], r: tensor[n, d]):
    """What is given is added to in a tensor of its own."""
    f.y[n, d] = r[n, d] + sum(w[d, i] * x[n, i], over=i)
    return f.y


@op
def read_again(f, x: tensor[n, i], w: tensor[d, i], u: tensor[d, i]):
    """What is read behind the sum is not written over by it."""
    f.a[n, d] = sum(w[d, i] * x[n, i], over=i)
    f.y[n, d] = f.a[n, d] + sum(u[d, i] * x[n, i], over=i)
    return f.y, f.a


@op
def in_batches(f, x: tensor[b, n, i], h: tensor[b, n, j], w: tensor[d, i], u: tensor[d, j]):
    f.y[b, n, d] = tanh(sum(w[d, i] * x[b, n, i], over=i) + sum(u[d, j] * h[b, n, j], over=j))
    return f.y


@op
def recurrent_at_once(f, x: tensor[n, i], h: tensor[n, j], w: tensor[d, i], u: tensor[d, j], bias: tensor[d]):
    """The same, of which no part has a name."""
    f.y[n, d] = tanh(sum(w[d, i] * x[n, i], over=i) + sum(u[d, j] * h[n, j], over=j) + bias[d])
    return f.y


@op
def of_two_sizes(f, x: tensor[n, i], h: tensor[n, j], w: tensor[d, i], u: tensor[d, j], k: scalar = 0.7):
    f.y[n, d] = sum(w[d, i] * x[n, i], over=i) + k * sum(u[d, j] * h[n, j], over=j) / 2
    return f.y


@op
def layers_in_batches(f, x: tensor[b, n, i], w: tensor[j, i], bias: tensor[j], v: tensor[j, i], c: tensor[i]):
    f.h[b, n, j] = tanh(sum(w[j, i] * x[b, n, i], over=i) + bias[j])
    f.y[b, n, i] = x[b, n, i] + sum(f.h[b, n, j] * v[j, i], over=j) + c[i]
    return f.y


@op
def in_packs(f, x: tensor[..., i], h: tensor[..., j], w: tensor[d, i], u: tensor[d, j], bias: tensor[d]):
    f.y[..., d] = sum(w[d, i] * x[..., i], over=i) + sum(u[d, j] * h[..., j], over=j) + bias[d]
    return f.y


@op
def three_at_once(
    f, x: tensor[b, n, i], h: tensor[b, n, j], z: tensor[b, n, e], w: tensor[i, d], u: tensor[j, d], v: tensor[e, d]
):
    f.y[b, n, d] = tanh(
        sum(x[b, n, i] * w[i, d], over=i) + sum(h[b, n, j] * u[j, d], over=j) + sum(z[b, n, e] * v[e, d], over=e)
    )
    return f.y


@op
def whole_bias(f, x: tensor[n, i], w: tensor[i, d], k: index(e)[d], t: tensor[e]):
    """An index is added as a number: `addmm` takes none."""
    f.y[n, d] = sum(x[n, i] * w[i, d], over=i) + k[d] + t[k[d]]
    return f.y


@op
def low_rank(f, x: tensor[b, n, i], w: tensor[i, d], a: tensor[i, j], v: tensor[j, d], k: scalar = 0.7):
    f.u[b, n, j] = sum(x[b, n, i] * a[i, j], over=i)
    f.y[b, n, d] = sum(x[b, n, i] * w[i, d], over=i) + k * sum(f.u[b, n, j] * v[j, d], over=j)
    return f.y


@op
def gates(f, x: tensor[n, i], h: tensor[n, d], w: tensor[i, g, d], u: tensor[g, d, e], bias: tensor[g, d]):
    """The gates of a cell, which are axes of its weights, the second weights with what is summed last."""
    f.y[n, g, d] = tanh(sum(x[n, i] * w[i, g, d], over=i) + sum(h[n, e] * u[g, d, e], over=e) + bias[g, d])
    return f.y


@op
def heads(f, x: tensor[b, n, i], w: tensor[i, g, d], bias: tensor[g, d], v: tensor[g, d, i]):
    """A projection to heads and one back."""
    f.q[b, n, g, d] = sum(x[b, n, i] * w[i, g, d], over=i) + bias[g, d]
    f.y[b, n, i] = x[b, n, i] + sum(tanh(f.q[b, n, g, d]) * v[g, d, i], over=(g, d))
    return f.y


@op
def heads_elsewhere(f, x: tensor[b, n, i], w: tensor[i, g, d], bias: tensor[g, d]):
    """The heads before the places: what is summed would have to move, which `einsum` does."""
    f.q[b, g, n, d] = sum(x[b, n, i] * w[i, g, d], over=i) + bias[g, d]
    return f.q


@op
def of_images(f, x: tensor[n, d, i, j], z: tensor[n, e, i, j], bias: tensor[e]):
    """A sum of products of matrices is no product that a vector is added to."""
    f.y[d, e] = sum(x[n, d, i, j] * z[n, e, i, j], over=(n, i, j)) + bias[e]
    return f.y


def _gates(x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor) -> Tensor:
    return (torch.einsum("ni, igd -> ngd", x, w) + torch.einsum("ne, gde -> ngd", h, u) + bias).tanh()


def _heads(x: Tensor, w: Tensor, bias: Tensor, v: Tensor) -> Tensor:
    return x + torch.einsum("bngd, gdi -> bni", (torch.einsum("bni, igd -> bngd", x, w) + bias).tanh(), v)


def _layers(x: Tensor, w: Tensor, bias: Tensor, v: Tensor, c: Tensor) -> Tensor:
    return x + (x @ w.T + bias).tanh() @ v + c


def _affine(x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor) -> Tensor:
    return functional.linear(x, w) + functional.linear(h, u, bias)


def _recurrent(x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor) -> Tensor:
    return _affine(x, h, w, u, bias).tanh()


@op
def difference(f, x: tensor[n, i], h: tensor[n, j], w: tensor[d, i], u: tensor[d, j], bias: tensor[d]):
    f.z[n, d] = sum(w[d, i] * x[n, i], over=i) - 3 * sum(u[d, j] * h[n, j], over=j) + bias[d]
    return f.z


@op
def of_a_batch(f, x: tensor[b, n, i], h: tensor[b, n, j], w: tensor[b, d, i], u: tensor[b, d, j]):
    f.z[b, n, d] = sum(w[b, d, i] * x[b, n, i], over=i) - sum(u[b, d, j] * h[b, n, j], over=j) / 2
    return f.z


CASES = [
    (gates.op, _gates, {"x": (6, 3), "h": (6, 5), "w": (3, 4, 5), "u": (4, 5, 5), "bias": (4, 5)}),
    (heads.op, _heads, {"x": (2, 6, 3), "w": (3, 4, 5), "bias": (4, 5), "v": (4, 5, 3)}),
    (
        of_images.op,
        lambda x, z, bias: torch.einsum("ndij, neij -> de", x, z) + bias,
        {"x": (2, 3, 4, 6), "z": (2, 5, 4, 6), "bias": (5,)},
    ),
    (
        heads_elsewhere.op,
        lambda x, w, bias: (torch.einsum("bni, igd -> bngd", x, w) + bias).transpose(1, 2),
        {"x": (2, 6, 3), "w": (3, 4, 5), "bias": (4, 5)},
    ),
    (
        difference.op,
        lambda x, h, w, u, bias: x @ w.T - 3 * h @ u.T + bias,
        {"x": (4, 3), "h": (4, 2), "w": (5, 3), "u": (5, 2), "bias": (5,)},
    ),
    (
        of_a_batch.op,
        lambda x, h, w, u: x @ w.mT - h @ u.mT / 2,
        {"x": (2, 4, 3), "h": (2, 4, 2), "w": (2, 5, 3), "u": (2, 5, 2)},
    ),
    (layers_in_batches.op, _layers, {"x": (2, 4, 3), "w": (5, 3), "bias": (5,), "v": (5, 3), "c": (3,)}),
    (in_packs.op, _affine, {"x": (2, 4, 3), "h": (2, 4, 2), "w": (5, 3), "u": (5, 2), "bias": (5,)}),
    (in_packs.op, _affine, {"x": (3,), "h": (2,), "w": (5, 3), "u": (5, 2), "bias": (5,)}),
    (
        three_at_once.op,
        lambda x, h, z, w, u, v: (x @ w + h @ u + z @ v).tanh(),
        {"x": (2, 4, 3), "h": (2, 4, 2), "z": (2, 4, 1), "w": (3, 5), "u": (2, 5), "v": (1, 5)},
    ),
    (
        low_rank.op,
        lambda x, w, a, v: x @ w + 0.7 * (x @ a @ v),
        {"x": (2, 4, 3), "w": (3, 5), "a": (3, 2), "v": (2, 5)},
    ),
    (
        of_two_sizes.op,
        lambda x, h, w, u: x @ w.T + 0.35 * h @ u.T,
        {"x": (4, 3), "h": (4, 2), "w": (5, 3), "u": (5, 2)},
    ),
    (recurrent.op, _recurrent, {"x": (4, 3), "h": (4, 2), "w": (5, 3), "u": (5, 2), "bias": (5,)}),
    (recurrent_at_once.op, _recurrent, {"x": (4, 3), "h": (4, 2), "w": (5, 3), "u": (5, 2), "bias": (5,)}),
    (residual.op, lambda x, w, r: r + x @ w.T, {"x": (4, 3), "w": (5, 3), "r": (4, 5)}),
    (
        in_batches.op,
        lambda x, h, w, u: (x @ w.T + h @ u.T).tanh(),
        {"x": (2, 4, 3), "h": (2, 4, 2), "w": (5, 3), "u": (5, 2)},
    ),
]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES)
def test_gradients(made: Op, plain, shapes: dict[str, tuple[int, ...]]) -> None:
    assert_derived(made, plain, shapes)
    found = verify(made)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_two_products_are_added_up_in_one_matrix() -> None:
    assert "z = torch.addmm(bias, h, u.T).addmm_(x, w.T)" in code_of(recurrent.op)
    assert "y = torch.addmm(bias, h, u.T).addmm_(x, w.T).tanh_()" in code_of(recurrent_at_once.op)


def test_what_is_not_ours_is_not_added_to() -> None:
    for made in (residual.op, read_again.op):
        assert "addmm_" not in code_of(made).split("_backward(")[0]
    assert "(da_total @ w).addmm_(dy, u)" in code_of(read_again.op)
    x, w, u = (torch.randn(s) for s in ((4, 3), (5, 3), (5, 3)))
    y, a, _ = module(read_again.op).read_again_forward(x, w, u)
    torch.testing.assert_close(a, x @ w.T)
    torch.testing.assert_close(y, x @ (w + u).T)


def test_rows_of_several_axes_are_those_of_a_matrix() -> None:
    code = code_of(in_batches.op)
    assert ".flatten(0, 1).addmm_(" in code and ".unflatten(0, (" in code
    code = code_of(three_at_once.op).split("_backward(")[0]
    assert code.count(".unflatten(0, ") == 1 and code.count(".addmm_(") == 2, code
    code = code_of(layers_in_batches.op)
    assert "h = functional.linear(x, w, bias).tanh_()" in code
    assert "y = functional.linear(h, v.T, c).add_(x)" in code
    assert "functional.linear(h, u, bias).add_(x @ w.T)" in code_of(in_packs.op)
    code = code_of(low_rank.op)
    assert ".addmm_(u.flatten(0, 1), v, alpha=k)" in code and ".mul_(k)" not in code.split("_backward(")[0]


def test_whole_numbers_are_no_bias() -> None:
    found = verify(whole_bias.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_a_multiple_of_a_product_is_added_as_it_is_computed() -> None:
    code = code_of(of_two_sizes.op)
    assert "addmm_(h, u.T, alpha=" in code and ".mul_(k)" not in code.split("_backward(")[0], code


def test_columns_of_several_axes_are_those_of_a_matrix() -> None:
    """They are apart once, behind the last product: two passes less than a sum of three."""
    code = code_of(gates.op)
    products = "torch.addmm(bias.flatten(), h, u.flatten(0, 1).T).addmm_(x, w.flatten(1))"
    assert f"y = {products}.unflatten(-1, (g, d)).tanh_()" in code
    code = code_of(heads.op)
    assert "q = functional.linear(x, w.flatten(1).T, bias.flatten()).unflatten(-1, (g, d))" in code
    assert "einsum" not in code and ".flatten(2) @ v.flatten(0, 1)" in code
    assert "einsum" in code_of(heads_elsewhere.op)


def test_what_is_subtracted_is_so_as_it_is_computed() -> None:
    assert "z = torch.addmm(bias, x, w.T).addmm_(h, u.T, alpha=-3)" in code_of(difference.op)


def test_of_a_batch_each_product_is_added_to_its_own_matrix() -> None:
    assert "z = (x @ w.mT).baddbmm_(h, u.mT, alpha=-0.5)" in code_of(of_a_batch.op)
