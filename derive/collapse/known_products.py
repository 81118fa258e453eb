"""Law: a product that the forward has goes by its name: with `u = m*e`, `c*m*e` is `c*u`.

Nothing is divided by, as it would be if `u` gave `e`: `m` may be 0. So it is with a quotient, `p = u/s`. The weights
`m*exp(s)` of a masked softmax are kept as its shares then, and neither `m` nor `exp(s)`. Taken where it is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from sympy import Add, Expr, Mul

from derive.ir.equations import Equation, Op
from derive.ir.terms.elements import At, reads_of, tensor_names


@lru_cache(maxsize=64)
def products(op: Op) -> tuple[Equation, ...]:
    """The inner equations of an op that are products of several tensors, in order."""
    inner = (e for e in op.equations if e.name not in op.outputs and e.names_its_body and not e.first)
    return tuple(e for e in inner if _is_product(e.body))


def by_products(value: Expr, known: tuple[Equation, ...]) -> Iterator[Expr]:
    """The value with all products that go by a name, then with fewer, then with one alone."""
    found, current = list[Expr](), value
    for equation in known:
        changed = _by(current, equation)
        if changed != current:
            found, current = [changed, *found], changed
    yield from dict.fromkeys([*found, *(one for e in known if (one := _by(value, e)) != value)])


def _is_product(body: Expr) -> bool:
    powers = body.as_powers_dict()
    tensors = [b for b, e in powers.items() if isinstance(b, At) and e.is_Integer]
    return len(tensors) > 1 and all(b in tensors or not reads_of(b) for b in powers)


def _by(value: Expr, equation: Equation) -> Expr:
    if not tensor_names(equation.body) <= tensor_names(value):
        return value
    number, product = equation.body.as_coeff_Mul()
    wanted = product.as_powers_dict()
    terms = []
    for term in Add.make_args(value):
        have = term.as_powers_dict()
        there = all((have.get(b, 0) / e).is_positive and (have[b] / e) >= 1 for b, e in wanted.items())
        terms.append(term / Mul(product, number) * equation.left if there else term)
    return Add(*terms)
