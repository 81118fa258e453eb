"""The atoms of every expression: axes, tensor elements, sums over an axis, deltas, choices.

All of them are SymPy expressions, so scalar calculus, printing and ordering are SymPy's. The rules about
*indices* are ours and live in `algebra.py`. Bound axes are numbered copies (`d'`, `d''`) of the axis they
run over; free axes are copy 0; so substituting a free axis can never capture a bound one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sympy import Add, Basic, Eq, Expr, Integer, Ne, S, Symbol, Tuple, sympify
from sympy.logic.boolalg import Boolean

from derive.asked import Above, Alike, NotAbove, Unlike

PACK_NAME = "..."


class Axis(Symbol):
    """A named index, 0 <= axis < size(axis). Copies of one axis (bound ones) share its size.

    `fixed` is its length where the spec gives it as a number; two axes of one name and other lengths are not equal.
    """

    base: str
    copy_number: int
    fixed: int | None

    def __new__(cls, base: str, copy_number: int = 0, fixed: int | None = None) -> Axis:
        name = base + "'" * copy_number if copy_number < 4 else f"{base}'{copy_number}"
        obj = Symbol.__xnew__(cls, name, integer=True, nonnegative=True)
        obj.base = base
        obj.copy_number = copy_number
        obj.fixed = fixed
        return obj

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*super()._hashable_content(), self.fixed or 0)

    def copied(self, number: int) -> Axis:
        return Axis(self.base, number, self.fixed)

    def renamed(self, base: str) -> Axis:
        """An axis of another name and the same length."""
        return Axis(base, 0, self.fixed)

    @property
    def is_pack(self) -> bool:
        return self.base == PACK_NAME

    def __getnewargs_ex__(self) -> Any:
        return ((self.base, self.copy_number, self.fixed), {})

    def _latex(self, printer: Any) -> str:
        base = r"\ldots" if self.is_pack else self.base if len(self.base) == 1 else rf"\mathrm{{{self.base}}}"
        return base + "'" * self.copy_number


PACK = Axis(PACK_NAME)
"""`...`: any number of leading axes, treated everywhere as one axis."""

BELOW_ALL = Symbol("-oo")
"""The branch -oo of a choice while a spec is written: to SymPy, `exp` of a choice with -oo is positive, not 0."""


class Tensor(Symbol):
    """The name of a tensor; its elements are `At(tensor, *index)`. Assumptions stand on the name."""

    def __new__(cls, name: str, **assumptions: bool | None) -> Tensor:
        known = {key: value for key, value in assumptions.items() if value is not None}
        if not known.get("integer"):
            known.setdefault("real", True)
        return Symbol.__xnew__(cls, name, **known)

    @classmethod
    def of_any_value(cls, name: str) -> Tensor:
        """A tensor of which nothing is known, not even that its elements are finite."""
        return Symbol.__xnew__(cls, name)

    def _sympystr(self, printer: Any) -> str:
        return str(self.name)

    def _latex(self, printer: Any) -> str:
        from derive.typeset import name_latex  # as for `At`

        return str(name_latex(self.name))


class Scalar(Symbol):
    """A number given by the caller, such as `eps`."""

    def __new__(cls, name: str, **assumptions: bool | None) -> Scalar:
        known = {key: value for key, value in assumptions.items() if value is not None}
        return Symbol.__xnew__(cls, name, **{"real": True, **known})


class Size(Expr):
    """The length of an axis, a number where it is fixed.

    Copies of an axis have one size, and renaming an axis never renames a size.
    """

    is_commutative = True
    is_integer = True
    is_positive = True

    def __new__(cls, axis: Any) -> Expr:
        if isinstance(axis, Axis) and axis.fixed is not None:
            return Integer(axis.fixed)
        name = Symbol(axis.base) if isinstance(axis, Axis) else axis
        return Expr.__new__(cls, name)

    @property
    def axis(self) -> Axis:
        return Axis(self.args[0].name)

    def _sympystr(self, printer: Any) -> str:
        return f"size({self.args[0].name})"

    def _latex(self, printer: Any) -> str:
        name = self.args[0].name
        return r"|{\ldots}|" if name == PACK_NAME else rf"N_{{{name}}}"

    def _eval_derivative(self, s: Any) -> Expr:
        return S.Zero


class Merge(Expr):
    """Several axes read as one, first axis slowest: `(t, e)` is `t * size(e) + e`."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, *axes: Any) -> Expr:
        first = axes[0]
        if len(axes) == 1:
            return first
        parts = isinstance(first, Part) and len(first.lengths) == len(axes)
        if parts and axes == tuple(Part(first.whole, k, *first.lengths) for k in range(len(axes))):
            return first.whole
        return Expr.__new__(cls, *axes)

    def _xreplace(self, rule: Any) -> tuple[Basic, bool]:
        """An index that is put for one of the axes keeps that axis's length beside it."""
        if self in rule:
            return rule[self], True
        new = [a._xreplace(rule) for a in self.args]
        if not any(changed for _, changed in new):
            return self, False
        pairs = zip(self.args, (n for n, _ in new), strict=True)
        return Merge(*(Slot(b, Size(a)) if isinstance(a, Axis) else b for a, b in pairs)), True

    def _sympystr(self, printer: Any) -> str:
        return "(" + ", ".join(printer.doprint(a) for a in self.args) + ")"

    def _latex(self, printer: Any) -> str:
        return "(" + r"\,".join(printer.doprint(a) for a in self.args) + ")"


class Slot(Expr):
    """An index inside a merge that is no axis of its own: it stands for an axis of the given length."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, index: Any, length: Any) -> Expr:
        return index if isinstance(index, Axis | Part | Merge | Slot) else Expr.__new__(cls, index, length)

    @property
    def index(self) -> Expr:
        return self.args[0]

    @property
    def length(self) -> Expr:
        return self.args[1]

    def _sympystr(self, printer: Any) -> str:
        return str(printer.doprint(self.index))

    def _latex(self, printer: Any) -> str:
        return str(printer.doprint(self.index))


class Part(Expr):
    """One axis back out of a merged one: `Part(m, k, *lengths)` is the k-th of the indices that `m` merges."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, whole: Any, position: Any, *lengths: Any) -> Expr:
        if isinstance(whole, Merge) and len(whole.args) == len(lengths):
            own = whole.args[int(position)]
            return own.index if isinstance(own, Slot) else own
        return Expr.__new__(cls, whole, Integer(position), *lengths)

    @property
    def whole(self) -> Expr:
        return self.args[0]

    @property
    def position(self) -> int:
        return int(self.args[1])

    @property
    def lengths(self) -> tuple[Expr, ...]:
        return self.args[2:]

    def _sympystr(self, printer: Any) -> str:
        return f"part({printer.doprint(self.whole)}, {self.position})"

    def _latex(self, printer: Any) -> str:
        return rf"{{{printer.doprint(self.whole)}}}_{{({self.position + 1})}}"


class Prefix(Expr):
    """An axis that reads only the first places of a longer dimension: `x[t]` beside `x[t + 1]`."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, axis: Any) -> Prefix:
        return axis if isinstance(axis, Prefix) else Expr.__new__(cls, axis)

    def _sympystr(self, printer: Any) -> str:
        return str(printer.doprint(self.args[0]))

    def _latex(self, printer: Any) -> str:
        return str(printer.doprint(self.args[0]))


def same(a: Any, b: Any) -> Boolean:
    """Whether two values are equal; whether an element is 0 is asked of the number, whatever its sign on paper."""
    a, b = sympify(a), sympify(b)
    return Alike(a, b) if isinstance(a, At) and b == 0 else Eq(a, b)


def unlike(a: Any, b: Any) -> Boolean:
    """Whether two values differ; as `same` asks."""
    a, b = sympify(a), sympify(b)
    return Unlike(a, b) if isinstance(a, At) and b == 0 else Ne(a, b)


class _Indexed(Expr):
    """Something of indices. A window at one place, `3*i + d` at `i = 0`, reads the first places, not all of them."""

    def _xreplace(self, rule: Any) -> tuple[Any, bool]:
        windows = [i for i in self.args if isinstance(i, Add) and len(free_axes(i)) > 1]
        if not windows or self in rule:
            return super()._xreplace(rule)
        put = [i._xreplace(rule) for i in self.args]
        if not any(changed for _, changed in put):
            return self, False
        both = zip(self.args, put, strict=True)
        return self.func(*(Prefix(p) if i in windows and isinstance(p, Axis) else p for i, (p, _) in both)), True


class At(_Indexed):
    """One element of a tensor: `x[n, d]`. Each index is an axis, a merge, axis arithmetic, or an integer element."""

    is_commutative = True

    def __new__(cls, tensor: Tensor, *index: Any) -> At:
        return Expr.__new__(cls, tensor, *(sympify(i) for i in index))

    @property
    def tensor(self) -> Tensor:
        return self.args[0]

    @property
    def name(self) -> str:
        return self.args[0].name

    @property
    def index(self) -> tuple[Expr, ...]:
        return self.args[1:]

    def _eval_is_real(self) -> bool | None:
        return self.tensor.is_real

    def _eval_is_extended_real(self) -> bool | None:
        return self.tensor.is_extended_real

    def _eval_is_positive(self) -> bool | None:
        return self.tensor.is_positive

    def _eval_is_nonnegative(self) -> bool | None:
        return self.tensor.is_nonnegative

    def _eval_is_zero(self) -> bool | None:
        return False if self.tensor.is_positive or self.tensor.is_nonzero else None

    def _eval_is_integer(self) -> bool | None:
        return self.tensor.is_integer

    def _eval_is_finite(self) -> bool | None:
        return True

    def __gt__(self, other: Any) -> Boolean:
        return Above(self, S.Zero) if other == 0 else super().__gt__(other)

    def __le__(self, other: Any) -> Boolean:
        return NotAbove(self, S.Zero) if other == 0 else super().__le__(other)

    def _eval_derivative(self, s: Any) -> Expr:
        return S.One if s == self else S.Zero

    _diff_wrt = True

    def _sympystr(self, printer: Any) -> str:
        return f"{self.name}[{', '.join(printer.doprint(i) for i in self.index)}]"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        from derive.typeset import tensor_latex  # the printer hook is the only thing terms need of typeset

        body = tensor_latex(self, printer)
        return rf"{{{body}}}^{{{exp}}}" if exp else body


class Delta(_Indexed):
    """Kronecker's delta of two indices: 1 where they are equal, else 0."""

    is_commutative = True
    is_nonnegative = True
    is_real = True

    def __new__(cls, a: Any, b: Any) -> Expr:
        a, b = sympify(a), sympify(b)
        if a == b:
            return S.One
        if isinstance(a, Integer) and isinstance(b, Integer):
            return S.Zero
        if Basic.compare(a, b) > 0:
            a, b = b, a
        return Expr.__new__(cls, a, b)

    def _eval_power(self, exponent: Any) -> Expr | None:
        return self if exponent.is_positive else None

    def _eval_derivative(self, s: Any) -> Expr:
        return S.Zero

    def _sympystr(self, printer: Any) -> str:
        return f"delta({printer.doprint(self.args[0])}, {printer.doprint(self.args[1])})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"\delta_{{{printer.doprint(self.args[0])},\,{printer.doprint(self.args[1])}}}"


class Where(Expr):
    """`a` where the condition holds, else `b`, element by element."""

    is_commutative = True

    def __new__(cls, condition: Any, a: Any, b: Any) -> Expr:
        condition, a, b = sympify(condition), sympify(a), sympify(b)
        if condition is S.true or a == b:
            return a
        if condition is S.false:
            return b
        return Expr.__new__(cls, condition, a, b)

    @property
    def condition(self) -> Boolean:
        return self.args[0]

    @property
    def is_mask(self) -> bool:
        """Whether this is an indicator: 1 where the condition holds, else 0."""
        return self.args[1] == 1 and self.args[2] == 0

    def _eval_is_real(self) -> bool | None:
        return True if self.args[1].is_extended_real and self.args[2].is_extended_real else None

    def _eval_is_extended_real(self) -> bool | None:
        return True if self.args[1].is_extended_real and self.args[2].is_extended_real else None

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[1].is_positive and self.args[2].is_positive else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_nonnegative and self.args[2].is_nonnegative else None

    def _eval_power(self, exponent: Any) -> Expr | None:
        return self if self.is_mask and exponent.is_positive else None

    def _eval_derivative(self, s: Any) -> Expr:
        a, b = self.args[1].diff(s), self.args[2].diff(s)
        number, rest = a.as_coeff_Mul() if b == 0 else (S.One, a)  # a number in front, so that equal choices are alike
        return number * Where(self.args[0], rest, b)

    def _sympystr(self, printer: Any) -> str:
        return f"where({', '.join(printer.doprint(a) for a in self.args)})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        condition, a, b = (printer.doprint(x) for x in self.args)
        if self.is_mask:
            return rf"\left[{condition}\right]"
        body = rf"\begin{{cases}}{a} & {condition} \\ {b} & \text{{otherwise}}\end{{cases}}"
        return rf"\left({body}\right)^{{{exp}}}" if exp else body


class Reduce(Expr):
    """A reduction as a spec says it: `sum`, `mean`, `amax`, `amin` of a body over axes (still by their own names)."""

    is_commutative = True
    kinds = ("sum", "mean", "amax", "amin", "prod")

    def __new__(cls, kind: Any, body: Any, *axes: Axis) -> Reduce:
        kind = Symbol(kind) if isinstance(kind, str) else kind
        return Expr.__new__(
            cls, kind, sympify(body), Tuple(*axes) if not axes or not isinstance(axes[0], Tuple) else axes[0]
        )

    @property
    def kind(self) -> str:
        return self.args[0].name

    @property
    def body(self) -> Expr:
        return self.args[1]

    @property
    def over(self) -> tuple[Axis, ...]:
        return tuple(self.args[2])

    @property
    def free_symbols(self) -> set[Basic]:
        return self.body.free_symbols - set(self.over)

    def _eval_is_real(self) -> bool | None:
        return True

    def _eval_is_positive(self) -> bool | None:
        return self.body.is_positive

    def _eval_is_nonnegative(self) -> bool | None:
        return self.body.is_nonnegative

    def _sympystr(self, printer: Any) -> str:
        over = ", ".join(a.name for a in self.over)
        over = f"({over})" if len(self.over) > 1 else over
        return f"{self.kind}({printer.doprint(self.body)}, over={over})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = printer.doprint(self.body)
        if self.body.is_Add:
            body = rf"\left({body}\right)"
        axes = ",".join(printer.doprint(a) for a in self.over)
        size = "".join(printer.doprint(Size(a)) for a in self.over)
        head = {
            "sum": rf"\sum_{{{axes}}}",
            "mean": rf"\frac{{1}}{{{size}}}\sum_{{{axes}}}",
            "amax": rf"\max_{{{axes}}}",
            "amin": rf"\min_{{{axes}}}",
            "prod": rf"\prod_{{{axes}}}",
        }[self.kind]
        text = rf"{head} {body}"
        return rf"\left({text}\right)^{{{exp}}}" if exp else text


class Concat(Expr):
    """Pieces one after another along an axis; each piece runs over an axis of its own there."""

    is_commutative = True
    is_real = True

    def __new__(cls, along: Axis, *pieces: Any) -> Concat:
        return Expr.__new__(cls, along, *pieces)

    @property
    def along(self) -> Axis:
        return self.args[0]

    @property
    def pieces(self) -> tuple[Expr, ...]:
        return self.args[1:]

    def own_axis(self, piece: Expr, left: tuple[Axis, ...]) -> Axis | None:
        """The one axis of a piece that does not stand on the left."""
        own = free_axes(piece) - (set(left) - {self.along})
        return own.pop() if len(own) == 1 else None

    def _sympystr(self, printer: Any) -> str:
        return f"concat({', '.join(printer.doprint(p) for p in self.pieces)}, along={self.along.name})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        inside = r" \,;\, ".join(printer.doprint(p) for p in self.pieces)
        return rf"\left[{inside}\right]"


class Sigma(Expr):
    """A sum in normal form: one product, summed over bound axes. Build it with `algebra.sigma`, never directly."""

    is_commutative = True

    def __new__(cls, body: Any, *axes: Axis) -> Sigma:
        return Expr.__new__(cls, sympify(body), *axes)

    @property
    def body(self) -> Expr:
        return self.args[0]

    @property
    def over(self) -> tuple[Axis, ...]:
        return self.args[1:]

    @property
    def free_symbols(self) -> set[Basic]:
        return self.body.free_symbols - set(self.over)

    def _eval_is_real(self) -> bool | None:
        return True

    def _eval_is_positive(self) -> bool | None:
        return self.body.is_positive

    def _eval_is_nonnegative(self) -> bool | None:
        return self.body.is_nonnegative

    def _sympystr(self, printer: Any) -> str:
        over = ", ".join(a.name for a in self.over)
        over = f"({over})" if len(self.over) > 1 else over
        return f"sum({printer.doprint(self.body)}, over={over})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        axes = ",".join(printer.doprint(a) for a in self.over)
        body = printer.doprint(self.body)
        if self.body.is_Add:
            body = rf"\left({body}\right)"
        text = rf"\sum_{{{axes}}} {body}"
        return rf"\left({text}\right)^{{{exp}}}" if exp else text


def elements(expr: Basic) -> list[At]:
    """Every distinct tensor element in an expression (also inside indices and conditions), in a fixed order."""
    return sorted(expr.atoms(At), key=lambda at: at.sort_key())


def tensor_names(expr: Basic) -> set[str]:
    """The names of the tensors an expression reads."""
    return {at.name for at in expr.atoms(At)}


def free_axes(expr: Basic) -> set[Axis]:
    """The axes an expression depends on: those of its indices and conditions, less the bound ones."""
    return {s for s in expr.free_symbols if isinstance(s, Axis)}


def reindex(expr: Basic, mapping: Mapping[Basic, Basic]) -> Any:
    """Rename or substitute free axes everywhere at once. Bound axes are other symbols, so nothing is captured."""
    return expr.xreplace(dict(mapping)) if mapping else expr


def sorted_axes(axes: Iterable[Axis]) -> list[Axis]:
    """Axes in a fixed order: the pack first, then by name."""
    return sorted(axes, key=lambda a: (not a.is_pack, a.base, a.copy_number))
