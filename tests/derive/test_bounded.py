"""What is known of how large a value may be, and what follows where it is chosen."""

import torch

from derive import axes, constant, exp, maximum, minimum, op, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, chooses, module

n, d = axes("n d")


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
