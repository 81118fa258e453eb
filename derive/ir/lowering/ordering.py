"""Terms and factors in reading order: positive terms before negative, small factors before large."""

from __future__ import annotations

from sympy import Add, Basic, Expr, Function, Mul, Pow, S

from derive.ir.terms.axes import Size, free_axes
from derive.ir.terms.choices import Concat
from derive.ir.terms.elements import At


def weight(expr: Basic) -> int:
    """How many axes an expression runs over; `...` counts as one."""
    return len(free_axes(expr))


def is_negative(term: Expr) -> bool:
    """Whether a term is read with a minus in front."""
    return bool(term.could_extract_minus_sign()) and term.as_coeff_Mul()[0].is_negative is True


def abs_term(term: Expr) -> Expr:
    """A term without the minus that it is read with."""
    return -term if is_negative(term) else term


def ordered_terms(expr: Expr) -> list[Expr]:
    """Summands in reading order: positive before negative, the larger before the smaller.

    A subtracted tensor comes before a subtracted function: `z - m - log(s)` cancels `z - m` exactly first, where
    `z - log(s) - m` would lose `log(s)` beside a large `z`. So does a difference of tensors before a number that is
    added to it: `a - b + eps`, where `a + eps` would lose it. Elements of one tensor, which neighbours make nearly
    equal, take turns: `x[t + 2] - 2*x[t + 1] + x[t]` is exact, where `x[t + 2] + x[t]` is rounded. Beside other terms
    their difference comes first: `c[i] - c[j] + g[j]`.
    """
    terms = Add.make_args(expr)
    differ = len({is_negative(t) for t in terms if not _is_bare(t)}) == 2
    ordered = sorted(terms, key=lambda t: (differ and _is_bare(t), *_term_order(t)))
    if not differ or len(terms) < 3:
        return ordered
    return in_turns(ordered) if _of_one_tensor(terms) else _by_turns(_differences_first(_made_inside(ordered)))


def _made_inside(terms: list[Expr]) -> list[Expr]:
    """The terms, first those whose difference another is a function of: `b - a + exp(a - b)`."""
    inside = {s for t in terms for f in t.atoms(Function) for s in f.atoms(Add) if len(s.args) == 2}
    for s in sorted(inside, key=lambda s: s.sort_key()):
        for own in (list(s.args), [-t for t in s.args]):
            if len({is_negative(t) for t in own}) == 2 and all(t in terms and t.atoms(At) for t in own):
                return [*sorted(own, key=is_negative), *(t for t in terms if t not in own)]
    return terms


def _by_turns(terms: list[Expr]) -> list[Expr]:
    """The terms, of whole elements that are as often added as subtracted each followed by one of the other sign.

    `p - q + u - v` is rounded once where all are alike, `p + u - q - v` three times.
    """
    plain = [t for t in terms if isinstance(abs_term(t), At)]
    added, taken = ([t for t in plain if is_negative(t) == minus] for minus in (False, True))
    if len(added) < 2 or len(added) != len(taken) or len({free_axes(t) for t in plain}) > 1:
        return terms
    turns = [t for both in zip(added, taken, strict=True) for t in both]
    return [*turns, *(t for t in terms if t not in plain)]


def _differences_first(terms: list[Expr]) -> list[Expr]:
    """The terms, first elements of one tensor, as much added as subtracted; not what an index chooses."""
    first: list[Expr] = []
    plain = [t for t in terms if len(t.atoms(At)) == 1]
    for term in plain:
        number = term.as_coeff_Mul()[0]
        opposite = (t for t in plain if t not in first and t.as_coeff_Mul()[0] == -number and _of_one_tensor((term, t)))
        if number.is_positive and (other := next(opposite, None)) is not None:
            first += [term, other]
    return [*first, *(t for t in terms if t not in first)]


def in_turns(terms: list[Expr]) -> list[Expr]:
    """Numbers of times one tensor's elements, each the first of a sign that brings those before it nearer to 0."""
    left, out, total = list(terms), list[Expr](), S.Zero
    while left:
        term = next((t for t in left if (t.as_coeff_Mul()[0] * total).is_nonpositive), left[0])
        left.remove(term)
        out.append(term)
        total += term.as_coeff_Mul()[0]
    return out


def _of_one_tensor(terms: tuple[Expr, ...]) -> bool:
    """Whether each of the terms is a number of times an element of the same tensor."""
    elements = [t.as_coeff_Mul()[1] for t in terms]
    names = {at.name for e in elements for at in e.atoms(At)}
    return len(names) == 1 and all(isinstance(e, At | Concat) for e in elements)


def _is_bare(term: Expr) -> bool:
    """Whether a term is a number, of the caller's or of its own."""
    return not term.atoms(At) and not free_axes(term)


def _term_order(term: Expr) -> tuple[object, ...]:
    negative = is_negative(term)
    inside = any(isinstance(f, Function) for f in Mul.make_args(term))
    alone = len(Mul.make_args(abs_term(term))) == 1
    return (negative, negative and inside, -weight(term), alone, term.sort_key())


def divides(a: Expr) -> bool:
    """Whether a factor is written as a division; `x**(-1/2)` of a tensor is `rsqrt`, a multiplication."""
    if not isinstance(a, Pow) or not a.exp.is_number or not a.exp.is_negative:
        return False
    return a.exp != -S.Half or not a.atoms(At)


def factor_order(a: Expr) -> tuple[object, ...]:
    """What factors are sorted by: smaller before larger, names before lengths, sums last."""
    return (weight(a), not a.is_Symbol, not isinstance(a, Size), isinstance(a, Add), a.sort_key())
