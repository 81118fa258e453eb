"""A place that goes on at the other end of its axis is a remainder: `x[n, (t + 1) % size(t)]`."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, op, size, sum, tensor
from derive.errors import DeriveError
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived_at, module

h, k, n, t, w = axes("h k n t w")
three, two = axes("three=3 two=2")


@op
def laplacian(f, x: tensor[..., t]):
    """Periodic in one dimension."""
    f.y[..., t] = x[..., (t + 1) % size(t)] + x[..., (t - 1) % size(t)] - 2 * x[..., t]
    return f.y


@op
def lorenz_96(f, x: tensor[n, t]):
    """Lorenz (1996); one tensor is moved by two places."""
    f.dx[n, t] = (x[n, (t + 1) % size(t)] - x[n, (t - 2) % size(t)]) * x[n, (t - 1) % size(t)] - x[n, t]
    return f.dx


@op
def diagonal_neighbour(f, x: tensor[h, w]):
    """Along two axes, of an input and of a tensor of the spec's own."""
    f.z[h, w] = x[(h + 1) % size(h), (w - 1) % size(w)] ** 2
    f.y[h, w] = f.z[(h - 1) % size(h), (w + 2) % size(w)] * x[h, w]
    return f.y


@op
def all_the_way(f, x: tensor[n, t]):
    """Once around is the place itself."""
    f.y[n, t] = x[n, (t + size(t)) % size(t)] * x[n, t % size(t)]
    return f.y


@op
def circular_filter(f, x: tensor[n, t], a: tensor[three]):
    """torch.nn.functional.pad(…, mode="circular"), then a convolution."""
    f.y[n, t] = sum(a[three] * x[n, (t + three - 1) % size(t)], over=three)
    return f.y


@op
def circular_image(f, x: tensor[n, h, w], a: tensor[three, two]):
    f.y[n, h, w] = sum(a[three, two] * x[n, (h - three) % size(h), (w + 3 * two) % size(w)], over=(three, two))
    return f.y


def _circular_filter(x: Tensor, a: Tensor) -> Tensor:
    return a[0] * x.roll(1, 1) + a[1] * x + a[2] * x.roll(-1, 1)


def _circular_image(x: Tensor, a: Tensor) -> Tensor:
    return torch.stack([a[i, j] * x.roll((i, -3 * j), (1, 2)) for i in range(3) for j in range(2)]).sum(0)


@op
def mixed(f, x: tensor[h, w], a: tensor[three]):
    """One place further along one axis, windows along the other; both equations read one tensor."""
    f.u[h, w] = sum(a[three] * x[(h + 1) % size(h), (w + three - 1) % size(w)], over=three)
    f.v[h, w] = sum(a[three] ** 2 * x[h, (w + three - 1) % size(w)], over=three)
    f.y[h, w] = f.u[h, w] * f.v[h, w]
    return f.y


def _mixed(x: Tensor, a: Tensor) -> Tensor:
    return _circular_filter(x.roll(-1, 0), a) * _circular_filter(x, a**2)


def _lorenz_96(x: Tensor) -> Tensor:
    return (x.roll(-1, 1) - x.roll(2, 1)) * x.roll(1, 1) - x


def _diagonal_neighbour(x: Tensor) -> Tensor:
    z = x.roll((-1, 1), (0, 1)) ** 2
    return z.roll((1, -2), (0, 1)) * x


CASES: list[tuple[OpCall, Callable[..., Tensor], dict[str, int]]] = [
    (laplacian, lambda x: x.roll(-1, -1) + x.roll(1, -1) - 2 * x, {"...": 2, "t": 4}),
    (lorenz_96, _lorenz_96, {"n": 2, "t": 5}),
    (lorenz_96, _lorenz_96, {"n": 2, "t": 2}),
    (diagonal_neighbour, _diagonal_neighbour, {"h": 3, "w": 4}),
    (circular_filter, _circular_filter, {"n": 2, "t": 5, "three": 3}),
    (circular_filter, _circular_filter, {"n": 2, "t": 1, "three": 3}),
    (circular_image, _circular_image, {"n": 2, "h": 4, "w": 5, "three": 3, "two": 2}),
    (circular_image, _circular_image, {"n": 2, "h": 2, "w": 3, "three": 3, "two": 2}),
    (mixed, _mixed, {"h": 3, "w": 4, "three": 3}),
    (all_the_way, lambda x: x**2, {"n": 2, "t": 3}),
]


@pytest.mark.parametrize(("made", "plain", "lengths"), CASES)
def test_gradients(made: OpCall, plain: Callable[..., Tensor], lengths: dict[str, int]) -> None:
    assert_derived_at(made.op, plain, lengths)


@pytest.mark.parametrize("made", [laplacian, lorenz_96, diagonal_neighbour, circular_filter, circular_image])
def test_slices_are_joined(made: OpCall) -> None:
    code = code_of(made.op)
    assert "torch.cat" in code, code
    assert not any(word in code for word in ("torch.where(", "where_by_bits(", "arange", "%")), code
    found = verify(made.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_what_has_the_other_end_around_it_is_made_once() -> None:
    code = code_of(mixed.op)
    assert code.count("    x_around = ") == 1 and "x_around2" not in code, code


def test_the_other_end_must_be_as_far() -> None:
    with pytest.raises(ValueError, match=r"^lorenz_96, equation dx: .* must fit into axis t, but t = 1"):
        module(lorenz_96.op).lorenz_96_forward(torch.zeros(2, 1))
    with pytest.raises(ValueError, match=r"^circular_image, equation y: .* must fit into axis w, but w = 2"):
        module(circular_image.op).circular_image_forward(torch.zeros(2, 4, 2), torch.zeros(3, 2))


def test_windows_of_any_length_are_refused() -> None:
    with pytest.raises(DeriveError, match=r"equation y: index \(-k \+ t\) % size\(t\) is not axis arithmetic"):

        @op
        def circular(f, x: tensor[n, t], a: tensor[k]):
            f.y[n, t] = sum(a[k] * x[n, (t - k) % size(t)], over=k)
            return f.y
