"""Law: an equation `t = A*a + B` eliminates `a`, as `a = (t - B)/A`, wherever `A` cannot be zero.

`x = xhat/rstd + mu` eliminates batchnorm-like inputs through their normalised output; `u = p*s` eliminates the
unnormalised weights of a quotient; `u = norm**2` eliminates what a root is of. Where `A` may be zero the inversion is
kept with its condition, so that a spec which declares the assumption can use it, and a report can say why it was not
used.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Add, Expr, Mul, Pow, S, exp, expand_mul

from derive.facts.interpreter import of_numbers
from derive.facts.values import May
from derive.ir.equations import Equation, Op
from derive.ir.terms.axes import Axis, free_axes
from derive.ir.terms.elements import At, tensor_names


@dataclass(frozen=True)
class Inversion:
    """`of[axes] = value`, by the equation of `through`; valid where `nonzero` is (None: everywhere)."""

    of: str
    axes: tuple[Axis, ...]
    value: Expr
    through: str
    nonzero: Expr | None = None

    @property
    def left(self) -> str:
        return f"{self.of}[{', '.join(a.name for a in self.axes)}]"

    def __str__(self) -> str:
        where = f", where {self.nonzero} != 0" if self.nonzero is not None else ""
        return f"{self.left} = {self.value}   by {self.through}{where}"


def inversions(op: Op) -> tuple[Inversion, ...]:
    """Every way in which one pointwise equation gives one of its operands."""
    found = []
    for equation in op.equations:
        if equation.kind is None and equation.is_over_axes and not equation.first:
            found += [i for read in equation.reads if (i := invert(equation, read)) is not None]
    return tuple(found)


def subtracted(inversion: Inversion, op: Op) -> Expr:
    """What `a = (t - B)/A` subtracts that may be larger than `a`, so that the difference has lost digits: B, mostly.

    A mean or an extreme of `a` lies within it and takes nothing away.
    """
    equation = op.equation(inversion.through)
    assert equation is not None
    rest = expand_mul(inversion.value).xreplace({equation.left: S.Zero})
    return Add(*(t for t in Add.make_args(rest) if not (isinstance(t, At) and _is_within(t.name, inversion.of, op))))


def _is_within(name: str, of: str, op: Op) -> bool:
    equation = op.equation(name)
    return (
        equation is not None
        and equation.kind in ("mean", "amax", "amin")
        and equation.scale == 1
        and isinstance(equation.body, At)
        and equation.body.name == of
    )


def definitions_of(op: Op, carriers: tuple[frozenset[str], ...]) -> tuple[Inversion, ...]:
    """Sums that we named ourselves and that are larger than any operand or output: each may be put back in place.

    A difference may not. `sum_j w[i,j] * (x[i] - x[j])` is a sum of small numbers where the points lie near one another
    or far from 0; as `x[i] * sum_j w[i,j] - sum_j w[i,j] * x[j]` it would be the difference of two large ones.
    """
    found = []
    for e in op.equations:
        axes = frozenset(a.base for a in e.axes)
        if not e.given and not e.first and e.kind is None and _is_sum(e.body) and not any(axes <= c for c in carriers):
            found.append(Inversion(e.name, e.axes, e.body, e.name))
    return tuple(found)


def _is_sum(body: Expr) -> bool:
    return isinstance(body, Add) and not any(t.could_extract_minus_sign() for t in body.args)


def invert(equation: Equation, read: At) -> Inversion | None:
    """The equation solved for one operand that runs over all its axes, each once."""
    if not all(isinstance(i, Axis) for i in read.index) or set(read.index) != set(equation.axes):
        return None
    if len(set(read.index)) != len(read.index) or read.name not in tensor_names(equation.body):
        return None
    body = expand_mul(equation.body)
    reciprocal = body * read
    if not reciprocal.has(read) and cannot_vanish(equation.left):
        return Inversion(read.name, tuple(read.index), reciprocal / equation.left, equation.name)
    if isinstance(body, Pow) and body.base == read and (1 / body.exp).is_Integer and body.exp.is_positive:
        return Inversion(read.name, tuple(read.index), equation.left ** (1 / body.exp), equation.name)  # of a root
    slope = body.coeff(read, 1)
    rest = expand_mul(body - slope * read)
    if slope == 0 or slope.has(read) or rest.has(read) or read.name in tensor_names(slope) | tensor_names(rest):
        return None
    if any(free_axes(term) == free_axes(read) for term in Add.make_args(rest)):
        return None  # a sum of tensors of one size: as a difference, a small one could drown in a large one
    nonzero = None if cannot_vanish(slope) else slope
    return Inversion(read.name, tuple(read.index), (equation.left - rest) / slope, equation.name, nonzero)


def cannot_vanish(expr: Expr) -> bool:
    """Whether what is known of signs excludes zero, also where it underflows: `exp(-u)` times `exp(u)` may be nan."""
    return not any(isinstance(f, exp) for f in Mul.make_args(expr)) and of_numbers(expr).zero < May.ANYWHERE
