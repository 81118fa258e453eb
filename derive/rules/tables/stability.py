"""Laws by which nothing overflows or loses its digits, read from how exponentials and logarithms are written."""

from __future__ import annotations

from derive.rules.engine import Row
from derive.rules.tables.algebra import COMPLEMENTS

_NUMBERS = "number(a) and number(b) and positive(a) and positive(b)"
_LOG = "number(n) and positive(n)"

LOG_COSINES = (
    Row("log-sum-exp", "log(cosh(u)) => u + softplus(-2*u) - log(2)", when="unsigned(u)", stability=True),
    Row(
        "log-sum-exp", "log(n*exp(u) + n*exp(-u)) => u + softplus(-2*u) + log(n)",
        when=f"{_LOG} and unsigned(u)", stability=True,
    ),
)  # fmt: skip
"""The logarithm of a hyperbolic cosine, of which what it is of is read twice."""

SIGMOIDS = (
    Row(
        "tanh", "(n*exp(u) - n*exp(v))/(a*exp(u) + a*exp(v)) => n*tanh((u - v)/2)/a",
        when="number(n) and number(a) and positive(a)", stability=True,
    ),
    Row(
        "tanh", "(n*exp(u) - n)/(a*exp(u) + a) => n*tanh(u/2)/a",
        when="number(n) and number(a) and positive(a)", stability=True,
    ),
    Row("sigmoid", "exp(u)/(a*exp(u) + b*exp(v)) => sigmoid((u + log(a/b)) - v)/a", when=_NUMBERS, stability=True),
    Row("sigmoid", "exp(u)/(a*exp(u) + b) => sigmoid(u + log(a/b))/a", when=_NUMBERS, stability=True),
    Row("sigmoid", "(1 + exp(u))**q => (1/sigmoid(-u))**q", when="whole(q) and negative(q)", stability=True),
    Row("sigmoid", "exp(u)*sigmoid(-u) => sigmoid(u)", stability=True),
    Row("tanh", COMPLEMENTS[2].law, when="number(c)", stability=True),
)  # fmt: skip

SOFTPLUS = (
    Row("softplus", "log(1 + exp(u)) => softplus(u)", stability=True),
    Row("softplus", "log1p(exp(u)) => softplus(u)", stability=True),
    Row("softplus", "log(sigmoid(u)) => -softplus(-u)", stability=True),
    Row("softplus", "log(1 - sigmoid(u)) => -softplus(u)", stability=True),
    Row("softplus", "log(where(k, sigmoid(u), sigmoid(v))) => -softplus(where(k, -u, -v))", stability=True),
    Row("softplus", "log(where(k, sigmoid(u), 1 - sigmoid(v))) => -softplus(where(k, -u, v))", stability=True),
    Row("softplus", "log(where(k, 1 - sigmoid(u), sigmoid(v))) => -softplus(where(k, u, -v))", stability=True),
    Row("softplus", "log(where(k, sigmoid(u), n)) => where(k, -softplus(-u), log(n))", when=_LOG, stability=True),
    Row("softplus", "log(where(k, n, sigmoid(u))) => where(k, log(n), -softplus(-u))", when=_LOG, stability=True),
    Row("softplus", "log(where(k, 1 - sigmoid(u), n)) => where(k, -softplus(u), log(n))", when=_LOG, stability=True),
    Row("softplus", "log(where(k, n, 1 - sigmoid(u))) => where(k, log(n), -softplus(u))", when=_LOG, stability=True),
    Row("softplus", "c*softplus(u) - c*u => c*softplus(-u)", when="number(c)", stability=True),
    Row("softplus", "c*maximum(u, 0) + c*softplus(-abs(u)) => c*softplus(u)", when="number(c) and alone"),
    Row("softplus", "c*softplus(-abs(u)) - c*minimum(-u, 0) => c*softplus(u)", when="number(c) and alone"),
)
"""The largest exponent of two is taken off. Beside a third term the maximum stays, which may cancel that."""

STABLE = (*SIGMOIDS, *LOG_COSINES, *SOFTPLUS)
"""Of what an author writes, before the chain rule (`rules/stability/stable.py`)."""

COUNTERBALANCED = (
    Row(
        "density", "exp(u)*(1 + exp(v))**q => exp(u + q*softplus(v))",
        when="whole(q) and negative(q) and grows(u, v)", stability=True,
    ),
    Row(
        "density", "exp(u)*sigmoid(v)**(-q) => exp(u + q*softplus(-v))",
        when="whole(q) and negative(q) and grows(u, -v)",
    ),
)  # fmt: skip
"""Under a sum, whose largest exponent is taken off: `exp(u + z)/(1 + exp(z))**2` is how SymPy writes a logistic density
whose logarithm is given. Where `z` is large, what is above and what is below overflow. Of what an author writes
(`rules/order.py`).
"""

NEAR_ONE = (
    Row("expm1", "c*exp(u) - c => c*expm1(u)", when="number(c)", stability=True),
    Row("expm1", "c*expm1(u) + c => c*exp(u)", when="number(c)", stability=True),
    Row("log1p", "log(1 + u) => log1p(u)", when="varies(u)", stability=True),
    Row("choice", "c*where(k, u, exp(v) - 1) + c => c*where(k, u + 1, exp(v))", when="number(c)", stability=True),
    Row("choice", "c*where(k, exp(v) - 1, u) + c => c*where(k, exp(v), u + 1)", when="number(c)", stability=True),
    Row("choice", "c*where(k, u, expm1(v)) + c => c*where(k, u + 1, exp(v))", when="number(c)", stability=True),
    Row("choice", "c*where(k, expm1(v), u) + c => c*where(k, exp(v), u + 1)", when="number(c)", stability=True),
)
"""What is close to 1 and loses its digits beside it, of what an author writes (`rules/stability/near_one.py`); also in
one branch of a choice: `elu(q) + 1` is the feature map of linear attention (Katharopoulos et al., 2020).
"""
