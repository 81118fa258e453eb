"""Law: a sum that stands inside a product or a power gets a name, so that expanding never tears it apart.

`(x - mu)**2` is a square of one small number; its expansion `x**2 - 2*x*mu + mu**2` subtracts large ones. With
`x_minus_mu` named, expanding stops at the name, the forward computes it once, and a relation can be about it.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Basic, Expr, Function, Mul, Pow

from derive.equations import Equation, Op, signs
from derive.splitting import order_axes
from derive.terms import At, Axis, Reduce, Tensor, free_axes


def name_sums(op: Op) -> Op:
    """The same op with every nested sum of tensors as an equation of its own, each sum once."""
    taken = {o.name for o in op.operands} | {e.name for e in op.equations}
    named: dict[Expr, At] = {}
    out: list[Equation] = []
    for equation in op.equations:
        body = equation.body
        while (nested := _innermost(body)) is not None:
            if nested not in named:
                name = _name(nested, equation.name, taken)
                taken.add(name)
                axes = _axes(nested, equation)
                target = Tensor(name, **signs(nested))
                named[nested] = At(target, *axes)
                out.append(Equation(target, axes, nested, given=False))
            body = body.xreplace({nested: named[nested]})
        if isinstance(body, Add) and body in named:
            body = named[body]
        out.append(replace(equation, body=body))
        if equation.kind is None and isinstance(body, Add) and equation.is_plain:
            named.setdefault(body, equation.left)
    return replace(op, equations=tuple(out))


def _axes(nested: Expr, equation: Equation) -> tuple[Axis, ...]:
    """The axes of a named sum: in the order of a tensor that has them all, else in the equation's."""
    free = free_axes(nested)
    whole = [at for at in sorted(nested.atoms(At), key=lambda a: a.sort_key()) if set(at.index) == free]
    like = whole[0].index if whole else (*equation.axes, *equation.over)
    return order_axes(free, tuple(dict.fromkeys(like)))


def _innermost(body: Expr) -> Expr | None:
    """The first nested sum worth a name, smaller ones before those that hold them."""
    found = [
        e
        for e in [*_nested(body, False), *_small(body)]
        if not any(inner != e for inner in [*_nested(e, False), *_small(e)])
    ]
    return min(found, key=lambda e: e.sort_key(), default=None)


def _small(body: Expr) -> list[Expr]:
    """Roots of statistics inside an expression that runs over more axes: `rsqrt(var + eps)` next to `x`."""
    axes = free_axes(body)
    return [
        p for p in body.atoms(Pow)
        if p.exp.is_Rational and not p.exp.is_Integer and p.atoms(At) and free_axes(p) < axes
    ]  # fmt: skip


def _nested(expr: Basic, inside: bool) -> list[Expr]:
    out: list[Expr] = []
    if isinstance(expr, Add) and inside and len([t for t in expr.args if t.atoms(At)]) > 1:
        out.append(expr)
    if isinstance(expr, At | Reduce):
        return out
    into = isinstance(expr, Mul) or (isinstance(expr, Pow) and expr.exp.is_Integer)
    for arg in expr.args:
        if isinstance(expr, Function | Pow) and not into:
            out += _nested(arg, False)
        else:
            out += _nested(arg, into)
    return out


def _name(expr: Expr, target: str, taken: set[str]) -> str:
    terms = sorted(expr.args, key=lambda t: (t.could_extract_minus_sign(), -len(free_axes(t)), t.sort_key()))
    if isinstance(expr, Pow):
        inside = sorted({at.name for at in expr.atoms(At)})
        name = "_".join(["rsqrt" if expr.exp.is_negative else "sqrt", *inside])
    elif len(terms) == 2 and all(isinstance(t, At) or isinstance(-t, At) for t in terms):
        first, second = terms
        names = [at.name for t in terms for at in t.atoms(At) if at == t or at == -t]
        joined = "minus" if isinstance(-second, At) else "plus"
        name = f"{names[0]}_{joined}_{names[1]}" if isinstance(first, At) else f"{target}_inner"
    else:
        name = f"{target}_inner"
    base, number = name, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    return name
