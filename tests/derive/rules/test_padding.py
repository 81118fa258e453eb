"""A read that a condition keeps inside is one of a tensor with zeros, or what a maximum does not see, around it."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import amax, amin, axes, length, oo, op, size, sum, tanh, tensor, where
from derive.notation.spec import OpCall
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from tests.derive.live import assert_derived, chooses, module

c, h, i, j, k, n, o, p, q, s, t, w = axes("c h i j k n o p q s t w")
three, four = axes("three=3 four=4")


@op
def shifted(f, x: tensor[n, t, c], mu: tensor[c]):
    f.y[n, t, c] = mu[c] * x[n, t, c] + (1 - mu[c]) * where(t > 0, x[n, t - 1, c], 0)
    return f.y


@op
def ahead(f, x: tensor[n, t], a: tensor[k]):
    f.y[n, t] = sum(where(t + k < size(t), a[k] * x[n, t + k], 0), over=k)
    return f.y


@op
def behind(f, x: tensor[n, c, t], a: tensor[o, c, k]):
    f.y[n, o, t] = sum(where(t + k >= size(k) - 1, a[o, c, k] * x[n, c, t + k - size(k) + 1], 0), over=(c, k))
    return f.y


@op
def same_size(f, x: tensor[n, c, h, w], a: tensor[o, c, p, q], b: tensor[o]):
    inside = (h + p >= 1) & (h + p <= size(h)) & (w + q >= 1) & (w + q <= size(w))
    f.y[n, o, h, w] = sum(where(inside, a[o, c, p, q] * x[n, c, h + p - 1, w + q - 1], 0), over=(c, p, q)) + b[o]
    return f.y


@op
def strided(f, x: tensor[n, t], a: tensor[k]):
    f.y[n, i] = sum(where((2 * i + k >= 1) & (2 * i + k <= size(t)), a[k] * x[n, 2 * i + k - 1], 0), over=k)
    return f.y


@op
def largest(f, x: tensor[n, h, w]):
    inside = (h + three >= 1) & (h + three <= size(h)) & (w + four >= 2) & (w + four < size(w) + 2)
    f.y[n, h, w] = amax(where(inside, x[n, h + three - 1, w + four - 2], -oo), over=(three, four))
    return f.y


@op
def largest_by_two(f, x: tensor[n, h, w]):
    """As many places behind as the windows reach, 1 or none."""
    inside = (2 * i + three >= 1) & (2 * i + three <= size(h)) & (2 * j + four >= 2) & (2 * j + four < size(w) + 2)
    f.y[n, i, j] = amax(where(inside, x[n, 2 * i + three - 1, 2 * j + four - 2], -oo), over=(three, four))
    return f.y


@op
def smallest_behind(f, x: tensor[n, t], taps: length(k) = 3):
    """As many places in front as the argument says."""
    f.y[n, t] = amin(where(t + k >= size(k) - 1, x[n, t + k - size(k) + 1], oo), over=k)
    return f.y


@op
def blurred(f, x: tensor[n, h, w]):
    inside = (h + three >= 1) & (h + three <= size(h)) & (w + four >= 2) & (w + four < size(w) + 2)
    f.y[n, h, w] = sum(where(inside, x[n, h + three - 1, w + four - 2], 0), over=(three, four)) / 12
    return f.y


@op
def added_up(f, x: tensor[n, h, w]):
    inside = (h + three >= 1) & (h + three <= size(h)) & (w + four >= 2) & (w + four < size(w) + 2)
    f.y[n, h, w] = sum(where(inside, x[n, h + three - 1, w + four - 2], 0), over=(three, four))
    return f.y


@op
def differences(f, x: tensor[n, t], r: tensor[j]):
    f.y[n, t, j] = where(t + j < size(t), r[j] * tanh(x[n, t + j] - x[n, t]), 0)
    return f.y


@op
def nested(f, x: tensor[n, t]):
    """The condition that goes is the inner one: the other is of more than the place that is read."""
    f.y[n, t] = where(t < 3, where(t >= 2, 5 * x[n, t - 2], 0), 0)
    return f.y


@op
def instead(f, x: tensor[n, t], a: tensor[t]):
    """Where the place is none, something else stands; and 0 where `a` is, though that is read as well."""
    f.y[n, t] = where(t >= 1, x[n, t - 1], 7) + where(t >= 1, x[n, t - 1] + a[t], 0)
    return f.y


@op
def in_a_window(f, g: tensor[n, t, c], z: tensor[n, t, c], r: tensor[j]):
    dot = sum(g[n, t, c] * z[n, t + j - 1, c], over=c)
    f.s[n, t, j] = where((t + j >= 1) & (t + j - 1 < size(t)), dot + r[j], 0)
    return f.s


@op
def called(f, x: tensor[n, t, c], mu: tensor[c]):
    f.z[n, t, c] = 2 * x[n, t, c]
    f.y = shifted(f.z, mu)
    return f.y


def _one_on(x: Tensor, dim: int, by: int) -> Tensor:
    """Zeros where nothing comes from; `by` is 1 or -1."""
    zeros, length = torch.zeros_like(x.narrow(dim, 0, 1)), x.shape[dim]
    kept = x.narrow(dim, 0 if by > 0 else 1, length - 1)
    return torch.cat([zeros, kept] if by > 0 else [kept, zeros], dim)


def _shifted(x: Tensor, mu: Tensor) -> Tensor:
    return mu * x + (1 - mu) * _one_on(x, 1, 1)


def _differences(x: Tensor, r: Tensor) -> Tensor:
    ahead = functional.pad(x, (0, len(r)))
    each = [(ahead[:, j : j + x.shape[1]] - x)[:, : max(x.shape[1] - j, 0)].tanh() for j in range(len(r))]
    return torch.stack([functional.pad(y, (0, x.shape[1] - y.shape[1])) for y in each], 2) * r


def _same_size(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    ends = (1, max(a.shape[3] - 2, 0), 1, max(a.shape[2] - 2, 0))
    return functional.conv2d(functional.pad(x, ends), a, b)[:, :, : x.shape[2], : x.shape[3]]


def _strided(x: Tensor, a: Tensor) -> Tensor:
    return functional.conv1d(x[:, None], a[None, None], stride=2, padding=1)[:, 0]


def _largest(x: Tensor) -> Tensor:
    longer = functional.pad(x, (2, 1, 1, 1), value=-torch.inf)
    return longer.unfold(1, 3, 1).unfold(2, 4, 1).amax((3, 4))


def _largest_by_two(x: Tensor) -> Tensor:
    longer = functional.pad(x, (2, 3, 1, 2), value=-torch.inf)
    rows, columns = ((size - 1) // 2 + 1 for size in (x.shape[1], x.shape[2] + 1))
    return longer.unfold(1, 3, 2).unfold(2, 4, 2)[:, :rows, :columns].amax((3, 4))


def _in_a_window(g: Tensor, z: Tensor, r: Tensor) -> Tensor:
    t = g.shape[1]
    longer = functional.pad(z, (0, 0, 1, len(r)))
    inside = torch.stack([(torch.arange(t) + j >= 1) & (torch.arange(t) + j <= t) for j in range(len(r))], 1)
    dots = torch.stack([(g * longer[:, j : j + t]).sum(2) for j in range(len(r))], 2)
    return torch.where(inside, dots + r, 0)


def _nested(x: Tensor) -> Tensor:
    return torch.stack([5 * x[:, t - 2] if t == 2 else 0 * x[:, 0] for t in range(x.shape[1])], 1)


def _instead(x: Tensor, a: Tensor) -> Tensor:
    first = 0 * x[:, :1]
    return torch.cat([first + 7, x[:, :-1]], 1) + torch.cat([first, x[:, :-1] + a[1:]], 1)


PLAIN: dict[str, Callable[..., Tensor]] = {
    "shifted": _shifted,
    "ahead": lambda x, a: functional.conv1d(functional.pad(x, (0, len(a) - 1))[:, None], a[None, None])[:, 0],
    "behind": lambda x, a: functional.conv1d(functional.pad(x, (a.shape[2] - 1, 0)), a),
    "same_size": _same_size,
    "strided": _strided,
    "largest": _largest,
    "largest_by_two": _largest_by_two,
    "smallest_behind": lambda x: functional.pad(x, (2, 0), value=torch.inf).unfold(1, 3, 1).amin(2),
    "blurred": lambda x: functional.avg_pool2d(functional.pad(x, (2, 1, 1, 1)), (3, 4), 1),
    "added_up": lambda x: functional.avg_pool2d(functional.pad(x, (2, 1, 1, 1)), (3, 4), 1) * 12,
    "differences": _differences,
    "nested": _nested,
    "instead": _instead,
    "in_a_window": _in_a_window,
    "called": lambda x, mu: _shifted(2 * x, mu),
}
OPS: dict[str, OpCall] = {
    made.op.name: made
    for made in (
        shifted, ahead, behind, same_size, strided, largest, largest_by_two, smallest_behind, blurred, added_up,
        differences, nested, instead, in_a_window, called,
    )
}  # fmt: skip
IN_ONE = OPS.keys() - {"differences", "nested", "in_a_window"}
"""Those of which no condition is left."""


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients(name: str, length: int) -> None:
    lengths = {"n": 3, "t": length, "h": length, "w": 4, "k": min(length, 3), "p": 3, "q": 2, "c": 2, "o": 3, "j": 3}
    operands = OPS[name].op.operands
    assert_derived(OPS[name].op, PLAIN[name], {o.name: tuple(lengths[a.base] for a in o.axes) for o in operands})


@pytest.mark.parametrize("name", OPS)
def test_battery(name: str) -> None:
    found = verify(OPS[name].op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@pytest.mark.parametrize("name", OPS)
def test_nothing_is_gathered(name: str) -> None:
    code = inspect.getsource(module(OPS[name].op)).partition(f"def {name}_forward")[2]
    assert "functional.pad(" in code
    assert "place_" not in code
    assert "index_add_" not in code
    assert chooses(code) == (name not in IN_ONE)


def test_a_maximum_of_what_has_nothing_around_it_is_a_pool() -> None:
    code = inspect.getsource(module(largest.op))
    assert "functional.pad(x, (2, 1, 1, 1), value=-math.inf)" in code
    assert "over_windows(torch.maximum, " in code


def test_ties_in_windows_are_counted_place_by_place() -> None:
    code = inspect.getsource(module(largest.op)).partition("def largest_backward")[2]
    assert "+= (x_padded[:, at_three : at_three + h, at_four : at_four + w] == y).view(torch.int8)" in code
    assert ".unfold(" not in code


def test_a_sum_of_what_has_zeros_around_it_divided_by_its_places_is_a_mean() -> None:
    code = inspect.getsource(module(blurred.op))
    assert "y = window_sums(x_padded, {1: 3, 2: 4}).div_(12)" in code
    assert "y = window_sums(x_padded, {1: 3, 2: 4})" in inspect.getsource(module(added_up.op))


def test_what_is_read_beside_is_read_of_the_padded_tensor() -> None:
    """One of the two is kept."""
    assert [saved.label for saved in derivation_of(differences.op).saved] == ["x_padded", "r"]


def test_the_equations_are_shown_as_they_were_written() -> None:
    doc = str(module(differences.op).__doc__)
    assert "y[n, t, j] = where(j + t < size(t), -r[j] * tanh(x[n, t] - x[n, j + t]), 0)" in doc
    assert "x_padded[n, t_padded] = sum(x[n, t] * delta(t_padded, t), over=t)" in doc


def test_an_axis_of_no_places_is_named() -> None:
    with pytest.raises(ValueError, match=r"ahead.*axis k must be at least 1 long"):
        module(ahead.op).ahead(torch.ones(2, 3), torch.ones(0))
