"""Pointwise functions in torch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from derive.backends.code import (
    ATOM,
    PRODUCT,
    Code,
    Field,
    Method,
    Pick,
    Prefix,
    Text,
    as_code,
    call,
    has_product,
    infix,
    method,
    negative,
)
from derive.backends.torch.scalars import is_given, is_never_refused, scalar_call
from derive.backends.values import Dims, Value
from derive.ir.program import CONDITIONS, RELATIONS, Call, Node, Num
from derive.primitives import PRIMITIVES, names, row

_BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
_COMPARED = {name: sign for sign, name in RELATIONS.items()}
_LOGIC = {"and": "&", "or": "|"}
_ONE, _TWO = Text("1"), Text("2")


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
    if fn == "not":
        code: Code = Prefix("not " if scalar else "~", args[0].code, apart=not scalar)
    else:
        code = reduce(partial(infix, _LOGIC.get(fn) or _COMPARED[fn]), (a.code for a in args))
    return Value(code, dims, scalar, boolean=True)


def _operation(node: Call, args: list[Value], dims: Dims) -> Value:
    """What is written with a sign between its operands, or in front."""
    scalar, first = all(a.scalar for a in args), args[0].code
    if node.fn == "div" and first == _ONE and not scalar:
        return args[1].method("reciprocal", dims=dims)
    if node.fn == "div" and scalar and is_given(node.args[-1]):
        return Value(call("ratio_of", *args), scalar=True)
    if node.fn in _BINARY:
        return Value(infix(_BINARY[node.fn], *args), dims, scalar)
    if node.fn == "neg" and first.strength == PRODUCT and (_leads(node.args[0]) or has_product(first)):
        return Value(Prefix("-", first, apart=True), dims, scalar)
    if node.fn == "neg":
        return Value(negative(first), dims, scalar)
    if args[1].code == _TWO and not scalar:
        return args[0].method("square", dims=dims)
    if scalar and not is_never_refused(node):
        return Value(call("of_numbers", '"pow"', *args), scalar=True)
    return Value(infix("**", *args), dims, scalar)


def _function(node: Call, args: list[Value], dims: Dims, like: str) -> Value:
    """A function of tensors, by torch's name for it."""
    if node.fn in ("maximum", "minimum") and any(a.scalar for a in args):
        return _clamped(node, args, dims)
    if node.fn == "logaddexp" and any(a.scalar for a in args):  # torch has it of tensors
        of, number = sorted(args, key=lambda a: a.scalar)
        return Value(infix("+", _of_torch("softplus", infix("-", of, number)), number), dims)
    if node.fn in ("threshold", "bent"):
        over = "_" if args[0].owned and args[0].dims == dims else ""
        name = "leaky_relu" if node.fn == "bent" else node.fn
        return Value(call(f"functional.{name}{over}", *args), dims)
    if node.fn == "narrow":
        return args[0].method("to", dtype_of(like), dims=dims)
    if node.fn == "nan_to_num":
        return args[0].method("nan_to_num", 0, "math.inf", dims=dims)
    return Value(_of_torch(node.fn, *args) if node.fn in PRIMITIVES else call(node.fn, *args), dims)


def _of_torch(fn: str, *args: object) -> Code:
    """The call of a primitive; what it is called with besides is said in its row."""
    name, _, more = row(fn).torch_name.partition("({x}, ")
    option, _, value = more.removesuffix(")").partition("=")
    return call(name if more else f"torch.{name}", *args, **({option: value} if more else {}))


def _leads(node: Node) -> bool:
    """Whether a product begins with what a minus sign must not stand at: a condition, a quotient or a rest in wholes.

    `-a // b` is not `-(a // b)`, and torch negates no truth values.
    """
    while isinstance(node, Call) and node.fn in ("mul", "div"):
        node = node.args[0]
    return isinstance(node, Call) and node.fn in (*CONDITIONS, "where", "floordiv", "mod")


def _clamped(node: Call, args: list[Value], dims: Dims) -> Value:
    """The larger or smaller of a tensor and a number; both bounds in one call where the lower was set just before."""
    value, bound = args if args[1].scalar else args[::-1]
    inner, number = node.args if args[1].scalar else node.args[::-1]
    end, other = ("min", "max") if node.fn == "maximum" else ("max", "min")
    before = value.code
    bounded = isinstance(before, Method) and before.name.startswith("clamp") and dict(before.options).keys() == {other}
    ordered = isinstance(inner, Call) and inner.fn in ("maximum", "minimum") and inner.fn != node.fn
    if isinstance(before, Method) and bounded and ordered and (end == "max" or _ascends(number, inner)):  # type: ignore[arg-type]
        ends = {other: before.options[0][1], end: bound.code}
        return Value(replace(before, args=(ends["min"], ends["max"]), options=()), dims)
    return value.method(f"clamp{'_' if value.owned else ''}", dims=dims, **{end: bound})


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
    if node.fn == "pow" and args[1].code == _TWO and args[0].owned:
        return replace(args[0].method("square_"), owned=True) if long or args[0].code.strength == ATOM else None
    if node.fn == "nan_to_num" and args[0].owned:
        return replace(args[0].method("nan_to_num_", 0, "math.inf"), owned=True)
    if len(args) == 1:
        kept = args[0].owned and node.fn in _IN_PLACE and (node.fn != "neg" or args[0].code.strength == ATOM)
        return replace(args[0].method(f"{node.fn}_"), owned=True) if kept else None
    if node.fn not in ("add", "sub", "mul", "div"):
        return None
    first, second = args
    if not first.owned and second.owned and node.fn in ("add", "mul"):
        first, second = second, first
    if not first.owned or broadcast(args) != first.dims:
        return None
    if not long and (first.code.strength < ATOM or second.scalar):
        return None
    return replace(first.method(f"{node.fn}_", second), owned=True)


def _choice(node: Call, args: list[Value], dims: Dims, like: str) -> Value:
    """One of two values by a condition on numbers alone: Python chooses, and only the one chosen is computed.

    Both branches must be tensors of our making: the name that this is given may be written over.
    """
    condition, a, b = args
    picked = Pick(a.code, condition.code, b.code)
    if a.scalar and b.scalar:
        return Value(picked, scalar=True)
    ours = all(isinstance(branch, Call) for branch in node.args[1:])
    if ours and all(v.dims == dims and not v.boolean and not v.weak for v in (a, b)):
        return Value(picked, dims)
    tensor = Value(call("torch.tensor", condition, device=device_of(like)), (), boolean=True)
    return _where([tensor, a, b], dims, like)


def _where(args: list[Value], dims: Dims, like: str) -> Value:
    condition, a, b = args
    if (a.code, b.code) == (_ONE, Text("0")):
        return Value(condition.code, dims, boolean=True)
    tensors = [v for v in (a, b) if v.dims and not v.boolean and not v.weak]
    if tensors:
        large = len([d for d in dims if d is not None]) > 1 and dims in [v.dims for v in (condition, *tensors)]
        numbers = [v for v in (a, b) if v not in tensors]
        by_bits = large and condition.dims and all(v.scalar for v in numbers)
        return Value(call("where_by_bits" if by_bits else "torch.where", condition, a, b), dims)
    weak = all(v.weak or (v.scalar and _is_exact(v.code)) for v in (a, b))
    if not weak:
        a, b = (cast(v, like) for v in (a, b))
    if not weak and a.scalar and b.scalar:
        a = Value(method(like, "new_full", "()", a))
    return Value(call("torch.where", condition, a, b), dims, weak=weak)


def _numbers(fn: str, args: list[Value], like: str) -> list[Value]:
    """Arguments that are conditions or weak in the dtype of `like`, unless a tensor beside them brings it."""
    if fn in ("add", "sub", "mul", "div") and any(a.dims and not a.boolean and not a.weak for a in args):
        return [cast(a, like) if a.boolean and fn in ("add", "sub") else a for a in args]
    return [cast(a, like) for a in args]


def cast(value: Value, like: str) -> Value:
    """A condition or a weak tensor as real numbers of the dtype of `like`; anything else as it is."""
    if value.boolean and not value.scalar:
        return replace(counted(value, value.dims).method("to", dtype_of(like)), owned=True)
    return value.method("to", dtype_of(like)) if value.weak else value


def counted(value: Value, dims: Dims) -> Value:
    """Truth values as the whole numbers that they lie in memory as, which torch makes real three times as fast.

    A view; those that lack a dimension of what they meet are few, and read better as they are.
    """
    return value.method("view", "torch.int8") if value.boolean and value.dims == dims != () else value


def dtype_of(like: str) -> Code:
    return Field(as_code(like), "dtype")


def device_of(like: str) -> Code:
    return Field(as_code(like), "device")


def _is_exact(code: Code) -> bool:
    """Whether a number is one that every dtype holds: 0, 1, 0.5."""
    try:
        return float(str(code)) * 16 % 1 == 0 and abs(float(str(code))) <= 16
    except ValueError:
        return False
