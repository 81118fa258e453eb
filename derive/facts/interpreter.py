"""One abstract interpreter of expressions and of nodes: what is known of a value, by what is known of tensors.

Each representation has its adapter, which names the operation; what the operation does to abstract values stands in
`values.py`, once for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from sympy import Add, Basic, Expr, Function, Mul, Pow, S, polygamma
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from derive.facts.values import (
    ANSWER,
    LENGTH,
    PLACE,
    UNKNOWN,
    May,
    Value,
    added,
    called,
    chosen,
    multiplied,
    near,
    number,
    raised,
    reduced,
    smaller,
)
from derive.ir.equations import Equation, Op, Operand
from derive.ir.nodes.products import is_matrix_product, is_weighted
from derive.ir.nodes.walking import reads
from derive.ir.program import (
    Assign,
    AxisValue,
    Call,
    Join,
    Node,
    Num,
    Program,
    Read,
    Reduce,
    Scal,
    Scan,
    SizeOf,
    Statement,
)
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Concat, Where
from derive.ir.terms.elements import At, Delta, Scalar, Tensor
from derive.ir.terms.functions import capped, power
from derive.ir.terms.indices import Merge, Part, Prefix, Slot
from derive.ir.terms.reductions import Reduce as SpecReduce
from derive.ir.terms.reductions import Sigma, TakenFirst
from derive.primitives import CAP

GIVEN = Value()
"""Any finite number."""
NOT_0 = Value(zero=May.NEVER)
POSITIVE = Value(Fraction(0), zero=May.NEVER)


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of tensors by name, and of those that have none; of the caller's numbers; of lengths."""

    tensors: Mapping[str, Value] = field(default_factory=dict)
    others: Value = UNKNOWN
    scalars: Value = NOT_0
    lengths: Value = LENGTH
    found: dict[Expr | Node, Value] = field(default_factory=dict)  # of what was asked

    def of(self, value: Expr | Node) -> Value:
        """What is known of a value."""
        if value not in self.found:
            self.found[value] = self._of_expression(value) if isinstance(value, Basic) else self._of_node(value)
        return self.found[value]

    def named(self, name: str) -> Value:
        """What is known of a tensor."""
        return self.tensors.get(name, self.others)

    def with_more(self, tensors: Mapping[str, Value]) -> Facts:
        """The same with more known of some tensors, or something else."""
        return replace(self, tensors={**self.tensors, **tensors}, found={})

    def made_by(self, s: Statement) -> Value:
        """What is known of the tensor that a statement makes."""
        if isinstance(s, Assign) or s.kind != "sum":
            return self.of(s.value) if isinstance(s, Assign) else UNKNOWN
        return added(reduced("sum", self.of(s.value)), *(self.named(name) for name in [s.onto] if name is not None))

    # --- expressions of SymPy ---

    def _of_expression(self, e: Expr) -> Value:
        if isinstance(e, At):
            return _assumed(e.tensor, self.named(e.name))
        if isinstance(e, Add | Mul):
            return (added if isinstance(e, Add) else multiplied)(*map(self.of, e.args))
        if isinstance(e, Pow):
            return raised(self.of(e.base), self.of(e.exp))
        if isinstance(e, Where | Concat):
            return chosen(*map(self.of, e.args[1:]))
        if isinstance(e, Sigma | SpecReduce):
            return reduced(e.kind, self.of(e.body))
        if isinstance(e, Function) and not isinstance(e, polygamma):
            return self._of_function(e)
        return self.of(e.body) if isinstance(e, TakenFirst) else self._of_atom(e)

    def _of_function(self, e: Function) -> Value:
        arguments = [self.of(a) for a in e.args]
        if isinstance(e, capped):
            return smaller(arguments[0], number(Fraction(CAP)))
        name = "pow" if isinstance(e, power) else type(e).__name__
        value = called(name, arguments)
        return _assumed(e, value) if value is UNKNOWN else value

    def _of_atom(self, e: Expr) -> Value:
        if isinstance(e, Scalar):
            return _assumed(e, self.scalars)
        if isinstance(e, Size):
            return self.lengths
        if isinstance(e, Axis | Merge | Part | Prefix | Slot):
            return PLACE
        if isinstance(e, Delta | Relational | Boolean):
            return ANSWER
        if e.is_Rational:
            return number(Fraction(int(e.p), int(e.q)))
        if e.is_number and e.is_comparable is not False and e is not S.ComplexInfinity:
            return near(float(e)) if e.is_extended_real else UNKNOWN
        return _assumed(e, UNKNOWN)

    # --- nodes of a program ---

    def _of_node(self, n: Node) -> Value:
        if isinstance(n, Num):
            return number(n.value) if isinstance(n.value, Fraction) else near(n.value)
        if isinstance(n, Read):
            return self.named(n.name)
        if isinstance(n, Reduce):
            return self._of_reduction(n)
        if isinstance(n, Scan):
            return reduced(n.kind, self.of(n.body))
        if isinstance(n, Join):
            return chosen(*map(self.of, n.parts))
        if isinstance(n, Call):
            if n.fn == "mul" and n.args[0] == n.args[1]:
                return called("square", [self.of(n.args[0])])
            return called(n.fn, [self.of(a) for a in n.args])
        return {Scal: self.scalars, SizeOf: self.lengths, AxisValue: PLACE}.get(type(n), UNKNOWN)

    def _of_reduction(self, n: Reduce) -> Value:
        """A sum of products of which one factor is finite: were the others not, no sum over them would be."""
        known = self
        if n.kind == "sum" and (is_matrix_product(n) or is_weighted(n)):
            factors = set(reads(n.body))
            if any(self.named(name).is_finite for name in factors):
                known = self.with_more({name: _as_finite(self.named(name)) for name in factors})
        return reduced(n.kind, known.of(n.body))


def _as_finite(v: Value) -> Value:
    return replace(v, infinite=May.NEVER, nan=May.NEVER)


def _assumed(e: Expr, v: Value) -> Value:
    """A value with what SymPy knows of it."""
    if isinstance(e, At | Tensor) and e.is_extended_real is None:
        return replace(v, infinite=May.ANYWHERE)
    if e.is_nonnegative and v.low < 0:
        v = replace(v, low=Fraction(0))
    if e.is_zero is False and v.zero == May.ANYWHERE:
        v = replace(v, zero=May.ROUNDED)
    return v


@lru_cache(maxsize=200_000)
def of_numbers(value: Expr) -> Value:
    """What is known of a value where the tensors that it reads are finite, by the signs that these have."""
    return Facts(others=GIVEN, scalars=GIVEN).of(value)


def signs(rhs: Expr) -> dict[str, bool | None]:
    """What the right-hand side proves of its sign: assumptions for the tensor it defines."""
    value = of_numbers(rhs)
    return {"positive": True} if value.is_positive else {"nonnegative": True} if value.is_nonnegative else {}


# --- of a forward, of a program -------------------------------------------------------------------------------------


def facts_by(operands: Iterable[Operand], equations: Iterable[Equation], scalars: Value = NOT_0) -> Facts:
    """What is known of the tensors of a forward, where its inputs are finite."""
    tensors = {o.name: _assumed(o.tensor, PLACE_OF_INDEX if o.kind == "index" else GIVEN) for o in operands}
    known = Facts(tensors, scalars=scalars)  # each equation is asked for what stands above it
    for e in equations:
        value = known.of(e.body)
        if e.kind not in (None, "concat"):
            value = multiplied(known.of(e.scale), reduced(e.kind, value))
        tensors[e.name] = _assumed(e.target, value)
    return known


PLACE_OF_INDEX = Value(whole=True)
"""Of any sign: what a condition leaves out may be negative."""


@lru_cache(maxsize=32)
def facts_of(op: Op) -> Facts:
    """What is known of the tensors of an op's forward, where its inputs are finite."""
    return facts_by(op.operands, op.equations)


def facts_in(program: Program, given: Value, scalars: Value = NOT_0) -> Facts:
    """What is known of the tensors of a program where the same is known of all that it is given."""
    values = Facts(dict.fromkeys((name for name, _ in program.given), given), scalars=scalars)
    for s in program.statements:
        values = values.with_more({s.name: values.made_by(s)})
    return values
