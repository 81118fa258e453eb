"""What is added at one place of a dimension, and along another by an index or a window, is added to a view at once."""

import pytest
import torch
from torch import Tensor

from derive import axes, cos, index, op, sin, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

c, d, e, n, t, u = axes("c d e n t u")
two, three = axes("two=2 three=3")


@op
def turned(f, z: tensor[c, two, d], angle: tensor[e, d], at: index(c)[e], to: index(c)[e]):
    """Complex numbers, each row turned, less another row."""
    f.re[e, d] = z[at[e], 0, d] * cos(angle[e, d]) - z[at[e], 1, d] * sin(angle[e, d]) - z[to[e], 0, d]
    f.im[e, d] = z[at[e], 0, d] * sin(angle[e, d]) + z[at[e], 1, d] * cos(angle[e, d]) - z[to[e], 1, d]
    return f.re, f.im


@op
def strains(f, x: tensor[n, two, t]):
    f.a[n, u] = x[n, 0, u + 1] - x[n, 0, u]
    f.b[n, u] = x[n, 1, u + 1] * f.a[n, u] - x[n, 0, u]
    return f.a, f.b


@op
def seen(f, camera: tensor[c, three], x: tensor[e], at: index(c)[e]):
    f.y[e] = (camera[at[e], 0] * x[e] + camera[at[e], 2] * x[e] ** 2) ** 2 + camera[at[e], 2]
    return f.y


def turned_by_torch(z: Tensor, angle: Tensor, at: Tensor, to: Tensor) -> tuple[Tensor, ...]:
    (re, im), (there, beside) = z[at].unbind(1), z[to].unbind(1)
    return re * angle.cos() - im * angle.sin() - there, re * angle.sin() + im * angle.cos() - beside


def strains_by_torch(x: Tensor) -> tuple[Tensor, ...]:
    a = x[:, 0].diff(dim=1)
    return a, x[:, 1, 1:] * a - x[:, 0, :-1]


def seen_by_torch(camera: Tensor, x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    own = camera[at]
    return ((own[:, 0] * x + own[:, 2] * x**2) ** 2 + own[:, 2],)


R, AT, TO = torch.randn, torch.tensor([0, 2, 2, 1]), torch.tensor([2, 2, 0, 0])
CASES = [
    (turned, turned_by_torch, (R(3, 2, 5), R(4, 5), AT, TO)),
    (turned, turned_by_torch, (R(3, 2, 1), R(0, 1), AT[:0], TO[:0])),
    (strains, strains_by_torch, (R(2, 2, 5),)),
    (strains, strains_by_torch, (R(2, 2, 2),)),
    (seen, seen_by_torch, (R(3, 3), R(4), AT)),
]


@pytest.mark.parametrize(("made", "reference", "args"), CASES)
def test_values_and_gradients(made, reference, args) -> None:
    given = [a.double().requires_grad_() if a.is_floating_point() else a for a in args]
    leaves = [a for a in given if a.requires_grad]
    found = getattr(module(made.op), made.op.name)(*given)
    for ours, theirs in zip(found if isinstance(found, tuple) else (found,), reference(*given), strict=True):
        assert_alike(ours + 0 * leaves[0].sum(), theirs + 0 * leaves[0].sum(), leaves)


@pytest.mark.parametrize(
    ("made", "count", "said"),
    [
        (turned, 1, "dz[:, 0].index_add_(0, at, "),
        (strains, 1, "dx[:, 1, 1:] "),
        (seen, 1, "dcamera[:, 2].index_add_(0, at,"),
    ],
)
def test_one_tensor_of_zeros(made, count: int, said: str) -> None:
    code = code_of(made.op)
    assert said in code and code.count("new_zeros") == count and "index_put_" not in code, code


def test_rows_at_a_place_are_read_from_a_view() -> None:
    code = code_of(turned.op)
    assert "functional.embedding(at, z[:, 1])" in code and "arange" not in code, code
