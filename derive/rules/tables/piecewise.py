"""Laws of choices by a condition."""

from __future__ import annotations

from derive.rules.engine import Row

_REAL = "(constant(u) or constant(v)) and real(u - v)"

RELU = (
    Row("relu", "where(u > v, u - v, 0) => relu(u - v)", when=_REAL),
    Row("relu", "where(u < v, v - u, 0) => relu(v - u)", when=_REAL),
    Row("relu", "where(u <= v, 0, u - v) => relu(u - v)", when=_REAL),
    Row("relu", "where(u >= v, 0, v - u) => relu(v - u)", when=_REAL),
)
"""What of a value is above 0. Its slope is known by its value. Not `where(u >= 0, u, 0)`, whose slope at 0 is 1.

Of what an author writes (`rules/order.py`)."""

PLACE_SIGNS = (
    Row("place sign", "u*where(k, 1, -1) => where(k, u, -u)", when="places(k, u)"),
    Row("place sign", "u*where(k, -1, 1) => where(k, -u, u)", when="places(k, u)"),
)
"""What turns a diagonal round, of what an author writes (`rules/place_signs.py`); a table of signs is not made."""

GUARDS = (
    Row("guard", "where(k, u, 0)*where(k, m, n) => m*u*where(k, 1, 0)", when="number(u) and number(m) and number(n)"),
    Row("guard", "where(k, 0, v)*where(k, m, n) => n*v*where(k, 0, 1)", when="number(v) and number(m) and number(n)"),
    Row("guard", "where(k, u, v)*where(k, m, n) => where(k, m*u, n*v)", when="number(m) and number(n)"),
)
"""What two choices by one condition choose is chosen once: of the terms of a gradient (`collapse/chain.py`)."""
