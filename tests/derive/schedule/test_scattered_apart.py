"""What many places add to one is added to zeros, and to the rest of a sum as one: float32 keeps its digits."""

import torch
from torch.nn import functional

from derive import axes, eq, exp, index, log, mean, op, softplus, sum, tensor, where
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import module

d, g, n = axes("d g n")
two, three = axes("two=2 three=3")


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


@op
def passed_on(f, x: tensor[n], m: tensor[g], to: index(n)[g]):
    """Messages beside what stands there (message passing: Gilmer et al., 2017)."""
    f.y[n] = x[n] + sum(where(eq(to[g], n), m[g], 0), over=g)
    return f.y


@op
def beside_first_places(f, x: tensor[n, three], y: index(n)[g], x_scattered: tensor[n]):
    """What many places add comes first, then slices; the name of the zeros is one that nobody has."""
    f.a[n, two] = x[n, two] ** 2 * x_scattered[n]
    f.b[g, three] = exp(x[y[g], three]) / 100
    f.dx_scattered[n] = 2 * x_scattered[n]
    return f.a, f.b, f.dx_scattered


@op
def in_three_ways(f, x: tensor[n, three], y: index(n)[g], w: tensor[n, two]):
    """A gradient has terms everywhere, at places that many read, and at first places."""
    f.a[n, three] = x[n, three] ** 2
    f.b[g, three] = exp(x[y[g], three])
    f.c[n, two] = w[n, two] * x[n, two]
    return f.a, f.b, f.c


def test_everywhere_and_at_places() -> None:
    backward = code_of(in_three_ways.op).partition("_backward(")[2]
    assert "dx_scattered" in backward and "dx[:, :2]" in backward, backward
    assert verify(in_three_ways.op).right


def test_forwards_and_beside_slices() -> None:
    assert verify(passed_on.op).right and verify(beside_first_places.op).right
    assert "y = x + y_sum" in code_of(passed_on.op)
    backward = code_of(beside_first_places.op).partition("_backward(")[2]
    assert backward.index("index_add_(") < backward.index("dx[:, :2]"), backward
    torch.manual_seed(0)
    x, m, to = torch.randn(10) + 100, torch.rand(100_000) / 1000, torch.randint(0, 10, (100_000,))
    y, _ = module(passed_on.op).passed_on_forward(x, m, to)
    right = x.double().index_add(0, to, m.double())
    assert (y - right).abs().max() <= 1e-4


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
