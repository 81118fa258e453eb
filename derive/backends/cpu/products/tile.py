"""A chain as one tile sees it: from where its rows begin, and as far as they reach.

Of the axes of the chain a tile knows the tiled one alone, by a name of its own; along the stepped ones, tensors begin
at the place where the chain is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from derive.backends.cpu.names import axis_name
from derive.backends.cpu.products.chains import Chain, behind, is_larger, leading
from derive.backends.cpu.products.matrices import Matrix, Product, called
from derive.backends.cpu.products.reach import reach
from derive.backends.cpu.schedule.groups import Group
from derive.backends.cpu.statements.normal import Loop, Normal, rewritten
from derive.ir.program import AxisValue, Index, Node, Read, Scal, Window


@dataclass(frozen=True)
class View:
    """A tensor as a tile sees it: from its first place on those axes of the chain that it begins with.

    What has several of them merged is one dimension to whoever calls, and `rest` are those behind all of them.
    """

    tensor: str
    axes: tuple[str, ...]
    name: str
    rest: tuple[Index, ...]


@dataclass
class Tile:
    """The steps of a chain inside a tile; `form` is what is known of tensors there, `views` are those that it sees."""

    chain: Chain
    outside: Normal
    number: int  # among the chains of a kernel
    axes: tuple[str, ...]  # all that the kernel has
    views: list[View] = field(default_factory=list)
    moved: dict[str, Matrix] = field(default_factory=dict)  # of names from where the tile reaches: the whole matrix

    def __post_init__(self) -> None:
        self.axis = self._fresh(f"{axis_name(self.chain.tiled)}_tile{f'_{self.number + 1}' if self.number else ''}")
        self.first = f"first_{self.axis}"
        self.names, self.starts = {self.chain.tiled: self.axis}, {self.axis: self.first}
        self.reach = reach(self.chain)
        if self.reach is not None:
            self.near = self._fresh(f"{axis_name(self.reach.axis)}_reach")
            self.names[self.reach.axis] = self.near
            self.starts |= {self.near: f"first_{self.near}"} if self.reach.start is not None else {}
        starts = frozenset(self.starts.values()) | self.outside.starts
        known = {"places": self.starts, "starts": starts, "booleans": set(self.outside.booleans)}
        self.form = replace(self.outside, loops=[], dims={}, **known)  # type: ignore[arg-type]
        self.steps = [self._step(s) for s in self.chain.steps]
        self.form.loops += [s for step in self.steps if isinstance(step, Group) for s in step.loops]
        times = Counter(s.name for s in self.outside.loops)  # parts of a tensor may be written elsewhere
        self.form.loops += [s for s in self.outside.loops if times[s.name] > 1 and s.name in self.form.dims]

    def _fresh(self, axis: str) -> str:
        """A name for an axis of the tile's, with which no name of the kernel's begins."""
        while any(axis_name(a).startswith(axis) for a in self.axes):
            axis += "_"
        return axis

    # --- tensors and loops -----------------------------------------------------------------------------------

    def _view(self, tensor: str, axes: tuple[str, ...], index: tuple[Index, ...]) -> str:
        """The name of a tensor that begins at the chain's place on these axes; another one where there are two."""
        for v in self.views:
            if (v.tensor, v.axes) == (tensor, axes):
                return v.name
        name = self.outside.fresh(f"{tensor}_all") if any(v.tensor == tensor for v in self.views) else tensor
        rest = tuple(d for _, d in behind(axes, index, self.outside.dims[tensor]))
        self.views.append(View(tensor, axes, name, rest))
        own = (self.axis,) if self.chain.tiled in axes else ()
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
        own = leading(m.index, self.chain.axes)
        assert own is not None
        name, dims = self._view(m.name, own, m.index), self._axes(m.dims)
        whole = Matrix(name, dims)
        if dims[0] == self.axis or dims[0] not in self.starts or m.name in self.chain.local:
            return whole
        for known, of in self.moved.items():
            if of == whole:
                return Matrix(known, dims)
        near = self.outside.fresh(f"{name}_near")
        self.moved[near] = whole
        return Matrix(near, dims)

    def _strided(self, m: Matrix) -> Matrix:
        read = self._read(Read(m.name, m.index))
        return Matrix(read.name, read.index)

    def _node(self, node: Node | Index) -> Node | Index:
        """A node, or a place, inside the tile."""

        def inside(x: Node | Index) -> Node | Index:
            if isinstance(x, str):
                return self.names.get(x, x)
            if isinstance(x, AxisValue):
                return AxisValue(self.names.get(x.axis, x.axis))
            return self._read(x) if isinstance(x, Read) else x

        return rewritten(node, inside)

    def _read(self, read: Read) -> Read:
        """A read whose first dimensions are the chain's; on later ones, places begin at 0 unless it is a tile."""
        index = tuple(called(i, {inner: a for a, inner in self.names.items()}) for i in read.index)
        own = leading(index, self.chain.axes)
        assert own is not None
        begins = (self.axis,) if self.chain.tiled in own else ()
        starts = {self.axis: self.first} if read.name in self.chain.local else self.starts
        rest = (called(i, self.names) for i, _ in behind(own, index, index))
        rest = (Window(((i, 1),), Scal(starts[i])) if isinstance(i, str) and i in starts else i for i in rest)
        return Read(self._view(read.name, own, index), (*begins, *rest))

    def _loop(self, s: Loop) -> Loop:
        at, value = self._node(Read(s.name, s.slots)), self._node(s.value)
        assert isinstance(at, Read)
        return replace(s, name=at.name, slots=at.index, value=value, over=self._axes(s.over))  # type: ignore[arg-type]

    def _step(self, step: Group | Product) -> Group | Product:
        if isinstance(step, Group):
            lane = self.axis if step.lane == self.chain.tiled else step.lane
            return Group(self._axes(step.outer), tuple(map(self._loop, step.loops)), lane, step.short)
        own = self._strided if step.windowed else self._matrix
        if step.wide is not None:
            self.form.dims[step.wide.name] = self.outside.dims[step.wide.name]
            step = replace(step, wide=replace(step.wide, of=self._strided(step.wide.of)))
        a, b, out = own(step.a), step.b if step.wide is not None else own(step.b), own(step.out)
        batch, rows, columns, inner = map(self._axes, (step.batch, step.rows, step.columns, step.inner))
        name = self.moved[out.name].name if out.name in self.moved else out.name
        whole = replace(step, name=name, out=out, a=a, b=b, taps=self._axes(step.taps))
        return replace(whole, batch=batch, rows=rows, columns=columns, inner=inner)

    @property
    def depths(self) -> list[tuple[str, ...]] | None:
        """How deep products are; nothing of such where each row is a product of its own."""
        products = [s for s in self.chain.steps if isinstance(s, Product)]
        alone = all(self.chain.tiled in p.batch for p in products)
        return None if alone else list(map(self._depth, products))

    def _depth(self, p: Product) -> tuple[str, ...]:
        """The axes of a product that what stays inside the chain does not have, its largest if there are several."""
        inside = [m for m in (p.a, p.b, p.out) if m.name in self.chain.local]
        near = [m.dims for m in sorted(inside, key=lambda m: not is_larger(m.name, self.outside))]
        axes = (*p.rows, *p.columns, *p.inner)
        return tuple(a for a in axes if a not in near[0] and a != self.chain.tiled) if near else ()
