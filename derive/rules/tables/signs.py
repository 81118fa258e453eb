"""Laws by which a program has one sign where there are two, and adds no 0 and multiplies by no 1."""

from __future__ import annotations

from derive.rules.engine import Row

SIGNS = (
    Row("sign", "-(-u) => u"),
    Row("sign", "u + 0 => u"),
    Row("sign", "u - 0 => u"),
    Row("sign", "0 + u => u"),
    Row("sign", "0 - u => -u"),
    Row("sign", "u - (-v) => u + v"),
    Row("sign", "u + (-v) => u - v"),
    Row("sign", "(-u) + v => v - u"),
    Row("sign", "u*1 => u"),
    Row("sign", "u/1 => u"),
    Row("sign", "1*u => u"),
    Row("sign", "(-u)*(-v) => u*v"),
    Row("sign", "(-u)/(-v) => u/v"),
    Row("sign", "n*(-u) => (-n)*u", when="number(n) and negative(n)"),
    Row("sign", "n/(-u) => (-n)/u", when="number(n) and negative(n)"),
)
"""A minus that meets another is none: of programs (`schedule/signs.py`)."""

EXPM1 = (
    Row("expm1", "exp(u) - 1 => expm1(u)", stability=True),
    Row("expm1", "1 - exp(u) => -expm1(u)", stability=True),
)
"""Wherever the exponential is not read by itself: of programs (`schedule/order.py`)."""
