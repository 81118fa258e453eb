"""Tensors that are the same, or opposite, when two of their axes change places."""

from pathlib import Path

import pytest

from derive.adjoint import stepwise
from derive.catalogue import load_file
from derive.collapse.symmetries import in_one_order
from derive.collapse.vocabulary import name_sums
from derive.equations import Op
from derive.notation import axes, constant, op, sum, tanh, tensor

n, d, e, i, j, k = axes("n d e i j k")
UNSEEN = {op.name: op for op in load_file(Path(__file__).parents[2] / "unseen" / "specs.py")}


@op
def squares(f, x: tensor[n, d], g: tensor[()]):
    f.s[d, e] = sum(x[n, d] * x[n, e], over=n)
    f.loss[()] = g[()] * sum(tanh(f.s[d, e]), over=(d, e))
    return f.loss


@op
def pairs(f, x: tensor[i]):
    f.loss[()] = sum((x[i] - x[j]) ** 4, over=(i, j))
    return f.loss


@op
def given(f, x: tensor[n, d]):
    f.s[d, e] = sum(x[n, d] * x[n, e], over=n)
    return f.s


@op
def weighed_pairs(f, x: tensor[i], a: constant[i, j]):
    f.loss[()] = sum(a[i, j] * (x[i] - x[j]) ** 2, over=(i, j))
    return f.loss


@op
def one_number_twice(f, x: tensor[i], z: tensor[j]):
    f.s[i, j] = x[i] * z[j]
    f.loss[()] = sum(f.s[i, j], over=(i, j))
    return f.loss


@op
def triples(f, x: tensor[i]):
    f.t[i, j, k] = x[i] * x[j] * x[k]
    f.loss[()] = sum(tanh(f.t[i, j, k]), over=(i, j, k))
    return f.loss


def turned(of: Op) -> dict[str, str]:
    """What each adjoint that was changed is now."""
    _, history = in_one_order(stepwise(name_sums(of)))
    return {str(step.subject): str(step.after) for step in history}


def test_both_sums_over_a_gram_matrix_are_one() -> None:
    assert turned(squares.op) == {"dx[n, d]": "2*sum(ds[d, e']*x[n, e'], over=e')"}


def test_pairs_change_their_sign_alone() -> None:
    assert turned(pairs.op) == {"dx[i]": "2*sum(dx_i_minus_x_j[i, j'], over=j')"}


def test_three_axes_change_places_by_twos() -> None:
    assert turned(triples.op) == {"dx[i]": "3*sum(x[j']*x[k']*dt[i, j', k'], over=(j', k'))"}


@pytest.mark.parametrize("made", [given, weighed_pairs, one_number_twice])
def test_what_is_not_symmetric_stays(made) -> None:
    assert turned(made.op) == {}


def test_the_reason_names_the_tensor() -> None:
    _, history = in_one_order(stepwise(name_sums(UNSEEN["repulsion"])))
    assert {step.law for step in history} == {"symmetry"}
    assert any("changes its sign when i and j change places" in step.reason for step in history)
