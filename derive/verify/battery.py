"""The battery: one list of adversarial situations, shared by `derive verify`, `derive judge` and the tests.

A `Situation` says by name what is unusual about a call and why that breaks hand-written backwards; `BATTERY` is the
list of all of them. `situation.make(op, seed)` gives a `Case`: inputs, cotangents (random, never ones), and what is
right in float64, by autograd of the directly executed equations (`derive.verify.reference`). It gives None where the
op has nothing of the kind: no index to repeat, no finite value there. All is drawn from the seed.

    from derive.verify.battery import cases
    from derive.verify.subjects import of_live
    from derive.verify.compare import disagreements

    op = find("layernorm")
    wrong = [d for case in cases(op) for d in disagreements(case, of_live(build(op)))]

A subject is whatever gives gradients for a `Call`: a generated module's functions (`of_live`, `of_functions`),
someone's `backward(d_output, *inputs)` (`of_backward`), a `torch.autograd.Function` (`of_function_class`).
`disagreements` runs it twice on each case and says what is wrong: a value, a shape, a dtype, a missing gradient, an
exception, an input that was written to, a second run unlike the first. It returns () where all is well. Cases hold
their expected gradients, so make the list once, with `tuple(cases(op))`, and hold any number of subjects against it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from derive.ir.equations import Op
from derive.ir.terms.windows import is_window
from derive.verify import values
from derive.verify.cases import Case
from derive.verify.situations import Situation, alike, takes_exponentials


def cases(op: Op, seed: int = 0, situations: tuple[Situation, ...] | None = None) -> Iterator[Case]:
    """Every case that the op has, in the order of the battery."""
    for situation in BATTERY if situations is None else situations:
        case = situation.make(op, seed)
        if case is not None:
            yield case


def situation(name: str) -> Situation:
    """The situation of that name."""
    return next(s for s in BATTERY if s.name == name)


def _has_pack(op: Op) -> bool:
    return any(a.is_pack for o in op.operands for a in o.axes)


def _has_index(op: Op) -> bool:
    return any(o.kind == "index" for o in op.operands)


def _has_numbers(op: Op) -> bool:
    return any(o.kind == "scalar" for o in op.operands)


def _reads_windows(op: Op) -> bool:
    return any(is_window(i) for e in op.equations for at in e.reads for i in at.index)


def _always(op: Op) -> bool:
    return True


def _has_second(op: Op) -> bool:
    return len(op.differentiable) > 1


BATTERY: tuple[Situation, ...] = (
    Situation("ordinary", "distinct sizes, so that a swapped axis cannot hide; a random cotangent, never ones"),
    Situation("transposed cotangent", "the next op may hand back a view", cotangents="transposed"),
    Situation("stride-0 cotangent", "a sum after the op sends one number, expanded", cotangents="stride 0"),
    Situation("expanded rows", "a sum over the last axis after the op sends stride 0 there", cotangents="rows"),
    Situation("transposed inputs", "views come in, with gaps between elements", inputs="transposed"),
    Situation("no leading axes", "`...` may be nothing", leading=(), applies=_has_pack),
    Situation("one leading axis", "`...` may be one axis", leading=(4,), applies=_has_pack),
    Situation("three leading axes", "`...` may be three axes", leading=(2, 4, 3), applies=_has_pack),
    Situation("a leading axis of 1", "the last of them, which broadcasts", leading=(3, 1), applies=_has_pack),
    Situation("same sizes", "a term broadcast along the wrong axis runs only where sizes coincide", lengths="same"),
    Situation("sizes 1", "a size of 1 broadcasts by accident", lengths="ones"),
    Situation("first axis 1", "one row: a variance of one, a batch of one", lengths="first is 1"),
    Situation("last axis 1", "one column", lengths="last is 1"),
    Situation("empty", "a batch of nothing has gradients of its shape", lengths="empty"),
    Situation("repeated indices", "the gradients of one place add up", indices="repeated", applies=_has_index),
    Situation("last index", "the end of a table, every time", indices="last", applies=_has_index),
    Situation("distinct indices", "what does not add up is right here", indices="distinct", applies=_has_index),
    Situation("ties", "equal values share a maximum's gradient; 0 and 1 are singular points", change=values.rounded),
    Situation("ties away from 0", "ties alone, with no other singular point", change=values.tied),
    Situation("zeros", "exact singular points: a root, a sign, a variance of 0", change=values.zeros),
    Situation("first input 0", "a product whose other factor hides nothing", change=values.first_zero),
    Situation(
        "zero parameters", "a scale that starts at 0 gets its gradient", change=values.rest_zero, applies=_has_second
    ),
    Situation(
        "some parameters 0", "what divides by it breaks at one element", change=values.some_zero, applies=_has_second
    ),
    Situation("large values", "saturated functions, exponentials that need their maximum", change=values.large),
    Situation("extreme values", "what overflows if it is not written with care", change=values.extreme),
    Situation(
        "scores far apart", "exponentials that are 0 beside others", change=values.far_apart, exponents=True,
        applies=takes_exponentials,
    ),
    Situation(
        "scores far above 0", "exponentials that overflow, where their quotient is a number", change=values.far_above,
        exponents=True, applies=takes_exponentials,
    ),
    Situation(
        "equal scores far below 0", "exponentials that are all 0, where their quotient is a number",
        change=values.equal_below, exponents=True, applies=takes_exponentials,
    ),
    Situation("other numbers", "a default that was written into the formula", numbers="other", applies=_has_numbers),
    Situation("numbers 0", "a form that divides by a number", numbers="zero", applies=_has_numbers),
    Situation(
        "ties with a number",
        "a threshold met exactly, and values on both sides of it",
        change=values.rounded,
        numbers="two",
        applies=_has_numbers,
    ),
    Situation(
        "one tensor twice", "two inputs may be one tensor", shared=True, applies=lambda op: len(alike(op)) > 1
    ),
    Situation("float32", "no worse than twice autograd over the equations", dtype=torch.float32),
    Situation("bfloat16", "half precision in, half precision out", dtype=torch.bfloat16),
    Situation("float16", "the other half precision", dtype=torch.float16),
    Situation(
        "long sums in bfloat16",
        "sums must not be accumulated in half precision",
        lengths="long first",
        change=values.above_zero,
        dtype=torch.bfloat16,
    ),
    Situation(
        "long rows in bfloat16",
        "nor those over the last axis",
        lengths="long last",
        change=values.above_zero,
        dtype=torch.bfloat16,
    ),
)  # fmt: skip
"""All situations, in the order in which they are tried."""

LOOPS: tuple[Situation, ...] = tuple(
    Situation(f"{lengths} in {str(dtype).removeprefix('torch.')}", why, lengths=lengths, dtype=dtype, applies=applies)
    for lengths, why, applies in (
        ("many rows", "loops that threads share, sums that are put together of parts", _always),
        ("long rows", "loops that are cut into blocks, and what whole vectors leave over", _always),
        ("rows of some vectors", "windows along them, which have loops of their own", _reads_windows),
    )
    for dtype in (torch.float64, torch.float32)
)
"""Situations for what is compiled: the lengths of the battery make no loop that is worth sharing or cutting."""
