"""Laws by which terms and factors become fewer."""

from __future__ import annotations

from derive.rules.engine import Row

COMPLEMENTS = (
    Row("complement", "c - c*sigmoid(u) => c*sigmoid(-u)", stability=True),
    Row("complement", "c*sigmoid(u) + c*sigmoid(-u) => c"),
    Row("complement", "c - 2*c*sigmoid(u) => c*tanh(-u/2)", stability=True),
    Row("complement", "c*slope_of_maximum(u) - c*sign(u)*sigmoid(-abs(u)) => c*sigmoid(u)"),
    Row("complement", "c*slope_of_minimum(-u) - c*sign(u)*sigmoid(-abs(u)) => c*sigmoid(u)"),
    Row("complement", "c*slope_of_minimum(u) + c*sign(u)*sigmoid(-abs(u)) => c*sigmoid(-u)"),
    Row("complement", "c*slope_of_maximum(-u) + c*sign(u)*sigmoid(-abs(u)) => c*sigmoid(-u)"),
)
"""What a sigmoid leaves of 1. The slopes are those of `maximum(u, 0)` and `minimum(u, 0)`, beside a stable softplus."""

MAGNITUDES = (
    Row("magnitude", "abs(u)*sign(u) => u"),
    Row("magnitude", "u*sign(u) => abs(u)"),
    Row("magnitude", "sign(u)/abs(u) => 1/u"),
)
"""A magnitude and its sign are what it is the magnitude of."""

WHOLES = (Row("whole", "c*v*(v + w)**q + c*w*(v + w)**q => c*(v + w)**(q + 1)", when="negative(q)"),)
"""The shares of a whole add up to 1."""

DENOMINATORS = (
    *MAGNITUDES,
    *WHOLES,
    Row("denominator", "c*(v + w)**(q + 1) - c*v*(v + w)**q => c*w*(v + w)**q", when="negative(q)", stability=True),
)
"""What cancels over one denominator is not subtracted in numbers."""

GRADIENTS = (COMPLEMENTS, DENOMINATORS)
"""For the terms of a gradient, each set where it is cheaper (`collapse/whole_form.py`)."""
