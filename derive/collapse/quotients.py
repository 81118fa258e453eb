"""Law: a quotient to a power gets a name, so that the quotient is raised, not what it is made of.

SymPy has `(a/b)**3` as `a**3/b**3`, whose parts leave float32 where `a` and `b` are both small or both large:
`(sigma**2/d2)**3` of lengths in metres would be 0/0, and so would its gradient. With the quotient named, both are made
of its powers; and `x_over_s**2` is one power where `x**2/s**2` is two.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from sympy import Add, Basic, Expr, Mul, Rational, S

from derive.collapse.vocabulary import at_labels
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.choices import Concat, Placed, Where
from derive.ir.terms.elements import At
from derive.ir.terms.names import free_name
from derive.rules.splitting import axes_of_part, own_equation

_LONGEST = 24


def name_quotients(op: Op) -> Op:
    """The same op with every quotient of tensors that is raised to a power as an equation of its own, once."""
    taken = op.names
    named: dict[Expr, At] = {}
    written: dict[Expr, At] = {}
    out: list[Equation] = []
    for equation in op.equations:
        for quotient in _raised(equation.body):
            if quotient in written:
                named[quotient] = written[quotient]
            if quotient not in named:
                name = free_name(_name(quotient, equation.name), taken)
                out.append(own_equation(name, axes_of_part(quotient, equation), quotient, taken))
                named[quotient] = out[-1].left
        out.append(replace(equation, body=_by_name(equation.body, named)) if named else equation)
        if equation.names_its_body:
            written.setdefault(equation.body, equation.left)
    return replace(op, equations=tuple(out))


def _raised(body: Expr) -> list[Expr]:
    """The quotients of tensors that are raised to powers, in a fixed order; of one under a mask what the mask leaves.

    What it leaves out may divide by 0, as `d2[n, n]` does, as long as no tensor has that.
    """
    found = [q for product, condition in _products(body, S.true) if (q := _quotient(product, condition)) is not None]
    return sorted(dict.fromkeys(found), key=lambda q: q.sort_key())


def _products(expr: Basic, condition: Basic) -> list[tuple[Mul, Basic]]:
    """The products in an expression, each with the condition that masks it; none under other choices."""
    if _is_masked(expr) and condition == S.true:
        return _products(expr.args[1], expr.args[0])
    if isinstance(expr, At | Where | Concat):
        return []
    inner = [p for a in expr.args for p in _products(a, condition)]
    return [*inner, (expr, condition)] if isinstance(expr, Mul) else inner


def _is_masked(expr: Basic) -> bool:
    return isinstance(expr, Where) and not isinstance(expr, Placed) and expr.args[2] == 0


def _powers(product: Expr) -> dict[Expr, Rational]:
    """The factors that are made of tensors, each with its power."""
    own = {base: power for base, power in product.as_powers_dict().items() if base.atoms(At)}
    return {b: p for b, p in own.items() if p.is_Rational and (2 * p).is_Integer}


def _quotient(product: Mul, condition: Basic) -> Expr | None:
    """What is raised to the highest power in a product, where it divides and one of its parts has all its axes.

    No root is taken of what the product takes none of, which may be negative: `sqrt(r)*s/q` holds no `sqrt(s/q)`.
    Nor of what may be 0 above the line: `r**(3/2)` has a derivative there, and `sqrt(r)` has none.
    """
    powers = _powers(product)
    unit = lcm(*(int(p.q) for p in powers.values()))
    times = {b: int(p * unit) for b, p in powers.items()}
    for k in range(max(map(abs, times.values()), default=0), 1, -1):
        part = {b: p / k for b, p in powers.items() if times[b] % k == 0 and _has_root(b, p, p / k)}
        if min(part.values(), default=0) < 0 < max(part.values(), default=0):
            quotient = Mul(*(b**p for b, p in part.items()))
            whole = free_axes(quotient)
            fits = any(free_axes(b) == whole for b in part) and free_axes(condition) <= whole
            return Where(condition, quotient, 0) if fits and _is_plain(quotient) else None
    return None


def _has_root(base: Expr, power: Rational, of: Rational) -> bool:
    """Whether a factor to this lower power has a value and a derivative wherever the factor has."""
    return bool(of.is_Integer or (power.q % of.q == 0 and (power.is_negative or base.is_positive)))


def _is_plain(quotient: Expr) -> bool:
    """Whether every tensor in it is read at axes, and no number that an axis counts stands in it."""
    reads = quotient.atoms(At)
    plain = all(isinstance(i, Axis) for at in reads for i in at.index)
    return plain and not quotient.atoms(Where) and free_axes(quotient) == {i for at in reads for i in at.index}


def _by_name(expr: Expr, named: dict[Expr, At]) -> Expr:
    """The expression with the named quotients and their powers read by name."""
    plain = {q: at for q, at in named.items() if not isinstance(q, Where)}
    if _is_masked(expr):
        condition, body, _ = expr.args
        under = {q.args[1]: at for q, at in named.items() if isinstance(q, Where) and q.args[0] == condition}
        body = _by_name(body, plain | under)
        base, times = body.as_coeff_Mul()[1].as_base_exp()
        return body if base in under.values() and times.is_positive else Where(condition, body, 0)
    if isinstance(expr, At | Where | Concat) or not expr.args:
        return expr
    expr = expr.func(*(_by_name(a, plain) for a in expr.args))
    for quotient, at in plain.items():
        if isinstance(expr, Mul):
            have, parts = expr.as_powers_dict(), quotient.as_powers_dict()
            times = {have.get(b, 0) / e for b, e in parts.items()}
            if len(times) == 1 and (power := times.pop()).is_Integer and power != 0:
                expr = expr / quotient**power * at**power
    return expr


def _name(quotient: Expr, target: str) -> str:
    """`r_over_cut`, `x_minus_mu_over_sd`; for anything longer the name of the equation that it stands in."""
    above, below = (quotient.args[1] if isinstance(quotient, Where) else quotient).as_numer_denom()
    words = [_word(above), _word(below)]
    joined = "_over_".join(w for w in words if w)
    return joined if all(words) and len(joined) <= _LONGEST else f"{target}_inner"


def _word(expr: Expr) -> str:
    if isinstance(expr, At):
        return expr.name
    terms = Add.make_args(expr)
    if len(terms) == 2 and sum(isinstance(-t, At) for t in terms) == 1 and sum(isinstance(t, At) for t in terms) == 1:
        first, second = sorted(terms, key=lambda t: not isinstance(t, At))
        return "_minus_".join(at_labels([first, -second]))
    return ""
