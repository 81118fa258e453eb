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
from derive.emit.pair import Pair
from derive.emit.signatures import signature
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.walking import axes_along, walk
from derive.ir.program import AxisValue, Index, Join, Merged, Node, Program, Reduce, Scan, Scatter, Shares, SizeOf, base
from derive.ir.terms.axes import PACK_NAME
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

    def __init__(self, d: Derivation, first: Pair, name: str, results: Sequence[str], is_asked: bool):
        self.first, self.results, self.is_asked = first, results, is_asked
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
        self.second = _Part(double_backward(d), first, f"{name}_double_backward", results, True)
        self.tangent = _Part(forward_mode(d), first, f"{name}_jvp", self.cotangents, False)
        self.seconds = [_Part(double_backward(d, x), first, f"_double_backward_of_{x}", results, True) for x in alone]
        self.tangents = [_Part(forward_mode(d, x), first, f"_jvp_of_{x}", self.cotangents, False) for x in alone]

    @property
    def made(self) -> Higher:
        functions = (*self._functions(self.second, self.seconds), *self._functions(self.tangent, self.tangents))
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

    def _functions(self, main: _Part, alone: Sequence[_Part]) -> Iterator[Function]:
        """A function of all cotangents, and those of one alone, which it calls where others are missing."""
        second, count = main is self.second, len(main.results)
        kind = f"tuple[{', '.join(['Tensor | None'] * count)}]"
        needs = [f"*, {main.needs.typed}"] if main.needs is not None else []
        lines, missing = list[str](), " and ".join(f"{c} is None" for c in main.cotangents)
        for part in alone:
            takes = [f"{c}: Tensor" for c in part.cotangents] + [f"{f.name}: {f.type}" for f in part.saved]
            doc = f"The same from {part.cotangents[0]} alone."
            ends = f"return {', '.join(part.found)}{',' if count == 1 else ''}"
            yield Function(part.backward.name, ", ".join(takes + needs), kind, doc, (*part.lines, ends), decorators=())
        single = count == 1
        if alone:
            each = zip(main.cotangents, alone, strict=True)
            calls = [f"None if {c} is None else {self._call(part, c, main)}," for c, part in each]
            lines += [f"if {missing.replace(' and ', ' or ')}:", f"    return added({count}, "]
            lines += [*(f"        {call}" for call in calls), f"    ){'[0]' if single else ''}"]
        else:
            lines += [f"if {missing}:", f"    return {', '.join(['None'] * count)}"]
        takes = [f"{c}: Tensor | None" for c in main.cotangents]
        takes += [f"{self.second.names.of(c)}: Tensor" for c in (self.cotangents if second else ())]
        takes += [f"{f.name}: {f.type}" for f in self.saved.values()]
        doc = f"The tangents of {listed(self.d.op.outputs)}, from those of the inputs; None where none is given."
        if second:
            of = listed([*self.cotangents, *self.real])
            doc = f"The cotangents of {of}, from those of the gradients; None for what is 0, or not needed."
        ends = f"return {', '.join(main.found)}"
        yield Function(
            main.backward.name, ", ".join(takes + needs), "Tensor | None" if single else kind, doc,
            (*lines, *main.lines, ends),
        )  # fmt: skip

    def _call(self, part: _Part, cotangent: str, main: _Part) -> str:
        """A call of a function of one cotangent by the names that stand in another."""
        names = {key: f.name for key, f in self.saved.items()}
        names |= {key: self.second.names.of(key[1]) for key in self._given}
        keys = [*(("tensor", n) for n in part.kept), *(key for key in self._fields(part) if key[0] != "tensor")]
        needs = [f"needs={main.needs.parameter}"] if main.needs is not None else []
        return f"{part.backward.name}({', '.join([cotangent, *(names[k] for k in keys), *needs])})"

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
            "double_backward": self._apart(self.second),
            "jvp": self._apart(self.tangent),
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

    def _apart(self, part: _Part) -> list[bool]:
        found = dict(zip(part.at, (_is_apart(part.d.backward, n) for n in part.d.backward.returns), strict=True))
        return [found.get(k, True) for k in range(len(part.results))]

    def _dims(self, key: _Key) -> Dims:
        if key[0] != "tensor":
            return ()
        if key[1] in self.d.op.outputs or self.d.op.operand(key[1]) is not None:
            return self.d.op.dims(key[1])
        return self.first.forward_layouts.dims[key[1]]


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
