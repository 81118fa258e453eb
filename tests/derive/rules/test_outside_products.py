"""What a product of matrices is multiplied with or divided by place by place stands outside of it."""

import pytest
from torch import Tensor

from derive import axes, exp, op, sum, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from derive.rules.naming.factored_sums import with_factors_outside
from tests.derive.live import assert_derived

b, d, e, k, n, s, t = axes("b d e k n s t")


@op
def divided(f, q: tensor[b, t, d], key: tensor[b, s, d], v: tensor[b, s, e]):
    f.a[b, t, s] = exp(sum(q[b, t, d] * key[b, s, d], over=d))
    f.z[b, t] = 1 + sum(f.a[b, t, s], over=s)
    f.y[b, t, e] = sum(f.a[b, t, s] / f.z[b, t] * v[b, s, e], over=s)
    return f.y


@op
def scaled(f, q: tensor[b, t, d], key: tensor[b, s, d], v: tensor[b, s, e], g: tensor[t]):
    f.a[b, t, s] = sum(q[b, t, d] * key[b, s, d], over=d)
    f.y[b, t, e] = sum(g[t] * f.a[b, t, s] * v[b, s, e], over=s)
    return f.y


def _divided(q: Tensor, key: Tensor, v: Tensor) -> Tensor:
    a = (q @ key.mT).exp()
    return a / (1 + a.sum(2, keepdim=True)) @ v


@pytest.mark.parametrize(
    ("made", "plain", "forward"),
    [
        (divided, _divided, "y = (a @ v).div_(z)"),
        (scaled, lambda q, key, v, g: g[:, None] * (q @ key.mT @ v), "y = (a @ v).mul_(g[:, None])"),
    ],
)
def test_no_second_table_of_scores(made, plain, forward) -> None:
    code = render(derivation_of(made.op))
    assert forward in code, code
    assert "a / z" not in code and "a.div_(" not in code and "g[:, None] * a" not in code, code
    lengths = {"b": 2, "t": 3, "s": 4, "d": 5, "e": 2}
    assert_derived(made.op, plain, {o.name: tuple(lengths[a.base] for a in o.axes) for o in made.op.operands})


@op
def columns(f, x: tensor[n, d], w: tensor[d, k], g: tensor[k]):
    f.y[n, k] = sum(x[n, d] * w[d, k] * g[k], over=d)
    return f.y


@op
def weighed(f, x: tensor[n, d], w: tensor[d, k], g: tensor[d]):
    f.y[n, k] = sum(x[n, d] * w[d, k] * g[d], over=d)
    return f.y


@op
def by_vector(f, x: tensor[n, d], w: tensor[d], g: tensor[n]):
    f.y[n] = sum(x[n, d] * w[d] * g[n], over=d)
    return f.y


@op
def chosen(f, q: tensor[t, d], key: tensor[s, d], v: tensor[s, e], g: tensor[t]):
    f.a[t, s] = sum(q[t, d] * key[s, d], over=d)
    f.y[t, e] = sum(where(g[t] > 0, g[t], 0) * f.a[t, s] * v[s, e], over=s)
    return f.y


@pytest.mark.parametrize("made", [columns, weighed, by_vector, chosen])
def test_what_has_as_small_a_factor_to_meet_stays(made) -> None:
    """A matrix that is given may be smaller than what is made of many rows; a summed axis cannot be left out."""
    assert with_factors_outside(made.op) == made.op

