"""Exponentials over their sum are one tensor, whatever they are a factor of."""

import pytest
import torch
from torch import Tensor

from derive.emit import render
from derive.notation import amax, axes, constant, exp, index, log, mean, op, sum, tensor
from derive.pipeline import derivation_of
from derive.rules.naming.named_shares import with_named_shares
from tests.derive.live import assert_derived, module

n, c, d, i, j = axes("n c d i j")


@op
def weighted(f, x: tensor[n, c], w: tensor[c]):
    f.m[n] = amax(x[n, c], over=c)
    f.y[n, c] = w[c] * (exp(x[n, c] - f.m[n]) / sum(exp(x[n, c] - f.m[n]), over=c))
    return f.y


@op
def attended(f, q: tensor[i, d], k: tensor[j, d], v: tensor[j, c]):
    f.s[i, j] = sum(q[i, d] * k[j, d], over=d) / 2
    f.e[i, j] = exp(f.s[i, j] - amax(f.s[i, j], over=j))
    f.o[i, c] = sum(f.e[i, j] / sum(f.e[i, j], over=j) * v[j, c], over=j)
    return f.o


@op
def expected(f, x: tensor[n, c], r: constant[n, c]):
    f.loss[()] = -mean(sum(exp(x[n, c]) / sum(exp(x[n, d]), over=d) * r[n, c], over=c), over=n)
    return f.loss


@op
def along_two(f, x: tensor[n, c, d], z: tensor[n, c, d]):
    f.y[n, c, d] = z[n, c, d] * exp(x[n, c, d]) / sum(exp(x[n, c, d]), over=(d, c))
    return f.y


@op
def along_two_by_other_names(f, x: tensor[n, c, d], z: tensor[n, c, d]):
    f.y[n, c, d] = z[n, c, d] * exp(x[n, c, d]) / sum(exp(x[n, j, i]), over=(i, j))
    return f.y


@op
def along_two_in_turn(f, x: tensor[n, c, d], z: tensor[n, c, d]):
    f.y[n, c, d] = z[n, c, d] * exp(x[n, c, d]) / sum(exp(x[n, j, i]), over=(j, i))
    return f.y


def _along_two(x: Tensor, z: Tensor) -> Tensor:
    return z * x.flatten(1).softmax(1).view_as(x)


def _weighted(x: Tensor, w: Tensor) -> Tensor:
    return w * x.softmax(1)


def _attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.T / 2).softmax(1) @ v


def _expected(x: Tensor, r: Tensor) -> Tensor:
    return -(x.softmax(1) * r).sum(1).mean()


NAMED = [
    (weighted, _weighted, {"x": (3, 4), "w": (4,)}, {"shares", "w"}),
    (attended, _attended, {"q": (3, 4), "k": (5, 4), "v": (5, 2)}, {"shares", "o", "q", "k", "v"}),
    (along_two_by_other_names, _along_two, {"x": (3, 4, 5), "z": (3, 4, 5)}, {"shares", "y"}),
    (along_two_in_turn, _along_two, {"x": (3, 4, 5), "z": (3, 4, 5)}, {"shares", "y"}),
    (along_two, _along_two, {"x": (3, 4, 4), "z": (3, 4, 4)}, {"shares", "y"}),
    (expected, _expected, {"x": (3, 4), "r": (3, 4)}, {"dx_local"}),
]


@pytest.mark.parametrize(("made", "plain", "shapes", "kept"), NAMED, ids=[m.op.name for m, *_ in NAMED])
def test_they_are_kept_as_one(made, plain, shapes, kept) -> None:
    derivation = derivation_of(made.op)
    assert set(derivation.kept) == kept
    assert "shares" in {e.name for e in derivation.named.equations}
    assert_derived(made.op, plain, shapes)


def test_what_nothing_reads_any_more_is_written_over() -> None:
    assert "shares.mul_(" in render(derivation_of(expected.op))


@op
def alone(f, x: tensor[n, c]):
    f.p[n, c] = exp(x[n, c]) / sum(exp(x[n, c]), over=c)
    return f.p


@op
def of_others(f, x: tensor[n, c], z: tensor[n, c]):
    f.y[n, c] = z[n, c] * exp(x[n, c]) / sum(exp(z[n, c]), over=c)
    return f.y


@op
def at_a_label(f, x: tensor[n, c], y: index(c)[n], w: tensor[n]):
    """One place is read: no others are shared out."""
    f.s[n] = sum(exp(x[n, c]), over=c)
    f.loss[n] = w[n] * exp(x[n, y[n]]) / f.s[n] + log(f.s[n])
    return f.loss


@pytest.mark.parametrize("made", [alone, of_others, at_a_label], ids=lambda m: m.op.name)
def test_what_is_named_or_no_share_stays(made) -> None:
    assert with_named_shares(made.op) == made.op


@op
def named_before(f, x: tensor[n, c], w: tensor[c]):
    f.p[n, c] = exp(x[n, c]) / sum(exp(x[n, c]), over=c)
    f.y[n, c] = w[c] * exp(x[n, c]) / sum(exp(x[n, c]), over=c)
    return f.p, f.y


def test_shares_that_have_a_name_go_by_it() -> None:
    kept = derivation_of(named_before.op).kept
    assert set(kept) == {"p", "w"}, kept
    x, w = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    p, y = module(named_before.op).named_before(x, w)
    torch.testing.assert_close((p, y), (x.softmax(1), w * x.softmax(1)))
