"""A forward and its backward as functions, and the tuple that goes between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from sympy import Expr

from derive.backends.choices import choices_first
from derive.backends.cpu.wrapper import Native, Shapes, native, torch_only
from derive.backends.layout import Layouts, layouts
from derive.backends.outs import into, views_of
from derive.backends.scans import spares_half, with_scans
from derive.backends.thresholds import without_choices
from derive.backends.torch import Printer
from derive.backends.turned import with_sums_forwards
from derive.backends.values import Dims, Line, is_pack
from derive.emit.checks import first_reader, indices, read_as, shape
from derive.emit.dimensions import LaidOut, with_fewest_views
from derive.emit.model import Field, Function
from derive.emit.names import Names
from derive.emit.signatures import signature
from derive.equations import Requirement
from derive.length_code import length_check, lengths_of, size_code
from derive.nominal import nominal
from derive.pipeline import Derivation
from derive.program import Assign, Program, Reduce
from derive.terms.axes import Size

LINE_LENGTH = 120


class Pair:
    """A forward and its backward as functions, and the tuple that goes between them."""

    def __init__(
        self, d: Derivation, names: Names, forward: Program, backward: Program, kept: tuple[str, ...], title: str,
        forward_name: str, backward_name: str, fuse: bool = True,
    ):  # fmt: skip
        self.fuse = fuse
        self.d, self.names, self.op, self.title = d, names, d.named, title
        anew = forward, backward
        maxima = {s.name: s for s in forward.statements if isinstance(s, Assign) and isinstance(s.value, Reduce)}
        forward, backward = (with_scans(p, names.same_length, maxima) for p in anew)
        self.runs = spares_half(anew, (forward, backward), nominal(d.named))
        forward, backward = (with_sums_forwards(p, names.length) for p in (forward, backward))
        if fuse:  # else the equations as they are written are wanted
            forward, backward = (choices_first(without_choices(p, self._whole)) for p in (forward, backward))
        cotangents = [c.target.name for c in d.steps.cotangents]
        self.forward_layouts, self.backward_layouts = with_fewest_views(
            (forward, backward),
            lambda plain: self._laid_out(forward, backward, kept, plain),
            lambda p, known: [
                line.code for line in self._print(p, known, self._like if p is forward else cotangents[0])[0]
            ],
        )
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

    def _laid_out(self, forward: Program, backward: Program, kept: tuple[str, ...], plain: frozenset[str]) -> LaidOut:
        """The dimensions of every tensor of both, those of these names without any of length 1."""
        strict = frozenset(self.d.op.outputs) | {o.name for o in self.d.op.operands} | plain
        first = layouts(forward, strict, {}, self.names.slow)
        given = {n: first[n] for n in kept}
        return first, layouts(backward, frozenset(backward.returns) | plain, given, self.names.slow)

    @property
    def _whole(self) -> frozenset[str]:
        """The tensors that hold integers or truth values."""
        integers = frozenset(o.name for o in self.op.operands if o.kind == "index")
        integers |= {e.name for e in self.op.equations if e.target.is_integer}
        return integers | {c.name for c in self.d.conditions}

    @property
    def _like(self) -> str:
        """The input whose device and dtype new tensors of the forward take."""
        tensors = [o for o in self.op.operands if o.is_tensor]
        return next((o for o in tensors if o.ranges_over is None), tensors[0]).name

    def native(self, title: str, step: bool) -> Native:
        """The kernels of both functions, in the torch form's shapes and names.

        Where running sums are what takes long they are torch's: the kernels' loops would sum anew for every place.
        """
        if self.runs:
            return torch_only(self.op, "a running sum is faster as PyTorch's")
        axes = {size: axis for axis, size in self.names.sizes.items()}
        saved = {axes[f.name]: f.name for f in self.saved if f.note == "a length"}
        own = {r.axis.base: r.given for r in self.op.sizes if r.given is not None}
        shapes = Shapes(
            self.forward_layouts.dims, self.backward_layouts.dims, lambda n: self.names.tensors.get(n, n),
            own, saved, tuple(f.name for f in self.saved), _length_of,
        )  # fmt: skip
        return native(self.d, shapes, title, step)

    def backward_out(self, gradients: list[str], kernels: Native | None) -> Function:
        """The backward once more, its gradients written into tensors of the caller's."""
        made = {line.code.partition(" = ")[0] for line in self.printed}
        targets, copies = placed(gradients, self.returned, made, "out")
        lines = self._into(self.printed, targets, self.backward_layouts)
        called = None if kernels is None else kernels.backward_call
        native = () if called is None else called.lines((*copies, "return out"), targets)
        return Function(
            f"{self.backward.name}_out", f"{self.backward.signature}, *, out: {self.backward.returns}",
            self.backward.returns, "The same, written into the tensors of `out`, which share no memory with the rest.",
            (*native, *self.head, *lines, *copies, "return out"), decorators=("writes_out",),
        )  # fmt: skip

    def forward_out(self, kernels: Native | None) -> Function:
        """The forward once more, what it computes written where an earlier call's results lie."""
        made = {line.code.partition(" = ")[0] for line in self.forward_printed}
        outputs = [self.names.tensors.get(o, o) for o in self.d.op.outputs]
        places = {o: f"out[{k}]" for k, o in enumerate(outputs)}
        places = {f.name: f"out[-1].{f.name}" for f in self.saved} | places
        targets = {name: place for name, place in places.items() if name in made}
        views = views_of({o.name for o in self.op.operands}, self.forward_printed, self._tensors(self.forward_layouts))
        written = {name: place for name, place in targets.items() if name not in views}
        *lines, result = self.forward.lines
        before = lines[: len(lines) - len(self.forward_printed)]
        called = None if kernels is None else kernels.forward_call
        native = () if called is None else called.lines((result,), targets)
        return Function(
            f"{self.forward.name}_out", f"{signature(self.op)}, *, out: {self.forward.returns}",
            self.forward.returns, "The same, written over what an earlier call with inputs of these shapes returned.",
            (*before[:self.lengths_read], *native, *before[self.lengths_read:],
             *self._into(self.forward_printed, written, self.forward_layouts), result), decorators=("writes_out",),
        )  # fmt: skip

    def _into(self, printed: list[Line], targets: dict[str, str], laid: Layouts) -> list[str]:
        vectors = {self.names.tensors.get(n, n) for n, dims in laid.dims.items() if len(dims) == 1}
        return [_commented(line) for line in into(printed, targets, self._tensors(laid), vectors)]

    def _tensors(self, laid: Layouts) -> set[str]:
        """The names that hold tensors, as the code has them."""
        return {*laid.dims, *self.names.tensors.values()}

    def _forward(self, program: Program, name: str, title: str) -> Function:
        op, names = self.op, self.names
        tensors = [o for o in op.operands if o.is_tensor]
        printed, sizes, checked = self._print(program, self.forward_layouts, self._like)
        self.forward_printed = printed
        lines = [_commented(line) for line in printed]
        sizes += [f.name for f in self.saved if f.note == "a length"]
        axes = {v: k for k, v in names.sizes.items()}
        wanted = [axes.get(s, s) for s in sizes]
        checks = [o for o in tensors if o.ranges_over is not None and o.name in indices(op) - checked]
        wanted += [o.ranges_over.base for o in checks if o.ranges_over is not None]
        wanted += [s.axis.base for r in op.requirements for s in lengths_of(r)]
        lengths = frozenset(o.name for o in op.operands if o.kind == "length")
        head, _ = self._size_lines(
            list(dict.fromkeys(wanted)), {o.name: tuple(a.name for a in o.axes) for o in tensors}, lengths,
            list(op.requirements),
        )  # fmt: skip
        patterns = [(o.name, axes) for o in tensors for axes in read_as(o, self.d.op)]
        shapes = ", ".join(f'"{name}: {axes}"' for name, axes in patterns)
        comma = "," if len(patterns) == 1 else ""
        shape_check = [f'check_shapes("{op.name}", ({shapes}{comma}), {", ".join(name for name, _ in patterns)})']
        index_checks = [
            f'check_index("{op.name}", "{first_reader(self.d.op, o.name)}", "{o.name}", {o.name}, '
            f'"{o.ranges_over.base}", '
            f"{names.sizes[o.ranges_over.base]})"
            for o in checks if o.ranges_over is not None
        ]  # fmt: skip
        self.lengths_read = 1 + len(head) if any(f.note == "a length" for f in self.saved) else 0
        saved = f"{title}Saved({', '.join(f.name for f in self.saved)})"
        outputs = [names.tensors.get(o, o) for o in self.d.op.outputs]
        returns = f"tuple[{', '.join('Tensor' for _ in outputs)}, {title}Saved]"
        return Function(
            name, signature(op), returns, f"Returns {_listed(outputs)} and what the backward needs.",
            (*shape_check, *head, *index_checks, *lines, f"return {', '.join(outputs)}, {saved}"),
        )  # fmt: skip

    def _print(self, program: Program, known: Layouts, like: str) -> tuple[list[Line], list[str], set[str]]:
        names = self.names
        printer = Printer(
            program, known, names.tensors, names.sizes, names.slow, names.tight, self.fuse, like, self._whole
        )  # fmt: skip
        return printer.print(), list(printer.used_sizes), printer.sizes.checked

    def _fields(self, kept: tuple[str, ...], backward: Program, unknown: list[str]) -> tuple[Field, ...]:
        conditions = {c.name for c in self.d.conditions}
        notes = {n: shape(self.forward_layouts[n]) + (" of bool" if n in conditions else "") for n in kept}
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
                lines.append(self._readshape(place[0], list(dict.fromkeys([axis, *mates])), sources))
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
        ready = [r for r in checks if {s.axis.base for s in lengths_of(r)} <= known]
        for r in [r for r in ready if r.relation == "%" and r.left / r.right == rule.formula]:
            lines.append(length_check(self.op.name, r, self.names.sizes))
            checks.remove(r)
        lines.append(f"{self.names.sizes[axis]} = {size_code(rule.formula, self.names.sizes)}")
        known.add(axis)

    def _readshape(self, tensor: str, axes: list[str], sources: dict[str, Dims]) -> str:
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


def placed(
    gradients: Sequence[str], names: Sequence[str], made: Collection[str], out: str
) -> tuple[dict[str, str], list[str]]:
    """Where in `out` each name of ours is written, and the copies for those that are not made by themselves."""
    targets: dict[str, str] = {}
    copies = []
    for gradient, name in zip(gradients, names, strict=True):
        place = f"{out}.{gradient}" if len(gradients) > 1 else out
        if name in made and name not in targets:
            targets[name] = place
        else:  # a cotangent as it came, or a gradient that is another one's as well
            copies.append(f"{place}.copy_({name})")
    return targets, copies


def _length_of(formula: Expr) -> str:
    """Code of a length where the others stand in a dictionary `s`, leading axes as the number of their places."""
    code = size_code(formula, {n.axis.base: f's["{n.axis.base}"]' for n in formula.atoms(Size)})
    return re.sub(r'math\.prod\((s\["[^"]*"\])\)', r"\1", code)


def _place(axis: str, sources: dict[str, Dims]) -> tuple[str, int] | None:
    for name, dims in sources.items():
        for k, d in enumerate(dims):
            if d == axis:
                return name, k
    return None


def _commented(line: Line) -> str:
    if not line.note or len(line.code) + len(line.note) + 8 > LINE_LENGTH:
        return line.code
    return f"{line.code}  # {line.note}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
