"""Lengths of axes as code: whole-number arithmetic, and the checks of what they must satisfy."""

from __future__ import annotations

from sympy import Add, Expr, Max, Min, Mul, Symbol, floor, fraction, sympify, together

from derive.ir.equations import Requirement
from derive.ir.terms.axes import Rest, Size


def size_code(formula: Expr, sizes: dict[str, str], inside: bool = False) -> str:
    """Code of a length: whole-number arithmetic over other lengths."""
    if isinstance(formula, Size) and formula.axis.is_pack:
        return f"math.prod({sizes[formula.axis.base]})"
    if isinstance(formula, Size):
        return sizes[formula.axis.base]
    if formula.is_Integer:
        return str(formula)
    if isinstance(formula, Min | Max):
        codes = sorted(size_code(a, sizes) for a in _undecided(formula, sizes))
        return f"{'min' if isinstance(formula, Min) else 'max'}({', '.join(codes)})" if codes[1:] else codes[0]
    if isinstance(formula, Rest):
        return f"max(0, {size_code(formula.args[0], sizes)})"
    if isinstance(formula, floor):
        top, bottom = fraction(together(formula.args[0]))
        code = f"{size_code(top, sizes, True)} // {size_code(bottom, sizes, True)}"
        return f"({code})" if inside else code  # `2 * n // 2` is `n`
    if isinstance(formula, Add):
        terms = sorted(formula.args, key=lambda t: (t.could_extract_minus_sign(), t.is_Integer, t.sort_key()))
        code = size_code(terms[0], sizes)
        for t in terms[1:]:
            negative = t.could_extract_minus_sign()
            code += f" - {size_code(-t, sizes)}" if negative else f" + {size_code(t, sizes)}"
        return f"({code})" if inside else code
    top, bottom = fraction(formula)
    if bottom != 1:
        return f"{size_code(top, sizes, True)} // {size_code(bottom, sizes, True)}"
    code = " * ".join(size_code(f, sizes, True) for f in Mul.make_args(formula))
    return f"({code})" if inside else code


def _undecided(formula: Min | Max, sizes: dict[str, str]) -> list[Expr]:
    """What a minimum or maximum of lengths is of, without what is a number more or less than another of them."""
    names = {s: sympify(n) if (n := sizes[s.axis.base]).isdecimal() else Symbol(n) for s in formula.atoms(Size)}
    way = 1 if isinstance(formula, Max) else -1
    kept: list[Expr] = []
    for length in sorted(formula.args, key=str):
        apart = [(other, (length - other).xreplace(names) * way) for other in kept]
        if not any(gap.is_nonpositive for _, gap in apart if gap.is_number):
            kept = [*(other for other, gap in apart if not gap.is_number), length]
    return kept


def lengths_of(r: Requirement) -> list[Size]:
    """The lengths that a requirement speaks of, in reading order."""
    return sorted(r.left.atoms(Size) | r.right.atoms(Size), key=lambda s: (s not in r.left.atoms(Size), str(s)))


def length_check(op: str, r: Requirement, names: dict[str, str]) -> str:
    """The line that checks a requirement; its error says the lengths that clash."""
    left, right = size_code(r.left, names), size_code(r.right, names)
    if r.relation == "%":
        positive = "" if r.right.is_Integer else f"{right} > 0 and "
        holds, says = f"{positive}{left} % {size_code(r.right, names, True)} == 0", f"must be a multiple of {right}"
    elif r.relation == "==":
        holds, says = f"{left} == {right}", f"must be as long as {right}"
    else:
        holds, says = f"{left} >= {right}", f"must fit into {r.where}" if r.where else f"must be at least {right} long"
    values = ", ".join(f"{n}={n}" for n in dict.fromkeys(names[s.axis.base] for s in lengths_of(r)))
    return f'check_length("{op}", "{r.equation}", {holds}, "{r.what} {says}", {values})'
