"""A mean of squares less the square of the mean is a mean of squared deviations: `mean((x - mean(x))**2)`.

As it is written the two are nearly equal where the mean is large, and their difference has few digits: of numbers about
100 with a deviation of 1, float32 leaves three. So it is of a covariance, `mean(x*y) - mean(x)*mean(y)`, of sums that
are divided later, `sum(x**2) - sum(x)**2 / n`, and under weights, with their sum for `n`, which is 1 of shares. What
keeps a variance from being below 0, `maximum(var, 0)`, has nothing to do then: a sum of squares never is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations

from sympy import Add, Basic, Expr, Mul, Pow, S

from derive.decisions import AXES_IN_ALL_ORDERS
from derive.facts.interpreter import signs
from derive.ir.equations import Equation, Op, inline
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.elements import At, Tensor, at_index, reads_of, tensor_names
from derive.ir.terms.indices import Merge, Prefix
from derive.ir.terms.kinks import maximum, relu
from derive.ir.terms.products import with_one_exponential
from derive.ir.terms.reductions import Reduce
from derive.rules.splitting import own_equation, split_name
from derive.rules.stability.own_sums import divisors, summed_along


def with_deviations(op: Op) -> Op:
    """The same op with every such difference as one sum."""
    known = _Known(set(op.names))
    for e in op.equations:
        known.take(e)
    return replace(op, equations=tuple(known.equations))


@dataclass(frozen=True)
class _Deviations:
    """What two terms are together: a number times the sum of `body` over some axes."""

    number: Expr
    body: Expr
    over: tuple[Axis, ...]

    @property
    def scaled(self) -> tuple[str, Expr]:
        """As a multiple of a mean where that is a number, else of the sum."""
        of_mean = self.number * Mul(*(Size(a) for a in self.over))
        return ("mean", of_mean) if of_mean.is_number else ("sum", self.number)


@dataclass
class _Known:
    """The equations so far; which of them are sums, and which only scale those or are factors of what is summed."""

    taken: set[str]
    equations: list[Equation] = field(default_factory=list)
    sums: dict[str, Equation] = field(default_factory=dict)
    scaled: dict[str, Equation] = field(default_factory=dict)
    products: dict[str, Equation] = field(default_factory=dict)
    shares: dict[str, Equation] = field(default_factory=dict)  # what is divided by one of those sums
    signed: dict[Basic, Basic] = field(default_factory=dict)  # tensors of which a sign is known now
    squares: set[str] = field(default_factory=set)  # sums of ours that are never below 0

    def take(self, e: Equation) -> None:
        e = replace(e, body=e.body.xreplace(self.signed))
        if e.kind != "concat" and e.is_plain:
            e = self.rewritten(e)
            e = replace(e, body=e.body.replace(lambda f: isinstance(f, maximum | relu), self.without_bound))
        self.equations.append(e)
        if not e.is_plain:
            return
        if e.kind in ("sum", "mean"):
            self.sums[e.name] = e
        elif e.kind is None and any(divisors(e.body, self.sums)):
            self.shares[e.name] = e
        if e.kind is None and _is_product(e.body):
            of = {at.name for at in e.reads}
            made = self.scaled if of <= self.sums.keys() | self.scaled.keys() else self.products
            made[e.name] = replace(e, body=inline(e.body, made))

    def rewritten(self, e: Equation) -> Equation:
        while (found := next(self.found(e), None)) is not None:
            total, terms, one = found
            whole = e.kind is None and e.body == total and len(total.args) == len(terms)
            if whole and not reads_of(one.number) and not set(one.over) & set(e.axes):
                return self.as_a_sum(e, one)
            kind, number = one.scaled
            value = Reduce(kind, one.body, *one.over)
            axes = tuple(a for a in (*e.axes, *e.over) if a in free_axes(value))
            made = own_equation(split_name(e.name, value, self.taken), axes, value, self.taken)
            self.equations.append(made)
            self.sums[made.name] = made
            self.squares |= {made.name} if made.target.is_nonnegative else set()
            e = replace(e, body=e.body.xreplace({total: total - Add(*terms) + number * made.left}))
        return e

    def as_a_sum(self, e: Equation, one: _Deviations) -> Equation:
        """The equation as the sum itself, of which the sign is known: a variance is not below 0."""
        kind, scale = one.scaled
        target = Tensor(e.name, **signs(scale * Reduce(kind, one.body, *one.over)))
        self.signed[e.target] = target
        self.squares |= {e.name} if target.is_nonnegative else set()
        return replace(e, target=target, body=one.body, kind=kind, over=one.over, scale=scale)

    def found(self, e: Equation) -> Iterator[tuple[Add, tuple[Expr, Expr], _Deviations]]:
        """Two terms of a sum in the equation's body, and what they are together."""
        for total in sorted(e.body.atoms(Add), key=lambda a: a.sort_key()):
            parts = [(t, *self.parted(t)) for t in total.args]
            for first, number, of in parts:
                for second, times, both in parts:
                    if len(of) == 1 and len(both) == 2:
                        one = self.together(number, of[0], times, both)
                        if one is not None:
                            yield total, (first, second), one

    def parted(self, term: Expr) -> tuple[Expr, list[At]]:
        """A term as a number, or what sums divide, times sums."""
        rest, found = S.One, []
        for f in Mul.make_args(inline(term, self.scaled)):
            base, exponent = f.as_base_exp()
            if isinstance(base, At) and base.name in self.sums and exponent in (1, 2):
                found += [base] * int(exponent)
            else:
                rest *= f
        return rest, found

    def together(self, number: Expr, square: At, times: Expr, both: list[At]) -> _Deviations | None:
        """`number * square + times * both[0] * both[1]` as one sum, where they are the terms of a covariance."""
        over = self.sums[square.name].over
        whole = self.body(square, over)
        if not _is_along(whole, over):
            return None
        for order in permutations(over) if len(over) <= AXES_IN_ALL_ORDERS else (over,):
            left, right = (self.body(at, order) for at in both)
            if left is None or right is None:
                continue
            weight = with_one_exponential(left * right / whole)
            ratio = times * Mul(*(self.sums[at.name].weight for at in both))
            ratio = -ratio / (number * self.sums[square.name].weight)
            one = self.total(weight, over, ratio)
            if one is None or one * ratio != 1:
                continue
            parts = zip(both, (left, right), strict=True)
            factors = [(with_one_exponential(part / weight), self.mean(at, one)) for at, part in parts]
            if all(free_axes(mean) <= free_axes(a) and _is_of_one_size(a) for a, mean in factors):
                body = weight * Mul(*(self.deviation(a, mean) for a, mean in factors))
                return _Deviations(number * self.sums[square.name].weight, body, over)
        return None

    def without_bound(self, f: Expr) -> Expr:
        """What is kept from being below 0, as it is where it is made of such sums."""
        value = next((a for a in f.args if a != 0), S.Zero)
        bounded = isinstance(f, relu) or S.Zero in f.args
        return value if bounded and value.is_nonnegative and tensor_names(value) <= self.squares else f

    def body(self, at: At, over: tuple[Axis, ...]) -> Expr | None:
        """What is summed in a sum that is read, over these axes; nothing where there are not as many."""
        e = self.sums[at.name]
        if len(e.over) != len(over) or set(over) & free_axes(Mul(*at.index)):
            return None
        value = inline(e.body, self.products)
        return at_index(value, (*e.axes, *e.over), (*at.index, *over))

    def total(self, weight: Expr, over: tuple[Axis, ...], ratio: Expr) -> Expr | None:
        """The sum of the weights: the number of places where they are 1, else one that the ratio has."""
        if weight == 1:
            return Mul(*(Size(a) for a in over))
        if self.adds_up_to_1(weight, over):
            return S.One
        for at in (f for f in reads_of(ratio) if f.name in self.sums):
            if any(self.body(at, order) == weight for order in permutations(over)):
                return at / self.sums[at.name].weight
        return None

    def adds_up_to_1(self, weight: Expr, over: tuple[Axis, ...]) -> bool:
        """Whether weights are what something has of its own sum over these axes, `u / sum(u)`."""
        value = inline(weight, self.shares)
        whole = {n: replace(e, body=inline(e.body, self.products)) for n, e in self.sums.items()}
        return any(summed_along(value * s, s, whole[s.name]) == set(over) for s in divisors(value, self.sums))

    def mean(self, at: At, total: Expr) -> Expr:
        """The mean that a sum is of: by the author's name for it where there is one."""
        value = at / (self.sums[at.name].weight * total)
        names = (At(e.target, *at.index) for e in self.scaled.values() if len(e.axes) == len(at.index))
        return next((name for name in names if inline(name, self.scaled) == value), value)

    def deviation(self, value: Expr, mean: Expr) -> Expr:
        """How far a value is from its mean, under a name where the mean has none; a product by its name."""
        own = next((e.left for e in self.products.values() if e.body == value), value)
        if isinstance(mean, At) or not isinstance(own, At) or not all(isinstance(i, Axis) for i in own.index):
            return own - mean
        same = next((e.left for e in self.equations if e.kind is None and e.body == own - mean), None)
        return same or self.made(own_equation(f"{own.name}_minus_mean", own.index, own - mean, self.taken))

    def made(self, e: Equation) -> At:
        self.equations.append(e)
        return e.left


def _is_product(value: Expr) -> bool:
    """Whether it is made of tensors and numbers by products alone."""
    bases = (f.base if isinstance(f, Pow) else f for f in Mul.make_args(value))  # SymPy takes exp for a power of e
    return all(not b.atoms(Add) and (isinstance(b, At) or not reads_of(b)) for b in bases)


def _is_of_one_size(value: Expr) -> bool:
    """Whether a value is as large as a tensor that it is made of; deviations of an outer product are a table."""
    return any(free_axes(at) == free_axes(value) for at in reads_of(value))


def _is_along(body: Expr | None, over: tuple[Axis, ...]) -> bool:
    """Whether what is summed is read place by place along these axes, or by an index, not through windows: sums of what
    overlaps are made of one another, and deviations would be a table of all windows.
    """
    if body is None:
        return False
    indices = [i for at in reads_of(body) for i in at.index if free_axes(i) & set(over)]
    return all(isinstance(i, Axis | Prefix | Merge | At) for i in indices)
