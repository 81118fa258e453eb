"""Random small specs in the notation, as the text of a file, with inputs at which every function is in its domain.

Whatever is written keeps bounds of its values along, so that `log` and division only meet what they accept, and no
chain of exponentials overflows. The choices come one whole number at a time, the plainest first, so that whoever
makes them (a list, a generator of random numbers) can shrink a spec.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Draw = Callable[[int, int], int]  # a whole number from the first to the second

PACK = "..."
LARGEST = 30.0  # values beyond are squashed


@dataclass(frozen=True)
class Input:
    """One argument of the op: what it is, its shape, and the bounds of its values."""

    name: str
    kind: str  # "tensor", "constant", "index", "scalar", "length"
    shape: tuple[int, ...] = ()
    low: float = 0.0
    high: float = 1.0
    number: float = 0.0


@dataclass(frozen=True)
class Example:
    """A file of specs, of which the last op is tried; what it is given; the lengths of axes that no input carries."""

    source: str
    name: str
    inputs: tuple[Input, ...]
    lengths: dict[str, int]
    save: str
    layout: str
    seed: int
    rounded: bool  # values at halves, where functions have their corners


@dataclass(frozen=True)
class Term:
    """An expression as text, and bounds of its values."""

    text: str
    low: float
    high: float

    @property
    def large(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Known:
    """A tensor that can be read. A dimension is an axis, or several merged."""

    name: str
    dims: tuple[tuple[str, ...], ...]
    low: float
    high: float
    read: str = ""  # how it is written: x, or f.x

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(a for d in self.dims for a in d)


@dataclass(frozen=True)
class Window:
    """`stride * own + step * kernel + offset` runs along `axis`; `own` is as long as that allows."""

    own: str
    axis: str
    stride: int
    kernel: str | None
    step: int
    offset: int

    @property
    def text(self) -> str:
        parts = [self.own if self.stride == 1 else f"{self.stride} * {self.own}"]
        if self.kernel is not None:
            parts.append(self.kernel if self.step == 1 else f"{self.step} * {self.kernel}")
        return " + ".join(parts + ([str(self.offset)] if self.offset else []))


@dataclass
class Writer:
    """One op as it is being written."""

    draw: Draw
    name: str
    sizes: dict[str, Any]  # of every axis; of `...` a tuple
    prefix: str = ""
    known: list[Known] = field(default_factory=list)
    indices: list[Known] = field(default_factory=list)  # integer inputs; `read` is the axis that they run over
    inputs: list[Input] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    scalars: list[Term] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    carried: set[str] = field(default_factory=set)
    equations: list[Known] = field(default_factory=list)
    callees: list[Writer] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)  # of axes that no input carries

    # --- choices ---

    def chance(self, percent: int) -> bool:
        return self.draw(0, 99) >= 100 - percent

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.draw(0, len(options) - 1)]

    def some(self, options: Sequence[Any], least: int, most: int) -> list[Any]:
        """Different ones, in any order."""
        left, out = list(options), []
        for _ in range(min(len(left), self.draw(least, max(least, most)))):
            out.append(left.pop(self.draw(0, len(left) - 1)))
        return out

    def weighted(self, options: Sequence[tuple[int, Any]]) -> Any:
        at = self.draw(0, sum(w for w, _ in options) - 1)
        for weight, option in options:
            at -= weight
            if at < 0:
                return option
        raise AssertionError

    # --- lengths ---

    def length(self, dim: tuple[str, ...] | str) -> int:
        axes = (dim,) if isinstance(dim, str) else dim
        return math.prod(math.prod(self.sizes[a]) if a == PACK else self.sizes[a] for a in axes)

    def shape(self, dims: tuple[tuple[str, ...], ...]) -> tuple[int, ...]:
        out: list[int] = []
        for d in dims:
            out += self.sizes[PACK] if d == (PACK,) else [self.length(d)]
        return tuple(out)

    # --- reading ---

    def index_of(self, dim: tuple[str, ...], scope: Sequence[str]) -> str:
        """What to write for one dimension: its axis where that is in scope, or one of the other ways."""
        length = self.length(dim)
        plain = len(dim) == 1
        options: list[tuple[int, str]] = []
        if all(a in scope for a in dim):
            options.append((60, dim[0] if plain else f"({', '.join(dim)})"))
        same = [a for a in scope if a not in dim and a != PACK and a in self.carried and self.length(a) == length]
        options += [(3, a) for a in same]
        if plain:
            options += [(15, i) for i in self.gathers(dim[0], scope)]
            options += [(25, w.text) for w in self.windows if self.fits(w, dim[0], scope)]
            options += [(20, f"({a}, {b})") for a, b in self.splits(dim[0], scope)]
        options.append((4, "0"))
        if length > 1:
            options.append((2, "1"))
        if plain:
            options.append((2, f"size({dim[0]}) - 1"))
        return self.weighted(options)

    def gathers(self, axis: str, scope: Sequence[str]) -> list[str]:
        return [
            f"{i.name}[{self.key(i.dims)}]" for i in self.indices if i.read == axis and all(a in scope for a in i.axes)
        ]

    def fits(self, w: Window, axis: str, scope: Sequence[str]) -> bool:
        return w.axis == axis and w.own in scope and (w.kernel is None or w.kernel in scope)

    def splits(self, axis: str, scope: Sequence[str]) -> list[tuple[str, str]]:
        free = [a for a in scope if a in self.carried and a != PACK]
        return [(a, b) for a in free for b in free if a != b and self.length((a, b)) == self.length(axis)][:3]

    def key(self, dims: Sequence[tuple[str, ...]]) -> str:
        """The indices of a left side or of a plain read."""
        parts = [d[0] if len(d) == 1 else f"({', '.join(d)})" for d in dims]
        return f"{parts[0]}," if len(parts) == 1 and len(dims[0]) > 1 else ", ".join(parts) or "()"

    def readable(self, tensor: Known, scope: Sequence[str]) -> bool:
        return PACK not in tensor.axes or PACK in scope

    def read_of(self, tensor: Known, scope: Sequence[str], forced: str | None = None) -> Term:
        index = [d[0] if d == (PACK,) else self.index_of(d, scope) for d in tensor.dims]
        if forced is not None:
            at, text = forced.split("|")
            index[int(at)] = text
        alone = "," if len(index) == 1 and index[0].startswith("(") else ""  # Python has x[(a, b)] for x[a, b]
        return Term(f"{tensor.read}[{', '.join(index) or '()'}{alone}]", tensor.low, tensor.high)

    def leaf(self, scope: Sequence[str]) -> Term:
        tensors = [t for t in self.known if self.readable(t, scope)]
        near = [t for t in tensors if t.axes and set(t.axes) & set(scope)] or tensors
        axes = [a for a in scope if a != PACK]
        other = self.draw(0, 99)
        if not tensors or other >= 98:
            return self.constant()
        if other >= 96 and axes:
            axis = self.pick(axes)
            return Term(axis, 0, self.length(axis) - 1)
        if other >= 94 and axes:
            axis = self.pick(axes)
            return Term(f"size({axis})", self.length(axis), self.length(axis))
        if other >= 90 and self.scalars:
            return self.pick(self.scalars)
        return self.read_of(self.pick(near if other < 80 else tensors), scope)

    def constant(self) -> Term:
        text = self.pick(["2", "1", "0.5", "3", "1.25", "-1", "0"])
        return Term(text if text[0] != "-" else f"({text})", float(text), float(text))

    # --- expressions ---

    def expression(self, scope: Sequence[str], depth: int, forced: str | None = None) -> Term:
        """`forced` is a read that must stand in it, since an axis has its length from there."""
        term = self._expression(scope, depth)
        if forced is not None:
            read = self.forced(forced, scope)
            term = product(read, term) if self.chance(60) else plus(read, term)
        return self.squashed(term)

    def forced(self, axis: str, scope: Sequence[str]) -> Term:
        """A read through the window that gives `axis` its length."""
        window = next(w for w in self.windows if w.own == axis)
        tensors = [t for t in self.known if (window.axis,) in t.dims and self.readable(t, scope)]
        tensor = self.pick(tensors)
        return self.read_of(tensor, scope, f"{tensor.dims.index((window.axis,))}|{window.text}")

    def squashed(self, t: Term) -> Term:
        return Term(f"tanh({t.text})", -1, 1) if t.large > LARGEST else t

    def _expression(self, scope: Sequence[str], depth: int) -> Term:
        if depth <= 0:
            return self.leaf(scope)
        make = self.weighted([
            (12, self.leaf_at), (16, self.of_product), (12, self.of_sum), (6, self.of_difference), (5, self.of_scale),
            (16, self.of_function), (8, self.of_power), (8, self.of_quotient), (8, self.of_choice),
            (3, self.of_extremum), (3, self.of_delta), (20, self.of_reduction), (2, self.of_mask),
        ])  # fmt: skip
        return self.squashed(make(scope, depth - 1))

    def leaf_at(self, scope: Sequence[str], depth: int) -> Term:
        return self.leaf(scope)

    def of_product(self, scope: Sequence[str], depth: int) -> Term:
        return product(self._expression(scope, depth), self._expression(scope, depth))

    def of_sum(self, scope: Sequence[str], depth: int) -> Term:
        return plus(self._expression(scope, depth), self._expression(scope, depth))

    def of_difference(self, scope: Sequence[str], depth: int) -> Term:
        a, b = self._expression(scope, depth), self._expression(scope, depth)
        return Term(f"({a.text} - {b.text})", a.low - b.high, a.high - b.low)

    def of_scale(self, scope: Sequence[str], depth: int) -> Term:
        a, c = self._expression(scope, depth), self.pick([2.0, 0.5, -1.0, -3.0])
        ends = sorted((c * a.low, c * a.high))
        return Term(f"(-{a.text})" if c == -1 else f"({c:g} * {a.text})", ends[0], ends[1])

    def of_function(self, scope: Sequence[str], depth: int) -> Term:
        a = self._expression(scope, depth)
        name = self.pick(
            ["tanh", "exp", "sigmoid", "relu", "sin", "cos", "softplus", "erf", "abs", "sqrt", "log", "sign"]
        )
        if name == "exp":
            if a.high > 3:
                a = Term(f"tanh({a.text})", -1, 1)
            return Term(f"exp({a.text})", math.exp(a.low), math.exp(a.high))
        if name in ("sqrt", "log"):
            a = self.positive(a)
            low, high = ((math.sqrt, math.log)[name == "log"](v) for v in (a.low, a.high))
            return Term(f"{name}({a.text})", low, high)
        bounds = {
            "tanh": (math.tanh(a.low), math.tanh(a.high)),
            "sigmoid": (1 / (1 + math.exp(-a.low)), 1 / (1 + math.exp(-a.high))),
            "relu": (max(a.low, 0.0), max(a.high, 0.0)),
            "softplus": (math.log1p(math.exp(a.low)), math.log1p(math.exp(a.high))),
            "abs": (0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)), a.large),
        }
        return Term(f"{name}({a.text})", *bounds.get(name, (-1.0, 1.0)))

    def positive(self, a: Term) -> Term:
        """Something above 0 made of a term."""
        if a.low >= 0.1:
            return a
        if a.high > 3 or self.chance(60):
            return Term(f"(({a.text}) ** 2 + 1)", 1, a.large**2 + 1)
        return Term(f"exp({a.text})", math.exp(max(a.low, -20)), math.exp(a.high))

    def of_power(self, scope: Sequence[str], depth: int) -> Term:
        a = self._expression(scope, depth)
        which = self.draw(0, 9)
        if which < 4:
            return Term(f"({a.text}) ** 2", 0 if a.low <= 0 <= a.high else min(a.low**2, a.high**2), a.large**2)
        if which < 6:
            return Term(f"({a.text}) ** 3", a.low**3, a.high**3)
        a = self.positive(a)
        if which < 9:
            text, exponent = self.pick(
                [("rsqrt({})", -0.5), ("({}) ** -1.5", -1.5), ("({}) ** 1.5", 1.5), ("({}) ** -1", -1.0)]
            )
            ends = sorted((a.low**exponent, a.high**exponent))
            return Term(text.format(a.text), ends[0], ends[1])
        b = self._expression(scope, 0)
        ends = sorted(x**y for x in (a.low, a.high) for y in (b.low, b.high))
        return Term(f"({a.text}) ** ({b.text})", ends[0], ends[-1])

    def of_quotient(self, scope: Sequence[str], depth: int) -> Term:
        a, b = self._expression(scope, depth), self.positive(self._expression(scope, depth))
        ends = sorted(x / y for x in (a.low, a.high) for y in (b.low, b.high))
        return Term(f"({a.text} / {b.text})", ends[0], ends[-1])

    def of_choice(self, scope: Sequence[str], depth: int) -> Term:
        a, b = self._expression(scope, depth), self._expression(scope, depth)
        text = f"where({self.condition(scope, depth)}, {a.text}, {b.text})"
        return Term(text, min(a.low, b.low), max(a.high, b.high))

    def condition(self, scope: Sequence[str], depth: int) -> str:
        axes = [a for a in scope if a != PACK]
        labels = [(i, f"{i.name}[{self.key(i.dims)}]") for i in self.indices if all(a in scope for a in i.axes)]
        which = self.draw(0, 9)
        if which >= 8:
            one, two = self.condition(scope, 0), self.condition(scope, 0)
            return self.pick([f"({one}) & ({two})", f"({one}) | ({two})", f"~({one})"])
        if which >= 4 and len(axes) >= 2:
            a, b = self.some(axes, 2, 2)
            return self.pick([f"{b} <= {a}", f"eq({a}, {b})", f"ne({a}, {b})", f"{a} - {b} < 2", f"{a} > {b} + 1"])
        if which >= 3 and axes:
            a = self.pick(axes)
            if labels and self.chance(50):
                return f"{self.pick(['eq', 'ne'])}({a}, {self.pick(labels)[1]})"
            return self.pick([f"{a} < 1", f"ne({a}, 0)", f"{a} >= 1"])
        a, b = self.leaf(scope), self._expression(scope, min(depth, 1))
        if "[" not in b.text:  # Python would decide it
            tensors = [t for t in self.known if self.readable(t, scope)]
            if not tensors:
                return "eq(1, 1)"
            b = self.read_of(self.pick(tensors), scope)
        return self.pick([f"{b.text} > 0", f"{b.text} <= {a.text}", f"{b.text} >= 0.5"])

    def of_extremum(self, scope: Sequence[str], depth: int) -> Term:
        a, b = self._expression(scope, depth), self._expression(scope, depth)
        if self.chance(50):
            return Term(f"minimum({a.text}, {b.text})", min(a.low, b.low), min(a.high, b.high))
        return Term(f"maximum({a.text}, {b.text})", max(a.low, b.low), max(a.high, b.high))

    def of_delta(self, scope: Sequence[str], depth: int) -> Term:
        axes = [a for a in scope if a != PACK]
        a = self._expression(scope, depth)
        if not axes:
            return a
        first = self.pick(axes)
        others = [b for b in axes if b != first] + self.gathers(first, scope) + ["0"]
        return Term(f"delta({first}, {self.pick(others)}) * {a.text}", min(a.low, 0), max(a.high, 0))

    def of_mask(self, scope: Sequence[str], depth: int) -> Term:
        """What `-oo` is for: the exponential or the maximum of masked scores."""
        a = self._expression(scope, depth)
        if a.high > 3:
            a = Term(f"sin({a.text})", -1, 1)
        return Term(f"exp(where({self.condition(scope, 0)}, {a.text}, -oo))", 0, math.exp(a.high))

    def of_reduction(self, scope: Sequence[str], depth: int) -> Term:
        bound, forced = self.bindable(scope)
        if not bound:
            return self._expression(scope, depth)
        body = self.expression([*scope, *bound], depth, forced)
        kind = self.weighted([(6, "sum"), (3, "mean"), (2, "amax"), (1, "amin")])
        count = self.length(tuple(bound)) if kind == "sum" else 1
        over = bound[0] if len(bound) == 1 else f"({', '.join(bound)})"
        return Term(
            f"{kind}({body.text}, over={over})", min(body.low * count, body.low), max(body.high * count, body.high)
        )

    def bindable(self, scope: Sequence[str]) -> tuple[list[str], str | None]:
        """Axes to reduce over, and that of them which a window must stand for."""
        free = [a for a in self.carried if a not in scope and (a != PACK or any(PACK in t.axes for t in self.known))]
        free = sorted(free, key=list(self.sizes).index)
        near = [a for a in free if any(a in t.axes for t in self.known)]
        own = [w.own for w in self.windows if w.own not in scope and self.ready(w, scope)]
        if own and self.chance(30):
            axis = self.pick(own)
            w = next(w for w in self.windows if w.own == axis)
            return [axis, *([w.kernel] if w.kernel and w.kernel not in scope else [])], axis
        if not near:
            return [], None
        return self.some(near, 1, 1 if self.draw(0, 3) < 3 else 2), None

    def ready(self, w: Window, scope: Sequence[str]) -> bool:
        tensors = [t for t in self.known if (w.axis,) in t.dims]
        return any(self.readable(t, scope) for t in tensors)

    # --- equations ---

    def define(self, dims: Sequence[tuple[str, ...]], text: str, low: float, high: float) -> Known:
        name = f"{self.prefix}{'abcghpqrsuyz'[len(self.equations) % 12]}{len(self.equations) // 12 or ''}"
        made = Known(name, tuple(dims), low, high, f"f.{name}")
        self.lines.append(f"f.{name}[{self.key(dims)}] = {text}")
        self.known.append(made)
        self.equations.append(made)
        return made

    def left(self, most: int = 3) -> tuple[list[str], str | None]:
        """Axes of a left side, and that of them whose length comes from a window."""
        axes = [a for a in self.sizes if a in self.carried and a != PACK]
        chosen = self.some(axes, 0, most)
        forced = None
        own = [w for w in self.windows if self.ready(w, [PACK])]
        if own and self.chance(35):
            w = self.pick(own)
            forced = w.own
            chosen = [a for a in chosen if a != w.own][: most - 1]
            chosen.insert(self.draw(0, len(chosen)), w.own)
            if w.kernel and w.kernel not in chosen and self.chance(30):
                chosen.append(w.kernel)
        if PACK in self.carried and self.chance(60):
            chosen.insert(0, PACK)
        return chosen, forced

    def equation(self, depth: int) -> None:
        chosen, forced = self.left()
        w = next((w for w in self.windows if w.own == forced), None)
        if w is not None and not self.ready(w, chosen):
            chosen, forced, w = [a for a in chosen if a != forced], None, None
        if w is not None and w.kernel and w.kernel not in chosen:
            body = self.expression([*chosen, w.kernel], depth, forced)
            kind = self.pick(["sum", "mean", "amax"])
            count = self.length(w.kernel) if kind == "sum" else 1
            term = Term(
                f"{kind}({body.text}, over={w.kernel})",
                min(body.low * count, body.low),
                max(body.high * count, body.high),
            )
        else:
            term = self.expression(chosen, depth, forced)
        if forced is not None:
            self.carried.add(forced)
        term = self.squashed(term)
        self.define(self.merged(chosen), term.text, term.low, term.high)

    def merged(self, chosen: list[str]) -> list[tuple[str, ...]]:
        dims: list[tuple[str, ...]] = [(a,) for a in chosen]
        if len(dims) >= 2 and self.chance(12):
            at = self.draw(0, len(dims) - 2)
            dims[at : at + 2] = [dims[at] + dims[at + 1]]
        return dims

    def motif(self) -> None:
        """What closed forms are about: something centred, normalised, or both."""
        tensors = [
            t for t in self.known if t.dims and all(len(d) == 1 for d in t.dims) and len(set(t.axes)) == len(t.axes)
        ]
        tensors = [t for t in tensors if any(d != (PACK,) for d in t.dims)]
        if not tensors:
            self.equation(1)
            return
        t = self.pick(tensors)
        axes = list(t.axes)
        axis = self.pick([a for a in axes if a != PACK])
        kept = [(a,) for a in axes if a != axis]
        whole, here = [(a,) for a in axes], f"{t.read}[{self.key(t.dims)}]"
        which = self.draw(0, 4)
        if which == 0:
            self.define(whole, f"{here} - mean({here}, over={axis})", t.low - t.high, t.high - t.low)
        elif which == 1:
            self.normalised(Term(here, t.low, t.high), axis, whole, kept)
        else:
            self.exponentials(Term(here, t.low, t.high), axis, whole, kept, which)

    def normalised(self, t: Term, axis: str, whole: list[tuple[str, ...]], kept: list[tuple[str, ...]]) -> None:
        """A tensor less its mean, over its standard deviation."""
        mu = self.define(kept, f"mean({t.text}, over={axis})", t.low, t.high)
        at = f"{mu.read}[{self.key(kept)}]"
        wide = t.high - t.low
        r = self.define(
            kept, f"rsqrt(mean(({t.text} - {at}) ** 2, over={axis}) + 0.5)", (wide**2 + 0.5) ** -0.5, 0.5**-0.5
        )
        self.define(whole, f"({t.text} - {at}) * {r.read}[{self.key(kept)}]", -wide * 1.5, wide * 1.5)

    def exponentials(
        self, t: Term, axis: str, whole: list[tuple[str, ...]], kept: list[tuple[str, ...]], which: int
    ) -> None:
        """A softmax (2), a softmax less its maximum (3), or the logarithm of its sum (4)."""
        if t.high > 3 or t.low < -10:
            t = Term(f"tanh({t.text})", -1, 1)
        top = ""
        if which >= 3:
            m = self.define(kept, f"amax({t.text}, over={axis})", t.low, t.high)
            top = f" - {m.read}[{self.key(kept)}]"
        low, high = (math.exp(t.low - t.high), 1.0) if top else (math.exp(t.low), math.exp(t.high))
        u = self.define(whole, f"exp({t.text}{top})", low, high)
        at, n = f"{u.read}[{self.key(whole)}]", self.length(axis)
        if which == 4:
            self.define(kept, f"{top.removeprefix(' - ')} + log(sum({at}, over={axis}))", t.low, t.high + math.log(n))
        else:
            self.define(whole, f"{at} / sum({at}, over={axis})", low / (high * n), 1)

    def joined(self) -> None:
        """A concatenation; the axis is as long as its pieces together."""
        axes = [a for a in self.sizes if a in self.carried and a != PACK]
        holders = [(t, d[0]) for t in self.known for d in t.dims if len(d) == 1 and d[0] in axes]
        if not holders:
            self.equation(1)
            return
        along = f"{self.prefix}j{len(self.equations)}"
        first, own = self.pick(holders)
        others = [a for a in first.axes if a != own and a != PACK]
        left = ([PACK] if PACK in first.axes else []) + others[:1]
        parts, bounds, total = [], [0.0, 0.0], 0
        for _ in range(self.draw(2, 3)):
            options = [(t, a) for t, a in holders if a not in left and self.readable(t, left) and t.axes.count(a) == 1]
            if not options:
                break
            t, a = self.pick(options)
            piece = self.piece(t, a, left)
            parts.append(piece.text)
            bounds = [min(bounds[0], piece.low), max(bounds[1], piece.high)]
            total += self.length(a)
        if len(parts) < 2:
            self.equation(1)
            return
        self.sizes[along] = total
        self.lengths[along] = total
        at = self.draw(0, len([a for a in left if a != PACK]))
        dims = [(a,) for a in left]
        dims.insert(at + (PACK in left), (along,))
        self.carried.add(along)
        self.define(dims, f"concat({', '.join(parts)}, along={along})", *bounds)

    def piece(self, t: Known, own: str, left: list[str]) -> Term:
        """A tensor along an axis of its own, or a function of it."""
        index = [d[0] if d == (PACK,) or d == (own,) else self.index_of(d, left) for d in t.dims]
        read = Term(f"{t.read}[{', '.join(index)}]", t.low, t.high)
        factor = self.pick([None, "tanh", "exp", "2 * "])
        if factor == "2 * ":
            return Term(f"2 * {read.text}", 2 * min(read.low, 0), 2 * max(read.high, 0))
        if factor == "tanh" or (factor == "exp" and read.high > 3):
            return Term(f"tanh({read.text})", -1, 1)
        return Term(f"exp({read.text})", 0, math.exp(read.high)) if factor == "exp" else read

    def call(self) -> None:
        """Another op, given tensors of this one."""
        callee = self.pick(self.callees)
        own = [a for a in self.sizes if a in self.carried and a != PACK]
        if not own:
            self.equation(1)
            return
        bound = self.bound(callee, own)
        if bound is None:
            return self.equation(1)
        arguments = []
        for i in callee.inputs:
            if i.kind == "scalar":
                continue
            formal = next(k for k in (*callee.known, *callee.indices) if k.name == i.name)
            axes = [b for a in formal.axes for b in bound[a]]
            if i.kind == "index" or len(set(axes)) < len(axes):
                return self.equation(1)
            arguments.append(self.argument(i, axes))
        made = []
        for out in callee.outputs:
            name = f"{self.prefix}{'abcghpqrsuyz'[(len(self.equations)) % 12]}{len(self.equations) // 12 or ''}"
            dims = tuple(d for dim in out.dims for d in self.passed(dim, bound))
            made.append(Known(name, dims, out.low, out.high, f"f.{name}"))
            self.equations.append(made[-1])
        self.known += made
        self.lines.append(f"{', '.join(m.read for m in made)} = {callee.name}({', '.join(arguments)})")
        return None

    def bound(self, callee: Writer, own: list[str]) -> dict[str, list[str]] | None:
        """Axes of this op for those of another, of its lengths where there are such; None where some has none."""
        bound: dict[str, list[str]] = {}
        for a in callee.carried:
            if a == PACK:
                bound[a] = ([PACK] if PACK in self.carried and self.chance(50) else []) + self.some(own, 0, 1)
        taken = {a for run in bound.values() for a in run}
        for a in sorted(callee.carried - {PACK}):
            left = [b for b in own if b not in taken]
            options = [b for b in left if self.length(b) == callee.length(a)] or left
            if not options or a in callee.lengths:
                return None
            bound[a] = [self.pick(options)]
            taken |= set(bound[a])
        return bound

    def argument(self, wanted: Input, axes: list[str]) -> str:
        """A tensor over these axes whose values the input may have: one that is there, or one made for it."""
        dims = tuple((b,) for b in axes)
        ready = [t for t in self.known if t.dims == dims and t.low >= wanted.low and t.high <= wanted.high]
        if ready and self.chance(70):
            return self.pick(ready).read
        t = self.expression(axes, 1)
        if t.low < wanted.low or t.high > wanted.high:
            middle, half = (wanted.low + wanted.high) / 2, (wanted.high - wanted.low) / 2
            t = Term(f"({middle:g} + {half:g} * sin({t.text}))", wanted.low, wanted.high)
        return self.define(list(dims), t.text, t.low, t.high).read

    def passed(self, dim: tuple[str, ...], bound: dict[str, list[str]]) -> list[tuple[str, ...]]:
        """A dimension of a callee's output here; `...` may stand for several."""
        run = [b for a in dim for b in bound[a]]
        return [(b,) for b in run] if dim == (PACK,) else [tuple(run)]

    # --- inputs ---

    def tensor(self, name: str, kind: str, axes: Sequence[str]) -> None:
        low, high, mark = -1.5, 1.5, ""
        if kind == "tensor" and self.chance(8):
            low, high, mark = 0.25, 2.0, ".positive"
        dims = tuple((a,) for a in axes)
        self.inputs.append(Input(name, kind, self.shape(dims), low, high))
        self.signature.append(f"{name}: {kind}[{self.key(dims)}]{mark}")
        self.known.append(Known(name, dims, low, high, name))
        self.carried |= set(axes)

    def index_input(self, name: str, over: str, axes: Sequence[str]) -> None:
        dims = tuple((a,) for a in axes)
        self.inputs.append(Input(name, "index", self.shape(dims), 0, self.length(over) - 1))
        self.signature.append(f"{name}: index({over})[{self.key(dims)}]")
        self.indices.append(Known(name, dims, 0, self.length(over) - 1, over))
        self.carried |= set(axes)

    def scalar(self, name: str) -> None:
        number = self.pick([1.0, 0.5, 2.0, -1.5])
        self.inputs.append(Input(name, "scalar", number=number))
        self.signature.append(f"{name}: scalar = {number}")
        self.scalars.append(Term(name, number, number))

    @property
    def outputs(self) -> list[Known]:
        return self._outputs

    def close(self) -> None:
        """Choose what is returned: the last equation, and perhaps others."""
        *others, last = self.equations
        more = [e for e in others if self.chance(20)]
        self._outputs = [*more, last] if self.chance(80) else [last, *more]

    def text(self) -> str:
        head = f"@op\ndef {self.name}(f, {', '.join(self.signature)}):\n"
        lines = [*self.lines, f"return {', '.join(e.read for e in self.outputs)}"]
        return head + "".join(f"    {line}\n" for line in lines)


def product(a: Term, b: Term) -> Term:
    ends = sorted(x * y for x in (a.low, a.high) for y in (b.low, b.high))
    return Term(f"({a.text} * {b.text})", ends[0], ends[-1])


def plus(a: Term, b: Term) -> Term:
    return Term(f"({a.text} + {b.text})", a.low + b.low, a.high + b.high)


# --- products of heads in groups ---------------------------------------------------------------------------------


@dataclass
class GroupedProducts:
    """Two products in a row for each head of each group: an output more, of inputs that have some axes merged.

    `g` groups have `r` heads each, with places `a` that meet places `b` along `c`. What is one axis in memory has its
    parts' names in a row.
    """

    writer: Writer

    def write(self) -> None:
        w = self.writer
        w.sizes |= {a: w.draw(2, 4) for a in "grabc"}
        q = self.given("xq", [["gr", "a", "c"], ["g", "r", "a", "c"], ["g", "ra", "c"], ["gra", "c"], ["gr", "ac"]])
        k = self.given("xk", [["g", "b", "c"], ["gb", "c"], ["g", "bc"], ["gr", "b", "c"]])
        v = self.given("xv", [["g", "b", "c"]])  # one input has each of these axes by itself, or no length is known
        z = self.given("xz", [["r", "a"]])
        beside = w.pick(["", f" + {z.text}", f" * {z.text}", " + "])
        if beside == " + ":
            beside += self.given("xb", [["gr", "a"], ["gr", "b"], ["gr"]]).text
        here = [(a,) for a in "grab"]
        s = w.define(here, f"sum({q.text} * {k.text}, over=c){beside}", -10, 10)
        at = f"{s.read}[g, r, a, b]"
        masked = [f"where(b <= a, exp({at} / 8), 0)", f"where(b <= a + 1, {at}, 0)"]
        of = w.pick([f"exp({at} / 8)", f"tanh({at})", *masked])
        p = w.define(here, of, -10, 10)
        if w.chance(50):
            over = f"(1 + sum(abs({p.read}[g, r, a, b]), over=b))"
            p = w.define(here, f"{p.read}[g, r, a, b] / {over}", -1, 1)
        made = w.pick([["gr", "a", "c"], ["g", "r", "a", "c"], ["g", "ra", "c"], ["gra", "c"], ["gr", "ac"]])
        dims = [tuple(d) for d in made]
        y = w.define(dims, f"sum({p.read}[g, r, a, b] * {v.text}, over=b) * {z.text}", -LARGEST, LARGEST)
        w.outputs.append(y)

    def given(self, name: str, ways: Sequence[Sequence[str]]) -> Term:
        """An input that has its axes in one of these ways, and how it is read."""
        w = self.writer
        dims = w.pick(ways)
        w.sizes |= {d: w.length(tuple(d)) for d in dims}
        at = sum(i.kind != "scalar" for i in w.inputs)  # those have a default
        w.inputs.insert(at, Input(name, "tensor", tuple(w.sizes[d] for d in dims), -1.5, 1.5))
        w.signature.insert(at, f"{name}: tensor[{', '.join(dims)}]")
        return Term(f"{name}[{w.key([tuple(d) for d in dims])}]", -1.5, 1.5)


# --- whole examples -----------------------------------------------------------------------------------------------


def example(draw: Draw) -> Example:
    """A random file of specs: an op, and sometimes another that it calls."""
    axes, sizes = _axes(draw)
    callees = []
    if draw(0, 9) >= 8:
        callee = Writer(draw, "inner", dict(sizes), prefix="v")
        _write_inputs(callee, 2, plain=True)
        for _ in range(draw(1, 2)):
            callee.motif() if callee.chance(60) else _plain_equation(callee)
        callee.close()
        callees.append(callee)
    w = Writer(draw, "outer", sizes, callees=callees)
    _write_inputs(w, 3)
    _write_windows(w)
    for _ in range(draw(1, 4)):
        step = w.weighted([(60, None), (25, w.motif), (7, w.joined), (30 if callees else 0, w.call)])
        step() if step is not None else w.equation(draw(1, 3))
    w.close()
    save = ("cost", "cost", "cost", "cost", "cost", "fused", "least", "input", "input", "output")[draw(0, 9)]
    layout, seed, rounded = ("contiguous", "transposed", "expanded")[draw(0, 2)], draw(0, 999), draw(0, 9) >= 9
    if w.chance(15):  # last, so that all else of an example stays as it was before there were such
        GroupedProducts(w).write()
    own = [a for k in (w, *callees) for a in k.sizes if a != PACK]
    names = " ".join(dict.fromkeys([*axes, *own]))
    first = f'from derive import *\n\n{", ".join(names.split())} = axes("{names}")\n'
    if len(names.split()) == 1:
        first = f'from derive import *\n\n{names} = axes("{names}")\n'
    source = first + "".join(f"\n\n{k.text()}" for k in (*callees, w))
    lengths = {a: n for k in (w, *callees) for a, n in k.lengths.items()}
    return Example(source, w.name, tuple(w.inputs), lengths, save, layout, seed, rounded)


def _axes(draw: Draw) -> tuple[list[str], dict[str, Any]]:
    """The axes that inputs may carry: distinct lengths, or all alike, or some of length 1; and those of `...`."""
    names = ["n", "d", "k", "t", "m"][: draw(2, 5)]
    way = draw(0, 9)
    if way < 6:
        lengths = [3, 2, 4, 5, 6]
    elif way < 8:
        lengths = [3] * 5
    else:
        lengths = [draw(1, 4) for _ in names]
    sizes: dict[str, Any] = dict(zip(names, lengths, strict=False))
    if draw(0, 9) >= 6:
        sizes = {PACK: [(2,), (), (2, 3)][draw(0, 2)], **sizes}
    return names, sizes


def _write_inputs(w: Writer, most: int, plain: bool = False) -> None:
    axes = [a for a in w.sizes if a != PACK]
    for k in range(w.draw(1, most)):
        chosen = w.some(axes, 0 if k else 1, 2 if w.chance(70) else 3)
        if PACK in w.sizes and w.chance(60 if k else 90):
            chosen.insert(0, PACK)
        kind = "constant" if k and w.chance(10) else "tensor"
        w.tensor(f"{w.prefix}{'xwo'[k]}", kind, chosen)
    scaled = w.chance(15)
    held = [a for a in axes if a in w.carried]
    for k in range(0 if plain else w.weighted([(70, 0), (22, 1), (8, 2)])):
        chosen = w.some(axes, 0, 2)
        if held:
            w.index_input(f"ix{k}", w.pick(held), chosen)
    if scaled:  # after the tensors, since it has a default
        w.scalar(f"{w.prefix}scale")


def _write_windows(w: Writer) -> None:
    """Some axes that windows stand for, whose reads stay inside the axis that they run along."""
    axes = [a for a in w.carried if a != PACK]
    axes.sort(key=list(w.sizes).index)
    if not axes or not w.chance(30):
        return
    for own in ("i", "l")[: w.draw(1, 2)]:
        axis = max(axes, key=w.length) if w.chance(70) else w.pick(axes)
        kernels = [a for a in axes if a != axis]
        kernel = w.pick(kernels) if kernels and w.chance(75) else None
        stride, step, offset = w.pick([1, 1, 2, 3]), w.pick([1, 1, 2]), w.pick([0, 0, 0, 1])
        reach = step * (w.length(kernel) - 1 if kernel else 0) + offset
        if reach > w.length(axis) - 1:
            continue
        length = (w.length(axis) - 1 - reach) // stride + 1
        w.sizes[own] = w.lengths[own] = length
        w.windows.append(Window(own, axis, stride, kernel, step, offset))


def _plain_equation(w: Writer) -> None:
    w.equation(2)
