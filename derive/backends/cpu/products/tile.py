"""A chain as one tile sees it: from where its rows begin, and as far as they reach.

Of the axes of the chain a tile knows the tiled one alone, by a name of its own; along the stepped ones, tensors begin
at the place where the chain is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.groups import Group
from derive.backends.cpu.loops.nests import extent
from derive.backends.cpu.names import axis_name, length, variable
from derive.backends.cpu.products.chains import Chain, leading
from derive.backends.cpu.products.contractions import Matrix, Product
from derive.backends.cpu.products.reach import reach
from derive.backends.cpu.statements.normal import Loop, Normal, rewritten
from derive.program import Index, Node, Read, Scal, Window


@dataclass(frozen=True)
class View:
    """A tensor as a tile sees it: from its first place on those axes of the chain that it begins with."""

    tensor: str
    axes: tuple[str, ...]
    name: str


@dataclass
class Tile:
    """The steps of a chain inside a tile; `form` is what is known of tensors there, `views` are those that it sees."""

    chain: Chain
    outside: Normal
    number: int  # among the chains of a kernel
    views: list[View] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.axis = f"{axis_name(self.chain.tiled)}_tile{f'_{self.number + 1}' if self.number else ''}"
        self.first = f"first_{self.axis}"
        self.names = {self.chain.tiled: self.axis}
        places = {self.chain.tiled: f"{self.first} + {variable(self.axis)}"}
        self.reach = reach(self.chain)
        if self.reach is not None:
            self.names[self.reach.axis] = near = f"{axis_name(self.reach.axis)}_reach"
            places[self.reach.axis] = variable(near)
        self.form = replace(self.outside, loops=[], dims={}, places=places, starts=frozenset({self.first}))
        self.text = Expressions(self.form)
        self.steps = [self._step(s) for s in self.chain.steps]
        self.form.loops += [s for step in self.steps if isinstance(step, Group) for s in step.loops]

    # --- tensors and loops -----------------------------------------------------------------------------------

    def _view(self, tensor: str, axes: tuple[str, ...]) -> str:
        """The name of a tensor that begins at the chain's place on these axes; another one where there are two."""
        for v in self.views:
            if (v.tensor, v.axes) == (tensor, axes):
                return v.name
        name = self.outside.fresh(f"{tensor}_all") if any(v.tensor == tensor for v in self.views) else tensor
        self.views.append(View(tensor, axes, name))
        own = (self.axis,) if self.chain.tiled in axes else ()
        rest = self.outside.dims[tensor][len(axes) :]
        if tensor in self.chain.local:
            rest = tuple(self.names.get(d, d) if isinstance(d, str) else d for d in rest)
        self.form.dims[name] = (*own, *rest)
        if tensor in self.outside.integers:
            self.form.integers |= {name}
        if tensor in self.outside.booleans:
            self.form.booleans.add(name)
        return name

    def _axes(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.names.get(a, a) for a in axes if a not in self.chain.stepped)

    def _matrix(self, m: Matrix) -> Matrix:
        own = leading(m.dims, self.chain.axes)
        assert own is not None
        return Matrix(self._view(m.name, own), self._axes(m.dims))

    def _node(self, node: Node | Index) -> Node | Index:
        """A node, or a place, inside the tile."""

        def inside(x: Node | Index) -> Node | Index:
            if isinstance(x, str):
                return self.names.get(x, x)
            return self._read(x) if isinstance(x, Read) else x

        return rewritten(node, inside)

    def _read(self, read: Read) -> Read:
        """A read whose first dimensions are the chain's; on a later one, a place on the tiled axis is on all of it."""
        back = {inner: a for a, inner in self.names.items()}
        index = tuple(back.get(i, i) if isinstance(i, str) else i for i in read.index)
        own = leading(index, self.chain.axes)
        assert own is not None
        begins = (self.axis,) if self.chain.tiled in own else ()
        whole = Window(((self.axis, 1),), Scal(self.first))
        rest = tuple(whole if i == self.axis else i for i in read.index[len(own) :])
        return Read(self._view(read.name, own), (*begins, *rest))

    def _loop(self, s: Loop) -> Loop:
        at, value = self._node(Read(s.name, s.slots)), self._node(s.value)
        assert isinstance(at, Read)
        return replace(s, name=at.name, slots=at.index, value=value, over=self._axes(s.over))  # type: ignore[arg-type]

    def _step(self, step: Group | Product) -> Group | Product:
        if isinstance(step, Group):
            lane = self.axis if step.lane == self.chain.tiled else step.lane
            return Group(self._axes(step.outer), tuple(map(self._loop, step.loops)), lane, step.short)
        a, b, out = map(self._matrix, (step.a, step.b, step.out))
        batch, rows, columns, inner = map(self._axes, (step.batch, step.rows, step.columns, step.inner))
        return Product(out.name, out, a, b, batch, rows, columns, inner, step.alpha, step.note)

    # --- how high it is, and how far it reaches ----------------------------------------------------------------

    @property
    def height(self) -> str:
        return length(self.axis)

    def least(self) -> str:
        """How many rows it must have lest its products wait for their other matrix: as many as that is deep."""
        products = [s for s in self.chain.steps if isinstance(s, Product)]
        if all(self.chain.tiled in p.batch for p in products):
            return "1"
        least = "HIGH" if self.reach is None else "LOW"
        for deep in dict.fromkeys(extent(axes) for axes in map(self._depth, products) if axes):
            least = f"at_least({least}, {deep})"
        return least

    def _depth(self, p: Product) -> tuple[str, ...]:
        """The axes of a product that what stays inside the chain does not have."""
        near = [m.dims for m in (p.a, p.b, p.out) if m.name in self.chain.local]
        axes = (*p.rows, *p.columns, *p.inner)
        return tuple(a for a in axes if a not in near[0] and a != self.chain.tiled) if near else ()

    def reached(self) -> list[str]:
        """The line that says how far the tile reaches."""
        if self.reach is None:
            return []
        end = f"{self.first} + {self.height}"
        for factor, times in [*((length(a), n) for a, n in self.reach.lengths), ("1", self.reach.after)]:
            size = factor if abs(times) == 1 else f"{abs(times)}" if factor == "1" else f"{abs(times)} * {factor}"
            end += f" {'+' if times > 0 else '-'} {size}" if times else ""
        reached = f"at_least(1, at_most({length(self.reach.axis)}, {end}))"
        return [f"const int64_t {length(self.names[self.reach.axis])} = {reached}; // nothing is left beyond"]

    def nothing_beyond(self, p: Product) -> list[str]:
        """Zeros where no tile so far has added anything to a sum of products, since none has reached there."""
        if self.reach is None or self.names[self.reach.axis] not in p.out.dims:
            return []
        near, after = length(self.names[self.reach.axis]), extent(p.out.dims[1:])
        size = f"({length(self.reach.axis)} - {near}) * {after}"
        return [f"if (!adds) fill({self.text.name(p.name)} + {near} * {after}, 0, {size});"]

    def whole(self, size: str) -> str:
        """A number of elements for a tile that reaches as far as there is anything."""
        if self.reach is None:
            return size
        return re.sub(rf"\b{length(self.names[self.reach.axis])}\b", length(self.reach.axis), size)
