"""A sum of products of matrices is not added up place by place, where it can be told from a difference."""

import pytest
import torch
from torch import Tensor

from derive import axes, cos, mean, op, scalar, sin, size, sqrt, sum, tanh, tensor
from derive.ir.equations import Op
from derive.ir.nodes.products import is_matrix_product
from derive.ir.nodes.walking import walk
from derive.ir.program import Reduce
from derive.pipeline import derivation_of, derive_op
from tests.derive.live import assert_derived

d, k, m, n, o, p = axes("d k m n o p")
two = axes("two=2")


@op
def waves(f, u: tensor[n, d], a: tensor[m, d], b: tensor[m, d], c: tensor[n]):
    f.y[n, m] = sum(a[m, d] * cos(u[n, d]) + b[m, d] * sin(u[n, d]) + c[n], over=d)
    return f.y


@op
def real_part(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d]):
    f.y[n, m] = sum(u[n, d] * a[m, d] - v[n, d] * b[m, d], over=d)
    return f.y


@op
def scaled(f, u: tensor[n, d], a: tensor[m, d]):
    f.y[n, m] = sum(-u[n, d] * a[m, d] - 1 / size(d), over=d)
    return f.y


@op
def distances(f, u: tensor[n, d], a: tensor[m, d]):
    f.y[n, m] = sum(u[n, d] ** 2 - 2 * u[n, d] * a[m, d] + a[m, d] ** 2, over=d)
    return f.y


@op
def gated(f, u: tensor[n, d], a: tensor[m, d]):
    f.y[n, m] = sum(u[n, d] * a[m, d] + sin(u[n, d] + a[m, d]), over=d)
    return f.y


@op
def divided(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d]):
    f.y[n, m] = sum(u[n, d] / (1 + v[n, d] ** 2) * a[m, d], over=d)
    return f.y


@op
def divided_both(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d]):
    f.s[n, d] = sqrt(1 + v[n, d] ** 2)
    f.y[n, m] = sum(a[m, d] / f.s[n, d] + u[n, d] * b[m, d] / f.s[n, d], over=d)
    return f.y


@op
def numbered(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d], r: scalar = 3.0):
    f.y[n, m] = sum(r * (2 * u[n, d] * a[m, d] - 2 * v[n, d] * b[m, d]) / 7, over=d)
    return f.y


@op
def averaged(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d]):
    f.y[n, m] = mean(u[n, d] / (1 + v[n, d] ** 2) * a[m, d] / (1 + b[m, d] ** 2), over=d)
    return f.y


@op
def averaged_beside(f, u: tensor[n, d], a: tensor[m, d], b: tensor[m, d], c: tensor[n]):
    f.y[n, m] = mean(c[n] * cos(b[m, 0]) - u[n, d] * a[m, d], over=d)
    return f.y


@op
def numbered_quotients(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d], r: scalar = 3.0):
    f.y[n, m] = mean(r * (u[n, d] * a[m, d] - v[n, d] / (1 + b[m, d] ** 2)), over=d)
    return f.y


@op
def common_factor(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d]):
    f.y[n, m] = sum(u[n, d] * v[n, d] * a[m, d] - u[n, d] * b[m, d], over=d)
    return f.y


@op
def differences(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d], b: tensor[m, d]):
    f.y[n, m] = sum(u[n, d] * (a[m, d] - v[n, d]), over=d)
    return f.y


@op
def of_one_tensor(f, u: tensor[n, d], v: tensor[n, d], a: tensor[m, d]):
    f.y[n, m] = sum(u[n, d] * sin(v[n, d]) * a[m, d] - u[n, d] * v[n, d] * sin(a[m, d]), over=d)
    return f.y


@op
def larger_factor(f, q: tensor[p, o, n, k], a: tensor[o, d, k], b: tensor[n, d, k], v: tensor[o, d, m]):
    f.s[o, n, k, m] = sum((tanh(a[o, d, k]) + b[n, d, k]) * v[o, d, m], over=d)
    f.y[o, n, p, m] = sum(q[p, o, n, k] * f.s[o, n, k, m], over=k)
    return f.y


@op
def of_two_places(f, z: tensor[n, two, d], w: tensor[m, d, two]):
    f.y[n, m] = sum(w[m, d, 0] * z[n, 0, d] - w[m, d, 1] * z[n, 1, d], over=d)
    return f.y


@op
def of_one_place(f, z: tensor[n, two, d], w: tensor[m, d, two]):
    f.y[n, m] = sum(w[m, d, 0] * z[n, 0, d] - z[n, 0, d] ** 2, over=d)
    return f.y


REFERENCES = {
    "waves": lambda u, a, b, c: u.cos() @ a.T + u.sin() @ b.T + u.shape[1] * c[:, None],
    "real_part": lambda u, v, a, b: u @ a.T - v @ b.T,
    "scaled": lambda u, a: -(u @ a.T) - 1,
    "distances": lambda u, a: (u[:, None] - a).square().sum(2),
    "divided": lambda u, v, a: u / (1 + v**2) @ a.T,
    "divided_both": lambda u, v, a, b: (1 / (1 + v**2).sqrt()) @ a.T + u / (1 + v**2).sqrt() @ b.T,
    "numbered": lambda u, v, a, b: (u @ a.T - v @ b.T) * 6 / 7,
    "averaged": lambda u, v, a, b: u / (1 + v**2) @ (a / (1 + b**2)).T / 3,
    "averaged_beside": lambda u, a, b, c: c[:, None] * b[:, 0].cos() - u @ a.T / 3,
    "numbered_quotients": lambda u, v, a, b: u @ a.T - v @ (1 / (1 + b**2)).T,
    "common_factor": lambda u, v, a, b: (u * v) @ a.T - u @ b.T,
    "differences": lambda u, v, a, b: u @ a.T - (u * v).sum(1)[:, None] + 0 * b.sum(),
    "of_one_tensor": lambda u, v, a: (u * v.sin()) @ a.T - (u * v) @ a.sin().T,
    "of_two_places": lambda z, w: z[:, 0] @ w[..., 0].T - z[:, 1] @ w[..., 1].T,
    "of_one_place": lambda z, w: z[:, 0] @ w[..., 0].T - z[:, :1].square().sum(2),
    "gated": lambda u, a: u @ a.T + (u[:, None] + a).sin().sum(2),
}
SHAPES = {"u": (5, 3), "v": (5, 3), "a": (4, 3), "b": (4, 3), "c": (5,), "z": (5, 2, 3), "w": (4, 3, 2)}
OPS = [
    waves.op, real_part.op, scaled.op, distances.op, divided.op, divided_both.op, numbered.op, averaged.op,
    averaged_beside.op, numbered_quotients.op, common_factor.op, differences.op, of_one_tensor.op, of_two_places.op,
    of_one_place.op, gated.op,
]  # fmt: skip


def _products(made: Op) -> list[bool]:
    """For every sum of the forward, whether it is a product of matrices."""
    nodes = [n for s in derive_op(made).forward.statements for n in walk(s.value) if isinstance(n, Reduce)]
    return [is_matrix_product(n) for n in nodes]


COUNTS = [
    (waves.op, 2), (real_part.op, 2), (scaled.op, 1), (divided.op, 1), (divided_both.op, 2), (numbered.op, 2),
    (averaged.op, 1), (averaged_beside.op, 1), (numbered_quotients.op, 2), (common_factor.op, 2),
    (of_two_places.op, 2),
]  # fmt: skip


@pytest.mark.parametrize(("made", "count"), COUNTS)
def test_every_term_is_a_product_of_its_own(made: Op, count: int) -> None:
    assert _products(made) == [True] * count


def test_what_a_mean_has_at_every_place_is_not_divided_again() -> None:
    (y,) = derivation_of(averaged_beside.op).forward.statements  # type: ignore[attr-defined]
    assert str(y) == "y[n, m] = cos(b[m, 0]) * c[n] - sum(a[m, d] * u[n, d], over=d) / size(d)"


_TOGETHER = [distances.op, differences.op, of_one_tensor.op, of_one_place.op, gated.op]


_NAMES = ["all but equal", "exact", "one tensor's", "one place's", "still over all axes"]


@pytest.mark.parametrize("made", _TOGETHER, ids=_NAMES)
def test_what_is_left_together(made: Op) -> None:
    assert _products(made) == [False]


@pytest.mark.parametrize("made", OPS, ids=REFERENCES)
def test_values_and_gradients(made: Op) -> None:
    assert_derived(made, REFERENCES[made.name], SHAPES)


def test_a_sum_is_not_made_to_be_multiplied() -> None:
    """What is added to a product needs no tensor of its own."""
    assert _products(larger_factor.op) == [True, True, True]
    shapes = {"q": (2, 3, 4, 5), "a": (3, 6, 5), "b": (4, 6, 5), "v": (3, 6, 7)}

    def plain(q: Tensor, a: Tensor, b: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("ponk,ondk,odm->onpm", q, a.tanh()[:, None] + b, v)

    assert_derived(larger_factor.op, plain, shapes)


@op
def projected_pairs(f, x: tensor[n, d], y: tensor[m, d], w: tensor[d, k]):
    f.z[n, m, k] = sum((x[n, d] - y[m, d]) * w[d, k], over=d)
    f.s[n, m] = sum(f.z[n, m, k] ** 2, over=k)
    return f.s


def test_what_one_factor_alone_has_is_summed_first() -> None:
    """Also of a tensor that no operand is as large as: the product would read all of it too."""
    backward = str(derivation_of(projected_pairs.op).backward)  # type: ignore[attr-defined]
    assert "sum(dz[n, m, k], over=m)" in backward and "sum(dz[n, m, k], over=n)" in backward, backward
    shapes = {"x": (4, 3), "y": (5, 3), "w": (3, 2)}
    assert_derived(projected_pairs.op, lambda x, y, w: ((x[:, None] - y) @ w).square().sum(2), shapes)
