"""A number that several terms of a sum share multiplies their sum, whichever sign the first of them has."""

import pytest
import torch

from derive.notation import axes, op, tensor
from tests.derive.live import assert_derived, module

n = axes("n")


@op
def squared(f, x: tensor[n], z: tensor[n]):
    f.y[n] = z[n] * (x[n] ** 2 - 4 * x[n] + 4)
    return f.y


@op
def taken_away(f, x: tensor[n], z: tensor[n]):
    f.y[n] = z[n] - 4 * x[n] + 4
    return f.y


@op
def beside_a_mask(f, x: tensor[n], z: tensor[n]):
    f.y[n] = z[n] + 9 * (1 - x[n])
    return f.y


@op
def large(f, x: tensor[n], z: tensor[n]):
    f.y[n] = z[n] - 5000 * x[n] + 7000 - x[n] ** 2
    return f.y


@op
def both_taken_away(f, x: tensor[n], z: tensor[n]):
    f.y[n] = x[n] ** 2 - 4 * x[n] * z[n] - 4
    return f.y


@pytest.mark.parametrize(
    ("made", "right"),
    [
        (squared, lambda x, z: z * (x * x - 4 * x + 4)),
        (taken_away, lambda x, z: z - 4 * x + 4),
        (beside_a_mask, lambda x, z: z + 9 * (1 - x)),
        (large, lambda x, z: z - 5000 * x + 7000 - x * x),
        (both_taken_away, lambda x, z: x * x - 4 * x * z - 4),
    ],
)
def test_a_term_keeps_its_sign_beside_one_that_is_taken_away(made, right) -> None:
    assert_derived(made.op, right, {"x": (7,), "z": (7,)})


def test_what_is_small_beside_a_mask_keeps_its_digits() -> None:
    x, z = torch.ones(3), torch.tensor([1e-6, -3e-7, 2e-9])
    assert module(beside_a_mask.op).beside_a_mask(x, z).equal(z)
