"""Law: what is 0 once all that it reads is put in its place is 0, whether that is worth a name or not.

The maximum under a softmax gets `-sum_u(dp*p)`, which is 0 as `dp = (do @ v')/z + dz` and `dz = -sum(do*p*v)/z**2` say
together; but a matrix product is never put in another's place, so that alone it would stay. Neither is a tensor of the
forward, as the `o = (p @ v)/z` in a `dz` that is taken by way of it. Sums of sums are taken in the other order for it,
where the forward has the inner one. So it is with the larger of two exponents. It is found before anything is named,
since a name for `dp` would hide it. What vanishing adjoints alone are handed on to vanishes with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sympy import Add, Basic, Expr, Function, Mul, Pow, S

from derive.adjoint.chain_rule import Adjoint, Stepwise
from derive.collapse.chain import Laws, Step, collapsed
from derive.collapse.chance import Instance
from derive.collapse.emptied import Total, as_if_filled, is_by_total
from derive.collapse.reassociate import reassociated
from derive.collapse.saving import value_of
from derive.decisions import PUT_IN, PUT_IN_TERMS
from derive.ir.algebra import normal, opened, opened_by_name, rewrite, sigma, substitute
from derive.ir.equations import Op
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, tensor_names
from derive.ir.terms.kinks import maximum, minimum
from derive.ir.terms.products import factors_of
from derive.ir.terms.reductions import Sigma
from derive.rules.expressions import rewritten
from derive.rules.tables.algebra import WHOLES

_LAW = "reassociate"

_Known = dict[str, tuple[tuple[Axis, ...], Expr]]
"""What names stand for, in the order in which they are computed."""


def vanishing(steps: Stepwise, laws: Laws) -> tuple[Stepwise, tuple[Step, ...]]:
    """The adjoints with those that vanish as 0, and why they do. Gradients of inputs stay as they are asked for."""
    forward = dict(_forward(steps.op, laws.totals))
    known: _Known = {}
    nothing: _Known = {}
    adjoints: list[Adjoint] = []
    history: list[Step] = []
    chance = Instance.of(steps)
    for adjoint in steps.adjoints:
        chance.evaluate(adjoint.target.name, adjoint.axes, adjoint.axes, adjoint.value)
        if adjoint.of not in laws.gradients and (_sums(adjoint, known) or _is_shift(adjoint, steps.op, known)):
            why = _vanishes(adjoint, known, forward, laws, chance)
        else:
            why = _of_nothing(adjoint, nothing, laws)
        if why:
            history += why
            adjoint = replace(adjoint, contributions=(), cotangent=None)
            nothing[adjoint.target.name] = adjoint.axes, S.Zero
        else:
            adjoint, why = _without_nothing(adjoint, known, forward, laws, chance)
            history += why
        known[adjoint.target.name] = adjoint.axes, adjoint.value
        adjoints.append(adjoint)
    return (replace(steps, adjoints=tuple(adjoints)), tuple(history)) if history else (steps, ())


def _without_nothing(
    adjoint: Adjoint, known: _Known, forward: _Known, laws: Laws, chance: Instance
) -> tuple[Adjoint, tuple[Step, ...]]:
    """The adjoint without those of its contributions that vanish, and why they do: what shifts a whole softmax."""
    steps: list[Step] = []
    for one in adjoint.contributions if len(adjoint.contributions) > 1 else ():
        alone = replace(adjoint, contributions=(one,), cotangent=None)
        if _is_plain_sum(one.value, known) and (why := _vanishes(alone, known, forward, laws, chance)):
            steps += why
            adjoint = replace(adjoint, contributions=tuple(c for c in adjoint.contributions if c is not one))
    return adjoint, tuple(steps)


def _is_plain_sum(value: Expr, known: _Known) -> bool:
    """Whether it is a sum of another adjoint, as it is or under masks: one that is weighed is nothing by chance."""
    total = value.as_coeff_Mul()[1]
    factors = factors_of(total.body, At) if isinstance(total, Sigma) else []
    return len(factors) == 1 and factors[0].name in known and tensor_names(total) == {factors[0].name}


def _of_nothing(adjoint: Adjoint, nothing: _Known, laws: Laws) -> tuple[Step, ...]:
    """The step to 0 of an adjoint that others which vanish are all of."""
    names = sorted(adjoint.reads & set(nothing))
    if not names or adjoint.of in laws.gradients or substitute(adjoint.value, nothing) != 0:
        return ()
    return (Step("chain", adjoint.left, adjoint.value, S.Zero, f"put in {', '.join(names)}"),)


def _sums(adjoint: Adjoint, known: _Known) -> bool:
    """Whether it holds a sum beside other adjoints: what does not is what it is."""
    return bool(adjoint.value.atoms(Sigma) and adjoint.reads & set(known))


def _is_shift(adjoint: Adjoint, op: Op, known: _Known) -> bool:
    """Whether it is of the larger or smaller of two elements, as what is taken off exponents is: `m = max(a, b)`."""
    equation = op.equation(adjoint.of)
    is_extremum = equation is not None and isinstance(equation.body, maximum | minimum)
    return is_extremum and len(adjoint.reads & set(known)) > 1


def _forward(op: Op, totals: dict[str, Total]) -> Iterator[tuple[str, tuple[tuple[Axis, ...], Expr]]]:
    """The tensors of the forward that are sums or arithmetic of others; choices by what is shared are too."""
    for e in op.equations:
        others = [c for c in e.body.atoms(Where) if not is_by_total(c, totals)]
        others += [p for p in e.body.atoms(Pow) if not p.exp.is_Integer]
        if e.is_plain and e.kind in (None, "sum", "mean") and not others and not e.body.atoms(Concat):
            yield e.name, (e.axes, value_of(e))


def _vanishes(adjoint: Adjoint, known: _Known, forward: _Known, laws: Laws, chance: Instance) -> tuple[Step, ...]:
    """The steps to 0; none where it is not reached, which is not tried where it is not 0 at random places."""
    if not chance.may_vanish(adjoint.axes, adjoint.value):
        return ()
    eliminated = {i.of: i for i in reversed(laws.inversions) if i.nonzero is None}
    for value, put in _put_in(adjoint.value, known):
        final, steps = collapsed(adjoint, value, eliminated, laws)
        if final != 0:
            final, steps = collapsed(adjoint, value, {}, laws)
        alike = {name: made for name, made in forward.items() if _functions(made[1]) <= _functions(final)}
        if final == 0 or any(_is_nothing(v, laws) for v, _ in [(final, put), *_put_in(final, alike)]):
            start = Step("chain", adjoint.left, adjoint.value, value, f"put in {', '.join(put)}")
            end = Step(_LAW, adjoint.left, final, S.Zero, "a sum of a sum in either order")
            return (start, *steps, *([end] if final != 0 else []))
    return ()


def _functions(value: Expr) -> set[tuple[type[Basic], frozenset[str]]]:
    """The functions in an expression, by what they are of: another one would bring in what nothing cancels."""
    return {(type(f), frozenset(tensor_names(f))) for f in value.atoms(Function)}


def _put_in(value: Expr, known: _Known) -> Iterator[tuple[Expr, list[str]]]:
    """The value with names in place, one more each time, and these names."""
    put: list[str] = []
    done: set[str] = set()  # what a condition reads stays there
    while len(put) < PUT_IN and len(Add.make_args(value)) <= PUT_IN_TERMS:
        names = tensor_names(value.xreplace(dict.fromkeys(value.atoms(Function), S.One)))
        last = next((name for name in reversed(known) if name in names - done), None)
        if last is None:
            return
        done.add(last)
        value = substitute(value, {last: known[last]})
        if not isinstance(known[last][1], At):  # another name for the same is no step
            put.append(last)
            yield value, [*put]


def _is_nothing(value: Expr, laws: Laws) -> bool:
    """Whether a value is 0 with its sums in another order, and these and their shares by way of the forward."""
    value = _in_one(as_if_filled(value, laws.totals))
    while value != 0:
        sums = sorted((s for s in value.atoms(Sigma) if len(s.over) > 1), key=lambda s: s.sort_key())
        found = next(((s, way) for s in sums for way, _ in reassociated(s, {}, laws.relations)), None)
        if found is None:
            return rewritten(value, WHOLES, laws.names)[0] == 0
        value = normal(value.xreplace(dict([found])))
    return True


def _in_one(value: Expr) -> Expr:
    """Sums of products that hold sums, each as one sum over all axes: equal ones are then equal expressions."""

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Sigma):
            return None
        body, bound = opened(e)
        inner = next(iter(factors_of(body, Sigma)), None)
        if inner is None:
            return None
        part, axes = opened_by_name(inner, {*bound, *body.atoms(Axis)})
        others = (f for f in Mul.make_args(body) if f != inner)
        return sigma(Mul(*others, part), (*bound, *axes))

    while (changed := normal(rewrite(value, rule))) != value:
        value = changed
    return value
