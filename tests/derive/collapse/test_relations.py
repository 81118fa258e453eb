"""What a reduction's equation leaves once its operands are eliminated: the identities that close a backward."""

import numpy as np
import pytest
from sympy import Expr

from derive.collapse.inversions import inversions
from derive.collapse.relations import Relation, by_names, oriented, relations, use_relations
from derive.collapse.vocabulary import name_sums
from derive.ir.algebra import sigma
from derive.ir.equations import Op
from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.reductions import Sigma
from derive.notation import axes, mean, op, size, sum, tensor
from derive.pipeline import derivation_of
from tests.derive import specs
from tests.derive.comparison import points
from tests.derive.specs import Spec, each_spec

n, d, c = axes("n d c")


def found(made: Op) -> dict[str, Relation]:
    named = name_sums(made)
    return {str(r.pattern): r for r in relations(named, inversions(named))}


@op
def doubly_centred(f, x: tensor[n, d]):
    f.rows[n] = mean(x[n, d], over=d)
    f.columns[d] = mean(x[n, d], over=n)
    f.y[n, d] = x[n, d] - f.rows[n] - f.columns[d] + mean(x[n, d], over=(n, d))
    return f.y


FOUND = [
    ("rows of a matrix centred both ways", doubly_centred, "sum(y[n, d'], over=d')", "0", {"y", "rows"}),
    ("its columns", doubly_centred, "sum(y[n', d], over=n')", "0", {"y", "columns"}),
    ("all of it", doubly_centred, "sum(y[n', d'], over=(d', n'))", "0", {"y"}),
    ("standardised sums to 0", specs.standardise, "sum(xhat[n', d], over=n')", "0", {"mu", "xhat"}),
    ("deviations sum to 0", specs.standardise, "sum(x_minus_mu[n', d], over=n')", "0", {"mu", "x_minus_mu"}),
    ("squares of deviations", specs.standardise, "sum(x_minus_mu[n', d]**2, over=n')",
     "-correction*var[d] + var[d]*size(n)", {"var"}),
    ("mean of the input", specs.standardise, "sum(x[n', d], over=n')", "mu[d]*size(n)", {"mu"}),
    ("weights sum to 1", specs.normalised_weights, "sum(p[n, c'], over=c')", "1", {"s", "p"}),
    ("unnormalised weights", specs.normalised_weights, "sum(u[n, c'], over=c')", "s[n]", {"s"}),
    ("attention weights sum to 1", specs.weighted_average, "sum(p[n, i, j'], over=j')", "1", {"w_sum", "p"}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "pattern", "value", "because"), [pytest.param(*r[1:], id=r[0]) for r in FOUND])
def test_found(made: object, pattern: str, value: str, because: set[str]) -> None:
    known = found(made.op)  # type: ignore[attr-defined]
    assert pattern in known
    assert str(known[pattern].value) == value
    assert because <= set(known[pattern].because)


@each_spec()
def test_every_relation_holds(spec: Spec) -> None:
    """Evaluated on random forwards, each is an identity."""
    steps = derivation_of(spec.op).steps
    known = relations(steps.op, inversions(steps.op))
    for world in points(spec, steps, 2):
        for relation in known:
            over = sorted(free_axes(relation.pattern) | free_axes(relation.value), key=str)
            left, right = world.tensor(relation.pattern, over), world.tensor(relation.value, over)
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-11, err_msg=str(relation))


x, p = (lambda *i: At(Tensor("x"), *i)), (lambda *i: At(Tensor("p"), *i))
r = At(Tensor("r", positive=True), d)
g = At(Tensor("g"), d)
total = sigma(x(n, d), [n])

ORIENTED = [
    pytest.param(total - g, "g[d]", id="sum alone"),
    pytest.param(3 * total / 2 - g, "2*g[d]/3", id="number in front"),
    pytest.param(r * total - g, "g[d]/r[d]", id="positive in front"),
    pytest.param(-total / Size(n) + g, "g[d]*size(n)", id="size in front, negative"),
    pytest.param(total, "0", id="nothing else"),
    pytest.param(g * total - 1, None, id="what may vanish in front"),
    pytest.param(total + sigma(p(n, d), [n]), None, id="two sums"),
    pytest.param(total**2 - g, None, id="square of a sum"),
    pytest.param(total * sigma(p(n, d), [n]) - g, None, id="product of sums"),
    pytest.param(g - r, None, id="no sum"),
]


@pytest.mark.parametrize(("expr", "value"), ORIENTED)
def test_oriented(expr: Expr, value: str | None) -> None:
    relation = oriented(expr, ("why",))
    assert (None if relation is None else str(relation.value)) == value


def relation(pattern: Expr, value: Expr) -> Relation:
    assert isinstance(pattern, Sigma)
    return Relation(pattern, value, ("why",))


ONE = relation(sigma(p(n, c), [c]), Size(n) ** 0)
MU = relation(sigma(x(n, d), [n]), g * Size(n))

USES = [
    pytest.param(ONE, sigma(p(n, c), [c]), "1", id="as it stands"),
    pytest.param(ONE, r * sigma(p(n, c), [c]) + 2, "r[d] + 2", id="inside a sum of products"),
    pytest.param(ONE, sigma(p(d, c), [c]), "1", id="over another axis"),
    pytest.param(ONE, sigma(g * sigma(p(d, c), [c]), [d]), "sum(g[d'], over=d')", id="under a sum over its free axis"),
    pytest.param(ONE, sigma(p(n, c), [n]), None, id="summed over the other axis"),
    pytest.param(ONE, sigma(p(n, c) ** 2, [c]), None, id="a square"),
    pytest.param(ONE, sigma(p(c, c), [c]), None, id="a diagonal"),
    pytest.param(MU, sigma(r * x(n, d), [n]), "g[d]*r[d]*size(n)", id="after a factor has left"),
]


@pytest.mark.parametrize(("known", "expr", "after"), USES)
def test_used(known: Relation, expr: Expr, after: str | None) -> None:
    changed, used = use_relations(expr, by_names((known,)))
    assert str(changed) == (str(expr) if after is None else after)
    assert used == (() if after is None else (known,))


def test_a_relation_says_why() -> None:
    assert str(ONE) == "sum(p[n, c'], over=c') = 1   by why"


def test_a_relation_of_a_mean_with_a_weight() -> None:
    """`m = sum(w*x)/sum(w)` leaves `sum(w*(x - m)) = 0`."""

    @op
    def weighted(f, x: tensor[n], w: tensor[n]):
        f.total[()] = sum(w[n] ** 2, over=n)
        f.m[()] = mean(x[n], over=n)
        f.r[n] = x[n] - f.m[()]
        f.y[()] = sum(f.r[n] ** 2, over=n) / size(n) + f.total[()]
        return f.y

    assert str(found(weighted.op)["sum(r[n'], over=n')"].value) == "0"
