"""Pointwise functions in torch, and the same functions of Python numbers in `math`."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from derive.backends.values import ATOM, COMPARISON, POWER, PRODUCT, SUM, UNARY, Dims, Value
from derive.program import Call, Num

_BINARY = {
    "add": ("+", SUM, SUM),
    "sub": ("-", SUM, SUM + 1),
    "mul": ("*", PRODUCT, PRODUCT + 1),
    "div": ("/", PRODUCT, PRODUCT + 1),
    "lt": ("<", COMPARISON, COMPARISON + 1),
    "le": ("<=", COMPARISON, COMPARISON + 1),
    "gt": (">", COMPARISON, COMPARISON + 1),
    "ge": (">=", COMPARISON, COMPARISON + 1),
    "eq": ("==", COMPARISON, COMPARISON + 1),
    "ne": ("!=", COMPARISON, COMPARISON + 1),
}
_LOGIC = {"and": "&", "or": "|"}
_TORCH = {"absolute": "torch.abs", "loggamma": "torch.lgamma", "Mod": "torch.remainder"}


def number_code(node: Num) -> Value:
    """A constant as a person writes it: a decimal where one is exact and short, else a quotient."""
    value = node.value
    if isinstance(value, float):
        if math.isinf(value):
            return Value("-math.inf" if value < 0 else "math.inf", strength=UNARY if value < 0 else ATOM, scalar=True)
        return Value(repr(value), strength=ATOM if value >= 0 else UNARY, scalar=True)
    negative = value < 0
    size = abs(value)
    if size.denominator == 1:
        code, strength = str(size.numerator), ATOM
    elif Fraction(repr(float(size))) == size:
        code, strength = repr(float(size)), ATOM
    else:
        code, strength = f"{size.numerator} / {size.denominator}", PRODUCT
    return Value(f"-{code}" if negative else code, strength=min(strength, UNARY) if negative else strength, scalar=True)


def broadcast(values: list[Value], order: Dims) -> Dims:
    """The dimensions of the result of values that are all aligned to `order`."""
    width = max((len(v.dims) for v in values), default=0)
    out: list[str | None] = []
    for k in range(1, width + 1):
        here = [v.dims[-k] for v in values if len(v.dims) >= k]
        out.append(next((d for d in here if d is not None), None))
    return tuple(reversed(out))


def call_code(node: Call, args: list[Value], order: Dims) -> Value:
    """The code of one pointwise function of printed arguments."""
    dims = broadcast(args, order)
    scalar = all(a.scalar for a in args)
    if node.fn in ("add", "sub", "neg", "pow"):
        args = [Value(f"{a.inside(ATOM)}.float()", a.dims) if a.boolean else a for a in args]
    if node.fn == "div" and args[0].code == "1" and not scalar:
        return Value(f"{args[1].inside(ATOM)}.reciprocal()", dims)
    if node.fn == "div" and scalar and not isinstance(node.args[1], Num) and "sqrt" not in args[1].code:
        return Value(f"ratio({args[0].code}, {args[1].code})", scalar=True)
    if node.fn in _BINARY:
        sign, strength, right = _BINARY[node.fn]
        grouped = right + 1 if strength == PRODUCT and "@" in args[1].code else right
        code = f"{args[0].inside(strength)} {sign} {args[1].inside(grouped)}"
        return Value(code, dims, strength, scalar, boolean=strength == COMPARISON)
    if node.fn in _LOGIC:
        code = f" {_LOGIC[node.fn]} ".join(a.inside(ATOM) for a in args)
        return Value(code, dims, COMPARISON, scalar, boolean=True)
    if node.fn == "not":
        return Value(f"~{args[0].inside(ATOM)}", dims, UNARY, boolean=True)
    if node.fn == "neg":
        return Value(f"-{args[0].inside(PRODUCT)}", dims, max(PRODUCT, min(args[0].strength, UNARY)), scalar)
    if node.fn == "pow" and args[1].code == "2" and not scalar:
        return Value(f"{args[0].inside(ATOM)}.square()", dims)
    if node.fn == "pow":
        return Value(f"{args[0].inside(POWER + 1)} ** {args[1].inside(POWER)}", dims, POWER, scalar)
    if node.fn == "where":
        return _where(args, dims)
    if node.fn in ("pi", "e"):
        return Value(f"math.{node.fn}", scalar=True)
    if scalar:
        return _scalar_call(node.fn, args)
    if node.fn == "softplus":
        return Value(f"functional.softplus({args[0].code}, threshold=40)", dims)
    name = _TORCH.get(node.fn, f"torch.{node.fn}")
    return Value(f"{name}({', '.join(a.code for a in args)})", dims)


_IN_PLACE = {"exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt", "sin", "cos", "neg", "abs", "relu"}


def written_over(node: Call, args: list[Value], order: Dims) -> Value | None:
    """A function in the memory of an operand that is ours and spent; None where no operand is."""
    if any(a.boolean for a in args):
        return None
    if len(args) == 1:
        kept = args[0].owned and node.fn in _IN_PLACE
        return replace(args[0].method(f".{node.fn}_()"), owned=True) if kept else None
    if node.fn not in ("add", "sub", "mul", "div"):
        return None
    first, second = args
    if not first.owned and second.owned and node.fn in ("add", "mul"):
        first, second = second, first
    if not first.owned or broadcast(args, order) != first.dims:
        return None
    return replace(first.method(f".{node.fn}_({second.code})"), owned=True)


def _where(args: list[Value], dims: Dims) -> Value:
    condition, a, b = args
    if (a.code, b.code) == ("1", "0"):
        return Value(condition.code, dims, condition.strength, boolean=True)
    return Value(f"torch.where({condition.code}, {a.code}, {b.code})", dims)


def _scalar_call(fn: str, args: list[Value]) -> Value:
    inner = ", ".join(a.code for a in args)
    if fn == "rsqrt":
        return Value(f"1 / math.sqrt({inner})", strength=PRODUCT, scalar=True)
    if fn == "absolute":
        return Value(f"abs({inner})", scalar=True)
    if fn == "sigmoid":
        return Value(f"1 / (1 + math.exp(-({inner})))", strength=PRODUCT, scalar=True)
    return Value(f"math.{fn}({inner})", scalar=True)
