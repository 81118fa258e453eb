"""What is known of how large a value may be, and what follows where it is chosen."""

import pytest
import torch
from sympy import Integer, oo

from derive import axes, constant, exp, maximum, minimum, op, sigmoid, tanh, tensor, where
from derive.facts.bounded import ends_of
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.functions import softplus
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, chooses, module

n, d = axes("n d")
X = At(Tensor("x"), n)


@pytest.mark.parametrize(
    ("value", "ends"),
    [
        (X, (-oo, oo)),
        (minimum(maximum(X, -5), 2), (-5, 2)),
        (maximum(minimum(X, 2), -5), (-5, 2)),
        (maximum(X, -5), (-5, oo)),
        (3 * tanh(X) - sigmoid(X), (-4, 4)),
        (where(X > 0, tanh(X), 7), (-1, 7)),
        (X - X**2, (-oo, oo)),
        (0 * X + 2, (2, 2)),
        (tanh(X) * maximum(X, 1), (-oo, oo)),
    ],
    ids=str,
)
def test_ends(value, ends) -> None:
    assert ends_of(Integer(0) + value, {}) == ends


@op
def reparametrised(f, ls: tensor[n, d], eps: constant[n, d]):
    """With a clamped logarithm of the scale, as in soft actor-critic."""
    f.c[n, d] = minimum(maximum(ls[n, d], -5), 2)
    f.u[n, d] = exp(f.c[n, d]) * eps[n, d]
    return f.u


def test_what_has_a_bound_is_not_chosen_place_by_place() -> None:
    assert not chooses(code_of(reparametrised.op))
    assert_derived(reparametrised.op, lambda ls, eps: ls.clamp(-5, 2).exp() * eps, {"ls": (6, 5), "eps": (6, 5)})


def test_beyond_its_ends_nothing_flows() -> None:
    ls = torch.tensor([[-200.0, -5.0, 0.0, 2.0, 200.0]], requires_grad=True)
    module(reparametrised.op).reparametrised(ls, torch.ones(1, 5)).sum().backward()
    assert ls.grad[0, 0] == ls.grad[0, 4] == 0
    torch.testing.assert_close(ls.grad[0, 2], torch.tensor(1.0))


def test_a_function_of_ours_of_a_number_has_no_known_ends() -> None:
    """SymPy has no value to compare: `softplus(2) <= 60` is no answer."""
    assert ends_of(softplus(Integer(2)), {}) == (-oo, oo)
    assert ends_of(Integer(2), {}) == (2, 2)
