"""The order of the passes over a forward's program, and over a backward's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from derive.adjoint import Stepwise
from derive.equations import Op
from derive.lengths.nominal import Nominal, nominal
from derive.lowering.forward import forward_statements
from derive.passes.axis_orders import in_order
from derive.passes.close_differences import close_differences
from derive.passes.common_quotients import common_quotients
from derive.passes.contraction_order import pairwise
from derive.passes.differences import sums_of_differences
from derive.passes.distributing import distributed
from derive.passes.exponentials_less_one import exponentials_less_one
from derive.passes.gathered import after_gathers
from derive.passes.joined_products import joined_products
from derive.passes.leftovers import under_last_names, without_copies
from derive.passes.masked_sums import after_sums, before_masks
from derive.passes.masks import with_masks
from derive.passes.merged_once import merged_once
from derive.passes.multiples import without_multiples
from derive.passes.named_sums import through_named_sums
from derive.passes.numbers_on import numbers_on
from derive.passes.numbers_outside import numbers_outside
from derive.passes.one_choice import one_choice
from derive.passes.opposites import opposites
from derive.passes.other_shares import other_shares
from derive.passes.outer_products import through_outer_products
from derive.passes.own_pairs import without_what_cancels
from derive.passes.poles_met import with_poles_met
from derive.passes.products import by_named_products, common_products
from derive.passes.share import share
from derive.passes.shared_sums import shared_sums
from derive.passes.signs import one_sign
from derive.passes.sums_apart import sums_apart
from derive.passes.sums_in_turn import sums_in_turn
from derive.passes.weighted_sums import weighted_sums
from derive.program import Program

Pass = Callable[[Program], Program]


def forward_program(op: Op, kept: tuple[str, ...], as_written: bool = True) -> Program:
    """The forward after all of them: what is read where, then how it is multiplied, then what has a name.

    `as_written` keeps the choices and signs of the equations, which the emitted forward says in fewer operations.
    """
    lengths = nominal(op)
    passes: tuple[Pass, ...] = (
        after_gathers,
        partial(sums_apart, nominal=lengths),
        partial(through_outer_products, nominal=lengths),
        partial(through_named_sums, nominal=lengths),
        partial(sums_of_differences, nominal=lengths),
        partial(pairwise, nominal=lengths),
        after_sums,
        close_differences,
        share,
        under_last_names,
        *(() if as_written else (one_choice, numbers_outside, one_sign)),
        exponentials_less_one,
    )
    return _passed(forward_statements(op, kept), passes)


def passed_backward(backward: Program, steps: Stepwise, lengths: Nominal) -> Program:
    """The backward after all of them: what sums share first, then how they are multiplied, then what has a name."""
    cotangents = [c.target.name for c in steps.cotangents]
    written = {*steps.op.tensors, *(a.target.name for a in steps.adjoints)}
    passes: tuple[Pass, ...] = (
        without_copies,
        one_choice,
        partial(sums_apart, nominal=lengths),
        partial(through_outer_products, nominal=lengths),
        partial(through_named_sums, nominal=lengths),
        partial(sums_of_differences, nominal=lengths),
        before_masks,
        partial(shared_sums, nominal=lengths),
        partial(distributed, nominal=lengths),
        partial(pairwise, nominal=lengths),
        partial(joined_products, nominal=lengths),
        sums_in_turn,
        after_sums,
        partial(with_masks, cotangents=cotangents, op=steps.op),
        other_shares,
        partial(with_poles_met, op=steps.op),
        numbers_outside,
        one_sign,
        numbers_on,
        partial(without_multiples, nominal=lengths),
        common_quotients,
        common_products,
        one_sign,
        partial(without_what_cancels, op=steps.op),
        close_differences,
        share,
        opposites,
        without_copies,
        partial(weighted_sums, nominal=lengths),
        by_named_products,
        after_gathers,
        without_copies,
        merged_once,
        exponentials_less_one,
        partial(in_order, written=written),
    )
    return _passed(backward, passes)


def _passed(program: Program, passes: tuple[Pass, ...]) -> Program:
    for each in passes:
        program = each(program)
    return program
