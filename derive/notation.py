"""What a spec author imports: axes, tensors, reductions, functions and `@op`.

`from derive import *` gives exactly the words in `__all__`.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sympy import Abs, Basic, Eq, Expr, Float, Max, Min, Ne, Pow, Rational, SympifyError, cos, erf, exp, log, oo, pi, sin, sqrt, sympify, tanh
from sympy import sign as _sympy_sign

from derive.equations import (
    Equation,
    Op,
    Operand,
    check_axes,
    check_functions,
    check_read,
    read_prefixes,
    scaled_reduction,
    signs,
    size_rules,
    split,
)
from derive.errors import DeriveError
from derive.functions import absolute, maximum, minimum, power, relu, rsqrt, sigmoid, sign, softplus
from derive.inline import inline_call
from derive.terms import PACK, At, Axis, Delta, Merge, Reduce, Scalar, Size, Tensor, Where

__all__ = [
    "amax", "amin", "axes", "constant", "cos", "delta", "eq", "erf", "exp", "index", "length", "log", "maximum", "mean", "minimum",
    "ne", "oo", "op", "pi", "relu", "rsqrt", "scalar", "sigmoid", "sign", "sin", "size", "softplus", "sqrt", "sum", "tanh",
    "tensor", "where",
]  # fmt: skip

eq = Eq
ne = Ne


# --- axes and annotations --------------------------------------------------------------------------------------------


def axes(names: str) -> Any:
    """`axes("d")` is an axis, `axes("n c")` a tuple of them. An axis's length is `size(axis)`."""
    made = tuple(Axis(name) for name in names.replace(",", " ").split())
    for axis in made:
        if not axis.base.isidentifier() or keyword.iskeyword(axis.base):
            raise DeriveError(f"{axis.base!r} cannot name an axis", fix="use a Python identifier")
    if not made:
        raise DeriveError("axes() needs at least one name", fix='write axes("n c")')
    return made[0] if len(made) == 1 else made


class _Kind:
    """An annotation: `tensor[..., d]`, `constant[n]`, `index(c)[n]`."""

    def __init__(self, kind: str, ranges_over: Axis | None = None, axes: tuple[Axis, ...] | None = None):
        self.kind, self.ranges_over, self.axes = kind, ranges_over, axes

    def __getitem__(self, key: Any) -> _Kind:
        key = key if isinstance(key, tuple) else (key,)
        made = tuple(PACK if k is Ellipsis else k for k in key)
        for axis in made:
            if not isinstance(axis, Axis):
                raise DeriveError(f"{axis!r} is not an axis", fix='declare it with axes("…")')
        return _Kind(self.kind, self.ranges_over, made)


tensor = _Kind("tensor")
constant = _Kind("constant")
scalar = _Kind("scalar", axes=())


def length(axis: Axis) -> _Kind:
    """A whole number that is the length of `axis`: `heads: length(h)`."""
    if not isinstance(axis, Axis):
        raise DeriveError(f"length({axis!r}): not an axis", fix='declare it with axes("…")')
    return _Kind("length", axis, axes=())


def index(axis: Axis) -> _Kind:
    """An integer tensor whose values run over `axis`: `index(c)[n]`."""
    if not isinstance(axis, Axis):
        raise DeriveError(f"index({axis!r}): not an axis", fix='declare it with axes("…")')
    return _Kind("index", axis)


# --- words of an expression ------------------------------------------------------------------------------------------


def _reduction(kind: str, body: Any, over: Any) -> Reduce:
    over = over if isinstance(over, tuple) else (over,)
    over = tuple(PACK if a is Ellipsis else a for a in over)
    for a in over:
        if not isinstance(a, Axis):
            raise DeriveError(f"{kind}(…, over={a!r}): not an axis", fix='declare it with axes("…")')
    return Reduce(kind, sympify(body), *over)


def sum(body: Any, *, over: Any) -> Reduce:
    """The sum of `body` over one axis or a tuple of them."""
    return _reduction("sum", body, over)


def mean(body: Any, *, over: Any) -> Reduce:
    """The mean of `body` over one axis or a tuple of them."""
    return _reduction("mean", body, over)


def amax(body: Any, *, over: Any) -> Reduce:
    """The maximum of `body`; ties share the gradient evenly."""
    return _reduction("amax", body, over)


def amin(body: Any, *, over: Any) -> Reduce:
    """The minimum of `body`; ties share the gradient evenly."""
    return _reduction("amin", body, over)


def size(axis: Any) -> Expr:
    """The length of an axis."""
    axis = PACK if axis is Ellipsis else axis
    if not isinstance(axis, Axis):
        raise DeriveError(f"size({axis!r}): not an axis", fix='declare it with axes("…")')
    return Size(axis)


def where(condition: Any, a: Any, b: Any) -> Expr:
    """`a` where the condition holds, else `b`. Conditions compare axes or values."""
    return Where(condition, a, b)


def delta(i: Any, j: Any) -> Expr:
    """1 where two indices are equal, else 0."""
    return Delta(i, j)


def _canonical(expr: Basic) -> Any:
    """SymPy's own absolute value, sign and extrema as ours, whose derivatives follow PyTorch at singular points."""
    expr = expr.replace(Abs, absolute).replace(_sympy_sign, sign)
    expr = expr.replace(lambda e: isinstance(e, Pow) and not e.exp.is_number, lambda e: _symbolic_power(e))
    expr = expr.replace(Max, lambda *a: _fold(maximum, a)).replace(Min, lambda *a: _fold(minimum, a))
    return expr


def _symbolic_power(e: Pow) -> Expr:
    return e if isinstance(e, exp) or not e.base.atoms(At) and not e.exp.atoms(At) else power(e.base, e.exp)


def _fold(function: Callable[[Any, Any], Expr], args: tuple[Expr, ...]) -> Expr:
    out = args[0]
    for a in args[1:]:
        out = function(out, a)
    return out


def _exact(expr: Basic) -> Any:
    """Decimal literals as the rationals they were written as: 0.5 is 1/2, 0.044715 is 8943/200000."""
    return expr.xreplace({f: Rational(str(f)) for f in expr.atoms(Float)})


# --- handles: what a spec's body works with ------------------------------------------------------------------------------


class Handle:
    """A tensor, read by giving its axes: `x[..., d]`."""

    def __init__(self, frame: Frame, name: str):
        self._frame, self._name = frame, name

    def __getitem__(self, key: Any) -> At:
        return self._frame.read(self._name, _indices(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._frame.define(self._name, _indices(key), value)

    def _sympy_(self) -> Any:
        raise DeriveError(
            f"{self._name} is used without its axes", op=self._frame.name, fix=f"read one element: {self._name}[…]"
        )

    def _bare(self, *other: Any) -> Any:
        self._sympy_()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _bare
    __pow__ = __rpow__ = __neg__ = __matmul__ = __lt__ = __gt__ = __le__ = __ge__ = _bare


def _indices(key: Any) -> tuple[Expr, ...]:
    key = key if isinstance(key, tuple) else (key,)
    out = []
    for k in key:
        if k is Ellipsis:
            out.append(PACK)
        elif isinstance(k, tuple):
            out.append(Merge(*(PACK if a is Ellipsis else a for a in k)))
        elif isinstance(k, slice):
            raise DeriveError("a slice `:` is not an index", fix="name the axis: x[n, d]")
        else:
            out.append(sympify(k))
    return tuple(out)


class Frame:
    """The `f` of a spec: assigning `f.name[axes] = expression` writes an equation, `f.name[axes]` reads it back."""

    def __init__(self, name: str):
        set_ = super().__setattr__
        set_("name", name)
        set_("operands", {})
        set_("equations", [])
        set_("tensors", {})

    def __getattr__(self, name: str) -> Handle:
        return Handle(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, Handle):
            raise DeriveError(
                f"f.{name} is given something that is no tensor", op=self.name, fix=f"write its axes: f.{name}[…] = …"
            )
        self.rename(value._name, name)

    def read(self, name: str, key: tuple[Expr, ...]) -> At:
        known = self.tensors.get(name)
        at = At(known[0] if known else Tensor(name), *key)
        return at  # checked with the equation that it stands in, which is not known yet

    def define(self, name: str, key: tuple[Expr, ...], value: Any) -> None:
        try:
            self._define(name, key, _exact(_canonical(sympify(value))))
        except SympifyError:
            raise DeriveError(f"{value!r} is no expression", op=self.name, equation=name) from None
        except DeriveError as error:
            raise error.within(self.name, name) from None

    def _define(self, name: str, key: tuple[Expr, ...], rhs: Expr) -> None:
        self._check_new(name)
        left = tuple(a for i in key for a in (i.args if isinstance(i, Merge) else (i,)))
        if not all(isinstance(a, Axis) for a in left):
            raise DeriveError("the left side holds something that is no axis", fix="write axes, or (t, e) to merge two")
        if len(set(left)) != len(left):
            raise DeriveError("an axis stands twice on the left", fix="use delta(i, j) on the right for a diagonal")
        for at in sorted(rhs.atoms(At), key=lambda a: a.sort_key()):
            check_read(at, self.tensors[at.name][1] if at.name in self.tensors else None, list(self.tensors), name)
        check_functions(rhs, name)
        target = Tensor(name, **signs(rhs))
        for equation in split(target, key, rhs, set(self.tensors)):
            check_axes(equation.axes, equation.body, equation.over, name)
            if scaled_reduction(equation.body) is not None:
                raise DeriveError("a reduction was left inside an equation", fix="give it an equation of its own")
            self.equations.append(equation)
            self.tensors[equation.name] = (equation.target, equation.index)

    def _check_new(self, name: str) -> None:
        if name in self.tensors:
            what = "an input" if name in self.operands else "defined already"
            raise DeriveError(f"{name} is {what}", fix="give the equation another name")
        if keyword.iskeyword(name) or name in ("saved", "torch", "self", "ctx") or name.startswith("_"):
            raise DeriveError(f"{name} cannot name a tensor", fix="choose another name")

    def rename(self, old: str, new: str) -> None:
        """Give the result of a call its name, and the call's own intermediates that name as a prefix."""
        self._check_new(new)
        call = old.rpartition("__")[0]
        names = {old: new}
        for equation in self.equations:
            if equation.name != old and call and equation.name.startswith(f"{call}__") and not call.startswith("="):
                names.setdefault(equation.name, f"{new}_{equation.name.rpartition('__')[2]}")
        swap = {self.tensors[a][0]: Tensor(b, **self.tensors[a][0]._assumptions_orig) for a, b in names.items()}
        self.equations[:] = [_renamed(e, swap) for e in self.equations]
        for a, b in names.items():
            target, key = self.tensors.pop(a)
            self.tensors[b] = (swap[target], key)

    def bind(self, inlined: list[Equation], outputs: tuple[str, ...]) -> Any:
        for equation in inlined:
            self.equations.append(equation)
            self.tensors[equation.name] = (equation.target, equation.index)
        handles = tuple(Handle(self, name) for name in outputs)
        return handles[0] if len(handles) == 1 else handles


def _renamed(e: Equation, swap: dict[Tensor, Tensor]) -> Equation:
    return Equation(swap.get(e.target, e.target), e.index, e.body.xreplace(swap), e.kind, e.over, e.scale, e.given)


_frame: ContextVar[Frame | None] = ContextVar("_frame", default=None)


# --- @op ---------------------------------------------------------------------------------------------------------------


class OpCall:
    """An op as the spec's author holds it: `op` is its data; calling it inside another spec inlines its equations."""

    def __init__(self, op: Op):
        self.op = op
        self.__doc__, self.__name__ = op.doc, op.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame = _frame.get()
        if frame is None:
            raise DeriveError(
                f"{self.op.name} is called outside a spec",
                fix="import the generated function, or call derive.build(op) for live functions",
            )
        calls = builtins.sum(1 for e in frame.equations if e.name.startswith(f"{self.op.name}_call"))
        prefix = f"{self.op.name}_call{calls}__"
        try:
            inlined, outputs = inline_call(self.op, args, kwargs, frame.tensors, prefix)
        except DeriveError as error:
            raise error.within(frame.name) from None
        return frame.bind(inlined, outputs)

    def __repr__(self) -> str:
        return str(self.op)


def op(function: Callable[..., Any] | None = None, *, stepwise: bool = False) -> Any:
    """Read a function of equations as an op. `stepwise=True` also emits the backward that returns every adjoint."""
    if function is None:
        return lambda f: op(f, stepwise=stepwise)
    return OpCall(_trace(function, stepwise))


def _trace(function: Callable[..., Any], stepwise: bool) -> Op:
    name = function.__name__
    frame = Frame(name)
    try:
        operands = tuple(_operand(p) for p in list(inspect.signature(function, eval_str=True).parameters.values())[1:])
    except NameError as error:
        raise _undeclared(error, name) from None
    except DeriveError as error:
        raise error.within(name) from None
    args: list[Any] = []
    for operand in operands:
        if operand.kind == "length":
            assert operand.ranges_over is not None
            args.append(Size(operand.ranges_over))
            continue
        if operand.kind == "scalar":
            args.append(Scalar(operand.name))
            continue
        integer = {"integer": True, "nonnegative": True} if operand.kind == "index" else {}
        frame.operands[operand.name] = operand
        frame.tensors[operand.name] = (Tensor(operand.name, **integer), operand.axes)
        args.append(Handle(frame, operand.name))
    token = _frame.set(frame)
    try:
        returned = function(frame, *args)
    except NameError as error:
        raise _undeclared(error, name) from None
    except DeriveError as error:
        raise error.within(name) from None
    finally:
        _frame.reset(token)
    outputs = _outputs(returned, frame)
    try:
        sizes = size_rules(operands, tuple(frame.equations), name)
    except DeriveError as error:
        raise error.within(name) from None
    declared = {key: dims for key, (_, dims) in frame.tensors.items()}
    equations = tuple(read_prefixes(e, declared, sizes) for e in frame.equations)
    return Op(
        name=name,
        doc=inspect.getdoc(function) or "",
        operands=operands,
        equations=equations,
        outputs=outputs,
        sizes=sizes,
        stepwise=stepwise,
        source=_source(function),
        tensors={key: dims for key, (_, dims) in frame.tensors.items()},
    )


def _source(function: Callable[..., Any]) -> str:
    """The spec's file, named from the package it stands in, so that it is the same on every machine."""
    path = Path(inspect.getsourcefile(function) or "?")
    return f"derive/ops/{path.name}" if path.parent.name == "ops" and path.parent.parent.name == "derive" else path.name


def _undeclared(error: NameError, op_name: str) -> DeriveError:
    name = getattr(error, "name", None) or str(error)
    return DeriveError(
        f"{name} is not defined", op=op_name, fix=f'declare an axis with {name} = axes("{name}"), or import the function'
    )


def _operand(parameter: inspect.Parameter) -> Operand:
    kind = parameter.annotation
    if not isinstance(kind, _Kind) or kind.axes is None:
        raise DeriveError(
            f"input {parameter.name} has no kind",
            fix=f"annotate it: {parameter.name}: tensor[n, d], index(c)[n], constant[n] or scalar",
        )
    has_default = parameter.default is not inspect.Parameter.empty
    if kind.kind not in ("scalar", "length") and has_default:
        raise DeriveError(f"input {parameter.name} is a tensor with a default", fix="only scalars and lengths take defaults")
    default = parameter.default if has_default else None
    return Operand(parameter.name, kind.kind, _distinct(kind.axes), kind.ranges_over, default, has_default, kind.axes)


def _distinct(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """An axis declared twice, as in `tensor[n, n]`, is two axes of one length."""
    out: list[Axis] = []
    for axis in axes:
        number, name = 2, axis
        while name in out:
            name, number = Axis(f"{axis.base}{number}"), number + 1
        out.append(name)
    return tuple(out)


def _outputs(returned: Any, frame: Frame) -> tuple[str, ...]:
    returned = returned if isinstance(returned, tuple) else (returned,)
    names = []
    for value in returned:
        if not isinstance(value, Handle):
            raise DeriveError(
                "the spec returns something that is no tensor", op=frame.name, fix="return f.y, or (f.y, f.z)"
            )
        if value._name not in frame.tensors or value._name in frame.operands:
            raise DeriveError(
                f"returns {value._name}, which no equation defines", op=frame.name, fix=f"write f.{value._name}[…] = …"
            )
        names.append(value._name)
    return tuple(names)
