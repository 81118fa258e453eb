"""A slope that is finite where a root is 0 is that number, whatever stands between the root and its zero."""

import pytest
import torch

from derive.notation import axes, exp, op, scalar, sqrt, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

n, m, d = axes("n m d")
L = 1.3


@op
def inner(f, x: tensor[n, d], z: tensor[m, d], l: tensor[()]):
    """Matern 5/2, its distance divided by a learned length (Rasmussen & Williams, 2006)."""
    f.r[n, m] = sqrt(sum((x[n, d] - z[m, d]) ** 2, over=d)) / l[()]
    f.K[n, m] = (1 + sqrt(5) * f.r[n, m] + 5 * f.r[n, m] ** 2 / 3) * exp(-sqrt(5) * f.r[n, m])
    return f.K


@op
def outer(f, x: tensor[n, d], z: tensor[m, d], l: tensor[()]):
    f.r[n, m] = sqrt(sum((x[n, d] - z[m, d]) ** 2, over=d))
    f.K[n, m] = (1 + sqrt(5) * f.r[n, m] / l[()] + 5 * f.r[n, m] ** 2 / (3 * l[()] ** 2)) * exp(
        -sqrt(5) * f.r[n, m] / l[()]
    )
    return f.K


@op
def by_a_number(f, x: tensor[n, d], z: tensor[m, d], l: scalar = L):
    f.r[n, m] = sqrt(sum((x[n, d] - z[m, d]) ** 2, over=d)) / l
    f.K[n, m] = (1 + sqrt(5) * f.r[n, m] + 5 * f.r[n, m] ** 2 / 3) * exp(-sqrt(5) * f.r[n, m])
    return f.K


@op
def rougher(f, x: tensor[n, d], z: tensor[m, d], l: tensor[()]):
    f.r[n, m] = sqrt(sum((x[n, d] - z[m, d]) ** 2, over=d)) / l[()]
    f.K[n, m] = (1 + sqrt(3) * f.r[n, m]) * exp(-sqrt(3) * f.r[n, m])
    return f.K


@op
def cubed(f, x: tensor[n, d], z: tensor[m, d], l: tensor[()]):
    f.r[n, m] = sqrt(sum((x[n, d] - z[m, d]) ** 2, over=d)) / l[()]
    f.K[n, m] = exp(-(f.r[n, m] ** 3))
    return f.K


@op
def lengths(f, x: tensor[n, d], l: tensor[n]):
    """The root is of one row, and the length its own."""
    f.r[n] = sqrt(sum(x[n, d] ** 2, over=d)) * l[n]
    f.K[n] = (1 + f.r[n]) * exp(-f.r[n])
    return f.K


def _distances(x, z):
    """Whose slope is 0 where points coincide: what all of these have of it is then as autograd has it."""
    squares = ((x[:, None] - z) ** 2).sum(-1)
    return torch.where(squares > 0, torch.where(squares > 0, squares, 1).sqrt(), 0)


def _smooth(r):
    return (1 + 5**0.5 * r + 5 * r**2 / 3) * (-(5**0.5) * r).exp()


PLAIN = {
    "inner": lambda x, z, l: _smooth(_distances(x, z) / l),
    "outer": lambda x, z, l: _smooth(_distances(x, z) / l),
    "by_a_number": lambda x, z: _smooth(_distances(x, z) / L),
    "rougher": lambda x, z, l: (1 + 3**0.5 * _distances(x, z) / l) * (-(3**0.5) * _distances(x, z) / l).exp(),
    "cubed": lambda x, z, l: (-((_distances(x, z) / l) ** 3)).exp(),
    "lengths": lambda x, l: (1 + _distances(x, 0 * x[:1])[:, 0] * l) * (-_distances(x, 0 * x[:1])[:, 0] * l).exp(),
}
OPS = [inner, outer, by_a_number, rougher, cubed, lengths]
SHAPES = {"x": (4, 3), "z": (5, 3), "l": ()}


def _shape(made, name: str) -> tuple[int, ...]:
    return (4,) if made is lengths and name == "l" else SHAPES[name]


@pytest.mark.parametrize("made", OPS, ids=lambda o: o.op.name)
def test_it_is_finite_where_points_coincide(made) -> None:
    torch.manual_seed(0)
    inputs = {o.name: torch.rand(_shape(made, o.name), dtype=torch.float64) + 0.5 for o in made.op.differentiable}
    if made is lengths:
        inputs["x"][1] = 0
    else:
        inputs["z"][1] = inputs["x"][2]
    leaves = [t.requires_grad_() for t in inputs.values()]
    found, want = getattr(module(made.op), made.op.name)(**inputs), PLAIN[made.op.name](**inputs)
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)
    dK = torch.randn_like(want)
    gradients = (torch.autograd.grad(y, leaves, dK) for y in (found, want))
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("made", OPS, ids=lambda o: o.op.name)
def test_it_is_derived(made) -> None:
    assert_derived(made.op, PLAIN[made.op.name], {o.name: _shape(made, o.name) for o in made.op.differentiable})


def test_weights_of_pairs_are_products_still() -> None:
    """No tensor of all differences is made for it."""
    assert "x_minus_z" not in {s.name for s in derivation_of(inner.op).backward.statements}
