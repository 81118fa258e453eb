"""The module of an op's further derivatives: its double backward and its tangents, over what the first order saves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from derive.backends.torch.layout import layouts
from derive.backends.values import Dims, is_pack
from derive.emit.dimensions import LaidOut
from derive.emit.header import closed_form, indented
from derive.emit.lengths import length_lines
from derive.emit.model import Field, Function, Higher
from derive.emit.names import CALLED, Names
from derive.emit.needs import Needs
from derive.emit.pair import LINE_LENGTH, Pair
from derive.emit.signatures import signature
from derive.facts.costs.cost import work
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.walking import axes_along, walk
from derive.ir.program import AxisValue, Index, Join, Merged, Node, Program, Reduce, Scan, Scatter, Shares, SizeOf, base
from derive.ir.terms.axes import PACK_NAME
from derive.ir.terms.names import free_name
from derive.ir.words import listed
from derive.orders import double_backward, forward_mode
from derive.pipeline import Derivation


@dataclass(frozen=True)
class _Asked(Needs):
    """Which results are asked for, some of all that a function may be asked for."""

    at: tuple[int, ...] = ()
    count: int = 0

    @property
    def unpacked(self) -> tuple[str, ...]:
        flags = dict(zip(self.at, self.flags, strict=True))
        names = ", ".join(flags.get(k, "_") for k in range(self.count))
        return (f"{names} = {self.parameter} or (True,) * {self.count}",)

    def chosen(self, gradients: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{g} if {flag} else None" for g, flag in zip(gradients, self.flags, strict=True))


class _Part(Pair):
    """A derivative of a higher order as a function of cotangents or tangents, and of what is saved."""

    def __init__(self, d: Derivation, first: Pair, name: str, results: Sequence[str], is_asked: bool, depth: int = 0):
        self.first, self.results, self.is_asked, self.width = first, results, is_asked, LINE_LENGTH - 4 * depth
        d = replace(d, named=replace(d.named, name=first.op.name))
        super().__init__(d, Names(d), d.forward, d.backward, d.kept, first.title, "", name)

    @property
    def at(self) -> tuple[int, ...]:
        """Which of the results each one is that is computed."""
        return tuple(self.results.index(o.name) for o in self.d.op.differentiable)

    def _laid_out(self, forward: Program, backward: Program, kept: tuple[str, ...], plain: frozenset[str]) -> LaidOut:
        """As ever, but for what is saved, which lies as the op's own forward makes it."""
        found, _ = super()._laid_out(forward, backward, kept, plain)
        own = self.first.forward_layouts.dims
        given = {n: own[n] if n in self.first.kept else found[n] for n in kept}
        return found, layouts(backward, frozenset(backward.returns) | plain, given, self.names.slow)

    def _needs(self, backward: Program) -> Needs | None:
        needs = super()._needs(backward)
        if needs is None or not self.is_asked:
            return None
        return _Asked(needs.backward, needs.parameter, needs.flags, needs.gradients, self.at, len(self.results))

    @property
    def lines(self) -> tuple[str, ...]:
        """Its lines without the last, which returns."""
        return self.backward.lines[:-1]

    @property
    def assigned(self) -> set[str]:
        """What its lines give a value; lengths are the same in all."""
        made = {self.names.tensors.get(s.name, s.name) for s in self.d.backward.statements}
        return made | set(self.returned) | set(self.needs.flags if self.needs else ())

    def returned_elements(self, lengths: Nominal) -> float:
        """The elements of all that it returns."""
        dims = (self.backward_layouts[name] for name in self.d.backward.returns)
        return sum(lengths.elements(a for a in own if a is not None) for own in dims)

    @property
    def found(self) -> list[str]:
        """What it returns, as code: None for results that are 0."""
        own = self.returned if self.needs is None else self.needs.returned(self.returned)
        chosen = dict(zip(self.at, own, strict=True))
        return [chosen.get(k, "None") for k in range(len(self.results))]


_Key = tuple[str, str]
"""What a saved value is: a tensor, a number or a length, and its name or axis."""


def higher(d: Derivation, first: Pair, in_kernel: Mapping[str, frozenset[int]], context: str) -> Higher:
    """The further derivatives of an op. Raises DeriveError where they are no op."""
    return _Higher(d, first, in_kernel, context).made


class _Higher:
    def __init__(self, d: Derivation, first: Pair, in_kernel: Mapping[str, frozenset[int]], context: str):
        self.d, self.first, self.in_kernel, self.context = d, first, in_kernel, context
        self.real = [o.name for o in d.op.differentiable]
        self.cotangents = [c.target.name for c in d.steps.cotangents]
        results, name = [*self.cotangents, *self.real], d.op.name
        alone = self.real if len(self.real) > 1 else []
        double, jvp, depth = f"{name}_double_backward", f"{name}_jvp", int(bool(alone))
        self.second = _Part(double_backward(d), first, double, results, True, depth)
        self.tangent = _Part(forward_mode(d), first, jvp, self.cotangents, False, depth)
        self.seconds = [_Part(double_backward(d, x), first, double, results, True, 1) for x in alone]
        self.tangents = [_Part(forward_mode(d, x), first, jvp, self.cotangents, False, 1) for x in alone]

    @property
    def made(self) -> Higher:
        functions = (self._function(self.second, self.seconds), self._function(self.tangent, self.tangents))
        more = self._more(self.saved)
        kept = [key for key, *_ in self.kept]
        tensors = [k for k, key in enumerate(kept) if key[0] == "tensor"]
        edges = ((tensors.index(k), key[1]) for k, (key, _, is_edge) in enumerate(self.kept) if is_edge)
        return Higher(
            saved=tuple(self.saved.values()),
            more=tuple(map(self._value, more)),
            lengths=self._lengths(more),
            functions=functions,
            formulas=self._formulas,
            imports=self._imports(functions),
            derivatives=tuple(self._derivatives().items()),
            kept=tuple(value for _, value, _ in self.kept),
            kept_lengths=self._lengths(key for key in kept if key not in self._fields(self.first)),
            first=len(self._fields(self.first)),
            flags=self._flags(),
            keeps=tuple(key[1] for key, _, is_edge in self.kept if key[0] == "tensor" and not is_edge),
            edges=tuple((k, self.first.names.of(x)) for k, x in edges),
        )

    # --- what is saved -------------------------------------------------------------------------------------

    def _fields(self, pair: Pair) -> dict[_Key, Field]:
        """What a function is given beside cotangents."""
        keys = [*(("tensor", n) for n in pair.kept), *(("number", n) for n in pair.d.backward.scalars)]
        keys += [("length", pair.names.axes[f.name]) for f in pair.saved if f.note == "a length"]
        found = dict(zip(keys, pair.saved, strict=True))
        return {key: f for key, f in found.items() if key not in self._given}

    @property
    def _given(self) -> list[_Key]:
        return [("tensor", c) for c in self.cotangents]

    @cached_property
    def saved(self) -> dict[_Key, Field]:
        found = dict(self._fields(self.first))
        for part in (self.second, self.tangent, *self.seconds, *self.tangents):
            for key, field in self._fields(part).items():
                found.setdefault(key, field)
        return found

    @cached_property
    def held(self) -> list[_Key]:
        """The inputs, the outputs, and what else is saved."""
        kinds = {"scalar": "number", "length": "length"}
        first = [(kinds.get(o.kind, "tensor"), o.name) for o in self.d.op.operands]
        first += [("tensor", n) for n in self.d.op.outputs]
        return [*first, *(key for key in self.saved if key not in first)]

    def _more(self, keys: Iterable[_Key]) -> list[_Key]:
        """Those beside what the first order saves."""
        return [key for key in keys if key not in self._fields(self.first)]

    def _value(self, key: _Key) -> str:
        return self._home(key[1]).names.sizes[key[1]] if key[0] == "length" else self.first.names.of(key[1])

    def _home(self, axis: str) -> Pair:
        """The first pair of functions that knows an axis."""
        every = (self.first, self.second, self.tangent, *self.seconds, *self.tangents)
        return next(pair for pair in every if axis in pair.names.sizes)

    def _lengths(self, keys: Iterable[_Key]) -> tuple[str, ...]:
        """Lines that say the lengths among these."""
        homes: dict[Pair, list[str]] = {}
        for kind, name in keys:
            if kind == "length":
                homes.setdefault(self._home(name), []).append(name)
        tensors = [*(o.name for o in self.d.op.operands if o.is_tensor), *self.d.op.outputs]
        sources = {name: self.d.named.dims(name) for name in tensors}
        given = frozenset(self.first.names.of(o.name) for o in self.d.op.operands if o.kind == "length")
        found = (length_lines(p.op, p.names, axes, sources, given).lines for p, axes in homes.items())
        return tuple(line for lines in found for line in lines)

    # --- what the op keeps ---------------------------------------------------------------------------------

    @cached_property
    def _by_cotangent(self) -> list[tuple[int, _Part]]:
        """Of each gradient, what its cotangent gives."""
        return list(enumerate(self.seconds or [self.second]))

    def _read(self, key: _Key) -> set[frozenset[int]]:
        """Sets of gradients: where every one of a set is needed, a saved tensor is read."""
        found = set[frozenset[int]]()
        if key in self._fields(self.first):
            assert self.first.needs is not None
            live = self.first.needs.live.tensors[key[1]] | self.in_kernel.get(key[1], frozenset())
            found |= {frozenset({k}) for k in live}
        for j, part in self._by_cotangent:
            if key in self._fields(part) and part.needs is not None:
                for result in (part.results[part.at[k]] for k in part.needs.live.tensors[key[1]]):
                    found.add(frozenset({j, self.real.index(result)} if result in self.real else {j}))
        return found

    def _followed(self, x: str) -> set[frozenset[int]]:
        """The same of gradients that depend on an input: where its own is needed as well, the graph goes on to it."""
        parts = ((j, part) for j, part in self._by_cotangent if x in [part.results[k] for k in part.at])
        return {frozenset({j, self.real.index(x)}) for j, _ in parts}

    @cached_property
    def kept(self) -> list[tuple[_Key, str, bool]]:
        """What the op keeps, its code, and whether that is for the graph's sake alone."""
        own = self._fields(self.first)
        followed = {("tensor", x): sets for x in self.real if (sets := self._followed(x))}
        parts = [self.second, *self.seconds]
        found = []
        for key in dict.fromkeys([*own, *(k for part in parts for k in self._fields(part)), *followed]):
            value = self._value(key) if key in followed or key not in own else f"saved.{own[key].name}"
            read = self._read(key) if key[0] == "tensor" else set()
            if condition := self._condition(self._asked(key)):
                shapes = key in own and (key[1] in self.first.shapes_read or key[1] in self.in_kernel)
                value = f"{value} if {condition} else {f'without_values({value})' if shapes else 'None'}"
            found.append((key, value, key[0] == "tensor" and not read))
        return found

    def _asked(self, key: _Key) -> list[list[int]]:
        """The least sets of gradients of which all must be needed for a tensor to be; none where one always is."""
        asked = self._read(key) | self._followed(key[1]) if key[0] == "tensor" else set()
        least = sorted(sorted(s) for s in asked if not any(t < s for t in asked))
        return [] if sum(len(s) == 1 for s in least) == len(self.real) else least

    def _condition(self, asked: list[list[int]]) -> str:
        """Whether all of one of some sets of gradients are needed, as code."""
        assert self.first.needs is not None
        return " or ".join(" and ".join(self.first.needs.flags[k] for k in s) for s in asked)

    def _flags(self) -> str:
        """The line that says which gradients are needed, where one asks."""
        assert self.first.needs is not None
        asked = {self.real[k] for key, *_ in self.kept for s in self._asked(key) for k in s}
        if not asked:
            return ""
        flags = dict(zip(self.real, self.first.needs.flags, strict=True))
        names = [flags[o.name] if o.name in asked else "_" for o in self.d.op.operands]
        return f"{', '.join(names)}{',' if len(names) == 1 else ''} = {self.context}.needs_input_grad"

    # --- code ----------------------------------------------------------------------------------------------

    def _function(self, main: _Part, alone: Sequence[_Part]) -> Function:
        """A function of all cotangents, or tangents: what each gives, added up; where it pays, also of all at once."""
        count, single = len(main.results), len(main.results) == 1
        kind = f"tuple[{', '.join(['Tensor | None'] * count)}]"
        needs = [f"*, {main.needs.typed}"] if main.needs is not None else []
        own, lines = f"return {', '.join(main.found)}", list[str]()
        if not alone:
            missing = " and ".join(f"{c} is None" for c in main.cotangents)
            lines = [f"if {missing}:", f"    return {', '.join(['None'] * count)}", *main.lines, own]
        elif self._pays(main, alone):
            every = " and ".join(f"{c} is not None" for c in main.cotangents)
            lines = [f"if {every}:", *_deeper([*main.lines, own])]
        if alone:
            lines += [*self._added_up(main, alone), f"return added({count}, *parts){'[0]' if single else ''}"]
        takes = [f"{c}: Tensor | None" for c in main.cotangents]
        takes += [f"{name}: Tensor" for name in (self._names_of_given if main is self.second else ())]
        takes += [f"{f.name}: {f.type}" for f in self.saved.values()]
        doc = f"The tangents of {listed(self.d.op.outputs)}, from those of the inputs; None where none is given."
        if main is self.second:
            of = listed([*self.cotangents, *self.real])
            doc = f"The cotangents of {of}, from those of the gradients; None for what is 0, or not needed."
        returns = "Tensor | None" if single else kind
        return Function(main.backward.name, ", ".join(takes + needs), returns, doc, tuple(lines))

    def _pays(self, main: _Part, alone: Sequence[_Part]) -> bool:
        """Whether all at once is less work than each by itself and the sums of what they give."""
        lengths = nominal(self.d.named)
        sums = sum(p.returned_elements(lengths) for p in alone) - main.returned_elements(lengths)
        return work(main.d.backward, lengths) < sum(work(p.d.backward, lengths) for p in alone) + sums

    @property
    def _names_of_given(self) -> list[str]:
        return [self.second.names.of(c) for c in self.cotangents]

    def _added_up(self, main: _Part, alone: Sequence[_Part]) -> Iterator[str]:
        """Lines that make a list of what each cotangent gives. What one of them calls as another's is kept aside."""
        given = [*main.cotangents, *self._names_of_given, *(f.name for f in self.saved.values())]
        made = {name for part in alone for name in part.assigned}
        aside = {name: free_name(name, {*given, *made}, "_") for name in given if name in made}
        yield from (f"{other} = {name}" for name, other in aside.items())
        yield "parts = []"
        for cotangent, part in zip(main.cotangents, alone, strict=True):
            fields = {f.name: self.saved[key].name for key, f in self._fields(part).items()}
            called = {part.cotangents[0]: cotangent} | fields
            called |= {part.names.of(c): self.second.names.of(c) for c in self.cotangents if c in part.kept}
            there = {here: aside.get(name, name) for here, name in called.items()}
            own = [f"{here} = {name}" for here, name in there.items() if name != here]
            ends = f"parts.append(({', '.join(part.found)}{',' if len(main.results) == 1 else ''}))"
            yield f"if {aside.get(cotangent, cotangent)} is not None:"
            yield from _deeper([*own, *part.lines, ends])

    @property
    def _formulas(self) -> tuple[str, ...]:
        return (
            "Double backward", *indented(closed_form(self.second.d)), "",
            "Tangents", *indented(map(str, self.tangent.d.backward.statements)),
        )  # fmt: skip

    def _imports(self, functions: Iterable[Function]) -> tuple[str, ...]:
        used = " ".join([*(line for f in functions for line in f.lines), signature(self.d.op)])
        called = sorted(name for name in CALLED if f"{name}(" in used)
        shared = sorted({"in_float32", *(n for n in ("check_length",) if f"{n}(" in used)})
        lines = ["import math"] if "math." in used else []
        lines += ["from typing import NamedTuple", ""]
        lines += ["import torch"] if "torch." in used else []
        lines += ["from torch.nn import functional"] if "functional." in used else []
        lines += ["from torch import Tensor", ""]
        name = self.d.op.name
        lines += [f"from .._functions import {', '.join(called)}"] if called else []
        lines += [f"from .._support import {', '.join(shared)}"]
        lines += [f"from ..{name} import {name}_backward as _backward, {name}_forward as _forward"]
        return (*lines, f"from ._transforms import Derivatives{', added' if 'added(' in used else ''}")

    def _derivatives(self) -> dict[str, str]:
        dims = [self._dims(key) for key in self.held]
        names = self.held
        apart = {
            "forward": [_is_apart(self.d.forward, n) for n in self.d.forward.returns],
            "backward": [_is_apart(self.d.backward, n) for n in self.d.backward.returns],
            "double_backward": self._apart(self.second, self.seconds),
            "jvp": self._apart(self.tangent, self.tangents),
        }
        return {
            "name": repr(self.d.op.name),
            "inputs": str(len(self.d.op.operands)),
            "real": str(tuple(k for k, o in enumerate(self.d.op.operands) if o.differentiable)),
            "outputs": str(len(self.d.op.outputs)),
            "numbers": str(tuple(k for k, (kind, _) in enumerate(names) if kind != "tensor")),
            "saved": str(tuple(map(names.index, self.saved))),
            "first": str(len(self._fields(self.first))),
            "kept": str(tuple(names.index(key) for key, *_ in self.kept)),
            "places": str(tuple(d.index(PACK_NAME) if PACK_NAME in d else None for d in dims)),
            "apart": "{" + ", ".join(f'"{k}": {tuple(v)}' for k, v in apart.items()) + "}",
        }

    def _apart(self, main: _Part, alone: Sequence[_Part]) -> list[bool]:
        each = [(p, zip(p.at, p.d.backward.returns, strict=True)) for p in (main, *alone)]
        mixed = {p.results[k] for p, made in each for k, name in made if not _is_apart(p.d.backward, name)}
        return [result not in mixed for result in main.results]

    def _dims(self, key: _Key) -> Dims:
        if key[0] != "tensor":
            return ()
        if key[1] in self.d.op.outputs or self.d.op.operand(key[1]) is not None:
            return self.d.op.dims(key[1])
        return self.first.forward_layouts.dims[key[1]]


def _deeper(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _is_apart(program: Program, result: str) -> bool:
    """Whether a result has the leading axes, and every place of these is computed by itself on the way to it."""
    live = without_unread(replace(program, returns=(result,)))
    dims = {**dict(program.given), **{s.name: axes_along(s.axes) for s in program.statements}}
    nodes = [top for s in live.statements for top in (s.value, *s.slots, *s.axes)]
    if PACK_NAME not in dims[result] or any(_mixes(n) for top in nodes for n in walk(top)):
        return False
    scattered = (s for s in live.statements if isinstance(s, Scatter))
    return all(PACK_NAME in s.axes or PACK_NAME not in axes_along(s.slots) for s in scattered)


def _mixes(node: Node | Index) -> bool:
    """Whether a node brings places of the leading axes together, counts them, or changes where they stand."""
    if isinstance(node, str):
        return is_pack(base(node)) and node != PACK_NAME
    axes = node.axes if isinstance(node, Reduce | Shares) else (node.over, node.to) if isinstance(node, Scan) else ()
    axes += (node.axis,) if isinstance(node, SizeOf | AxisValue | Join) else ()
    inner = node.axes if isinstance(node, Merged) else ()
    return any(isinstance(a, str) and is_pack(base(a)) for a in (*axes, *inner))
