"""Mechanical changes of a gradient: each is another expression, and says what it did."""

from functools import partial

from derive.ir.algebra import normal, sigma
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.elements import At, Tensor
from derive.verify.forms import changes, moved

n, d = Axis("n"), Axis("d")
k = Axis("d", 900)
g, x, r = (partial(At, Tensor(name)) for name in "gxr")


def made(value, axes, tensors=()):
    return {c.text: c.value for c in changes(value, axes, dict(tensors))}


def test_terms_factors_axes_and_tensors() -> None:
    total = sigma(g(n, k) * x(n, k), [k])
    value = normal(g(n, d) - x(n, d) * total / Size(d))
    found = made(value, (n, d), {"g": (n, d), "x": (n, d)})
    assert found[f"without the term {-x(n, d) * total / Size(d)}"] == g(n, d)
    assert found[f"without the factor 1/size(d) in {-x(n, d) * total / Size(d)}"] == g(n, d) - x(n, d) * total
    assert found[f"with the one term d' = d of {total}"] == g(n, d) - x(n, d) ** 2 * g(n, d) / Size(d)
    over_n = sigma(g(Axis("n", 900), d) * x(Axis("n", 900), d), [Axis("n", 900)])
    assert found[f"with the sum over n instead of d in {total}"] == g(n, d) - x(n, d) * over_n / Size(d)
    assert found["with x in place of g"] == x(n, d) - x(n, d) * sigma(x(n, k) ** 2, [k]) / Size(d)
    assert all(value != other for text, other in found.items())


def test_a_term_may_have_been_added_elsewhere() -> None:
    assert [(str(t), o) for t, o in moved(r(n, d) + 2 * g(n, d), [("g", (n, d)), ("x", (n,))])] == [("r[n, d]", "g")]
