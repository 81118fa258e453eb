"""Law: a sum that stands inside a product or a power gets a name, so that expanding never tears it apart.

`(x - mu)**2` is a square of one small number; its expansion `x**2 - 2*x*mu + mu**2` subtracts large ones. With
`x_minus_mu` named, expanding stops at the name, the forward computes it once, and a relation can be about it.

So does a function whose derivative holds its own value, as that of `exp` does: with `exp(z - m)` named, its value can
be kept and related like any other tensor, however often the spec writes it out, and at looked-up places as well: the
`exp(x[e] - m[s[e]])` of a softmax of each group.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Basic, Expr, Function, Integer, Mul, Pow, S

from derive.ir.equations import Equation, Op
from derive.ir.nodes.naming import labels
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import At
from derive.ir.terms.functions import atan2, having, power
from derive.ir.terms.kinks import absolute, maximum, minimum, relu
from derive.ir.terms.names import free_name
from derive.ir.terms.reductions import Reduce
from derive.rules.splitting import axes_of_part, own_equation

_LONGEST = 24  # letters of a name that says what is subtracted from what
_OWN_DERIVATIVE = having(lambda r: r.is_smooth and r.slope_by_value)
_BENT = (relu, absolute, atan2)
"""Functions whose derivative is by the sign of their argument, or a multiple of it: the backward reads it again."""


def name_functions(op: Op) -> Op:
    """The same op with every nested function of tensors that its derivative holds as an equation of its own, once."""
    taken = op.names
    named = {e.body: e.left for e in op.equations if e.names_its_body and isinstance(e.body, _OWN_DERIVATIVE)}
    out: list[Equation] = []
    for equation in op.equations:
        body = equation.body
        for inner in [] if body in named and named[body] == equation.left else _functions(equation):
            inner = inner.func(*(a.xreplace(named) for a in inner.args))
            if inner not in named:
                name = free_name(_function_name(inner, equation.name), taken)
                out.append(own_equation(name, axes_of_part(inner, equation), inner, taken))
                named[inner] = out[-1].left
            body = body.xreplace({inner: named[inner]}).xreplace(named)
        out.append(replace(equation, body=body))
    return replace(op, equations=_in_order(out))


def _in_order(equations: list[Equation]) -> tuple[Equation, ...]:
    """The equations, each after those it reads: a function may be named in an equation that was written later."""
    out: list[Equation] = []
    left = list(equations)
    while left:
        waiting = {e.name for e in left}
        ready = next(e for e in left if not {at.name for at in e.reads} & waiting)
        out.append(ready)
        left.remove(ready)
    return tuple(out)


def _functions(equation: Equation) -> list[Expr]:
    """The functions worth a name in an equation, inner ones first: those of tensors, inside something else."""
    if isinstance(equation.body, Concat):
        return []
    body = equation.body
    own = None
    if equation.kind is None:  # `a*F(x)` knows its derivative by its own value
        own = body.as_independent(*body.atoms(At), as_Add=False)[1]
    found = [
        f
        for f in body.atoms(*_OWN_DERIVATIVE)
        if f != own and f.atoms(At) and all(_is_in_place(i) for at in f.atoms(At) for i in at.index)
    ]
    return sorted(found, key=lambda f: (len(f.atoms(Function)), f.sort_key()))


def _is_in_place(index: Expr) -> bool:
    """Whether an index is a place or a looked-up one, not one of those that a window has many of."""
    looked_up = isinstance(index, At) and all(isinstance(i, Axis | Integer) for i in index.index)
    return looked_up or isinstance(index, Axis | Integer)


def _function_name(expr: Expr, target: str) -> str:
    """`exp_z_minus_m`, `sigmoid_a`; for a longer argument the name of the equation that it stands in."""
    inner = expr.args[0]
    sign, inner = ("minus_", -inner) if inner.could_extract_minus_sign() and not isinstance(inner, Add) else ("", inner)
    if isinstance(inner, At):
        places = (f"_{i}" for i in inner.index if i.is_Integer)
        return f"{expr.func.__name__}_{sign}{inner.name}{''.join(places)}"
    words = _name(inner, "", set()) if isinstance(inner, Add) else "_inner"
    return f"{target}_{expr.func.__name__}" if words.startswith("_") else f"{expr.func.__name__}_{words}"


def name_sums(op: Op) -> Op:
    """The same op with every nested sum of tensors as an equation of its own, each sum, and what it is minus, once."""
    taken = op.names
    named: dict[Expr, Expr] = {}
    out: list[Equation] = []
    for equation in op.equations:
        body = equation.body
        while (nested := _innermost(body)) is not None:
            if (known := _elsewhere(nested, named)) is not None:
                named[nested] = known
            elif (known := _elsewhere(-nested, named)) is not None:
                named[nested] = -known
            if nested not in named:
                name = _name(nested, equation.name, taken)
                out.append(own_equation(name, axes_of_part(nested, equation), nested, taken))
                named[nested] = out[-1].left
            body = body.xreplace({nested: named[nested]})
        if isinstance(body, Add) and body in named:
            body = named[body]
        out.append(replace(equation, body=body))
        if isinstance(body, Add) and equation.names_its_body:
            named.setdefault(body, equation.left)
    return replace(op, equations=tuple(out))


def _elsewhere(nested: Expr, named: dict[Expr, Expr]) -> At | None:
    """The element of a named sum that is this one at other axes: `x[n, e] - mu[e]` beside `x[n, d] - mu[d]`."""
    here = _axes_in_turn(nested)
    for body, at in ((body, at) for body, at in named.items() if isinstance(at, At)):
        there = _axes_in_turn(body)
        if len(there) == len(here) and body.xreplace(put := dict(zip(there, here, strict=True))) == nested:
            return at.xreplace(put) if set(there) == set(at.index) else None
    return None


def _axes_in_turn(expr: Expr) -> tuple[Axis, ...]:
    """The axes of what is a tensor at each of them: they index it, so that other axes there are as long."""
    if free_axes(expr.xreplace(dict.fromkeys(expr.atoms(At), S.One))):
        return ()
    reads = sorted(expr.atoms(At), key=lambda at: (at.name, at.sort_key()))
    return tuple(dict.fromkeys(i for at in reads for i in at.index if isinstance(i, Axis)))


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


def _is_bent(expr: Basic) -> bool:
    """Whether what a function is of has a name; not magnitudes of neighbours, `abs(x[i + 1] - x[i])`: `x` is kept."""
    in_place = all(isinstance(i, Axis) for at in expr.atoms(At) for i in at.index)
    return isinstance(expr, _BENT) and (in_place or not isinstance(expr, absolute))


def _nested(expr: Basic, inside: bool) -> list[Expr]:
    out: list[Expr] = []
    if isinstance(expr, Add) and inside and (len([t for t in expr.args if t.atoms(At)]) > 1 or _is_excess(expr)):
        out.append(expr)
    if isinstance(expr, At | Reduce):
        return out
    into = isinstance(expr, Mul) or (isinstance(expr, Pow) and expr.exp.is_Integer)
    for arg in expr.args:
        if isinstance(expr, Function | Pow) and not into:
            out += _nested(arg, _is_bent(expr) or (isinstance(expr, maximum | minimum) and not _is_difference(arg)))
        else:
            out += _nested(arg, into)
    return out


def _is_difference(expr: Basic) -> bool:
    """Whether it is one element less another: `maximum(x - y, y - x)` is of one difference, either way round."""
    two = isinstance(expr, Add) and len(expr.args) == 2
    return two and all(isinstance(t, At) or isinstance(-t, At) for t in expr.args)


def _is_excess(expr: Add) -> bool:
    """Whether it is by how much a root or power exceeds a number: `sqrt(x**2 + 1) - 1` is small where they are not.

    A sum of it is not to become a sum of roots, less a number.
    """
    number, rest = expr.as_coeff_Add()
    powers = (isinstance(rest, Pow) and not rest.exp.is_Integer) or isinstance(rest, power)
    return powers and bool(number.is_negative) and bool(rest.atoms(At))


def _name(expr: Expr, target: str, taken: set[str]) -> str:
    terms = sorted(expr.args, key=lambda t: (t.could_extract_minus_sign(), -len(free_axes(t)), t.sort_key()))
    if isinstance(expr, Pow):
        inside = sorted({at.name for at in expr.atoms(At)})
        name = "_".join(["rsqrt" if expr.exp.is_negative else "sqrt", *inside])
    elif len(terms) == 2 and all(isinstance(t, At) or isinstance(-t, At) for t in terms):
        first, second = terms
        names = at_labels([at for t in terms for at in t.atoms(At) if at == t or at == -t])
        joined = "minus" if isinstance(-second, At) else "plus"
        name = f"{names[0]}_{joined}_{names[1]}"
        name = name if isinstance(first, At) and len(name) <= _LONGEST else f"{target}_inner"
    else:
        name = f"{target}_inner"
    return free_name(name, taken)


def at_labels(reads: list[At]) -> list[str]:
    """What to call these elements, those of one tensor apart."""
    own = [(at.name, tuple(map(str, at.index))) for at in reads]
    known = labels(own)
    return [known[o] for o in own]
