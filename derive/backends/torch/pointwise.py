"""Pointwise functions in torch."""

from __future__ import annotations

from dataclasses import replace

from derive.backends.torch.scalars import is_given, is_never_refused, scalar_call
from derive.backends.values import ATOM, CHOICE, COMPARISON, POWER, PRODUCT, SUM, UNARY, Dims, Value
from derive.ir.program import CONDITIONS, RELATIONS, Call, Node, Num
from derive.primitives import PRIMITIVES, names, row

_BINARY = {
    "add": ("+", SUM, SUM),
    "sub": ("-", SUM, SUM + 1),
    "mul": ("*", PRODUCT, PRODUCT + 1),
    "div": ("/", PRODUCT, PRODUCT + 1),
    "floordiv": ("//", PRODUCT, PRODUCT + 1),
    "mod": ("%", PRODUCT, PRODUCT + 1),
}
_COMPARED = {name: sign for sign, name in RELATIONS.items()}
_LOGIC = {"and": "&", "or": "|"}


def broadcast(values: list[Value]) -> Dims:
    """The dimensions of the result of values that are all aligned to one order."""
    width = max((len(v.dims) for v in values), default=0)
    out: list[str | None] = []
    for k in range(1, width + 1):
        here = [v.dims[-k] for v in values if len(v.dims) >= k]
        out.append(next((d for d in here if d is not None), None))
    return tuple(reversed(out))


def is_slow_at_once(values: list[Value], dims: Dims) -> bool:
    """Whether a call of three tensors is three times as long as two calls: two of them repeat along the last dimension.

    PyTorch then goes place by place, as in `torch.addcmul(b[:, None], a[:, None], x)`. `dims` are those of the result.
    """
    return sum(1 for v in values if v.dims[-1:] != dims[-1:]) > 1


def call_code(node: Call, args: list[Value], like: str) -> Value:
    """The code of one pointwise function of printed arguments; truth values become numbers of the dtype of `like`."""
    dims = broadcast(args)
    if node.fn in CONDITIONS:
        return _condition(node.fn, args, dims)
    if node.fn == "where":
        return _choice(node, args, dims, like) if args[0].scalar else _where(args, dims, like)
    args = [counted(a, dims) for a in _numbers(node.fn, args, like)]
    if node.fn in (*_BINARY, "neg", "pow"):
        return _operation(node, args, dims)
    return scalar_call(node, args) if all(a.scalar for a in args) else _function(node, args, dims, like)


def _condition(fn: str, args: list[Value], dims: Dims) -> Value:
    scalar = all(a.scalar for a in args)
    if fn == "not" and not scalar:
        return Value(f"~{args[0].inside(ATOM)}", dims, UNARY, boolean=True)
    if fn == "not":
        code = f"not {args[0].inside(COMPARISON)}"
    elif fn in _LOGIC:
        code = f" {_LOGIC[fn]} ".join(a.inside(ATOM) for a in args)
    else:
        code = f"{args[0].inside(COMPARISON)} {_COMPARED[fn]} {args[1].inside(COMPARISON + 1)}"
    return Value(code, dims, COMPARISON, scalar, boolean=True)


def _operation(node: Call, args: list[Value], dims: Dims) -> Value:
    """What is written with a sign between its operands, or in front."""
    scalar = all(a.scalar for a in args)
    if node.fn == "div" and args[0].code == "1" and not scalar:
        return Value(f"{args[1].inside(ATOM)}.reciprocal()", dims)
    if node.fn == "div" and scalar and is_given(node.args[-1]):
        return Value(f"ratio_of({args[0].code}, {args[1].code})", scalar=True)
    if node.fn in _BINARY:
        sign, strength, right = _BINARY[node.fn]
        grouped = right + 1 if strength == PRODUCT and "@" in args[1].code else right
        return Value(f"{args[0].inside(strength)} {sign} {args[1].inside(grouped)}", dims, strength, scalar)
    if node.fn == "neg" and args[0].strength == PRODUCT and (_leads(node.args[0]) or "@" in args[0].code):
        return Value(f"-({args[0].code})", dims, UNARY, scalar)
    if node.fn == "neg":
        return Value(f"-{args[0].inside(PRODUCT)}", dims, max(PRODUCT, min(args[0].strength, UNARY)), scalar)
    if args[1].code == "2" and not scalar:
        return Value(f"{args[0].inside(ATOM)}.square()", dims)
    if scalar and not is_never_refused(node):
        return Value(f'of_numbers("pow", {args[0].code}, {args[1].code})', scalar=True)
    return Value(f"{args[0].inside(POWER + 1)} ** {args[1].inside(POWER)}", dims, POWER, scalar)


def _function(node: Call, args: list[Value], dims: Dims, like: str) -> Value:
    """A function of tensors, by torch's name for it."""
    if node.fn in ("maximum", "minimum") and any(a.scalar for a in args):
        return Value(_clamped(node, args), dims)
    if node.fn == "logaddexp" and any(a.scalar for a in args):  # torch has it of tensors
        of, number = sorted(args, key=lambda a: a.scalar)
        difference = f"{of.inside(SUM)} - {number.inside(SUM + 1)}"
        return Value(f"{row('softplus').torch.format(x=difference)} + {number.inside(SUM)}", dims, SUM)
    if node.fn in ("threshold", "bent"):
        over = "_" if args[0].owned and args[0].dims == dims else ""
        name = "leaky_relu" if node.fn == "bent" else node.fn
        return Value(f"functional.{name}{over}({', '.join(a.code for a in args)})", dims)
    if node.fn == "narrow":
        return Value(f"{args[0].inside(ATOM)}.to({like}.dtype)", dims)
    if node.fn == "nan_to_num":
        return Value(f"{args[0].inside(ATOM)}.nan_to_num(0, math.inf)", dims)
    name = f"torch.{row(node.fn).torch_name}" if node.fn in PRIMITIVES else node.fn
    code = ", ".join(a.code for a in args)
    return Value(row(node.fn).torch.format(x=code) if "{x}" in name else f"{name}({code})", dims)


def _leads(node: Node) -> bool:
    """Whether a product begins with what a minus sign must not stand at: a condition, a quotient or a rest in wholes.

    `-a // b` is not `-(a // b)`, and torch negates no truth values.
    """
    while isinstance(node, Call) and node.fn in ("mul", "div"):
        node = node.args[0]
    return isinstance(node, Call) and node.fn in (*CONDITIONS, "where", "floordiv", "mod")


def _clamped(node: Call, args: list[Value]) -> str:
    """The larger or smaller of a tensor and a number; both bounds in one call where the lower was set just before."""
    value, bound = args if args[1].scalar else args[::-1]
    inner, number = node.args if args[1].scalar else node.args[::-1]
    if node.fn == "maximum":
        if isinstance(inner, Call) and inner.fn == "minimum" and _ascends(number, inner):
            head, bounded, high = _bounded_before(value.code, "max")
            if bounded and high.count("(") < high.count(")"):
                return f"{head}({bound.code}, {high[:-1]})"
        return f"{_clamping(value)}(min={bound.code})"
    if isinstance(inner, Call) and inner.fn == "maximum" and value.code.endswith(")"):
        head, bounded, low = _bounded_before(value.code, "min")
        if bounded and low.count("(") < low.count(")"):
            return f"{head}({low[:-1]}, {bound.code})"
    return f"{_clamping(value)}(max={bound.code})"


def _clamping(value: Value) -> str:
    return f"{value.inside(ATOM)}.clamp{'_' if value.owned else ''}"


def _bounded_before(code: str, end: str) -> tuple[str, str, str]:
    """What is clamped and how it is called, and the bound, where the code clamps at one end."""
    head, bounded, bound = code.rpartition(f"({end}=")
    return (head, bounded, bound) if head.endswith((".clamp", ".clamp_")) else ("", "", code)


def _ascends(low: Node, extremum: Call) -> bool:
    """Whether a number is no more than the one of an extremum."""
    return any(isinstance(n, Num) and isinstance(low, Num) and low.value <= n.value for n in extremum.args)


_IN_PLACE = names(lambda r: r.in_place) | {"neg"}


def written_over(node: Call, args: list[Value], long: bool = False) -> Value | None:
    """A function in the memory of an operand that is ours and spent; None where no operand is, or it would read badly.

    `dp.sub_(s).mul_(p)` is what a person writes; `(t / 2).add_(0.5)` is not, unless the expression is a long one.
    """
    if any(a.boolean for a in args) and node.fn != "mul":
        return None
    args = [counted(a, args[0].dims) for a in args]
    if node.fn == "pow" and args[1].code == "2" and args[0].owned:
        return replace(args[0].method(".square_()"), owned=True) if long or args[0].strength == ATOM else None
    if node.fn == "nan_to_num" and args[0].owned:
        return replace(args[0].method(".nan_to_num_(0, math.inf)"), owned=True)
    if len(args) == 1:
        kept = args[0].owned and node.fn in _IN_PLACE and (node.fn != "neg" or args[0].strength == ATOM)
        return replace(args[0].method(f".{node.fn}_()"), owned=True) if kept else None
    if node.fn not in ("add", "sub", "mul", "div"):
        return None
    first, second = args
    if not first.owned and second.owned and node.fn in ("add", "mul"):
        first, second = second, first
    if not first.owned or broadcast(args) != first.dims:
        return None
    if not long and (first.strength < ATOM or second.scalar):
        return None
    return replace(first.method(f".{node.fn}_({second.code})"), owned=True)


def _choice(node: Call, args: list[Value], dims: Dims, like: str) -> Value:
    """One of two values by a condition on numbers alone: Python chooses, and only the one chosen is computed.

    Both branches must be tensors of our making: the name that this is given may be written over.
    """
    condition, a, b = args
    text = f"{a.inside(COMPARISON)} if {condition.code} else {b.inside(CHOICE)}"
    if a.scalar and b.scalar:
        return Value(text, strength=CHOICE, scalar=True)
    ours = all(isinstance(branch, Call) for branch in node.args[1:])
    if ours and all(v.dims == dims and not v.boolean and not v.weak for v in (a, b)):
        return Value(text, dims, CHOICE)
    tensor = Value(f"torch.tensor({condition.code}, device={like}.device)", (), boolean=True)
    return _where([tensor, a, b], dims, like)


def _where(args: list[Value], dims: Dims, like: str) -> Value:
    condition, a, b = args
    if (a.code, b.code) == ("1", "0"):
        return Value(condition.code, dims, condition.strength, boolean=True)
    tensors = [v for v in (a, b) if v.dims and not v.boolean and not v.weak]
    if tensors:
        large = len([d for d in dims if d is not None]) > 1 and dims in [v.dims for v in (condition, *tensors)]
        numbers = [v for v in (a, b) if v not in tensors]
        by_bits = large and condition.dims and all(v.scalar for v in numbers)
        return Value(f"{'where_by_bits' if by_bits else 'torch.where'}({condition.code}, {a.code}, {b.code})", dims)
    weak = all(v.weak or (v.scalar and _is_exact(v.code)) for v in (a, b))
    if not weak:
        a, b = (cast(v, like) for v in (a, b))
    if not weak and a.scalar and b.scalar:
        a = Value(f"{like}.new_full((), {a.code})")
    return Value(f"torch.where({condition.code}, {a.code}, {b.code})", dims, weak=weak)


def _numbers(fn: str, args: list[Value], like: str) -> list[Value]:
    """Arguments that are conditions or weak in the dtype of `like`, unless a tensor beside them brings it."""
    if fn in ("add", "sub", "mul", "div") and any(a.dims and not a.boolean and not a.weak for a in args):
        return [cast(a, like) if a.boolean and fn in ("add", "sub") else a for a in args]
    return [cast(a, like) for a in args]


def cast(value: Value, like: str) -> Value:
    """A condition or a weak tensor as real numbers of the dtype of `like`; anything else as it is."""
    if value.boolean and not value.scalar:
        return replace(counted(value, value.dims).method(f".to({like}.dtype)"), owned=True)
    return value.method(f".to({like}.dtype)") if value.weak else value


def counted(value: Value, dims: Dims) -> Value:
    """Truth values as the whole numbers that they lie in memory as, which torch makes real three times as fast.

    A view; those that lack a dimension of what they meet are few, and read better as they are.
    """
    return value.method(".view(torch.int8)") if value.boolean and value.dims == dims != () else value


def _is_exact(code: str) -> bool:
    """Whether a number is one that every dtype holds: 0, 1, 0.5."""
    try:
        return float(code) * 16 % 1 == 0 and abs(float(code)) <= 16
    except ValueError:
        return False
