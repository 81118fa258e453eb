"""Programs and a template become a formatted file. Templates hold the shape of a file, never mathematics."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import black
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sympy import Expr, Integer, expand

from derive.annotations import RESERVED
from derive.backends.cpu.step import RATE
from derive.backends.cpu.wrapper import Native, Shapes, native
from derive.backends.layout import Layouts, layouts
from derive.backends.outs import into
from derive.backends.scans import with_scans
from derive.backends.torch import Printer
from derive.backends.values import Dims, Line, is_pack
from derive.equations import Op, Operand, Requirement
from derive.header import docstring, summary
from derive.length_code import length_check, lengths_of, size_code
from derive.pipeline import Derivation
from derive.program import Num, Program, Window, base
from derive.sizes import taps
from derive.terms import At, Axis, Size
from derive.windows import Affine, longest

LINE_LENGTH = 120


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    note: str


@dataclass(frozen=True)
class Function:
    name: str
    signature: str
    returns: str
    doc: str
    lines: tuple[str, ...]
    title: str = ""
    saved: tuple[Field, ...] | None = None
    decorator: str = "in_float32"


@dataclass(frozen=True)
class Module:
    name: str
    title: str
    source: str
    command: str
    docstring: str
    imports: tuple[str, ...]
    saved: tuple[Field, ...]
    gradients: tuple[Field, ...]
    forward: Function
    backward: Function
    extra: tuple[Function, ...]
    parameters: tuple[str, ...]
    differentiable: tuple[str, ...]
    ranges: tuple[tuple[str, str, str, int, str, bool], ...]
    outputs: tuple[str, ...]
    cotangents: tuple[str, ...]
    returned: tuple[str, ...]
    plain_returns: str
    wrapper_doc: str
    native: Native | None  # kernels beside the torch form
    step_signature: str  # of a whole training step


# --- public -----------------------------------------------------------------------------------------------


def render(derivation: Derivation, backend: str = "torch", workspace: bool = False) -> str:
    """The source of one generated module, formatted; with `workspace`, a backward that fills given tensors as well."""
    return _formatted(
        _environment().get_template("module.py.j2").render(m=_module(derivation, backend, False, workspace))
    )


def render_files(derivation: Derivation, backend: str, step: bool = False, workspace: bool = False) -> dict[str, str]:
    """The files of one op by name: its module, and its kernels' C where the backend prints some.

    With `step`, a loss gets a function that is a whole step of gradient descent as well; with `workspace`, a backward
    that fills given tensors.
    """
    module = _module(derivation, backend, step, workspace)
    template = _environment().get_template
    texts = {f"{module.name}.py": _formatted(template("module.py.j2").render(m=module))}
    if module.native is not None and module.native.kernels:
        texts[f"{module.name}.c"] = template("kernels.c.j2").render(m=module)
    return texts


def render_shared(backend: str) -> dict[str, str]:
    """The files that every package of a backend has beside its modules and its `__init__`."""
    texts = {"_support.py": render_support()}
    if backend == "cpu":
        texts["_native.py"] = _formatted(_environment().get_template("native.py.j2").render())
        texts["_native.h"] = _environment().get_template("native.h").render()
    return texts


def render_init(derivations: list[Derivation]) -> str:
    """The package's `__init__`, which re-exports every module's functions."""
    names = [d.op.name for d in derivations]
    return render_init_names({n: public_names(n, d.op.stepwise) for n, d in zip(names, derivations, strict=True)})


def render_init_names(modules: dict[str, list[str]]) -> str:
    """The package's `__init__` for modules known by what they export."""
    rows = [{"file": name, "names": modules[name]} for name in sorted(modules)]
    everything = sorted({n for names in modules.values() for n in names})
    return _formatted(_environment().get_template("init.py.j2").render(modules=rows, all=everything))


def render_support() -> str:
    """The support module of a generated package."""
    return _formatted(_environment().get_template("support.py.j2").render())


def public_names(op: str, stepwise: bool = False) -> list[str]:
    """What a generated module offers."""
    names = [op, f"{op}_backward", f"{op}_forward"]
    return names + ([f"{op}_stepwise_backward", f"{op}_stepwise_forward"] if stepwise else [])


@lru_cache(maxsize=1)
def _environment() -> Environment:
    folder = Path(__file__).parent / "templates"
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _formatted(source: str) -> str:
    return black.format_str(source, mode=black.Mode(line_length=LINE_LENGTH))


# --- a module's parts -------------------------------------------------------------------------------------


def _module(d: Derivation, backend: str = "torch", step: bool = False, workspace: bool = False) -> Module:
    op = d.op
    title = "".join(part.capitalize() for part in op.name.split("_"))
    names = _Names(d)
    pair = _Pair(d, names, d.forward, d.backward, d.kept, title, f"{op.name}_forward", f"{op.name}_backward")
    targets = {a.of: a.target.name for a in d.steps.adjoints}
    gradients = tuple(
        Field(targets[o.name], "Tensor", _shape(tuple(a.name for a in o.axes))) for o in op.differentiable
    )
    extra: tuple[Function, ...] = ()
    if d.stepwise_forward is not None and d.stepwise_backward is not None:
        extra = _stepwise(d, names, title)
    kernels = pair.native(title, step) if backend == "cpu" else None
    if workspace:
        extra += (pair.backward_out([g.name for g in gradients]),)
    used = " ".join(line for f in (pair.forward, pair.backward, *extra) for line in f.lines)
    parameters = tuple(o.name for o in op.operands)
    gradient_of = {o.name: g.name for o, g in zip(op.differentiable, gradients, strict=True)}
    tensors = ", ".join("Tensor" for _ in op.outputs)
    return Module(
        name=op.name,
        title=title,
        source=op.source,
        command=(
            f"derive generate {op.name}"
            if op.source.startswith("derive/ops")
            else f"derive generate --from {op.source}"
        )
        + (" --workspace" if workspace else ""),
        docstring=docstring(d, [f"{f.name} {f.note}" for f in pair.saved]),
        imports=_imports(used, bool(_ranges(op)), workspace),
        saved=pair.saved,
        gradients=gradients,
        forward=pair.forward if kernels is None else _led(pair.forward, kernels.forward, pair.lengths_read),
        backward=pair.backward if kernels is None else _led(pair.backward, kernels.backward),
        extra=extra,
        parameters=parameters,
        differentiable=tuple(o.name for o in op.differentiable),
        ranges=_ranges(op),
        outputs=tuple(op.outputs),
        cotangents=tuple(c.target.name for c in d.steps.cotangents),
        returned=tuple(gradient_of.get(p, "None") for p in parameters),
        plain_returns=tensors if len(op.outputs) == 1 else f"tuple[{tensors}]",
        wrapper_doc=f"{summary(op)} Differentiable by `loss.backward()`.",
        native=kernels,
        step_signature=_signature(op, f"{RATE}: float"),
    )


def _led(function: Function, lines: tuple[str, ...], at: int = 0) -> Function:
    """The function with more lines, first or after some of its own."""
    return replace(function, lines=(*function.lines[:at], *lines, *function.lines[at:]))


def _read_as(operand: Operand, op: Op) -> list[str]:
    """The axes an operand is declared with, and those that equations read it by under other names: all must agree."""
    own = zip(operand.declared or operand.axes, operand.axes, strict=True)
    texts = [" ".join(_in_pattern(shown, _is_source(operand, a, op)) for shown, a in own)]
    for equation in op.equations:
        for at in equation.reads:
            plain = all(isinstance(i, Axis) for i in at.index) and at.index != (operand.declared or operand.axes)
            if at.name == operand.name and plain:
                texts.append(" ".join(_in_pattern(i) for i in at.index if isinstance(i, Axis)))
    return list(dict.fromkeys(texts))


def _in_pattern(axis: Axis, filled: bool = False) -> str:
    if axis.fixed is not None:
        return f"{axis.name}={axis.fixed}"
    return f"{axis.name}>0" if filled else axis.name


def _is_source(operand: Operand, axis: Axis, op: Op) -> bool:
    """Whether a maximum runs over this axis, whose length is read here: it needs a place to be at."""
    rule = next(r for r in op.sizes if r.axis == axis)
    extrema = {a for e in op.equations if e.kind in ("amax", "amin") for a in e.over}
    return axis in extrema and not axis.is_pack and rule.operand == operand.name


def _indices(op: Op) -> set[str]:
    """The integer tensors that are read by as they are given, where no condition guards them."""
    return {at.name for e in op.equations for read in e.reads for i in read.index for at in i.atoms(At)}


def _guards(op: Op, name: str) -> list[str]:
    """The integer tensors that hold an input's values where a condition lets them be read."""
    return [e.name for e in op.equations if e.target.is_integer and any(at.name == name for at in e.reads)]


def _first_reader(op: Op, name: str) -> str:
    """The equation that first reads an input, for the message of an index out of range."""
    if name not in _indices(op) and _guards(op, name):
        name = _guards(op, name)[0]
    at = next((k for k, e in enumerate(op.equations) if any(at.name == name for at in e.reads)), 0)
    return next((e.name for e in op.equations[at:] if e.given), op.outputs[0])


def _ranges(op: Op) -> tuple[tuple[str, str, str, int, str, bool], ...]:
    """For each integer input: its name, its values' axis, where its length is read, who reads it, and if guarded."""
    out = []
    for o in op.operands:
        guarded = o.name not in _indices(op)
        if o.ranges_over is not None and (not guarded or _guards(op, o.name)):
            rule = next(r for r in op.sizes if r.axis == o.ranges_over)
            if rule.operand is not None:
                dims = next(x for x in op.operands if x.name == rule.operand).axes
                at = rule.position - len(dims) if any(a.is_pack for a in dims[: rule.position]) else rule.position
                out.append((o.name, o.ranges_over.base, rule.operand, at, _first_reader(op, o.name), guarded))
    return tuple(out)


def _imports(used: str, ranges: bool, workspace: bool) -> tuple[str, ...]:
    lines = ["import math"] if "math." in used else []
    lines += ["from typing import NamedTuple", "", "import torch"]
    lines += ["from torch.nn import functional"] if "functional." in used else []
    lines += ["from torch import Tensor", "from torch.autograd.function import once_differentiable", ""]
    shared = [name for name in ("check_index", "check_length") if f"{name}(" in used]
    explained = ["explains_index"] if ranges else []
    used_ratio = ["ratio"] if "ratio(" in used else []
    used_places = ["places"] if "*places(" in used else []
    support = [*shared, "check_shapes", *explained, "in_float32", "keep", "kept", *used_places, *used_ratio, "typed"]
    support += ["writes_out"] if workspace else []
    return (*lines, f"from ._support import {', '.join(support)}")


def _shape(dims: Dims) -> str:
    return f"[{', '.join('1' if d is None else d for d in dims)}]" if dims else "a number"


class _Names:
    """Python names for axes' sizes, scalars and tensors, decided once for the whole module."""

    def __init__(self, d: Derivation):
        op = d.named
        programs = [p for p in (d.forward, d.backward, d.stepwise_forward, d.stepwise_backward) if p is not None]
        tensors = {n for p in programs for n in (*[g for g, _ in p.given], *[s.name for s in p.statements])}
        tensors |= {o.name for o in op.operands}
        self.tensors = {t: f"{t}_" for t in tensors if keyword.iskeyword(t) or t in RESERVED}
        self.sizes: dict[str, str] = {}
        for rule in op.sizes:
            axis = rule.axis.base
            name = "leading" if axis == "..." else axis
            if rule.axis.fixed is not None:
                self.sizes[axis] = str(rule.axis.fixed)
                continue
            if rule.given is not None:
                self.sizes[axis] = rule.given
                continue
            while name in tensors or name in RESERVED or keyword.iskeyword(name) or name in self.sizes.values():
                name = f"{name}_size"
            self.sizes[axis] = name
        self.fixed = frozenset(r.axis.base for r in op.sizes if r.axis.fixed is not None)
        self.carried = frozenset(r.axis.base for r in op.sizes if r.formula is None or r.axis.fixed is not None)
        self.rules = {r.axis.base: r for r in op.sizes}
        self.taps = taps(op.equations)

    def slow(self, axis: str) -> int:
        """What tells the place of a window from its tap: a length that follows from others is that of the places."""
        rule = self.rules[base(axis)]
        return 0 if rule.formula is not None else 3 if rule.given is not None else 2 if base(axis) in self.taps else 1

    def same_length(self, one: str, other: str) -> bool:
        """Whether two axes are known to be equally long."""
        a, b = base(one), base(other)
        formulas = [(self.rules[x].formula, y) for x, y in ((a, b), (b, a))]
        return not Axis(a).is_pack and (a == b or any(f == Size(Axis(y)) for f, y in formulas))

    def tight(self, dim: str, window: Window) -> bool:
        """Whether an axis of the window is exactly as long as the dimension allows."""
        if not isinstance(window.offset, Num) or any(Axis(d).is_pack for d in (dim, *(a for a, _ in window.steps))):
            return False
        form = Affine(tuple((Axis(base(a)), step) for a, step in window.steps), Integer(int(window.offset.value)))
        rules = [(self.rules.get(a.base), longest(form, a, Size(Axis(base(dim))))) for a, _ in form.steps]
        return any(r is not None and r.formula is not None and expand(r.formula - most) == 0 for r, most in rules)


class _Pair:
    """A forward and its backward as functions, and the tuple that goes between them."""

    def __init__(
        self, d: Derivation, names: _Names, forward: Program, backward: Program, kept: tuple[str, ...], title: str,
        forward_name: str, backward_name: str, fuse: bool = True,
    ):  # fmt: skip
        self.fuse = fuse
        self.d, self.names, self.op = d, names, d.named
        forward, backward = (with_scans(p, names.same_length) for p in (forward, backward))
        strict = frozenset(d.op.outputs) | {o.name for o in d.op.operands}
        self.forward_layouts = layouts(forward, strict, {}, names.slow)
        given = {n: self.forward_layouts[n] for n in kept}
        self.backward_layouts = layouts(backward, frozenset(backward.returns), given, names.slow)
        cotangents = [c.target.name for c in d.steps.cotangents]
        self.sources = {n: self.backward_layouts[n] for n in (*cotangents, *kept)}
        printed, sizes, _ = self._print(backward, self.backward_layouts, cotangents[0])
        lines = [_commented(line) for line in printed]
        head, unknown = self._size_lines(sizes, self.sources)
        self.saved = self._fields(kept, backward, unknown)
        returned = [names.tensors.get(r, r) for r in backward.returns]
        result = returned[0] if len(returned) == 1 else f"{title}Gradients({', '.join(returned)})"
        types = ", ".join([f"{c}: Tensor" for c in cotangents] + [f"{f.name}: {f.type}" for f in self.saved])
        self.backward = Function(
            backward_name, types, "Tensor" if len(returned) == 1 else f"{title}Gradients",
            f"The gradient of every real input, from {_listed(cotangents)} and what the forward saved.",
            (*head, *lines, f"return {result}"),
        )  # fmt: skip
        self.printed, self.head, self.returned = printed, head, tuple(returned)
        self.forward = self._forward(forward, forward_name, title)

    def native(self, title: str, step: bool) -> Native:
        """The kernels of both functions, in the torch form's shapes and names."""
        axes = {size: axis for axis, size in self.names.sizes.items()}
        saved = {axes[f.name]: f.name for f in self.saved if f.note == "a length"}
        own = {r.axis.base: r.given for r in self.op.sizes if r.given is not None}
        shapes = Shapes(
            self.forward_layouts.dims, self.backward_layouts.dims, lambda n: self.names.tensors.get(n, n),
            own, saved, tuple(f.name for f in self.saved), _length_of,
        )  # fmt: skip
        return native(self.d, shapes, title, step)

    def backward_out(self, gradients: list[str]) -> Function:
        """The backward once more, its gradients written into tensors of the caller's."""
        made = {line.code.partition(" = ")[0] for line in self.printed}
        targets: dict[str, str] = {}
        copies = []
        for gradient, name in zip(gradients, self.returned, strict=True):
            place = f"out.{gradient}" if len(gradients) > 1 else "out"
            if name in made and name not in targets:
                targets[name] = place
            else:  # a cotangent as it came, or a gradient that is another one's as well
                copies.append(f"{place}.copy_({name})")
        tensors = {*self.backward_layouts.dims, *self.names.tensors.values()}
        vectors = {self.names.tensors.get(n, n) for n, dims in self.backward_layouts.dims.items() if len(dims) == 1}
        lines = [*(_commented(line) for line in into(self.printed, targets, tensors, vectors)), *copies]
        return Function(
            f"{self.backward.name}_out", f"{self.backward.signature}, *, out: {self.backward.returns}",
            self.backward.returns, "The same, written into the tensors of `out`, which share no memory with the rest.",
            (*self.head, *lines, "return out"), decorator="writes_out",
        )  # fmt: skip

    def _forward(self, program: Program, name: str, title: str) -> Function:
        op, names = self.op, self.names
        tensors = [o for o in op.operands if o.is_tensor]
        real = next((o for o in tensors if o.ranges_over is None), tensors[0])
        printed, sizes, checked = self._print(program, self.forward_layouts, real.name)
        lines = [_commented(line) for line in printed]
        sizes += [f.name for f in self.saved if f.note == "a length"]
        axes = {v: k for k, v in names.sizes.items()}
        wanted = [axes.get(s, s) for s in sizes]
        checks = [o for o in tensors if o.ranges_over is not None and o.name in _indices(op) - checked]
        wanted += [o.ranges_over.base for o in checks if o.ranges_over is not None]
        wanted += [s.axis.base for r in op.requirements for s in lengths_of(r)]
        lengths = frozenset(o.name for o in op.operands if o.kind == "length")
        head, _ = self._size_lines(
            list(dict.fromkeys(wanted)), {o.name: tuple(a.name for a in o.axes) for o in tensors}, lengths,
            list(op.requirements),
        )  # fmt: skip
        patterns = [(o.name, axes) for o in tensors for axes in _read_as(o, op)]
        shapes = ", ".join(f'"{name}: {axes}"' for name, axes in patterns)
        comma = "," if len(patterns) == 1 else ""
        shape_check = [f'check_shapes("{op.name}", ({shapes}{comma}), {", ".join(name for name, _ in patterns)})']
        index_checks = [
            f'check_index("{op.name}", "{_first_reader(op, o.name)}", "{o.name}", {o.name}, "{o.ranges_over.base}", '
            f"{names.sizes[o.ranges_over.base]})"
            for o in checks if o.ranges_over is not None
        ]  # fmt: skip
        self.lengths_read = 1 + len(head) if any(f.note == "a length" for f in self.saved) else 0
        saved = f"{title}Saved({', '.join(f.name for f in self.saved)})"
        outputs = [names.tensors.get(o, o) for o in self.d.op.outputs]
        returns = f"tuple[{', '.join('Tensor' for _ in outputs)}, {title}Saved]"
        return Function(
            name, _signature(op), returns, f"Returns {_listed(outputs)} and what the backward needs.",
            (*shape_check, *head, *index_checks, *lines, f"return {', '.join(outputs)}, {saved}"),
        )  # fmt: skip

    def _print(self, program: Program, known: Layouts, like: str) -> tuple[list[Line], list[str], set[str]]:
        names = self.names
        integers = frozenset(o.name for o in self.op.operands if o.kind == "index")
        integers |= {e.name for e in self.op.equations if e.target.is_integer}
        integers |= {c.name for c in self.d.conditions}
        printer = Printer(
            program, known, names.tensors, names.sizes, names.slow, names.tight, self.fuse, like, integers
        )  # fmt: skip
        return printer.print(), list(printer.used_sizes), printer.sizes.checked

    def _fields(self, kept: tuple[str, ...], backward: Program, unknown: list[str]) -> tuple[Field, ...]:
        conditions = {c.name for c in self.d.conditions}
        notes = {n: _shape(self.forward_layouts[n]) + (" of bool" if n in conditions else "") for n in kept}
        fields = [Field(self.names.tensors.get(n, n), "Tensor", note) for n, note in notes.items()]
        fields += [Field(s, "float", "a number") for s in backward.scalars]
        return tuple(fields + [Field(self.names.sizes[a], "int", "a length") for a in unknown])

    def _size_lines(
        self, axes: list[str], sources: dict[str, Dims], given: frozenset[str] = frozenset(),
        checks: list[Requirement] | None = None,
    ) -> tuple[list[str], list[str]]:  # fmt: skip
        """Code that reads lengths off shapes and checks them, and the axes whose length no shape gives."""
        checks = checks or []
        lines: list[str] = []
        known: set[str] = set()
        unknown: list[str] = []
        pending = list(axes)
        while pending:
            axis = pending.pop(0)
            if axis in known or axis in unknown:
                continue
            place = _place(axis, sources)
            if self.names.sizes[axis] in given or axis in self.names.fixed:
                known.add(axis)
            elif place is not None:
                mates = [
                    a for a in pending
                    if (p := _place(a, sources)) is not None and p[0] == place[0]
                    and a not in known and a not in self.names.fixed
                ]  # fmt: skip
                lines.append(self._read_shape(place[0], list(dict.fromkeys([axis, *mates])), sources))
                known |= {axis, *mates}
            else:
                self._derived_size(axis, known, unknown, pending, lines, checks)
        lines += [length_check(self.op.name, r, self.names.sizes) for r in checks]
        return lines, unknown

    def _derived_size(
        self, axis: str, known: set[str], unknown: list[str], pending: list[str], lines: list[str],
        checks: list[Requirement],
    ) -> None:  # fmt: skip
        """A length that follows from others by the windows and merges that read it; else one that must be saved."""
        rule = next((r for r in self.op.sizes if r.axis.base == axis), None)
        if rule is None or rule.formula is None:
            unknown.append(axis)
            return
        inner = [s.axis.base for s in sorted(rule.formula.atoms(Size), key=str)]
        missing = [a for a in inner if a not in known and a not in unknown]
        if missing:
            pending[:0] = [*missing, axis]
            return
        for r in [r for r in checks if r.relation == "%" and r.left / r.right == rule.formula]:
            lines.append(length_check(self.op.name, r, self.names.sizes))
            checks.remove(r)
        lines.append(f"{self.names.sizes[axis]} = {size_code(rule.formula, self.names.sizes)}")
        known.add(axis)

    def _read_shape(self, tensor: str, axes: list[str], sources: dict[str, Dims]) -> str:
        dims = sources[tensor]
        code = self.names.tensors.get(tensor, tensor)
        wanted = {a: self.names.sizes[a] for a in axes}
        if len(axes) == 1:
            at = dims.index(axes[0])
            if is_pack(dims[at]):
                after = len(dims) - at - 1
                return f"{wanted[axes[0]]} = {code}.shape[{at or ''}:{-after if after else ''}]"
            return f"{wanted[axes[0]]} = {code}.shape[{at - len(dims) if any(is_pack(d) for d in dims[:at]) else at}]"
        parts = []
        for d in dims:
            name = wanted.get(d or "", "_")
            parts.append(f"*{name}" if is_pack(d) else name)
        return f"{', '.join(parts)} = {code}.shape"


def _length_of(formula: Expr) -> str:
    """Code of a length where the others stand in a dictionary `s`."""
    return size_code(formula, {n.axis.base: f's["{n.axis.base}"]' for n in formula.atoms(Size)})


def _place(axis: str, sources: dict[str, Dims]) -> tuple[str, int] | None:
    for name, dims in sources.items():
        for k, d in enumerate(dims):
            if d == axis:
                return name, k
    return None


def _stepwise(d: Derivation, names: _Names, title: str) -> tuple[Function, ...]:
    """The uncollapsed backward beside the closed one, with a saved tuple of its own."""
    assert d.stepwise_forward is not None and d.stepwise_backward is not None
    kept = tuple(n for n, _ in d.stepwise_backward.given if n not in {c.target.name for c in d.steps.cotangents})
    long = f"{title}Stepwise"
    pair = _Pair(
        d, names, d.stepwise_forward, d.stepwise_backward, kept, long,
        f"{d.op.name}_stepwise_forward", f"{d.op.name}_stepwise_backward", fuse=False,
    )  # fmt: skip
    saved = Function("", "", "", "What the stepwise backward needs.", (), f"{long}Saved", pair.saved)
    fields = tuple(Field(g, "Tensor", _shape(pair.backward_layouts[g])) for g in d.stepwise_backward.returns)
    gradients = Function("", "", "", "The gradient of every tensor of the forward.", (), f"{long}Gradients", fields)
    return saved, gradients, pair.forward, pair.backward


def _signature(op: Op, *required: str) -> str:
    """The parameters of an op's functions; `required` ones come before those with defaults."""
    parts = []
    for o in op.operands:
        if not o.is_tensor:
            kind = "int" if o.kind == "length" else "float"
            parts.append(f"{o.name}: {kind}" + (f" = {o.default!r}" if o.has_default else ""))
        else:
            parts.append(f"{o.name}: Tensor")
    first = next((k for k, o in enumerate(op.operands) if o.has_default), len(parts))
    return ", ".join([*parts[:first], *required, *parts[first:]])


def _commented(line: Line) -> str:
    if not line.note or len(line.code) + len(line.note) + 8 > LINE_LENGTH:
        return line.code
    return f"{line.code}  # {line.note}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
