"""The local derivative of an equation by one element that it reads: scalar calculus, by the `diff` of SymPy."""

from __future__ import annotations

from sympy import Dummy, Expr, Function, Mul, Pow, S, cos, cosh, sin, sinh, tan, tanh

from derive.errors import DeriveError
from derive.ir import placed
from derive.ir.algebra import sigma
from derive.ir.equations import Equation
from derive.ir.terms.asked import Alike
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Where, under
from derive.ir.terms.elements import At, Scalar
from derive.ir.terms.kinks import relu


def local_derivative(equation: Equation, read: At, powers_from_output: bool = True) -> Expr:
    """d target / d read, a scalar expression over the equation's own axes.

    Raises DeriveError for a reduction without a rule.
    """
    if equation.ties is not None:
        return placed.local_derivative(equation, read, equation.ties)
    inner = _as_tangents(derivative(equation.body, read))
    if equation.kind is None:
        return from_output(equation, inner, read, powers_from_output)
    if equation.kind in ("sum", "mean"):
        return equation.weight * inner
    if equation.kind in ("amax", "amin"):
        tie = Where(Alike(equation.body, equation.left), S.One, S.Zero)
        return inner * tie / sigma(tie, equation.over)
    raise DeriveError(
        f"{equation.kind} has no derivative rule", equation=equation.name, fix="write it with sum or mean"
    )


def derivative(body: Expr, read: At) -> Expr:
    """The derivative of an expression by an element, roots by the chain rule.

    SymPy has `9 * u**(3/2) / (2*x)` for `u**(3/2)` of `u = x**3`, which is 0/0 at 0; by the chain rule it is
    `3 * sqrt(u) / 2 * 3*x**2`.
    """
    roots = [p for p in body.atoms(Pow) if p.exp.is_Rational and not p.exp.is_Integer and p.exp > 0]
    inside = [p.base for p in roots if isinstance(p.base, Mul | Pow) and read in p.base.atoms(At)]
    if not inside:
        if not read.is_positive:
            return body.diff(read)
        u = Dummy(positive=True)  # SymPy puts a symbol in the place of an element, of which nothing is known
        return body.xreplace({read: u}).diff(u).xreplace({u: read})
    base = max(inside, key=lambda b: (b.count_ops(), b.sort_key()))
    u = Dummy(real=True)
    outside = body.xreplace({base: u})
    through, beside = outside.diff(u) * derivative(base, read), derivative(outside, read)
    return (through + beside).xreplace({u: base})


def _as_tangents(value: Expr) -> Expr:
    """`sinh(u) / cosh(u)` as `tanh(u)`, finite where both of them overflow, and `sin(u) / cos(u)` as `tan(u)`."""
    return value.replace(lambda e: isinstance(e, Mul) and e.has(sinh, sin), _with_tangents)


def _with_tangents(product: Expr) -> Expr:
    """A product in which as many of a sine as are divided by its cosine, in whole powers, are a tangent."""
    powers = product.as_powers_dict()
    for above, below, quotient in ((sinh, cosh, tanh), (sin, cos, tan)):
        for f in (b for b in powers if isinstance(b, above)):
            up, down = powers[f], -powers.get(below(*f.args), S.Zero)
            if up.is_Integer and down.is_Integer and (times := min(up, down)) > 0:
                product *= (quotient(*f.args) * below(*f.args) / f) ** times
    return product


def from_output(equation: Equation, local: Expr, read: At, powers: bool = True) -> Expr:
    """The local derivative in terms of the equation's own output, where that is simply what the derivative holds.

    `tanh(x)` is the output `y`, so `1 - tanh(x)**2` is `1 - y**2`. The same for `a*F(x)` with a number `a`, and for
    powers: where `y = (v + eps)**(-1/2)`, `(v + eps)**(-3/2)` is `y**3`; where `y = a/b`, `-a/b**2` is `-y/b`. Not for
    `a*F(x) + b`: a small `F(x)` is lost in a large `b`; nor where `a` is a caller's number, which may be 0, unless the
    equation itself divides by it.
    """
    factor, core = equation.body.as_independent(*equation.body.atoms(At), as_Add=False)
    below_line = [b for f in core.atoms(Pow) if f.exp.is_negative for b in Mul.make_args(f.base)]
    divided = {s for b in below_line for s in [b.as_base_exp()[0]] if isinstance(s, Scalar)}
    if factor.atoms(Axis) or factor.atoms(Scalar) - divided:
        return local
    if powers and (over := _over_what_divides(core, equation.left, read)) is not None:
        return over
    if not isinstance(core, Function | Pow) or isinstance(core, Where):
        return local
    value = equation.left / factor
    if isinstance(core, relu) and not (slope := core.fdiff()).is_number:  # a 1 may be a place
        return local.xreplace({slope: relu(value).fdiff(), core: value})
    if isinstance(core, Pow) and not core.is_Function:
        return _power_from_output(core, value, local) if powers else local
    return local.xreplace({core: value})


def _over_what_divides(core: Expr, value: Expr, read: At) -> Expr | None:
    """Of `y = a/b` by `b`: `-y/b`, which has no square of `b` to leave float32; None of anything else.

    Of `1/b` and of a root below the derivative is a power of the output itself. A mask stays: `b` may be 0 outside.
    """
    if isinstance(core, Where) and core.args[2] == 0:
        over = _over_what_divides(core.args[1], value, read)
        return None if over is None else Where(core.condition, under(core.condition, over, holds=True), 0)
    below = [f for f in Mul.make_args(core) if read in f.atoms(At)]
    base, exponent = below[0].as_base_exp() if len(below) == 1 else (core, S.One)
    if not exponent.is_Rational or not exponent.is_negative or (isinstance(core, Pow) and (1 / exponent).is_Integer):
        return None
    return exponent * value / base * derivative(base, read)


def _power_from_output(core: Pow, value: Expr, local: Expr) -> Expr:
    base, exponent = core.as_base_exp()
    if not exponent.is_Rational or (exponent.is_Integer and exponent.is_positive):
        return local

    def same_base(e: Expr) -> bool:
        return isinstance(e, Pow) and e.base == base and (e.exp / exponent).is_Integer

    local = local.replace(same_base, lambda e: value ** (e.exp / exponent))
    constant, inner = base.as_independent(*base.atoms(At), as_Add=True)
    if isinstance(inner, Function) and local.has(inner) and (1 / exponent).is_Integer:
        local = local.xreplace({inner: value ** (1 / exponent) - constant})
    return local
