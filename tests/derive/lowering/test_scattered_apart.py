"""What many places add to one is added to zeros, and to the rest of a sum as one: float32 keeps its digits."""

import torch
from torch.nn import functional

from derive import axes, exp, index, log, mean, op, softplus, sum, tensor
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import module

d, g, n = axes("d g n")


@op
def rated(f, s: tensor[n], won: index(n)[g], lost: index(n)[g]):
    """Strengths by who beat whom (Bradley & Terry, 1952), kept near 0."""
    f.loss[()] = mean(softplus(s[lost[g]] - s[won[g]]), over=g) + 0.01 * sum(s[n] ** 2, over=n)
    return f.loss


@op
def labelled(f, z: tensor[n, d], y: index(d)[n]):
    """One place of each row is added to: there it is taken off as it is."""
    f.loss[()] = mean(log(sum(exp(z[n, d]), over=d)) - z[n, y[n]], over=n)
    return f.loss


def _rated(s: torch.Tensor, won: torch.Tensor, lost: torch.Tensor) -> torch.Tensor:
    return functional.softplus(s[lost] - s[won]).mean() + 0.01 * s.square().sum()


def test_many_small_terms_keep_their_digits() -> None:
    assert verify(rated.op).right
    torch.manual_seed(0)
    s, games = torch.randn(500), torch.randint(0, 500, (2, 100_000))
    made, wide = module(rated.op), s.double().requires_grad_()
    (right,) = torch.autograd.grad(_rated(wide, *games), wide)
    plain = s.clone().requires_grad_()
    (theirs,) = torch.autograd.grad(_rated(plain, *games), plain)
    _, saved = made.rated_forward(s, *games)
    found = made.rated_backward(torch.ones(()), *saved)
    assert (found - right).norm() <= 2 * (theirs - right).norm(), "each was added to what stood there already"


def test_one_term_of_each_row_is_added_in_place() -> None:
    assert "_scattered" not in code_of(labelled.op) and "_scattered" in code_of(rated.op)
    assert verify(labelled.op).right
