"""The closed form equals the stepwise one, every step on the way holds, and a sabotaged law is caught."""

from dataclasses import replace

import numpy as np
import pytest
from sympy import Expr, Mul

from derive.collapse import inversions, relations
from derive.collapse.chain import Choice, Laws, close, forced
from derive.collapse.domain import divisors, outside_domain
from derive.collapse.local_search import in_a_circle
from derive.collapse.relations import by_names
from derive.collapse.supports import supports
from derive.ir import algebra
from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.elements import At, Tensor
from derive.notation import amax, axes, exp, op, rsqrt, sum, tanh, tensor
from derive.pipeline import derivation_of, derive_op
from derive.rules.expressions import names_of
from derive.schedule.definitions import Definition, circular
from tests.derive import specs
from tests.derive.comparison import assert_closed_equals_stepwise, points
from tests.derive.evaluate import backward, defined, forward, inputs
from tests.derive.specs import SPECS, Spec, each_spec

d, i, j, m, n = axes("d i j m n")


@each_spec()
def test_closed_equals_stepwise(spec: Spec) -> None:
    assert_closed_equals_stepwise(spec, derivation_of(spec.op))


@each_spec("standardise", "normalised_weights", "label_loss", "weighted_average", "matrix_product", "linear_pair")
def test_closed_equals_stepwise_where_sizes_coincide(spec: Spec) -> None:
    same = replace(spec, sizes=dict.fromkeys(spec.sizes, 3))
    assert_closed_equals_stepwise(same, derivation_of(spec.op), count=6)


@each_spec()
def test_every_step_keeps_the_value(spec: Spec) -> None:
    """`before` and `after` of each step, evaluated where every adjoint has its stepwise value."""
    made = derivation_of(spec.op)
    for world in points(spec, made.steps, 2):
        full = backward(made.steps, world)
        for step in made.closed.steps:
            over = sorted(free_axes(step.before) | free_axes(step.after), key=str)
            before, after = full.tensor(step.before, over), full.tensor(step.after, over)
            scale = max(1.0, np.abs(before).max(initial=0))
            np.testing.assert_allclose(after / scale, before / scale, atol=1e-11, err_msg=f"{step.law}: {step.subject}")


@each_spec("standardise", "normalised_weights", "linear_pair", "product_of_its_own_sum", "output_read_again")
def test_every_choice_gives_the_same_gradients(spec: Spec) -> None:
    """Whatever is eliminated and whatever is named: one choice at a time, then all at once."""
    made = derivation_of(spec.op)
    steps = made.steps
    valid = tuple(i for i in made.closed.inversions if i.nonzero is None)
    laws = Laws(
        inversions=valid,
        relations=by_names(made.closed.relations),
        supports=supports(steps.op),
        names=names_of(steps.op),
        always=forced(steps),
        gradients=frozenset(o.name for o in spec.op.differentiable),
    )
    named = frozenset(a.of for a in steps.adjoints)
    through = sorted({i.through for i in valid})
    choices = [
        Choice(named=named),
        *(Choice(frozenset({t})) for t in through),
        *(Choice(frozenset({t}), named) for t in through),
    ]
    (world,) = points(spec, steps, 1)
    slow = backward(steps, world)
    for choice in choices:
        definitions, _ = close(steps.adjoints, choice, laws)
        fast = defined(steps, definitions, world)
        for operand in spec.op.differentiable:
            name = f"d{operand.name}"
            np.testing.assert_allclose(
                fast.tensors[name], slow.tensors[name], rtol=1e-9, atol=1e-11, err_msg=str(choice)
            )


# --- sabotage -----------------------------------------------------------------------------------------------


def spec_named(name: str) -> Spec:
    return next(s for s in SPECS if s.name == name)


def wrong_sign_of_a_relation(patch: pytest.MonkeyPatch) -> None:
    right = relations.oriented

    def wrong(expr: Expr, because: tuple[str, ...]) -> relations.Relation | None:
        found = right(expr, because)
        return None if found is None else replace(found, value=-found.value)

    patch.setattr(relations, "oriented", wrong)


def wrong_sign_of_an_inversion(patch: pytest.MonkeyPatch) -> None:
    right = inversions.invert

    def wrong(*args: object) -> inversions.Inversion | None:
        found = right(*args)  # type: ignore[arg-type]
        return None if found is None else replace(found, value=-found.value)

    patch.setattr(inversions, "invert", wrong)


def forgotten_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(algebra, "Size", lambda axis: Size(axis) ** 0)


def sums_split_across_a_shared_axis(patch: pytest.MonkeyPatch) -> None:
    def wrong(inside: list[Expr], bound: list) -> list[Expr]:
        parts = [algebra.close(f, [a for a in bound if a in free_axes(f)]) for f in inside]
        return parts if bound else inside

    patch.setattr(algebra, "_independent_sums", wrong)


def captured_axis(patch: pytest.MonkeyPatch) -> None:
    """A binder that always takes the first copy, also where a sum inside has bound it."""
    patch.setattr(algebra, "_depths", lambda body: {})


SABOTAGE = [
    pytest.param(wrong_sign_of_a_relation, "normalised_weights", id="relation with the wrong sign"),
    pytest.param(wrong_sign_of_an_inversion, "normalised_weights", id="inversion with the wrong sign"),
    pytest.param(forgotten_size, "constant_under_a_sum", id="empty sum without its size"),
    pytest.param(sums_split_across_a_shared_axis, "standardise", id="product of sums for a sum of products"),
]


@pytest.mark.parametrize(("sabotage", "name"), SABOTAGE)
def test_a_sabotaged_law_is_caught(sabotage: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_named(name)
    sound = derivation_of(spec.op).steps  # the stepwise form from before the sabotage
    algebra.normal.cache_clear()
    try:
        sabotage(monkeypatch)  # type: ignore[operator]
        made = replace(derive_op(spec.op), steps=sound)
    finally:
        monkeypatch.undo()
        algebra.normal.cache_clear()
    with pytest.raises(AssertionError, match=name):
        assert_closed_equals_stepwise(spec, made)


# --- what the search may not do -----------------------------------------------------------------------------


def test_no_division_by_what_the_chain_rule_does_not_divide_by() -> None:
    for spec in SPECS:
        made = derivation_of(spec.op)
        assert not outside_domain(list(made.closed.definitions), divisors(made.steps)), spec.name


def test_no_difference_of_large_numbers_where_the_chain_rule_has_none() -> None:
    """With `y = 2*a + 3*b`, `sum(g*b)` must not become `(sum(g*y) - 2*sum(g*a))/3`: a may dwarf b."""
    spec = spec_named("linear_pair")
    made = derivation_of(spec.op)
    start = inputs(spec.op, spec.sizes, np.random.default_rng(0)).having(
        a=np.array([3e8, -2e8, 7e8]), b=np.array([1.1, 0.7, 0.3])
    )
    world = forward(made.named, start).having(dz=np.array([1.3, 0.9, -0.4]))
    exact = backward(made.steps, world).tensors["du"]
    assert defined(made.steps, made.closed.definitions, world).tensors["du"] == pytest.approx(exact, rel=1e-12)


def test_two_equations_over_the_same_two_tensors_terminate() -> None:
    @op
    def twice(f, a: tensor[n], b: tensor[n], w: tensor[()], u: tensor[()]):
        f.y[n] = 2 * a[n] + 3 * b[n]
        f.z[n] = 5 * a[n] + 7 * b[n]
        f.q[()] = sum(w[()] * a[n] + u[()] * b[n] + f.y[n] ** 2 * f.z[n] ** 2, over=n)
        return f.q

    spec = Spec(twice.op, {"n": 3})
    assert_closed_equals_stepwise(spec, derive_op(twice.op))


# --- what it must find --------------------------------------------------------------------------------------


def test_standardisation_closes_over_two_sums() -> None:
    made = derivation_of(specs.standardise.op)
    dx = next(x for x in made.closed.definitions if x.name == "dx")
    sums = {str(s) for s in dx.value.atoms(algebra.Sigma)}
    assert sums == {"sum(dy[n', d], over=n')", "sum(dy[n', d]*xhat[n', d], over=n')"}
    assert len(Mul.make_args(dx.value)) == 1 and len(dx.value.args) == 3


def test_the_subtracted_maximum_receives_nothing() -> None:
    made = derivation_of(specs.normalised_weights.op)
    (dz,) = made.closed.definitions
    assert str(dz.value) == "dp[n, c]*p[n, c] - p[n, c]*sum(dp[n, c']*p[n, c'], over=c')"
    assert made.kept == ("p",)


def test_steps_have_reasons() -> None:
    for spec in SPECS:
        for step in derivation_of(spec.op).closed.steps:
            assert step.law and step.reason and step.before != step.after


def test_scores_are_not_kept_for_the_gradient_of_what_scales_them() -> None:
    made = derivation_of(specs.warmed_scores.op)
    assert "s" not in made.kept
    (dwarmth,) = (d.value for d in made.closed.definitions if d.name == "dwarmth")
    assert str(dwarmth) in ("sum(dq[n', i', d']*q[n', i', d'], over=(d', i', n'))",
                            "sum(dr[n', j', d']*r[n', j', d'], over=(d', j', n'))")  # fmt: skip


@op
def sharpened(f, q: tensor[n, d], r: tensor[m, d], warmth: tensor[()]):
    """The scores stand under a name with what scales them."""
    f.a[n, m] = exp(warmth[()]) * sum(q[n, d] * r[m, d], over=d)
    f.t[n, m] = tanh(f.a[n, m])
    return f.t


def test_scores_under_a_name_with_what_scales_them() -> None:
    made = derivation_of(sharpened.op)
    assert "a" not in made.kept and "a_sum" not in made.kept
    assert_closed_equals_stepwise(Spec(sharpened.op, {"n": 3, "m": 2, "d": 4}), made)


@op
def scaled_by_its_scores(f, q: tensor[d, n], r: tensor[m, n], x: tensor[d, m, n], g: tensor[m, n], c: tensor[()]):
    """The axis that the scores sum over is one of those over which the gradient of `c` sums them."""
    f.s[d, m] = sum(q[d, n] * r[m, n], over=n)
    f.y[d, m, n] = c[()] * f.s[d, m] * x[d, m, n] + g[m, n] * q[d, n] * x[d, m, n]
    return f.y


def test_scores_that_are_summed_over_the_axis_that_they_sum() -> None:
    """Two axes of one name: `sum(s[d, m]*dy[d, m, n]*x[d, m, n])` is no sum of `r[m, n]*dg[m, n]`."""
    made = derivation_of(scaled_by_its_scores.op)
    assert_closed_equals_stepwise(Spec(scaled_by_its_scores.op, {"d": 3, "m": 2, "n": 4}), made)


def test_definitions_in_a_circle() -> None:
    a, b, c = (At(Tensor(name), n) for name in "abc")
    chain = [Definition("a", (n,), 2 * b), Definition("b", (n,), c + 1)]
    assert not circular(chain)
    assert circular([*chain, Definition("c", (n,), a * b)])


n = axes("n")


@op
def ratio(f, x: tensor[n]):
    f.a[n] = x[n] - x[0]
    f.u[n] = f.a[n] + x[0]
    f.b[n] = f.u[n] / (f.a[n] ** 2 + 1)
    return f.b


def test_eliminations_that_lead_back_to_one_another_are_no_form() -> None:
    """`a` by way of `u`, and `u` by way of `b`, which divides by what `a` is in."""
    known = tuple(i for i in inversions.inversions(ratio.op) if (i.of, i.through) in {("a", "u"), ("u", "b")})
    assert len(known) == 2
    assert in_a_circle(Choice(frozenset({"u", "b"})), known)
    assert not in_a_circle(Choice(frozenset({"u"})), known)


@op
def agreed(f, u: tensor[n, i, j, d]):
    """Capsules that agree (Sabour et al., 2017): `u` is read on both sides of every tensor between."""
    f.s[n, j, d] = sum(u[n, i, j, d], over=i)
    f.b[n, i, j] = sum(u[n, i, j, d] * f.s[n, j, d], over=d)
    f.m[n, i] = amax(f.b[n, i, j], over=j)
    f.e[n, i, j] = exp(f.b[n, i, j] - f.m[n, i])
    f.c[n, i, j] = f.e[n, i, j] / sum(f.e[n, i, j], over=j)
    f.t[n, j, d] = sum(f.c[n, i, j] * u[n, i, j, d], over=i)
    f.q[n, j] = sum(f.t[n, j, d] ** 2, over=d)
    f.y[n, j, d] = f.t[n, j, d] * f.q[n, j] * rsqrt(1 + f.q[n, j])
    return f.y


def test_what_separates_nothing_needs_no_name() -> None:
    """The gradient of a softmax's exponentials, `de = .../e_sum`, only to be multiplied by `e_sum` again."""
    closed = derivation_of(agreed.op).closed
    assert not {"de", "de_sum"} & {definition.name for definition in closed.definitions}
    assert not {"e", "e_sum"} & set(closed.kept.names)
