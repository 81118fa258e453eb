"""The numbers that steer decisions, all of them: prices, lengths for counting, how far a search goes.

They rank forms and do not predict times. Change one only with what `python -m tests.corpus diff` and `make generate`
say of it.
"""

from __future__ import annotations

# --- work, counted in element operations: a pass over one element is 1 -----------------------------------------

MATMUL = 8.0
"""Multiply-adds of a matrix product that cost as much as one element of a pass."""

WIDE = 2.0
"""How much longer matrix products take in float64."""

NAMED = 0.05
"""Of an element operation, for every element of a tensor with a name: it is written and read again."""

LONG = 3.0
"""Passes from which on what a function makes is no sooner made again than read."""


# --- lengths taken for axes, so that work can be counted -------------------------------------------------------

NOMINAL = 32
"""The length taken for an axis that an input carries, `...` included; the others follow."""

FEW = 4
"""The length of a kernel's axis, of a rank, and of an axis that an argument gives: groups, heads."""

BLOWN_UP = 4.0
"""What an element costs of a tensor that no operand or output is as large as: it exists for the op's sake alone."""


# --- what a kept element is worth ------------------------------------------------------------------------------

PRICE = 12.0
"""Element operations that one kept element is worth."""

OUTPUT_PRICE = 0.5
"""The same for an output, which the caller holds in any case."""

DEAR = 1e6
"""The price of an element that a way of saving would rather not keep."""

CHEAP = 0.01
"""The price of one that it would rather keep."""

MORE_KEPT = 1.05
"""A form that keeps this much more than another is no candidate beside it, however much work that spares."""


# --- how much better another form must be ----------------------------------------------------------------------

GAIN = 1.1
"""How many times cheaper another order of products, or shared sums, must be: one tensor more is one more thing to
read."""

NAME_GAIN = 0.05
"""What one more name must spare for each element that it names: no large tensor is waited for to spare a small
one."""

FORM_GAIN = 0.01
"""What another form must spare of the stretches that it changes: closer ones are one to what is counted."""

SMALL_SUM = 16
"""How many times fewer elements a sum has than what it adds up, to be small; of a table that no operand or output
is as large as, several times more."""

# --- how far a search goes -------------------------------------------------------------------------------------

MOST_TERMS = 5
"""An adjoint with more terms than this is named: distributing it further would multiply them.

Those that are multiples of one another by what lacks an axis of it, `s*lam[n]*delta(y[n], c)` and
`-lam[n]*delta(y[n], c)`, are one here: they stay one wherever it is put."""

MOST_TERMS_IN_FULL = 3 * MOST_TERMS
"""The same, counting every term."""

GRADIENTS_SAID = 4
"""Gradients of a stretch that are said one by one."""

STRETCHES_ALONE = 6
"""Stretches that change beside each other of which each is tried alone as well: each takes the whole form once
more."""

AGAIN_AT_ONCE = 40
"""Equations up to which what is computed again is decided for the whole backward at once, not stretch by stretch."""

MOST_TRIED = 1500
"""Groups of gradients times equations squared: a trial looks at the whole op, and long chains are left as they
are."""

ALL_ORDERS = 7
"""Factors of one product up to which all orders of multiplying them are tried."""

AXES_IN_ALL_ORDERS = 3
"""Axes up to which all orders are tried when two sums are compared."""

TWIN_AXES_IN_ALL_ORDERS = 4
"""The same, where two equations are."""

OPENED_TOGETHER = 4
"""Names that are opened at once to see whether terms cancel."""

OPENED_TERMS = 12
"""Terms on the way beyond which no other names are opened."""

PUT_IN = 9
"""Names that are put in to see whether a value vanishes, the last computed first."""

PUT_IN_TERMS = 12
"""Terms from which on nothing more is put in."""

DEEPEST = 4
"""How deep functions stand in one another before one of them gets a name: each level multiplies the terms of the
derivative."""

PLACES_SAID = 4
"""Places of an axis up to which each is said by itself."""


# --- digits ----------------------------------------------------------------------------------------------------

FAR = 1000
"""Times larger or smaller than 1 from which on a number is one that keeps values in range: terms so far apart may
cancel and leave nothing of others that they meet before."""

FAR_IN_A_SUM = 64
"""How many times larger than another a number is, for their sum to have fewer digits of the smaller one."""

SQUARED = 6
"""The exponent up to which a whole power is made of squares and cubes, at a tenth of what `pow` costs, and one in
fourths with square roots, at half. In float32 `x**4` is off by up to 1.9 units in the last place, by 0.7 from
`pow`."""
