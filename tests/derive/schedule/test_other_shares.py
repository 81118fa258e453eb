"""What one share of a maximum leaves is the other, exactly, in PyTorch and in C."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, constant, index, maximum, mean, minimum, op, scalar, sum, tensor
from derive.output.live import build
from derive.pipeline import derivation_of
from derive.verify.verify import verify, verify_kernels
from tests.derive.live import module

n, m, d = axes("n m d")


@op
def larger(f, x: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = maximum(x[n, d], z[n, d])
    return f.y


@op
def smaller(f, x: tensor[n, d], z: tensor[n, d]):
    f.y[n, d] = minimum(x[n, d], z[n, d])
    return f.y


@op
def weighed(f, x: tensor[n, d], z: tensor[d], w: constant[n, d]):
    f.y[n, d] = w[n, d] * maximum(x[n, d], z[d])
    return f.y


@op
def thrice(f, x: tensor[n, d], z: tensor[d]):
    f.y[n, d] = 3 * maximum(x[n, d], z[d])
    return f.y


@op
def overlap(f, a: tensor[n], b: tensor[n], c: tensor[m], e: tensor[m]):
    f.y[n, m] = maximum(minimum(b[n], e[m]) - maximum(a[n], c[m]), 0)
    return f.y


@op
def largest(f, x: tensor[n, d], z: tensor[n, d], w: tensor[n, d]):
    f.y[n, d] = maximum(maximum(x[n, d], z[n, d]), w[n, d])
    return f.y


@op
def between(f, x: tensor[n, d], z: tensor[n, d], v: constant[n, d], w: constant[n, d]):
    f.y[n, d] = v[n, d] * maximum(x[n, d], z[n, d])
    f.t[n, d] = w[n, d] * minimum(x[n, d], z[n, d])
    return f.y, f.t


@op
def gathered(f, x: tensor[m, d], z: tensor[n, d], i: index(m)[n]):
    f.y[n, d] = maximum(x[i[n], d], z[n, d])
    return f.y


@op
def neighbours(f, x: tensor[m]):
    f.y[n] = maximum(x[n + 1], x[n])
    return f.y


@op
def row_by_row(f, x: tensor[n], z: tensor[d], w: constant[d]):
    f.y[n] = sum(w[d] * maximum(x[n], z[d]), over=d)
    return f.y


@op
def average(f, x: tensor[n, d], z: tensor[d], p: scalar = 0.3):
    f.y[()] = p * mean(maximum(x[n, d], z[d]), over=(n, d))
    return f.y


def backward(spec: Callable) -> list[str]:
    return [str(s) for s in derivation_of(spec.op).backward.statements]


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        (larger, ["dx[n, d] = dy[n, d] * (sign(x[n, d] - z[n, d]) + 1) / 2", "dz[n, d] = dy[n, d] - dx[n, d]"]),
        (smaller, ["dx[n, d] = dy[n, d] * (sign(z[n, d] - x[n, d]) + 1) / 2", "dz[n, d] = dy[n, d] - dx[n, d]"]),
        (weighed, [
            "dy_w[n, d] = dy[n, d] * w[n, d]",
            "dx[n, d] = dy_w[n, d] * (sign(x[n, d] - z[d]) + 1) / 2",
            "dz[d] = sum(dy_w[n, d] - dx[n, d], over=n)",
        ]),
        (overlap, [
            "y_inner[n, m] = minimum(b[n], e[m]) - maximum(a[n], c[m])",
            "dy_inner[n, m] = dy[n, m] * (sign(y_inner[n, m]) + 1) / 2",
            "dy_inner_a_c[n, m] = dy_inner[n, m] * (sign(a[n] - c[m]) + 1)",
            "da[n] = -sum(dy_inner_a_c[n, m], over=m) / 2",
            "dy_inner_e_b[n, m] = dy_inner[n, m] * (sign(e[m] - b[n]) + 1)",
            "db[n] = sum(dy_inner_e_b[n, m], over=m) / 2",
            "dc[m] = sum(dy_inner_a_c[n, m] - 2 * dy_inner[n, m], over=n) / 2",
            "de[m] = -sum(dy_inner_e_b[n, m] - 2 * dy_inner[n, m], over=n) / 2",
        ]),
        (largest, [
            "dy_x_z_w[n, d] = dy[n, d] * (sign(maximum(x[n, d], z[n, d]) - w[n, d]) + 1)",
            "dx[n, d] = dy_x_z_w[n, d] * (sign(x[n, d] - z[n, d]) + 1) / 4",
            "dz[n, d] = dy_x_z_w[n, d] / 2 - dx[n, d]",
            "dw[n, d] = -(dy_x_z_w[n, d] - 2 * dy[n, d]) / 2",
        ]),
    ],
    ids=lambda x: x.op.name if callable(x) else "",
)  # fmt: skip
def test_what_one_share_leaves(spec: Callable, lines: list[str]) -> None:
    assert backward(spec) == lines


def test_what_is_rounded_is_not_subtracted_from() -> None:
    """Three halves of twice a number are not what three times it is: the share without its number is."""
    first, *others = backward(thrice)
    assert first.endswith(" = dy[n, d] * (sign(x[n, d] - z[d]) + 1)") and any("2 * dy[n, d]" in line for line in others)


def test_a_share_that_is_added_at_places_has_a_name_first() -> None:
    assert backward(gathered)[0] == "dy_x_i_z[n, d] = dy[n, d] * (sign(x[i[n], d] - z[n, d]) + 1) / 2"
    assert backward(gathered)[-1] == "dz[n, d] = dy[n, d] - dy_x_i_z[n, d]"


def test_a_product_that_is_added_to_a_slice_costs_nothing() -> None:
    assert backward(neighbours)[-1].endswith(" += dy[n] * (1 - sign_x_minus_x[n]) / 2"), backward(neighbours)


def test_one_sign_for_both_extrema() -> None:
    assert "\n".join(backward(between)).count("sign(") == 1


def test_a_step_that_a_matrix_product_takes_is_made_anew() -> None:
    """`step @ w` is less than a product element by element, and its sum."""
    assert not any(" - 2 * " in line or "dx_" in line for line in backward(row_by_row)), backward(row_by_row)


SPECS = [larger, smaller, weighed, thrice, overlap, largest, between, row_by_row, average, gathered, neighbours]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.op.name)
def test_gradients(spec: Callable) -> None:
    assert verify(spec.op).right


@pytest.mark.parametrize("spec", [weighed, overlap, largest], ids=lambda s: s.op.name)
def test_gradients_of_kernels(spec: Callable) -> None:
    assert verify_kernels(spec.op).right


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_left_where_the_other_side_has_all(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    for spec in (weighed, thrice):
        made, z, others = build(spec.op), normal(37), [normal(200, 37)] if spec is weighed else []
        for above in (20, -20):
            _, saved = made.forward(normal(200, 37) + above, z, *others)
            dx, dz = made.backward(normal(200, 37), *saved)
            nothing, something = (dz, dx) if above > 0 else (dx, dz)
            assert bool(nothing.eq(0).all()) and bool(something.ne(0).all())


def test_shares_at_ties_are_those_of_autograd() -> None:
    for spec in (larger, smaller):
        x, z = (torch.randint(-2, 3, (40, 7), generator=torch.Generator().manual_seed(k)).float() for k in (0, 1))
        dy = torch.randn(40, 7, generator=torch.Generator().manual_seed(2))
        leaves = [t.clone().requires_grad_() for t in (x, z)]
        y = (torch.maximum if spec is larger else torch.minimum)(*leaves)
        _, saved = getattr(module(spec.op), f"{spec.op.name}_forward")(x, z)
        found = getattr(module(spec.op), f"{spec.op.name}_backward")(dy, *saved)
        for ours, theirs in zip(found, torch.autograd.grad(y, leaves, dy), strict=True):
            assert torch.equal(ours, theirs)
