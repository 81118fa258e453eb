"""The order in which what a spec says in short is said in full: places, then digits, then which tensors there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from derive.ir.equations import Op
from derive.rules.expressions import by_rows
from derive.rules.index.before_gathers import made_before_gathers
from derive.rules.index.before_windows import made_before_padding, made_before_windows
from derive.rules.index.merged_apart import merged_apart
from derive.rules.index.padding import padded
from derive.rules.index.peeling import peeled, said_for_each_place
from derive.rules.index.selections import selected
from derive.rules.index.where_they_meet import computed_where_they_meet
from derive.rules.naming.factored_sums import with_factors_outside
from derive.rules.naming.named_shares import with_named_shares
from derive.rules.naming.nested import with_nested_named
from derive.rules.naming.twins import one_of_each
from derive.rules.place_signs import with_place_signs
from derive.rules.stability.deviations import with_deviations
from derive.rules.stability.few_exponentials import with_few_exponentials
from derive.rules.stability.largest_off import with_largest_taken_off
from derive.rules.stability.log_shares import with_logs_of_shares
from derive.rules.stability.near_one import with_digits_near_one
from derive.rules.stability.squares import with_squares
from derive.rules.stability.stable import by_stable_functions
from derive.rules.stability.sums_of_sums import with_sums_of_sums
from derive.rules.tables.piecewise import RELU
from derive.rules.tables.stability import COUNTERBALANCED

Rewriting = Callable[[Op], Op]

ENDS: tuple[Rewriting, ...] = (
    peeled,  # what a condition keeps from the ends of an axis needs no padding
    padded,
)
"""What reads beyond the ends of an axis, or keeps from them: the lengths that an op asks for are those after it."""

PLACES: tuple[Rewriting, ...] = (
    said_for_each_place,
    *ENDS,
    computed_where_they_meet,
)
"""Which places of which tensors an equation asks for: all that follows reads indices as they are then."""

DIGITS: tuple[Rewriting, ...] = (
    partial(by_rows, rows=RELU),
    with_squares,
    partial(by_rows, rows=COUNTERBALANCED, kinds=("sum", "mean")),  # of one exponential there is a largest
    with_sums_of_sums,
    with_largest_taken_off,
    with_logs_of_shares,  # which are known by the largest that was taken off
    by_stable_functions,
    with_few_exponentials,
    with_digits_near_one,
    with_place_signs,
)
"""What overflows, or loses digits, as it is written: while exponentials stand as the author wrote them."""

TENSORS: tuple[Rewriting, ...] = (
    with_named_shares,
    with_factors_outside,
    with_nested_named,
    selected,
    made_before_gathers,
    one_of_each,  # after what gives names, of which some are given twice
    with_deviations,  # of sums that are one tensor
    made_before_windows,
    made_before_padding,
    merged_apart,
)
"""What has a name, and is computed once, before what reads it in several places."""


def said_in_full(op: Op, order: tuple[Rewriting, ...] = (*PLACES, *DIGITS, *TENSORS)) -> Op:
    """The equations that the chain rule is applied to, or those after some of the rewritings."""
    for rewriting in order:
        op = rewriting(op)
    return op
