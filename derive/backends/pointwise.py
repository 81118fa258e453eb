"""Pointwise functions in torch, and the same functions of Python numbers in `math`."""

from __future__ import annotations

import math
from fractions import Fraction

from derive.backends.values import ATOM, COMPARISON, POWER, PRODUCT, SUM, UNARY, Dims, Value
from derive.program import AxisValue, Call, Node, Num, SizeOf

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
    if node.fn in ("maximum", "minimum") and any(a.scalar for a in args):
        return Value(_clamped(node, args), dims)
    if node.fn == "softplus":
        return Value(f"functional.softplus({args[0].code}, threshold=40)", dims)
    name = _TORCH.get(node.fn, f"torch.{node.fn}")
    return Value(f"{name}({', '.join(a.code for a in args)})", dims)


def _clamped(node: Call, args: list[Value]) -> str:
    """The larger or smaller of a tensor and a number; both bounds in one call where the lower was set just before."""
    value, bound = args if args[1].scalar else args[::-1]
    inner = node.args[0] if args[1].scalar else node.args[1]
    if node.fn == "maximum":
        return f"{value.inside(ATOM)}.clamp(min={bound.code})"
    if isinstance(inner, Call) and inner.fn == "maximum" and value.code.endswith(")"):
        head, bounded, low = value.code.rpartition(".clamp(min=")
        if bounded and low.count("(") < low.count(")"):
            return f"{head}.clamp({low[:-1]}, {bound.code})"
    return f"{value.inside(ATOM)}.clamp(max={bound.code})"


_WHOLE = frozenset({"add", "sub", "mul", "neg", "Mod", "maximum", "minimum", "absolute"})


def is_whole(node: Node) -> bool:
    """Whether a node counts: axes and whole numbers, added and multiplied."""
    if isinstance(node, Num):
        return isinstance(node.value, Fraction) and node.value.denominator == 1
    if isinstance(node, Call):
        return node.fn in _WHOLE and all(is_whole(a) for a in node.args)
    return isinstance(node, AxisValue | SizeOf)


def untyped(node: Call, args: list[Value]) -> list[int]:
    """Which arguments torch would turn into its default dtype, not the tensors': truth values and whole numbers
    that meet a Python number that is none, a division or a function.
    """
    if node.fn in _LOGIC or node.fn == "not" or _BINARY.get(node.fn, ("", 0))[1] == COMPARISON:
        return []
    counts = [is_whole(a) for a in node.args]
    number = any(v.scalar and not whole for v, whole in zip(args, counts, strict=True)) or node.fn == "div"
    alone = all(v.scalar or v.boolean or whole for v, whole in zip(args, counts, strict=True))
    found = []
    for k, (value, whole) in enumerate(zip(args, counts, strict=True)):
        if value.boolean and node.fn != "where":
            found += [k] if node.fn not in ("mul", "div") or any(v.scalar for v in args) else []
        elif whole and not value.scalar and node.fn != "where":
            found += [k] if (alone and (number or node.fn == "pow")) or node.fn not in (*_WHOLE, "div", "pow") else []
    return found


def written_over(node: Call, args: list[Value], order: Dims) -> Value | None:
    """A sum or product in the memory of an operand that is ours and spent; None where neither is."""
    if node.fn not in ("add", "sub", "mul", "div") or any(a.boolean for a in args):
        return None
    first, second = args
    if not first.owned and second.owned and node.fn in ("add", "mul"):
        first, second = second, first
    if not first.owned or second.owned or broadcast(args, order) != first.dims:
        return None
    return Value(f"{first.inside(ATOM)}.{node.fn}_({second.code})", first.dims, owned=True)


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
    if fn in ("maximum", "minimum"):
        return Value(f"{fn[:3]}({inner})", scalar=True)
    if fn == "sigmoid":
        return Value(f"1 / (1 + math.exp(-({inner})))", strength=PRODUCT, scalar=True)
    return Value(f"math.{fn}({inner})", scalar=True)
