"""A maximum needs a place to be at: an axis of none is refused by name, also where nobody wrote the maximum."""

import re

import pytest
import torch

from derive.notation import amax, axes, concat, eq, exp, index, length, log, mean, ne, oo, op, sum, tensor, where
from derive.notation.spec import OpCall
from tests.derive.against_loops import code_of
from tests.derive.live import module

n, m, d, k, i, j, c, e = axes("n m d k i j c e")


@op
def off_diagonal(f, s: tensor[i, i]):
    f.y[i] = amax(where(ne(i, j), s[i, j], -oo), over=j)
    return f.y


@op
def two_views(f, a: tensor[n, d], b: tensor[n, d]):
    """The scores of all pairs but those of a row with itself, of rows of two tensors."""
    f.z[i, d] = concat(a[n, d], b[m, d], along=i)
    f.s[i, j] = sum(f.z[i, d] * f.z[j, d], over=d)
    f.den[i] = log(sum(where(ne(i, j), exp(f.s[i, j]), 0), over=j))
    f.loss[()] = mean(f.den[i], over=i) - mean(sum(a[n, d] * b[n, d], over=d), over=n)
    return f.loss


@op
def pairs(f, a: tensor[n, d], p: tensor[n, d]):
    f.s[n, m] = sum(a[n, d] * p[m, d], over=d)
    f.loss[()] = mean(log(1 + sum(where(ne(n, m), exp(f.s[n, m] - f.s[n, n]), 0), over=m)), over=n)
    return f.loss


@op
def decoupled(f, z: tensor[i, d], pair: index(i)[i]):
    f.s[i, j] = sum(z[i, d] * z[j, d], over=d)
    f.den[i] = log(sum(exp(where(ne(i, j) & ne(j, pair[i]), f.s[i, j], -oo)), over=j))
    f.loss[()] = mean(f.den[i] - f.s[i, pair[i]], over=i)
    return f.loss


@op
def by_class(f, z: tensor[i, d], y: index(c)[i], classes: length(c)):
    f.s[i, j] = sum(z[i, d] * z[j, d], over=d)
    f.logp[i, j] = f.s[i, j] - log(sum(where(ne(i, j), exp(f.s[i, j]), 0), over=j))
    f.loss[()] = -mean(sum(where(eq(y[i], y[j]), f.logp[i, j], 0), over=j), over=i)
    return f.loss


@op
def causal(f, x: tensor[i, d]):
    f.s[i, j] = where(j <= i, sum(x[i, d] * x[j, d], over=d), -oo)
    f.y[i, d] = sum(exp(f.s[i, j]) * x[j, d], over=j) / sum(exp(f.s[i, j]), over=j)
    return f.y


@op
def of_two(f, a: tensor[n, d], b: tensor[k, d]):
    """Either of the two may be empty, not both."""
    f.z[i, d] = concat(a[n, d], b[k, d], along=i)
    f.s[i, j] = sum(f.z[i, d] * f.z[j, d], over=d)
    f.den[i] = log(sum(exp(f.s[i, j]), over=j))
    return f.den


@op
def given_places(f, x: tensor[n], count: length(k)):
    f.y[n] = log(sum(exp(x[n] * k), over=k))
    return f.y


@op
def per_feature(f, x: tensor[..., d]):
    f.y[d] = amax(x[..., d], over=...)
    return f.y


def _rows(count: int, *more: int) -> torch.Tensor:
    return torch.ones(count, *more or (3,), dtype=torch.float64)


REFUSED = [
    (off_diagonal, (_rows(0, 0),), "axis i has length 0 in s, but its maximum"),
    (two_views, (_rows(0), _rows(0)), "axis n has length 0 in a, but its maximum needs at least one place"),
    (pairs, (_rows(0), _rows(0)), "axis n has length 0 in a, but its maximum needs at least one place"),
    (decoupled, (_rows(0), torch.ones(0, dtype=torch.int64)), "axis i has length 0 in z, but its maximum"),
    (by_class, (_rows(0), torch.ones(0, dtype=torch.int64), 4), "axis i has length 0 in z, but its maximum"),
    (causal, (_rows(0),), "axis i has length 0 in x, but its maximum needs at least one place"),
    (of_two, (_rows(0), _rows(0)), "equation den: axis j must be at least 1 long, but i = 0"),
    (given_places, (_rows(5, 1)[:, 0], 0), "equation y: axis k must be at least 1 long, but count = 0"),
    (per_feature, (_rows(2, 0, 3),), "equation y: axis ... must be at least 1 long, but leading = [2, 0]"),
]


@pytest.mark.parametrize(("made", "inputs", "says"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_no_place_is_refused_by_name(made: OpCall, inputs: tuple, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{made.op.name}") + "(:|,) " + re.escape(says)):
        getattr(module(made.op), made.op.name)(*inputs)


def test_one_place_is_enough() -> None:
    for made, inputs in (
        (causal, (_rows(1),)), (pairs, (_rows(1), _rows(1))),
        (of_two, (_rows(0), _rows(1))), (of_two, (_rows(1), _rows(0))),
        (given_places, (_rows(0, 1)[:, 0], 1)), (per_feature, (_rows(1, 1, 3),)), (per_feature, (_rows(3, 1)[:, 0],)),
    ):  # fmt: skip
        assert getattr(module(made.op), made.op.name)(*inputs).isfinite().all()


def test_what_windows_ask_for_is_asked_once() -> None:
    """Where one window fits, there is a place; a tensor is looked at once."""

    @op
    def sliding(f, a: tensor[n, d], b: tensor[k]):
        f.y[n, k] = log(sum(exp(a[n, e + k] * b[k]), over=e))
        return f.y

    assert code_of(sliding.op).count("check_length(") == 1
    assert 'check_shapes("causal", ("x: i>0 d",), x)' in code_of(causal.op)
