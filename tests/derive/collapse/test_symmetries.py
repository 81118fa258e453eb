"""Tensors that are the same, or opposite, when two of their axes change places."""

from pathlib import Path

import pytest
import torch

from derive.adjoint.chain_rule import stepwise
from derive.catalogue import load_file
from derive.collapse.symmetries import in_one_order
from derive.collapse.vocabulary import name_sums
from derive.ir.equations import Op
from derive.notation import axes, constant, exp, op, sin, sum, tanh, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived

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


@op
def weighed_by_both(f, x: tensor[i], w: tensor[i], v: tensor[i]):
    """What each pair is weighed by is told by the sign of its difference."""
    f.d[i, j] = x[i] - x[j]
    f.z[i, j] = v[i] * w[j] * f.d[i, j] * exp(-sin(f.d[i, j] + 1))
    f.y[i] = sum(f.z[i, j], over=j)
    return f.y


def test_a_function_of_a_difference_turns_with_it() -> None:
    """Of `d * exp(-sin(d + 1))` the sum over one side is not minus that over the other."""

    def plain(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        difference = x[:, None] - x
        return (v[:, None] * w * difference * torch.exp(-torch.sin(difference + 1))).sum(1)

    assert_derived(weighed_by_both.op, plain, {"x": (5,), "w": (5,), "v": (5,)})


@op
def spread_of_weights(f, w: tensor[n, i], m: constant[n, i]):
    """How far apart what has weight lies (Barron et al., 2022)."""
    f.loss[n] = sum(w[n, i] * w[n, j] * abs(m[n, i] - m[n, j]), over=(i, j))
    return f.loss


def test_both_sums_of_distances_are_one() -> None:
    """And that one is the forward's, which hands it on."""
    (line,) = map(str, derivation_of(spread_of_weights.op).backward.statements)
    assert line == "dw[n, i] = 2 * dloss[n] * m_w[n, i]"
    assert len(derivation_of(spread_of_weights.op).functions) == 1

    def plain(w: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return (w[:, :, None] * w[:, None] * (m[:, :, None] - m[:, None]).abs()).sum((1, 2))

    assert_derived(spread_of_weights.op, plain, {"w": (3, 4), "m": (3, 4)})
