"""A factor of every branch of a choice stands before it, where 0 times it is 0."""

import pytest
import torch
from sympy import Expr
from torch import Tensor

from derive.collapse.drawn_out import drawn_out
from derive.facts.interpreter import GIVEN, Facts
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.elements import Tensor as Symbolic
from derive.notation import axes, constant, maximum, minimum, op, tensor, where
from derive.pipeline import derivation_of
from tests.derive.live import module

n, d = axes("n d")


@op
def learned_step(f, x: tensor[n, d], r: constant[n, d], s: tensor[()].positive):
    """LSQ (Esser et al., 2020) by cases; r is what rounding adds."""
    f.v[n, d] = x[n, d] / s[()]
    f.y[n, d] = where(f.v[n, d] < -8, -8 * s[()], where(f.v[n, d] > 7, 7 * s[()], s[()] * (f.v[n, d] + r[n, d])))
    return f.y


@op
def learned_steps(f, x: tensor[n, d], s: tensor[d].positive):
    f.v[n, d] = x[n, d] / s[d]
    f.y[n, d] = s[d] * minimum(maximum(f.v[n, d], -8), 7)
    return f.y


def by_cases(x: Tensor, r: Tensor, s: Tensor) -> Tensor:
    v = x / s
    return torch.where(v < -8, -8 * s, torch.where(v > 7, 7 * s, (v + r) * s))


def clamped(x: Tensor, s: Tensor) -> Tensor:
    return (x / s).clamp(-8, 7) * s


@pytest.mark.parametrize("made", [learned_step, learned_steps], ids=["by cases", "a step a column"])
def test_the_gradient_neither_multiplies_by_the_step_nor_divides(made) -> None:
    derivation = derivation_of(made.op)
    lines = [str(s) for s in derivation.backward.statements]
    assert "s" not in derivation.kept, derivation.kept
    assert not [line for line in lines if "s[" in line.split(" = ")[1].replace("s[n, d]", "")], lines
    (step,) = [s for s in derivation.closed.steps if s.law == "carried" and s.subject.name == "dx"]
    assert step.reason == f"dx[n, d] = {step.before!s}", step.reason


@pytest.mark.parametrize("names", ["xrs", "xs"])
def test_against_autograd(names: str) -> None:
    generator = torch.Generator().manual_seed(0)
    made, theirs = (learned_step, by_cases) if "r" in names else (learned_steps, clamped)
    shapes = {"x": (5, 3), "r": (5, 3), "s": () if "r" in names else (3,)}
    values = {k: torch.randn(shapes[k], generator=generator, dtype=torch.float64) for k in names}
    values |= {"x": 20 * values["x"], "s": values["s"].abs() + 0.5}
    leaves = [values[k].requires_grad_(k != "r") for k in names]
    dy = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    asked = [t for t in leaves if t.requires_grad]
    right = torch.autograd.grad(theirs(*leaves), asked, dy)
    found = torch.autograd.grad(getattr(module(made.op), made.op.name)(*leaves), asked, dy)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-13)


a, b, w, s = (At(Symbolic(name), *at) for name, at in (("a", (n, d)), ("b", (n, d)), ("w", (n,)), ("s", ())))
k, above = Scalar("k"), At(Symbolic("x"), n, d) > 0


@pytest.mark.parametrize(
    ("value", "after"),
    [
        (Where(above, s * a, 0), s * Where(above, a, 0)),
        (a * Where(above, 0, k * s), a * k * s * Where(above, 0, 1)),
        (Where(above, w * a, w * b), w * Where(above, a, b)),
        (Where(above, 0, Where(b > 0, s * b, s)), s * Where(above, 0, Where(b > 0, b, 1))),
        (Where(above, a, 0) * Where(above, w * a, 0), w * Where(above, a**2, 0)),  # no power of a choice
        (Where(above, s * a, b), None),  # one branch is without it
        (Where(above, a * b, 0), None),  # it is as large as the choice: 0 where this is, perhaps nowhere finite there
        (Where(above, s**2 * a, 0), None),  # a power: of what may be too large for it
    ],
)
def test_a_factor_of_every_branch(value: Expr, after: Expr | None) -> None:
    found, why = drawn_out(value, Facts(dict.fromkeys(("a", "b", "w", "s"), GIVEN)))
    assert found == (value if after is None else after) and bool(why) == (after is not None)


def test_what_may_be_infinite_stays_where_it_is_chosen() -> None:
    """Of `where(count > 0, x/count, 0)`, 0 times the reciprocal is no 0."""
    value = Where(above, w * a, 0)
    assert drawn_out(value, Facts({"a": GIVEN})) == (value, ())
