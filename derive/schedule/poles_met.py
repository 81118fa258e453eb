"""Law: what is 0 where another factor is infinite meets it, whatever stands between.

Of `r = sqrt(s)/l`, an adjoint `dr = a*r` and the next one, `ds = dr*rsqrt(s)`: where `s` is 0 that is 0 times infinity,
and `a/l` is a number. So `a` has a name, and both are made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from derive.ir.equations import Op
from derive.ir.nodes.arithmetic import multiplied, negated, quotient, signless, to_the, whole_power
from derive.ir.nodes.other_axes import plain, value_at
from derive.ir.nodes.products import fraction
from derive.ir.nodes.soundness import check
from derive.ir.nodes.substituting import put
from derive.ir.nodes.walking import by_axes_once, children, node_axes, reads, walk
from derive.ir.program import Assign, Call, Index, Node, Program, Read, Reduce, Statement
from derive.ir.terms.names import free_name
from derive.schedule.forward import forward_statements

Known = Mapping[str, Assign]


@dataclass(frozen=True)
class _Product:
    up: tuple[Node, ...]
    down: tuple[Node, ...] = ()
    minus: bool = False

    @classmethod
    def of(cls, node: Node) -> _Product:
        bare, minus = signless(node)
        up, down = fraction(bare)
        return cls(tuple(up), tuple(down), minus)

    def times(self, other: _Product) -> _Product:
        return _Product((*self.up, *other.up), (*self.down, *other.down), self.minus != other.minus)

    @property
    def reads(self) -> set[str]:
        """The tensors that the factors read."""
        return {name for f in (*self.up, *self.down) for name in reads(f)}

    @property
    def node(self) -> Node:
        value = quotient([*self.up], [*self.down])
        return negated(value) if self.minus else value

    def along(self, axes: tuple[str, ...]) -> _Product:
        """The factors along any of these axes."""
        up, down = (tuple(f for f in side if set(axes) & set(node_axes(f))) for side in (self.up, self.down))
        return replace(self, up=up, down=down)

    def across(self, axes: tuple[str, ...]) -> _Product:
        """The factors along none of these axes."""
        up, down = (tuple(f for f in side if not set(axes) & set(node_axes(f))) for side in (self.up, self.down))
        return _Product(up, down)


@dataclass(frozen=True)
class _Zero:
    """The factor at a place of a product that is 0 at a pole: what else there is, and what is left when they meet."""

    factor: Read
    besides: _Product
    left: _Product


@dataclass(frozen=True)
class _Met:
    """A product that has met its pole: what stays, what is left of the zero, and the adjoint that had it if one did."""

    stays: _Product
    left: _Product
    adjoint: Assign | None = None
    besides: Assign | None = None
    zero: Read | None = None


def with_poles_met(program: Program, op: Op) -> Program:
    """The same program with such factors divided by each other, where products have one of them by name."""
    if not any(_poles(p) for s in program.assigned.values() for p in _products(s.value)):
        return program
    made = {e.name for e in op.equations}
    forward = forward_statements(op, tuple(n for n, _ in program.given if n in made)).assigned
    there = {name for name, _ in program.given}
    for name in program.assigned:
        for product in _products(program.assigned[name].value):
            found = _met(product, program, {**forward, **program.assigned})
            if found is not None and found.left.reads <= there:
                program = _with(program, name, product, found)
                break
        there.add(name)
    return check(program)


def _products(node: Node | Index) -> Iterator[Call]:
    """The products and quotients in a node, none of which is a factor of another."""
    if isinstance(node, Call) and node.fn in ("mul", "div"):
        yield node
        below: list[Node | Index] = [f for side in fraction(node) for f in side]
    else:
        below = list(children(node))
    for n in below:
        yield from _products(n)


def _poles(product: Call) -> list[tuple[Node, _Product]]:
    """What is 0 where a factor is infinite, `sqrt(s)` for `rsqrt(s)` and what is divided by, and the others."""
    up, down = fraction(product)
    found: list[tuple[Node, _Product]] = []
    for k, f in enumerate(up):
        if isinstance(f, Call) and f.fn == "rsqrt" and node_axes(f):
            found.append((Call("sqrt", f.args), _Product((*up[:k], *up[k + 1 :]), tuple(down))))
    for k, f in enumerate(down):
        if isinstance(f, Read) and f.index:
            found.append((f, _Product(tuple(up), (*down[:k], *down[k + 1 :]))))
    return found


def _met(product: Call, program: Program, known: Known) -> _Met | None:
    """The first pole that a product has the zero of, itself or in an adjoint among its factors."""
    for pole, others in _poles(product):
        zero = _zero(others, pole, known)
        if zero is not None:
            return _Met(zero.besides, zero.left)
        for k, read in enumerate(others.up):
            of = program.assigned.get(read.name) if isinstance(read, Read) and by_axes_once(read) else None
            if of is None or of.name in program.returns or not plain(of.value):
                continue
            assert isinstance(read, Read)
            whole = _Product.of(value_at(of, read.index))
            zero = _zero(whole, pole, known)
            if zero is None:
                continue
            own = _at(zero, whole, _Product.of(of.value))
            name = free_name(f"{of.name}_over_{own.factor.name}", program.names, "_")
            stays = _Product((*others.up[:k], Read(name, read.index), *others.up[k + 1 :]), others.down)
            return _Met(stays, zero.left, of, Assign(name, of.axes, own.besides.node), own.factor)
    return None


def _zero(product: _Product, pole: Node, known: Known) -> _Zero | None:
    """A factor that is 0 at a pole by what it is made of."""
    for k, f in enumerate(product.up):
        factor, power = whole_power(f)
        made = known.get(factor.name) if isinstance(factor, Read) and by_axes_once(factor) else None
        if made is None or not plain(made.value):
            continue
        assert isinstance(factor, Read)
        whole = _Product.of(value_at(made, factor.index))
        if pole in whole.up:
            at = whole.up.index(pole)
            return _Zero(factor, _less(product, k, power), replace(whole, up=(*whole.up[:at], *whole.up[at + 1 :])))
    return None


def _less(product: _Product, k: int, power: int) -> _Product:
    """A product with one power less of the factor at a place."""
    root = whole_power(product.up[k])[0]
    rest = (to_the(root, power - 1),) if power > 1 else ()
    return replace(product, up=(*product.up[:k], *rest, *product.up[k + 1 :]))


def _at(zero: _Zero, whole: _Product, own: _Product) -> _Zero:
    """The same of an adjoint under its own axes."""
    k = next(k for k, f in enumerate(whole.up) if whole_power(f)[0] == zero.factor)
    root, power = whole_power(own.up[k])
    assert isinstance(root, Read)
    return _Zero(root, _less(own, k, power), zero.left)


def _with(program: Program, name: str, product: Call, met: _Met) -> Program:
    """The program with that product, and before it what the adjoint has besides its zero, of which both are made."""
    out: list[Statement] = []
    for s in program.statements:
        if met.adjoint is not None and met.besides is not None and met.zero is not None and s is met.adjoint:
            out.append(met.besides)
            s = replace(met.adjoint, value=multiplied([Read(met.besides.name, met.besides.axes), met.zero]))
        if isinstance(s, Assign) and s.name == name:
            s = replace(s, value=_put(s.value, product, met))
        out.append(s)
    return replace(program, statements=tuple(out))


def _put(value: Node, product: Call, met: _Met) -> Node:
    """A value with what a product has become; what is one along all that is summed, behind its sum."""
    sums = (n for n in walk(value) if isinstance(n, Reduce) and n.kind in ("sum", "mean") and n.body == product)
    total = next(sums, None)
    if total is None:
        return put(value, product, met.stays.times(met.left).node)
    summed = replace(total, body=met.stays.times(met.left.along(total.axes)).node)
    return put(value, total, _Product((summed,)).times(met.left.across(total.axes)).node)
