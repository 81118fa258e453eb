"""`t = A*a + B` solved for `a`: the table, the condition, and the value."""

import numpy as np
import pytest
import torch
from sympy import Expr, Integer, Rational

from derive.collapse.inversions import cannot_vanish, definitions_of, inversions, subtracted
from derive.collapse.vocabulary import name_sums
from derive.facts.lengths.nominal import nominal
from derive.ir.terms.axes import Size
from derive.ir.terms.elements import At, Tensor
from derive.notation import axes, exp, op, rsqrt, scalar, sigmoid, size, sum, tanh, tensor
from derive.pipeline import derivation_of, derive_op
from tests.derive import specs
from tests.derive.comparison import points
from tests.derive.evaluate import defined, forward, inputs, with_cotangents
from tests.derive.live import assert_alike, module
from tests.derive.specs import Spec, each_spec

n, m, d = axes("n m d")


@op
def affine(f, x: tensor[n], a: tensor[n], s: tensor[()], k: scalar = 2):
    f.shifted[n] = x[n] + k
    f.scaled[n] = 3 * f.shifted[n] / 2
    f.positive[n] = exp(a[n])
    f.divided[n] = f.scaled[n] / f.positive[n]
    f.mixed[n] = a[n] * f.divided[n] + s[()]
    f.squared[n] = f.mixed[n] ** 2
    f.twice[n] = f.squared[n] + f.squared[n] * a[n]
    f.partial[n] = f.twice[n] + exp(f.twice[n])
    return f.partial


# through, of: the right side as text and the condition; None where nothing may be solved
TABLE = [
    ("shifted", "x", "-k + shifted[n]", None),
    ("scaled", "shifted", "2*scaled[n]/3", None),
    ("divided", "scaled", "divided[n]*positive[n]", None),
    ("divided", "positive", None, None),  # A/t would divide by t, which may be 0
    ("positive", "a", None, None),  # inside a function
    ("mixed", "divided", "(-s[] + mixed[n])/a[n]", "a[n]"),
    ("mixed", "a", "(-s[] + mixed[n])/divided[n]", "divided[n]"),
    ("mixed", "s", None, None),  # s lacks the axis
    ("squared", "mixed", None, None),  # a square has two roots
    ("partial", "twice", None, None),  # stands inside and outside of a function
]


@pytest.mark.parametrize(
    ("through", "of", "value", "nonzero"), [pytest.param(*r, id=f"{r[1]} by {r[0]}") for r in TABLE]
)
def test_solved(through: str, of: str, value: str | None, nonzero: str | None) -> None:
    found = [i for i in inversions(affine.op) if (i.through, i.of) == (through, of)]
    assert [str(i.value) for i in found] == ([] if value is None else [value])
    assert [i.nonzero if i.nonzero is None else str(i.nonzero) for i in found] == ([] if value is None else [nonzero])


@op
def about_a_place(f, p: tensor[n, d], at: tensor[n]):
    f.w[n, d] = p[n, d] / sum(p[n, d], over=d) * exp(-((d - at[n]) ** 2))
    f.y[n, d] = f.w[n, d] ** 2
    return f.y


def test_what_underflows_is_not_divided_by() -> None:
    """`w/exp(-z)` is not `w*exp(z)` where the exponential is 0 in floating point: that is 0 times infinity."""
    at = torch.tensor([0.0, 29.0], dtype=torch.float64, requires_grad=True)
    p = torch.rand(2, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    w = p / p.sum(1, keepdim=True) * torch.exp(-((torch.arange(30) - at[:, None]) ** 2))
    assert_alike(module(about_a_place.op).about_a_place(p, at), w**2, (p, at))


@op
def two_gates(f, x: tensor[n, m, d], z: tensor[n, m], v: tensor[m]):
    f.y[n, m, d] = x[n, m, d] * sigmoid(z[n, m]) + x[n, m, d] * sigmoid(sum(v[m] * x[n, m, d], over=m))
    return f.y


def test_a_sum_of_what_underflows_is_not_divided_by() -> None:
    """`x` is not `y/(s + t)` where both gates are shut."""
    g = torch.Generator().manual_seed(0)
    x, z, v = (torch.rand(*s, dtype=torch.float64, generator=g) for s in ((3, 4, 5), (3, 4), (4,)))
    x[0], z[0] = -1000, -1000
    inputs = [t.requires_grad_() for t in (x, z, v)]
    right = x * torch.sigmoid(z)[..., None] + x * torch.sigmoid((v[:, None] * x).sum(1, keepdim=True))
    assert_alike(module(two_gates.op).two_gates(*inputs), right, tuple(inputs))


@op
def outer_sums(f, x: tensor[n, d], a: tensor[n], b: tensor[d], z: tensor[m, d]):
    f.product[n, d] = x[n, d] + a[n] * b[d]
    f.difference[n, m] = sum((x[n, d] - z[m, d]) ** 2, over=d)
    f.total[n, m] = sum((x[n, d] + z[m, d]) ** 2, over=d)
    return f.product, f.difference, f.total


def test_a_product_that_is_as_large_is_not_subtracted() -> None:
    assert not [i for i in inversions(outer_sums.op) if i.through == "product"]


@op
def far_from_zero(f, x: tensor[n, d], b: tensor[d]):
    f.a[n, d] = exp(x[n, d])
    f.y[n, d] = f.a[n, d] + b[d]
    f.z[n, d] = 100 + 3 * tanh(x[n, d])
    return f.y, f.z


def test_what_is_subtracted_must_vanish() -> None:
    """`y - b` has lost the digits of a small `a`, `(z - 100)/3` those of `tanh(x)`; a mean is within its elements."""
    known = {i.through: i for i in inversions(far_from_zero.op)}
    assert str(subtracted(known["y"], far_from_zero.op)) == "-b[d]"
    assert not {"y", "z"} & set(derivation_of(far_from_zero.op).kept)
    named = derivation_of(specs.standardise.op).steps.op
    assert [subtracted(i, named) for i in inversions(named) if i.through == "x_minus_mu" and i.of == "x"] == [0]


def test_a_difference_is_not_taken_apart() -> None:
    named = name_sums(outer_sums.op)
    assert [str(i) for i in definitions_of(named, nominal(named).carriers)] == [
        "x_plus_z[n, m, d] = x[n, d] + z[m, d]   by x_plus_z"
    ]


def test_a_condition_is_told() -> None:
    told = [str(i) for i in inversions(affine.op) if i.through == "mixed" and i.of == "divided"]
    assert told == ["divided[n] = (-s[] + mixed[n])/a[n]   by mixed, where a[n] != 0"]


NONZERO = [
    pytest.param(Integer(2), True, id="number"),
    pytest.param(Integer(0), False, id="zero"),
    pytest.param(Rational(-1, 2), True, id="negative number"),
    pytest.param(At(Tensor("r", positive=True), n), True, id="positive tensor"),
    pytest.param(-At(Tensor("r", positive=True), n), True, id="minus a positive tensor"),
    pytest.param(At(Tensor("g"), n), False, id="any tensor"),
    pytest.param(At(Tensor("g"), n) ** 2, False, id="a square"),
    pytest.param(At(Tensor("g"), n) ** -1, True, id="a reciprocal"),
    pytest.param(Size(n), True, id="size"),
    pytest.param(Size(n) - 1, False, id="size less one"),
    pytest.param(exp(At(Tensor("g"), n)), False, id="exponential, which may underflow"),
    pytest.param(rsqrt(At(Tensor("g"), n) + 1), True, id="reciprocal root"),
]


@pytest.mark.parametrize(("expr", "expected"), NONZERO)
def test_cannot_vanish(expr: Expr, expected: bool) -> None:
    assert cannot_vanish(expr) is expected


@each_spec()
def test_every_inversion_holds(spec: Spec) -> None:
    """Evaluated on random forwards, each is an identity, those with a condition where it is met everywhere."""
    steps = derivation_of(spec.op).steps
    for world in points(spec, steps, 2):
        for inversion in inversions(steps.op):
            if inversion.nonzero is not None and not world.tensor(inversion.nonzero, inversion.axes).all():
                continue
            expected = world.tensor(At(Tensor(inversion.of), *inversion.axes), inversion.axes)
            found = world.tensor(inversion.value, inversion.axes)
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9, err_msg=str(inversion))


def test_a_conditional_inversion_is_not_used() -> None:
    """`xhat = (y - beta)/gamma` would spare a saved tensor, and stop a gamma of 0 from ever training."""
    made = derivation_of(specs.standardise.op)
    conditional = [i for i in made.closed.inversions if i.nonzero is not None]
    assert [(i.of, i.through, str(i.nonzero)) for i in conditional] == [("xhat", "y", "gamma[d]")]
    assert not {"y"} & {name for choice in made.closed.choices for name in choice.eliminate}
    divided = [
        str(b) for x in made.closed.definitions for b in x.value.atoms(At) if (1 / b) in x.value.atoms(type(1 / b))
    ]
    assert "gamma[d]" not in divided


def test_a_gradient_exists_where_the_condition_fails() -> None:
    """At gamma = 0 every gradient of the closed form is finite, and that of gamma is not zero."""
    rng = np.random.default_rng(5)
    spec = next(s for s in specs.SPECS if s.name == "standardise")
    made = derivation_of(spec.op)
    start = inputs(spec.op, spec.sizes, rng).having(gamma=np.zeros(2))
    world, _ = with_cotangents(made.steps, forward(made.named, start), rng)
    done = defined(made.steps, made.closed.definitions, world)
    assert all(np.isfinite(done.tensors[name]).all() for name in ("dx", "dgamma", "dbeta"))
    assert np.abs(done.tensors["dgamma"]).min() > 0


def test_an_assumption_makes_the_inversion_valid() -> None:
    """Where the slope is an exponential, nothing divides by zero, and the inversion needs no condition."""

    @op
    def scaled(f, x: tensor[n, d], log_scale: tensor[d]):
        f.scale[d] = exp(log_scale[d])
        f.y[n, d] = f.scale[d] * x[n, d] + size(n)
        f.total[d] = sum(f.y[n, d] ** 2, over=n)
        return f.total

    found = [i for i in inversions(name_sums(scaled.op)) if i.of == "x"]
    assert [(i.through, i.nonzero) for i in found] == [("y", None)]
    derive_op(scaled.op)
