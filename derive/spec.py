"""Reading a spec: its function runs once with a frame that records the equations it writes."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sympy import Expr, SympifyError, sympify
from sympy.logic.boolalg import Boolean

from derive.annotations import operand
from derive.checks import check_axes, check_functions, check_no_concat, check_read
from derive.equations import Equation, Op, Operand, signs
from derive.errors import DeriveError
from derive.guards import guarded
from derive.inline import inline_call
from derive.lengths import requirements
from derive.mistakes import check_signature, names_near, no_attribute, undeclared, wrong_type
from derive.recorded import as_recorded, unsigned
from derive.sizes import read_prefixes, size_of, size_rules
from derive.splitting import conditions_split, scaled_reduction, split, taken_apart
from derive.terms.axes import PACK, Axis, Size
from derive.terms.choices import Concat
from derive.terms.elements import At, Scalar, Tensor
from derive.terms.indices import Merge
from derive.terms.reductions import Reduce

# --- handles: what a spec's body works with ---------------------------------------------------------------


class Handle:
    """A tensor, read by giving its axes: `x[..., d]`."""

    def __init__(self, recorder: Recorder, name: str):
        self._recorder, self._name = recorder, name

    def __getitem__(self, key: Any) -> At:
        return self._recorder.read(self._name, _indices(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._recorder.define(self._name, _indices(key), value)

    def __repr__(self) -> str:
        return self._name

    def _sympy_(self) -> Any:
        op = self._recorder.name
        if self._name in self._recorder.results:
            called = self._name.partition("_call")[0]
            raise DeriveError(
                f"{called}(…) is a whole tensor, used as if it were one element", op=op,
                fix=f"name it without axes first, f.a = {called}(…), and read f.a[…]",
            )  # fmt: skip
        known = self._recorder.tensors.get(self._name)
        index = "()" if known and not known[1] else "…"
        raise DeriveError(
            f"{self._name} is used without its axes", op=op, fix=f"read one element: {self._name}[{index}]"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fix = "write size(d)" if name in ("shape", "size") else f"write functions of elements: {name}({self._name}[…])"
        raise DeriveError(f"{self._name} has no {name}", op=self._recorder.name, fix=fix)

    def _bare(self, *other: Any) -> Any:
        self._sympy_()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _bare
    __pow__ = __rpow__ = __neg__ = __matmul__ = __lt__ = __gt__ = __le__ = __ge__ = _bare


class Frame:
    """The `f` of a spec: assigning `f.name[axes] = expression` writes an equation, `f.name[axes]` reads it back.

    It has no other attributes, so that every name is free for a tensor.
    """

    def __init__(self, recorder: Recorder):
        super().__setattr__("_recorder", recorder)

    def __getattr__(self, name: str) -> Handle:
        return Handle(super().__getattribute__("_recorder"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        recorder: Recorder = super().__getattribute__("_recorder")
        if not isinstance(value, Handle):
            raise DeriveError(
                f"f.{name} is given something that is no tensor",
                op=recorder.name,
                fix=f"write its axes: f.{name}[…] = …",
            )
        recorder.rename(value._name, name)


def _indices(key: Any) -> tuple[Expr, ...]:
    key = key if isinstance(key, tuple) else (key,)
    out = []
    for k in key:
        if k is Ellipsis:
            out.append(PACK)
        elif isinstance(k, tuple):
            inside = tuple(PACK if a is Ellipsis else a for a in k)
            if len(inside) < 2 or not all(isinstance(a, Axis) for a in inside):
                raise DeriveError(f"{k} merges no axes", fix="write two axes or more in brackets of their own: (t, e)")
            out.append(Merge(*inside))
        elif isinstance(k, slice):
            raise DeriveError("a slice `:` is not an index", fix="name the axis: x[n, d]")
        elif k is None or isinstance(k, str | bool | Handle):
            raise DeriveError(f"{k!r} is no index", fix="index by axes, whole numbers, or an index(…) with its axes")
        else:
            out.append(sympify(k))
    return tuple(out)


@dataclass
class Recorder:
    """What a spec has said so far."""

    name: str
    operands: dict[str, Operand] = field(default_factory=dict)
    equations: list[Equation] = field(default_factory=list)
    tensors: dict[str, tuple[Tensor, tuple[Expr, ...]]] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)  # outputs of calls, which the spec names one by one
    written: list[At] = field(default_factory=list)  # every read, in order, also what cancels

    @property
    def ranges(self) -> dict[str, Axis]:
        """The axis that the values of each integer input run over."""
        return {n: o.ranges_over for n, o in self.operands.items() if o.ranges_over is not None}

    def read(self, name: str, key: tuple[Expr, ...]) -> At:
        known = self.tensors.get(name)
        if known and len(known[1]) == len(key):  # a place counted from the end
            key = tuple(
                size_of(d) + i if i.is_Integer and i < 0 and d != PACK else i
                for i, d in zip(key, known[1], strict=True)
            )
        made = self._equation(name)
        tensor = unsigned(made) if made else known[0] if known else Tensor(name)
        self.written.append(At(tensor, *key))  # checked with its equation, which is not known yet
        return self.written[-1]

    def _equation(self, name: str) -> Equation | None:
        return next((e for e in self.equations if e.name == name), None)

    def define(self, name: str, key: tuple[Expr, ...], value: Any) -> None:
        try:
            self._define(name, key, as_recorded(sympify(value), {unsigned(e): e.target for e in self.equations}))
        except SympifyError:
            raise DeriveError(f"{value!r} is no expression", op=self.name, equation=name) from None
        except DeriveError as error:
            raise error.within(self.name, name) from None

    def _define(self, name: str, key: tuple[Expr, ...], rhs: Expr) -> None:
        self._check_new(name)
        if isinstance(rhs, Boolean) and not isinstance(rhs, Expr):  # a number's symbol may be either
            raise DeriveError("the right side is a condition", fix="write where(condition, 1, 0)")
        left = tuple(a for i in key for a in (i.args if isinstance(i, Merge) else (i,)))
        if not all(isinstance(a, Axis) for a in left):
            raise DeriveError("the left side holds something that is no axis", fix="write axes, or (t, e) to merge two")
        if len(set(left)) != len(left):
            raise DeriveError("an axis stands twice on the left", fix="use delta(i, j) on the right for a diagonal")
        for at in sorted(rhs.atoms(At), key=lambda a: a.sort_key()):
            dims = self.tensors[at.name][1] if at.name in self.tensors else None
            declared = self.operands[at.name].declared if at.name in self.operands else ()
            check_read(at, dims, list(self.tensors), self.ranges, name, declared)
        check_functions(rhs, name)
        plain = rhs
        rhs, indices = guarded(plain, self.equations, set(self.tensors) | {name})
        if any(e.body.atoms(Reduce) for e in indices):  # the condition of a guard is itself read by name
            plain, sums = conditions_split(Tensor(name), left, plain, set(self.tensors))
            self._add(sums)
            rhs, indices = guarded(plain, self.equations, set(self.tensors) | {name})
        self._add(indices)
        if not isinstance(rhs, At) or left != key:  # what only takes apart is such an equation itself
            rhs, apart = taken_apart(rhs, self.equations, set(self.tensors) | {name})
            self._add(apart)
        target = Tensor(name, **signs(rhs))
        for equation in split(target, key, rhs, set(self.tensors)):
            if not isinstance(equation.body, Concat):
                check_no_concat(equation.body, name)
                check_axes(equation.axes, equation.body, equation.over, name)
            if scaled_reduction(equation.body) is not None:
                raise DeriveError("a reduction was left inside an equation", fix="give it an equation of its own")
            self.equations.append(equation)
            self.tensors[equation.name] = (equation.target, equation.index)

    def _add(self, equations: list[Equation]) -> None:
        for equation in equations:
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
            if equation.name not in self.results and call and equation.name.startswith(f"{call}__"):
                names.setdefault(equation.name, f"{new}_{equation.name.rpartition('__')[2]}")
        swap = {self.tensors[a][0]: Tensor(b, **self.tensors[a][0]._assumptions_orig) for a, b in names.items()}
        self.equations[:] = [_renamed(e, swap) for e in self.equations]
        for a, b in names.items():
            target, key = self.tensors.pop(a)
            self.tensors[b] = (swap[target], key)

    def bind(self, inlined: list[Equation], outputs: tuple[str, ...]) -> Any:
        self._add(inlined)
        self.results |= set(outputs)
        handles = tuple(Handle(self, name) for name in outputs)
        return handles[0] if len(handles) == 1 else handles


def _renamed(e: Equation, swap: dict[Tensor, Tensor]) -> Equation:
    return Equation(swap.get(e.target, e.target), e.index, e.body.xreplace(swap), e.kind, e.over, e.scale, e.given)


_recording: ContextVar[Recorder | None] = ContextVar("_recording", default=None)


# --- @op --------------------------------------------------------------------------------------------------


class OpCall:
    """An op as the spec's author holds it: `op` is its data; calling it inside another spec inlines its equations."""

    def __init__(self, op: Op):
        self.op = op
        self.__doc__, self.__name__ = op.doc, op.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = _recording.get()
        if recorder is None:
            raise DeriveError(
                f"{self.op.name} is called outside a spec",
                fix="import the generated function, or call derive.build(op) for live functions",
            )
        calls = sum(1 for e in recorder.equations if e.name.startswith(f"{self.op.name}_call"))
        prefix = f"{self.op.name}_call{calls}__"
        try:
            inlined, outputs = inline_call(self.op, args, kwargs, recorder.tensors, prefix)
        except DeriveError as error:
            raise error.within(recorder.name) from None
        return recorder.bind(inlined, outputs)

    def __repr__(self) -> str:
        return str(self.op)

    def _repr_latex_(self) -> str:
        return self.op._repr_latex_()


def op(function: Callable[..., Any] | None = None, *, stepwise: bool = False) -> Any:
    """Read a function of equations as an op. `stepwise=True` also emits the backward that returns every adjoint."""
    if function is None:
        return lambda f: op(f, stepwise=stepwise)
    return OpCall(_trace(function, stepwise))


def _trace(function: Callable[..., Any], stepwise: bool) -> Op:
    name = getattr(function, "__name__", "")
    recorder = Recorder(name)
    try:
        check_signature(function)
        operands = tuple(operand(p) for p in list(inspect.signature(function, eval_str=True).parameters.values())[1:])
    except NameError as error:
        raise undeclared(error, {}).within(name) from None
    except DeriveError as error:
        raise error.within(name) from None
    args: list[Any] = []
    for given in operands:
        if given.kind == "length":
            assert given.ranges_over is not None
            args.append(Size(given.ranges_over))
            continue
        if given.kind == "scalar":
            args.append(Scalar(given.name))
            continue
        recorder.operands[given.name] = given
        recorder.tensors[given.name] = (given.tensor, given.axes)
        args.append(Handle(recorder, given.name))
    token = _recording.set(recorder)
    try:
        returned = function(Frame(recorder), *args)
    except NameError as error:
        inputs = [o.name for o in operands]
        raise undeclared(error, names_near(function, inputs, set(recorder.tensors) - set(inputs))).within(
            name
        ) from None
    except DeriveError as error:
        raise error.within(name) from None
    except TypeError as error:
        raise wrong_type(error).within(name) from None
    except AttributeError as error:
        mistake = no_attribute(error)
        if mistake is None:
            raise
        raise mistake.within(name) from None
    finally:
        _recording.reset(token)
    outputs = _outputs(returned, recorder)
    try:
        sizes = size_rules(operands, tuple(recorder.equations), name, recorder.written)
    except DeriveError as error:
        raise error.within(name) from None
    declared = {key: dims for key, (_, dims) in recorder.tensors.items()}
    equations = read_prefixes(tuple(recorder.equations), declared, sizes)
    try:
        needs = requirements(operands, equations, sizes)
    except DeriveError as error:
        raise error.within(name) from None
    return Op(
        name=name,
        doc=inspect.getdoc(function) or "",
        operands=operands,
        equations=equations,
        outputs=outputs,
        sizes=sizes,
        requirements=needs,
        stepwise=stepwise,
        source=_source(function),
        tensors=declared,
    )


def _source(function: Callable[..., Any]) -> str:
    """The spec's file, named from the package it stands in, so that it is the same on every machine."""
    path = Path(inspect.getsourcefile(function) or "?")
    return f"derive/ops/{path.name}" if path.parent.name == "ops" and path.parent.parent.name == "derive" else path.name


def _outputs(returned: Any, recorder: Recorder) -> tuple[str, ...]:
    if returned is None:
        raise DeriveError("the spec returns nothing", op=recorder.name, fix="end it with return f.y")
    returned = returned if isinstance(returned, tuple) else (returned,)
    names = []
    for value in returned:
        if isinstance(value, At):
            raise DeriveError(
                f"returns one element, {value}", op=recorder.name, fix=f"return the whole tensor: return f.{value.name}"
            )
        if not isinstance(value, Handle):
            raise DeriveError(
                "the spec returns something that is no tensor", op=recorder.name, fix="return f.y, or (f.y, f.z)"
            )
        name = value._name
        if name in recorder.operands:
            raise DeriveError(
                f"returns its input {name}", op=recorder.name, fix="return what an equation defines, such as f.y"
            )
        if name not in recorder.tensors:
            raise DeriveError(
                f"returns {name}, which no equation defines", op=recorder.name, fix=f"write f.{name}[…] = …"
            )
        if name in names:
            raise DeriveError(f"returns {name} twice", op=recorder.name, fix="return each tensor once")
        right = next(e.right for e in recorder.equations if e.name == name)
        if right.atoms(At) and right.is_integer:
            raise DeriveError(
                f"returns {name}, which holds integers and has no gradient", op=recorder.name, equation=name,
                fix="return real tensors only",
            )  # fmt: skip
        names.append(name)
    return tuple(names)
