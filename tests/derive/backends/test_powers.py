"""Powers by the places of an axis are products, and their weighed sums go by Horner's rule."""

import pytest
import torch
from torch import Tensor

from derive import axes, length, mean, op, sum, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, d, e, k = axes("n d e k")


@op
def weighed_powers(f, x: tensor[n, d], a: tensor[k]):
    f.y[n, d] = sum(a[k] * x[n, d] ** k, over=k)
    return f.y


@op
def rational(f, x: tensor[n, d], a: tensor[k], b: tensor[d, k]):
    """Padé activation units, the safe variant (Molina, Schramowski & Kersting, 2020), weights for each column below."""
    f.below[n, d] = 1 + abs(sum(b[d, k] * x[n, d] ** (k + 1), over=k))
    f.y[n, d] = sum(a[k] * x[n, d] ** k, over=k) / f.below[n, d]
    return f.y


@op
def by_products(f, x: tensor[n, d], c: tensor[d, e, k]):
    f.y[n, e] = sum(c[d, e, k] * x[n, d] ** k, over=(d, k))
    return f.y


@op
def moments(f, x: tensor[n, d], number: length(k)):
    f.m[n] = mean(x[n, d], over=d)
    f.y[n, k] = mean((x[n, d] - f.m[n]) ** k, over=d)
    return f.y


def of(x: Tensor, weights: Tensor, first: int = 0) -> Tensor:
    powers = torch.stack([x ** (k + first) for k in range(weights.shape[-1])], -1)
    return (weights * powers).sum(-1)


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    g = torch.Generator().manual_seed(0)
    made = [torch.randn(*s, dtype=torch.float64, generator=g) for s in shapes]
    made[0][0, 0] = 0.0  # of which the power of 0 is 1, and has the derivative 0
    return [t.requires_grad_() for t in made]


@pytest.mark.parametrize("many", [3, 700])
@pytest.mark.parametrize("count", [1, 2, 6, 40])
def test_polynomials(many: int, count: int) -> None:
    x, a, b = drawn((many, 5), (count,), (5, count))
    with torch.no_grad():
        x.clamp_(-1.2, 1.2)
    assert_alike(module(weighed_powers.op).weighed_powers(x, a), of(x, a), (x, a))
    wanted = of(x, a) / (1 + of(x, b, 1).abs())
    assert_alike(module(rational.op).rational(x, a, b), wanted, (x, a, b))


@pytest.mark.parametrize("many", [3, 700])
def test_powers_as_factors_of_products(many: int) -> None:
    x, c = drawn((many, 5), (5, 4, 3))
    assert_alike(module(by_products.op).by_products(x, c), of(x[:, :, None], c).sum(1), (x, c))
    across = x.detach().T.contiguous().T.requires_grad_()
    assert_alike(module(by_products.op).by_products(across, c), of(across[:, :, None], c).sum(1), (across, c))


def test_powers_that_nothing_weighs() -> None:
    (x,) = drawn((200, 7))
    wanted = of((x - x.mean(1, keepdim=True))[..., None], torch.eye(5, dtype=torch.float64)).mean(1)
    assert_alike(module(moments.op).moments(x, 5), wanted, (x,))


def test_the_code_says_so() -> None:
    code = code_of(weighed_powers.op)
    assert "y = polynomial(x, a)" in code and "powers(x, k, 2)" in code
    assert "**" not in code.replace("x[n, d]**", "")  # but in notes


def test_compiled_it_is_one_graph() -> None:
    x, a = (t.detach() for t in drawn((700, 5), (6,)))
    forward = torch.compile(module(weighed_powers.op).weighed_powers_forward, backend="eager", fullgraph=True)
    torch.testing.assert_close(forward(x, a)[0], of(x, a))
