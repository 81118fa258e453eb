"""The order of the passes over a forward's program, and over a backward's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from derive.adjoint.chain_rule import Stepwise
from derive.contract.contraction_order import pairwise
from derive.contract.distributivity import distributed, joined_products, sums_in_turn
from derive.contract.inlined_in_sums import inlined_in_sums
from derive.contract.masked_sums import after_sums, before_masks
from derive.contract.shared_sums import shared_sums, weighted_sums
from derive.contract.sums_apart import sums_apart
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.equations import Op
from derive.ir.nodes.leftovers import under_last_names, without_copies
from derive.ir.program import Program
from derive.rules.statements import with_rows
from derive.rules.tables.signs import EXPM1
from derive.schedule.axis_orders import in_order
from derive.schedule.close_differences import close_differences
from derive.schedule.forward import forward_statements
from derive.schedule.gathered import after_gathers
from derive.schedule.masks import with_masks
from derive.schedule.numbers import numbers_on, numbers_outside, opposites
from derive.schedule.one_choice import one_choice
from derive.schedule.other_shares import other_shares
from derive.schedule.own_pairs import without_what_cancels
from derive.schedule.poles_met import with_poles_met
from derive.schedule.products import common_products, common_quotients
from derive.schedule.share import share
from derive.schedule.signs import one_sign, signs_at_ties

Pass = Callable[[Program], Program]


def forward_program(op: Op, kept: tuple[str, ...], as_written: bool = True) -> Program:
    """The forward after all of them: what is read where, then how it is multiplied, then what has a name.

    `as_written` keeps the choices and signs of the equations, which the emitted forward says in fewer operations.
    """
    lengths = nominal(op)
    passes: tuple[Pass, ...] = (
        after_gathers,
        partial(sums_apart, nominal=lengths),
        partial(inlined_in_sums, nominal=lengths),
        partial(pairwise, nominal=lengths),
        after_sums,
        close_differences,
        share,
        under_last_names,
        *(() if as_written else (one_choice, numbers_outside, one_sign)),
        partial(with_rows, rows=EXPM1),
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
        partial(inlined_in_sums, nominal=lengths),
        before_masks,
        partial(shared_sums, nominal=lengths),
        partial(distributed, nominal=lengths),
        partial(pairwise, nominal=lengths),
        partial(joined_products, nominal=lengths),
        sums_in_turn,
        after_sums,
        partial(with_masks, cotangents=cotangents, op=steps.op),
        signs_at_ties,
        other_shares,
        partial(with_poles_met, op=steps.op),
        numbers_outside,
        one_sign,
        numbers_on,
        common_quotients,
        common_products,
        one_sign,
        partial(without_what_cancels, op=steps.op),
        close_differences,
        share,
        opposites,
        without_copies,
        partial(weighted_sums, nominal=lengths),
        after_gathers,
        without_copies,
        partial(with_rows, rows=EXPM1),
        partial(in_order, written=written),
    )
    return _passed(backward, passes)


def _passed(program: Program, passes: tuple[Pass, ...]) -> Program:
    for each in passes:
        program = each(program)
    return program
