"""`a/z + b/z` is 1 where `z` is `a + b`, under a name or as it stands, and only where every share is there."""

import pytest
from sympy import Expr

from derive.ir.terms.elements import At, Tensor
from derive.notation import amax, axes, exp, log, op, sum, tensor
from derive.pipeline import derivation_of
from derive.rules.expressions import names_of, rewritten
from derive.rules.tables.algebra import WHOLES

n, m, i, j = axes("n m i j")


@op
def shares(f, a: tensor[n], b: tensor[n], c: tensor[n]):
    f.z[n] = a[n] + 2 * b[n] * c[n] + 1
    f.y[n] = a[n] / f.z[n]
    return f.y


@op
def with_sink(f, s: tensor[i, j], sink: tensor[()]):
    f.m[i] = amax(s[i, j], over=j)
    f.u[i, j] = exp(s[i, j] - f.m[i])
    f.z[i] = sum(f.u[i, j], over=j) + exp(sink[()] - f.m[i])
    f.p[i, j] = f.u[i, j] / f.z[i]
    return f.p


@op
def log_of_two(f, s: tensor[i], r: tensor[i], w: tensor[i]):
    f.y[i] = w[i] + log(exp(s[i] - w[i]) + exp(r[i] - w[i]))
    return f.y


def at(name: str, axis: Expr = n) -> At:
    return At(Tensor(name), axis)


a, b, c, y, z = (at(name) for name in "abcyz")
TABLE = [
    (a / z + 2 * b * c / z + 1 / z, 1),
    (3 * y * a / z**2 + 6 * y * b * c / z**2 + 3 * y / z**2 - a, 3 * y / z - a),
    (at("a", m) / at("z", m) + 2 * at("b", m) * at("c", m) / at("z", m) + 1 / at("z", m), 1),
    (-a / (a + b) - b / (a + b) + 1, 0),
    (a / z + b * c / z + 1 / z, a / z + b * c / z + 1 / z),
    (a / z + 2 * b * c / z, a / z + 2 * b * c / z),
    (a * z + 2 * b * c * z + z, a * z + 2 * b * c * z + z),
]


@pytest.mark.parametrize(("value", "expected"), TABLE)
def test_shares(value: Expr, expected: Expr) -> None:
    assert rewritten(value, WHOLES, names_of(shares.op))[0] == expected


def test_it_says_which_sum() -> None:
    law = "c*v*(v + w)**q + c*w*(v + w)**q = c*(v + w)**(q + 1)"
    assert rewritten(1 - a / (a + b) - b / (a + b), WHOLES) == (0, law)
    made = derivation_of(with_sink.op)
    (step,) = (s for s in made.closed.steps if s.law == "whole")
    assert (str(step.subject), step.reason, step.after) == ("dm[i]", f"{law}; z[i] = exp_sink_minus_m[i] + u_sum[i]", 0)
    assert "m" not in made.kept


def test_nothing_is_left_of_the_maximum() -> None:
    made = derivation_of(log_of_two.op)
    assert str(made.closed.definitions[-1].value) == "0"
