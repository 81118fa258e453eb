"""A forward and its backward as functions, and the tuple that goes between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from textwrap import wrap

from sympy import Expr

from derive.backends.code import Text
from derive.backends.cpu.wrapper import Native, Shapes, native
from derive.backends.torch.between import made_twice
from derive.backends.torch.choices import choices_first
from derive.backends.torch.dtypes import Dtypes
from derive.backends.torch.layout import Layouts, layouts
from derive.backends.torch.masks import masks_first
from derive.backends.torch.printer import Printer
from derive.backends.torch.products.differences import differences_in_float64, forward_in_float64
from derive.backends.torch.puts import put_where_nothing_is
from derive.backends.torch.reductions.scans import with_scans
from derive.backends.torch.reductions.shares import with_shares
from derive.backends.torch.thresholds import without_choices
from derive.backends.turned import with_sums_forwards
from derive.backends.values import Line, is_pack
from derive.contract.inlined_in_sums import squares_of_differences
from derive.emit.checks import (
    filled,
    first_reader,
    given_lengths,
    guarding,
    indices,
    left_to_check,
    named_places,
    ranges,
    read_as,
    read_by,
    shape,
)
from derive.emit.dimensions import LaidOut, with_fewest_views
from derive.emit.empty import left_undefined
from derive.emit.lengths import length_lines
from derive.emit.model import Field, Function
from derive.emit.names import Names
from derive.emit.needs import Needs
from derive.emit.signatures import signature
from derive.facts.finite import finite_unchosen
from derive.facts.lengths.length_code import lengths_of, size_code
from derive.facts.lengths.nominal import nominal
from derive.ir.equations import Operand
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.substituting import without_stops
from derive.ir.program import Assign, Program, Read, Reduce
from derive.ir.terms.axes import Size
from derive.ir.words import listed
from derive.pipeline import Derivation
from derive.schedule.recurrences import in_places

LINE_LENGTH = 120
_NO_BREAK = "\N{NO-BREAK SPACE}"
LONGEST_NOTE = 3 * LINE_LENGTH
"""An equation that is longer is told by the module's first lines alone."""


@dataclass(frozen=True)
class Printed:
    """A program as lines, the axes whose lengths these say, and the indices that they check as they read."""

    lines: list[Line]
    sizes: list[str]
    checked: set[str]


class Pair:
    """A forward and its backward as functions, and the tuple that goes between them."""

    width = LINE_LENGTH

    def __init__(
        self, d: Derivation, names: Names, forward: Program, backward: Program, kept: tuple[str, ...], title: str,
        forward_name: str, backward_name: str, fuse: bool = True,
    ):  # fmt: skip
        self.fuse = fuse
        self.d, self.names, self.op, self.title = d, names, d.named, title
        self.cotangents = [c.target.name for c in d.steps.cotangents]
        self.maxima = {s.name: s for s in forward.statements if isinstance(s, Assign) and isinstance(s.value, Reduce)}
        forward, backward = map(self._values, (forward, backward))
        forward, backward = (with_sums_forwards(p, names.length) for p in (forward, backward))
        self.whole = self._whole(forward, kept)
        if fuse:  # else the equations as they are written are wanted
            computed = frozenset(kept) - {o.name for o in self.op.operands}
            finite = finite_unchosen(self.op, self.cotangents)
            negative = frozenset(o.name for o in self.op.operands if not o.is_tensor and (o.default or 0) < 0)
            both = (without_choices(p, self.whole, computed, finite, negative) for p in (forward, backward))
            forward, backward = (choices_first(put_where_nothing_is(p)) for p in both)
            forward, backward = masks_first(forward), masks_first(backward)
            backward = differences_in_float64(squares_of_differences(backward, nominal(self.op)))
            forward, backward = with_shares(forward_in_float64(forward, backward, kept)), with_shares(backward)
        forward, backward = (in_places(p, d.op.name) for p in (forward, backward))
        self.twice = made_twice(forward, backward, [e.name for e in self.op.equations])

        def lines_of(program: Program, known: Layouts) -> list[Line]:
            return self._print(program, known, self._like if program is forward else self.cotangents[0]).lines

        self.forward_layouts, self.backward_layouts = with_fewest_views(
            (forward, backward), lambda plain: self._laid_out(forward, backward, kept, plain), lines_of
        )
        self.filled = filled(d.op, self.op, forward)
        self.checked_lengths = (*self.op.requirements, *left_to_check(d.op, self.op, forward))
        self.forward_printed = self._checked(self._print(forward, self.forward_layouts, self._like))
        self.backward_printed = self._print(backward, self.backward_layouts, self.cotangents[0])
        sources = {n: self.backward_layouts[n] for n in (*self.cotangents, *kept)}
        self.head, unknown, self.shapes_read = length_lines(self.op, names, self.backward_printed.sizes, sources)
        self.saved = self._fields(kept, backward, unknown)
        self.returns, self.kept = backward.returns, kept
        self.returned = tuple(names.tensors.get(r, r) for r in backward.returns)
        self.needs = self._needs(backward) if fuse else None
        self.undefined = left_undefined(forward, backward, self.cotangents)
        self.backward = self._backward(backward_name)
        self.forward = self._forward(forward_name)

    def _laid_out(self, forward: Program, backward: Program, kept: tuple[str, ...], plain: frozenset[str]) -> LaidOut:
        """The dimensions of every tensor of both, those of these names without any of length 1."""
        strict = frozenset(self.d.op.outputs) | {o.name for o in self.d.op.operands} | plain
        first = layouts(forward, strict, {}, self.names.slow)
        given = {n: first[n] for n in kept}
        return first, layouts(backward, frozenset(backward.returns) | plain, given, self.names.slow)

    def _whole(self, forward: Program, kept: Collection[str]) -> frozenset[str]:
        """The tensors that hold integers or truth values, among them what the forward counts for the backward."""
        integers = frozenset(o.name for o in self.op.operands if o.kind == "index")
        integers |= {e.name for e in self.op.equations if e.target.is_integer}
        integers |= {c.name for c in self.d.conditions}
        dtypes = Dtypes(forward, integers)
        return integers | {n for n in kept if not dtypes.is_real(Read(n, ()))}

    @property
    def _like(self) -> str:
        """The input whose device and dtype new tensors of the forward take."""
        tensors = [o for o in self.op.operands if o.is_tensor]
        return self.names.of(next((o for o in tensors if o.ranges_over is None), tensors[0]).name)

    def native(self, title: str, step: bool) -> Native:
        """The kernels of both functions, in the torch form's shapes and names."""
        saved = {self.names.axes[f.name]: f.name for f in self.saved if f.note == "a length"}
        own = {r.axis.base: r.given for r in self.op.sizes if r.given is not None}
        assert self.needs is not None
        shapes = Shapes(
            self.forward_layouts.dims, self.backward_layouts.dims, lambda n: self.names.tensors.get(n, n),
            own, saved, tuple(f.name for f in self.saved), length_said,
            self.needs.flags if len(self.needs.flags) > 1 else (), self.needs.chosen(self.returned),
        )  # fmt: skip
        return native(self.d, shapes, title, step, self._values)

    def _values(self, program: Program) -> Program:
        """What is computed: running maxima are scans, and what stops a gradient is a value like any other."""
        return with_scans(without_stops(program), self.names.same_length, self.maxima)

    def _needs(self, backward: Program) -> Needs | None:
        names, targets = self.names, {a.of: a.target.name for a in self.d.steps.adjoints}
        taken = {*names.tensors, *names.tensors.values(), *names.sizes.values(), *backward.names}
        taken |= {o.name for o in self.d.op.operands}
        flags = tuple(_apart(f"need_{targets[o.name]}", taken) for o in self.d.op.differentiable)
        return Needs(backward, _apart("needs", taken), flags, self.returned)

    def _backward(self, name: str) -> Function:
        kind = "Tensor" if len(self.returned) == 1 else f"{self.title}Gradients"
        said, takes, first = "The gradient of every real input", self.backward_takes, tuple[str, ...]()
        lines, results = self.backward_printed.lines, self.returned
        if self.needs is not None:
            takes += f", *, {self.needs.typed}"
            said += f", None if `{self.needs.parameter}` has False"
            first = (*self.needs.unpacked, *self.needs.nothing)
            lines, results = list(self.needs.guarded(lines)), self.needs.returned(results)
        result = results[0] if len(results) == 1 else f"{kind}({', '.join(results)})"
        return Function(
            name, takes, kind, f"{said}, from {listed(self.cotangents)} and what the forward saved.",
            (*first, *self.head, *commented(lines, self.width), *self.zeros(), f"return {result}"),
        )  # fmt: skip

    @property
    def backward_takes(self) -> str:
        """The parameters of the backward: cotangents, and what is saved."""
        return ", ".join([f"{c}: Tensor" for c in self.cotangents] + [f"{f.name}: {f.type}" for f in self.saved])

    def zeros(self, written: bool = False) -> tuple[str, ...]:
        """Lines for gradients of nothing that their statements leave nan; `written` where they are the caller's."""
        if not self.undefined:
            return ()
        found = [f"if not {self._elements}:  # the statistics of nothing are nan, and its gradients 0"]
        for name in self.undefined:
            code = self.names.tensors.get(name, name)
            condition = "" if self.needs is None else self.needs.condition(self.needs.live.tensors[name])
            found += [f"    if {condition}:"] if condition else []
            zero = f"{code}.zero_()" if written else f"{code} = torch.zeros_like({code})"
            found.append(f"{'        ' if condition else '    '}{zero}")
        return tuple(found)

    def of_something(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        """The lines that call a kernel of the backward, which is not asked for such gradients."""
        if not self.undefined or not lines:
            return lines
        return (f"{lines[0]} if {self._elements} else None", *lines[1:])

    @property
    def _elements(self) -> str:
        """Whether a cotangent has elements, as code."""
        asked = " or ".join(f"{c}.numel()" for c in self.cotangents)
        return f"({asked})" if len(self.cotangents) > 1 else asked

    def _forward(self, name: str) -> Function:
        op, names, printed = self.op, self.names, self.forward_printed
        tensors = [o for o in op.operands if o.is_tensor]
        lengths_saved = [f.name for f in self.saved if f.note == "a length"]
        wanted = [names.axes.get(s, s) for s in (*printed.sizes, *lengths_saved)]
        refused = printed.checked & {name for name, *_ in ranges(op)} & read_by(op)  # by torch, and by kernels as well
        indexed = indices(op) - refused
        checked = [(o, o.ranges_over.base) for o in tensors if o.ranges_over is not None and o.name in indexed]
        wanted += [over for _, over in checked]
        wanted += [s.axis.base for r in self.checked_lengths for s in lengths_of(r)]
        given = frozenset(names.of(o.name) for o in op.operands if o.kind == "length")
        sources = {o.name: tuple(a.name for a in o.axes) for o in tensors}
        head, *_ = length_lines(op, names, list(dict.fromkeys(wanted)), sources, given, self.checked_lengths)
        index_checks = {o.name: self._index_check(o.name, names.of(o.name), over) for o, over in checked}
        compared = [check for name, check in index_checks.items() if name not in read_by(op)]  # by kernels as well
        index_checks_left = [check for check in index_checks.values() if check not in compared]
        before = (self._shape_check(tensors), *given_lengths(op, names.of), *head, *compared)
        self.lengths_read = len(before) if lengths_saved or compared else 0
        saved = f"{self.title}Saved({', '.join(f.name for f in self.saved)})"
        outputs = [names.tensors.get(o, o) for o in self.d.op.outputs]
        returns = f"tuple[{', '.join('Tensor' for _ in outputs)}, {self.title}Saved]"
        return Function(
            name, signature(op), returns, f"Returns {listed(outputs)} and what the backward needs.",
            (*before, *index_checks_left, *commented(printed.lines),
             f"return {', '.join(outputs)}, {saved}"), of_inputs=True,
        )  # fmt: skip

    def _checked(self, printed: Printed) -> Printed:
        """With the indices checked that a condition guards, where torch would not, or nothing says what it refused."""
        explained = {name for name, *_ in ranges(self.op)}
        lines, sizes = list(printed.lines), list(printed.sizes)
        for name, of in guarding(self.op).items():
            code = self.names.tensors.get(name, name)
            at = next((k for k, line in enumerate(lines) if line.made == code), None)
            if at is not None and (name not in printed.checked or of.name not in explained):
                assert of.ranges_over is not None
                lines.insert(at + 1, Line(Text(self._index_check(of.name, code, of.ranges_over.base))))
                sizes.append(of.ranges_over.base)
        return Printed(lines, sizes, printed.checked)

    def _index_check(self, operand: str, code: str, over: str) -> str:
        reader = first_reader(self.d.op, operand)
        return f'check_index("{self.op.name}", "{reader}", "{operand}", {code}, "{over}", {self.names.sizes[over]})'

    def _shape_check(self, tensors: list[Operand]) -> str:
        patterns = [(o, axes) for o in tensors for axes in read_as(o, self.d.op, self.filled)]
        shapes = ", ".join(f'"{o.name}{"" if o.differentiable else f" ({o.kind})"}: {axes}"' for o, axes in patterns)
        comma = "," if len(patterns) == 1 else ""
        values = ", ".join(self.names.of(o.name) for o, _ in patterns)
        return f'check_shapes("{self.op.name}", ({shapes}{comma}), {values})'

    def _print(self, program: Program, known: Layouts, like: str) -> Printed:
        names = self.names
        printer = Printer(
            program=program,
            layouts=known,
            names=names.tensors,
            size_names=names.sizes,
            merged={n: tuple(a.base for a in axes) for n, axes in self.d.named.merged.items()},
            slow=names.slow,
            tight=names.tight,
            behind=names.behind,
            fuse=self.fuse,
            like=like,
            integers=self.whole,
            indices=frozenset(o.name for o in self.op.operands if o.kind == "index"),
            places=named_places(self.op),
            outputs=frozenset(self.op.outputs),
            results=self._results(program) if like == self._like else frozenset(),
            said=frozenset(r.axis.base for r in self.op.sizes if r.given is not None),
            twice=self.twice,
        )
        return Printed(printer.print(), list(printer.used_sizes), printer.sizes.checked)

    def _results(self, forward: Program) -> frozenset[str]:
        """What a forward returns, but for what it saves, and what that is made of."""
        outputs = forward.returns[: len(self.op.outputs)]
        return frozenset(s.name for s in without_unread(replace(forward, returns=outputs)).statements)

    def _fields(self, kept: tuple[str, ...], backward: Program, unknown: list[str]) -> tuple[Field, ...]:
        conditions = {c.name for c in self.d.conditions}
        notes = {n: shape(self.forward_layouts[n]) + (" of bool" if n in conditions else "") for n in kept}
        fields = [Field(self.names.tensors.get(n, n), "Tensor", note) for n, note in notes.items()]
        fields += [Field(s, "float", "a number") for s in backward.scalars]
        kinds = {a: "torch.Size" if is_pack(a) else "int" for a in unknown}
        return tuple(fields + [Field(self.names.sizes[a], kind, "a length") for a, kind in kinds.items()])


def _apart(name: str, taken: Collection[str]) -> str:
    """A name of ours, with as many underscores as set it apart from those of the op."""
    while name in taken:
        name += "_"
    return name


def length_said(formula: Expr) -> str:
    """Code of a length where the others stand in a dictionary `s`, leading axes as the number of their places."""
    code = size_code(formula, {n.axis.base: f's["{n.axis.base}"]' for n in formula.atoms(Size)})
    return re.sub(r'math\.prod\((s\["[^"]*"\])\)', r"\1", code)


def commented(lines: Iterable[Line], width: int = LINE_LENGTH) -> Iterator[str]:
    """Lines with their equations behind them, or before them where there is no room."""
    for line in lines:
        behind, indent = f"{line.code}  # {line.note}", line.code[: len(line.code) - len(line.code.lstrip())]
        if line.note and len(behind) + 4 <= width:
            yield behind
            continue
        if line.note and len(line.note) <= LONGEST_NOTE:
            whole = re.sub(r"\[[^]]*\]", lambda index: index[0].replace(" ", _NO_BREAK), line.note)
            first = f"{indent}# "
            wrapped = wrap(whole, width - 4, initial_indent=first, subsequent_indent=f"{first}    ")
            yield from (part.replace(_NO_BREAK, " ") for part in wrapped)
        yield line.code
