"""A number that one value of a choice loses goes into the choice: `where(q > 0, q, exp(q) - 1) + 1`, the feature map of
linear attention (Katharopoulos et al., 2020), is `where(q > 0, q + 1, exp(q))`.

As it is written a small exponential is rounded beside the 1, and so is `expm1(q) + 1`. So it is where the choice has a
name, `elu(q) + 1`, that nothing else reads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sympy import Add, Expr, exp, expand

from derive.ir.equations import Op, inline
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At
from derive.ir.terms.functions import expm1


def with_numbers_in_choices(op: Op) -> Op:
    """The same op with such numbers inside, and without the names of such choices."""
    readers = Counter(name for e in op.equations for name in {at.name for at in e.reads})
    one_reader = [e for e in op.equations if readers[e.name] == 1 and e.name not in op.outputs]
    named = {e.name: e for e in one_reader if e.kind is None and e.is_plain and type(e.body) is Where}

    def inside(total: Expr) -> Expr:
        number, rest = total.as_coeff_Add()
        choices = {t: inline(t, named) if isinstance(t, At) else t for t in Add.make_args(rest)}
        for term, choice in choices.items():
            if type(choice) is Where:
                condition, *branches = ((_opened(a) if number == 1 else a) for a in choice.args)
                if any(b.as_coeff_Add()[0] == -number for b in branches):
                    return rest - term + Where(condition, *(expand(b + number, deep=False) for b in branches))
        return total

    equations = [replace(e, body=e.body.replace(_is_beside_number, inside)) for e in op.equations]
    read = {at.name for e in equations for at in e.reads} | set(op.outputs)
    return replace(op, equations=tuple(e for e in equations if e.name not in named or e.name in read))


def _opened(value: Expr) -> Expr:
    """`exp(x) - 1` for `expm1(x)`."""
    return exp(value.args[0]) - 1 if isinstance(value, expm1) else value


def _is_beside_number(value: Expr) -> bool:
    return isinstance(value, Add) and value.as_coeff_Add()[0] != 0
