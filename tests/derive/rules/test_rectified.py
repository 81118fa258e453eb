"""What of a value is above 0, however it is chosen, is one function whose slope its value tells."""

import pytest
from sympy import Piecewise

from derive import axes, constant, mean, op, relu, scalar, sum, tensor, where
from derive.pipeline import derive_op
from derive.verify.verify import verify

n, d, c = axes("n d c")


@op
def chosen(f, x: tensor[n, d], w: tensor[d, c]):
    f.u[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = where(f.u[n, c] > 0, f.u[n, c], 0)
    return f.y


@op
def by_cases(f, x: tensor[n, d], w: tensor[d, c]):
    f.u[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = Piecewise((0, f.u[n, c] <= 0), (f.u[n, c], True))
    return f.y


@op
def turned(f, x: tensor[n, d], w: tensor[d, c]):
    f.u[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = where(f.u[n, c] < 0, -f.u[n, c], 0)
    return f.y


@op
def hinge(f, x: tensor[n, d], w: tensor[d, c], margin: scalar = 1.0):
    f.u[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.y[n, c] = where(margin > f.u[n, c], margin - f.u[n, c], 0)
    return f.y


@pytest.mark.parametrize("spec", [chosen, by_cases, turned, hinge], ids=lambda o: o.op.name)
def test_the_value_is_kept_and_neither_what_it_is_of_nor_a_mask(spec):
    derived = derive_op(spec.op)
    assert derived.kept == ("y", "x", "w"), derived.kept
    passed = "where(y[n, c] > 0, dy[n, c], 0)"  # one call, and no mask
    assert "relu" in str(derived.forward) and "where" not in str(derived.backward).replace(passed, "")
    found = verify(spec.op)
    assert found.right, [(r.line, [str(e) for e in r.wrong]) for r in found.rows if r.wrong]


@op
def with_a_slope_at_0(f, x: tensor[n]):
    f.y[n] = where(x[n] >= 0, x[n], 0)
    return f.y


@op
def of_two(f, x: tensor[n], z: tensor[n]):
    """Of two that are both -oo it is 0, and their difference is no number."""
    f.y[n] = where(x[n] > z[n], x[n] - z[n], 0)
    return f.y


@op
def of_another(f, x: tensor[n], m: constant[n]):
    f.y[n] = where(m[n] > 0, x[n], 0) + where(x[n] > 1, x[n], 0) + mean(relu(m[n]), over=n)
    return f.y


@pytest.mark.parametrize("spec", [with_a_slope_at_0, of_two, of_another], ids=lambda o: o.op.name)
def test_another_choice_stays(spec):
    derived = derive_op(spec.op)
    assert not any("relu(x" in str(e) for e in derived.named.equations)
    found = verify(spec.op)
    assert found.right, [(r.line, [str(e) for e in r.wrong]) for r in found.rows if r.wrong]


@op
def bent_after(f, x: tensor[n]):
    f.u[n] = relu(x[n])
    f.y[n] = where(f.u[n] > 0, f.u[n], f.u[n] / 8)
    return f.y


def test_two_choices_by_one_condition_are_one():
    derived = derive_op(bent_after.op)
    (statement,) = derived.backward.statements
    assert str(statement.value) == "where(u_above_zero[n], dy[n], 0)"
    assert "guard" in [s.law for s in derived.closed.steps]
    assert verify(bent_after.op).right
