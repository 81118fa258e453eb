"""Frames in steps of several places are added by one call; a filter is multiplied in its own order."""

from collections.abc import Callable

import pytest
from torch import Tensor

from derive import axes, constant, eq, length, op, sum, tanh, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived_at

c, k, l, n, s, t = axes("c k l n s t")


@op
def one_signal(f, x: tensor[l], w: tensor[s]):
    f.y[t] = sum(tanh(w[s] * x[3 * t + s]), over=s)
    return f.y


@op
def channels(f, x: tensor[n, c, l], w: tensor[s]):
    f.y[n, c, t, s] = w[s] * x[n, c, 5 * t + s] ** 2
    return f.y


@op
def from_the_third(f, x: tensor[n, l], w: tensor[n, s]):
    f.y[n, t] = sum(tanh(w[n, s] * x[n, 2 * t + s + 2]), over=s)
    return f.y


@op
def next_to_each_other(f, x: tensor[n, l], w: tensor[s]):
    f.y[n, t] = sum(tanh(w[s] * x[n, t + s]), over=s)
    return f.y


@op
def overlap_add(f, x: tensor[n, t, s], long: length(l) = 50):
    f.y[n, l] = sum(where(eq(4 * t + s, l), x[n, t, s], 0), over=(t, s))
    return f.y


@op
def spectrum(f, x: tensor[n, l], w: constant[k, s], v: constant[s]):
    f.a[n, t, k] = sum(x[n, 4 * t + s] * v[s] * w[k, s], over=s)
    f.y[n, t, k] = f.a[n, t, k] ** 2
    return f.y


def _frames(x: Tensor, size: int, step: int) -> Tensor:
    return x.unfold(-1, size, step)


CASES: list[tuple[OpCall, Callable[..., Tensor], dict[str, int]]] = [
    (one_signal, lambda x, w: (w * _frames(x, len(w), 3)).tanh().sum(-1), {"l": 20, "s": 5}),
    (channels, lambda x, w: w * _frames(x, len(w), 5) ** 2, {"n": 2, "c": 3, "l": 23, "s": 7}),
    (channels, lambda x, w: w * _frames(x, len(w), 5) ** 2, {"n": 2, "c": 1, "l": 24, "s": 3}),
    (
        from_the_third,
        lambda x, w: (w[:, None] * _frames(x[:, 2:], w.shape[1], 2)).tanh().sum(-1),
        {"n": 3, "l": 14, "s": 4},
    ),
]


@pytest.mark.parametrize(("made", "plain", "lengths"), CASES)
def test_gradients(made: OpCall, plain: Callable[..., Tensor], lengths: dict[str, int]) -> None:
    assert_derived_at(made.op, plain, lengths)
    code = code_of(made.op)
    assert "functional.fold(" in code and "for at_" not in code, code


def test_added_where_they_overlap() -> None:
    assert verify(overlap_add.op).right
    assert "functional.fold(x.mT, " in code_of(overlap_add.op)


def test_windows_of_neighbours_are_added_tap_by_tap() -> None:
    assert "for at_s in range(s)" in code_of(next_to_each_other.op)


def test_a_filter_is_multiplied_in_its_own_order() -> None:
    code = code_of(spectrum.op)
    assert "functional.conv1d(x[:, None], (v * w)[:, None], stride=4)" in code, code
    assert verify(spectrum.op).right
