"""The program: ordered statements over named axes, with no dimensions, no torch and no SymPy.

    statement  ::=  name[axes] = node  |  name[axes] (+, max, min)= scatter of node over axes at slots
    node       ::=  number | scalar | size(axis) | axis | name[index] | fn(node, …) | reduce(kind, axes, node)
                | scan(to, over, relation, node) | shares(axes, node) | run(to, over, relation, node, name[index])
    index      ::=  axis | merge(axis or place, …) | part(index, k) | name[index] | step*axis + … + offset
                | step*index + … + offset

A backend that prints loops can start from here as well as one that prints whole-tensor calls. `soundness.check` holds
after every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from operator import is_
from typing import Any

from derive.ir.terms.numbers import as_decimal, as_quotient, decimal, with_exponent

RELATIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
MIRRORED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}
COMPARISONS = frozenset(RELATIONS.values())
CONDITIONS = COMPARISONS | {"and", "or", "not"}
"""The functions whose values are true or false."""

WIDTHS = frozenset({"as_float64", "narrow"})
"""In float64, and in the dtype of the inputs again; the very tensor, where it is in that dtype already."""


@dataclass(frozen=True)
class Num:
    value: Fraction | float

    def __str__(self) -> str:
        value = self.value
        if not isinstance(value, Fraction):
            return str(value).replace("inf", "oo")
        return with_exponent(value) or decimal(value) or _quotient(value)


def _quotient(value: Fraction) -> str:
    top, bottom = map(as_decimal, as_quotient(abs(value)))
    return ("-" if value < 0 else "") + (top if bottom == "1" else f"{top}/{bottom}")


@dataclass(frozen=True)
class Scal:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SizeOf:
    axis: str

    def __str__(self) -> str:
        return f"size({base(self.axis)})"


@dataclass(frozen=True)
class AxisValue:
    """An axis used as a number: `j <= i`."""

    axis: str

    def __str__(self) -> str:
        return self.axis


@dataclass(frozen=True)
class Merged:
    axes: tuple[Index, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.axes))})"


@dataclass(frozen=True)
class Place:
    """An index inside a merge in place of a whole axis, whose length is given."""

    index: Index
    length: Node

    def __str__(self) -> str:
        return str(self.index)


@dataclass(frozen=True)
class PartOf:
    whole: Index
    position: int
    lengths: tuple[Node, ...]

    def __str__(self) -> str:
        """`c // size(k)` and `c % size(k)`, as the places of a merge are counted."""
        inner = [str(length) for length in self.lengths[self.position + 1 :]]
        behind = f" // {inner[0]}" if len(inner) == 1 else f" // ({' * '.join(inner)})" if inner else ""
        whole = f"({self.whole})" if " " in str(self.whole) else str(self.whole)
        return f"{whole}{behind}{f' % {self.lengths[self.position]}' if self.position else ''}"


@dataclass(frozen=True)
class Window:
    steps: tuple[tuple[str, int], ...]
    offset: Node

    def __str__(self) -> str:
        return _stepped(self.steps, self.offset)


@dataclass(frozen=True)
class Arithmetic:
    """Axis arithmetic over indices that are no axes of their own: a window along one axis out of a merged one."""

    steps: tuple[tuple[Index, int], ...]
    offset: Node

    def __str__(self) -> str:
        return _stepped(self.steps, self.offset)


def _stepped(steps: Iterable[tuple[Index, int]], offset: Node) -> str:
    """Indices, each so many places at a time, and an offset: what is subtracted comes last."""
    parts = [(str(i) if abs(s) == 1 else f"{abs(s)}*{i}", s > 0) for i, s in steps]
    ahead = [part for part, is_added in parts if is_added]
    ahead += [] if ahead and offset == Num(Fraction(0)) else [str(offset)]
    return " - ".join([" + ".join(ahead), *(part for part, is_added in parts if not is_added)])


def written(index: Sequence[Index]) -> str:
    """What stands between the brackets behind a tensor: `n, (h, k)`, and `()` where it has no dimensions."""
    comma = "," if len(index) == 1 and isinstance(index[0], Merged) else ""
    return ", ".join(map(str, index)) + comma or "()"


@dataclass(frozen=True)
class Read:
    name: str
    index: tuple[Index, ...]

    def __str__(self) -> str:
        return f"{self.name}[{written(self.index)}]"


@dataclass(frozen=True)
class Call:
    """A pointwise function of its arguments: `add sub mul div neg pow`, comparisons, `where`, `exp` and the like."""

    fn: str
    args: tuple[Node, ...]

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        """Without what is found of it: the hash of a string is another one in another process."""
        return {"fn": self.fn, "args": self.args}

    @cached_property
    def facts(self) -> dict[Callable[..., object], Any]:
        """What was found of it, by the question (`derive.ir.nodes.walking.kept`)."""
        return {}

    @cached_property
    def _hash(self) -> int:
        """Found once: a sum of hundreds of terms is as many calls deep, and all of them are looked up."""
        return hash((self.fn, self.args))

    def __str__(self) -> str:
        if self.fn in _CONSTANTS:
            return _CONSTANTS[self.fn]
        if self.fn in _PREFIXES:
            return f"{_PREFIXES[self.fn]}{_operand(self.args[0], _BINDS['mul'])}"
        if self.fn not in _SIGNS:
            name = "abs" if self.fn == "absolute" else self.fn
            return f"{name}({', '.join(map(str, self.args))})"
        level, first = _BINDS[self.fn], _operand(self.args[0], _BINDS[self.fn] + (self.fn == "pow"))
        others = (_operand(a, level + (self.fn not in ("add", "and", "or"))) for a in self.args[1:])
        return _SIGNS[self.fn].join([first, *others])


_CONSTANTS = {"pi": "pi", "e": "exp(1)"}
_PREFIXES = {"neg": "-", "not": "~"}
_SIGNS = {"lt": " < ", "le": " <= ", "gt": " > ", "ge": " >= ", "or": " | ", "and": " & ", "add": " + ", "sub": " - ",
          "mul": " * ", "div": " / ", "floordiv": " // ", "mod": " % ", "pow": "**"}  # fmt: skip
_BINDS = {fn: k for k, fns in enumerate((("lt", "le", "gt", "ge"), ("or",), ("and",), ("add", "sub", "neg"),
          ("mul", "div", "floordiv", "mod"), ("not",), ("pow",))) for fn in fns}  # fmt: skip
"""How tightly each binds, as in Python: a call and an element most tightly of all."""


def _operand(node: Node, level: int) -> str:
    """An operand, in parentheses where it binds less tightly than what it stands in."""
    binds = len(_BINDS)
    if isinstance(node, Call):
        binds = _BINDS.get(node.fn, binds)
    elif isinstance(node, Num) and (node.value < 0 or "/" in str(node)):
        binds = _BINDS["add" if node.value < 0 else "mul"]
    return f"({node})" if binds < level else str(node)


@dataclass(frozen=True)
class Reduce:
    kind: str
    axes: tuple[str, ...]
    body: Node

    def __str__(self) -> str:
        over = self.axes[0] if len(self.axes) == 1 else f"({', '.join(self.axes)})"
        return f"{self.kind}({self.body}, over={over})"


@dataclass(frozen=True)
class Join:
    """Parts one after another along `axis`; each part runs over an axis of its own there, or ("") is one place."""

    axis: str
    parts: tuple[Node, ...]
    own: tuple[str, ...]

    def __str__(self) -> str:
        return f"concat({', '.join(map(str, self.parts))}, along={self.axis})"


@dataclass(frozen=True)
class Scan:
    """The sum or maximum of the body over the places of `over` in a relation to that of `to`: `over <= to`."""

    to: str
    over: str
    relation: str
    body: Node
    equal: bool = True  # whether the two axes are known to be equally long
    kind: str = "sum"

    def __str__(self) -> str:
        asked = Call(self.relation, (AxisValue(self.over), AxisValue(self.to)))
        return str(Reduce(self.kind, (self.over,), Call("where", (asked, self.body, NOTHING[self.kind]))))


@dataclass(frozen=True)
class Run(Scan):
    """The same, over those places alone at which `same` is what it is at `to`; it is in order along its axis."""

    same: Read = Read("", ())

    def __str__(self) -> str:
        return f"{super().__str__()[:-1]} within a run of {self.same})"


@dataclass(frozen=True)
class Shares:
    """The exponentials of the body over their sum along some axes, or the logarithms of these shares."""

    axes: tuple[str, ...]
    body: Node
    logarithm: bool = False

    def __str__(self) -> str:
        exponential = Call("exp", (self.body,))
        total = Reduce("sum", self.axes, exponential)
        if self.logarithm:
            return str(Call("sub", (self.body, Call("log", (total,)))))
        return str(Call("div", (exponential, total)))


NOTHING = {"sum": Num(Fraction(0)), "amax": Num(float("-inf")), "amin": Num(float("inf"))}
"""What a reduction over no places is."""

Node = Join | Scan | Shares | Num | Scal | SizeOf | AxisValue | Read | Call | Reduce
Index = str | Merged | Place | PartOf | Read | Window | Arithmetic


@dataclass(frozen=True)
class Assign:
    """`name[axes] = value`. `note` is the equation it came from, for the reader."""

    name: str
    axes: tuple[Index, ...]
    value: Node
    note: str = ""

    @property
    def slots(self) -> tuple[Index, ...]:
        """Where the values stand: each in its own place."""
        return self.axes

    def __str__(self) -> str:
        return f"{self.name}[{written(self.axes)}] = {self.value}"


@dataclass(frozen=True)
class Scatter:
    """`name[slots] += value`, summed over every axis of the slots; `onto` names the tensor it is added to (or None).

    Of kind "amax" or "amin" it is the largest or smallest value that counts, and what none reaches is -oo or oo; of
    "put", with at most one value a place, what stood there before does not count.
    """

    name: str
    axes: tuple[str, ...]
    slots: tuple[Index, ...]
    value: Node
    onto: str | None = None
    note: str = ""
    kind: str = "sum"

    def __str__(self) -> str:
        onto, signs = self.onto or "zeros", {"sum": "+=", "put": "=", "amax": "max=", "amin": "min="}
        start, sign = {"amax": "-oo", "amin": "oo"}.get(self.kind, onto), signs[self.kind]
        slots = ", ".join(map(str, self.slots))
        return f"{self.name}[{', '.join(self.axes)}] = {start}, at [{slots}] {sign} {self.value}"

    @property
    def start(self) -> Num:
        """What every place holds before."""
        return NOTHING[self.kind]


Statement = Assign | Scatter


@dataclass(frozen=True)
class Carry:
    """A recurrence: `before` is at each place of the axis what `after` is one place earlier, and `start` at the first.

    `last` is what the last place leaves. The program is given both, and makes the others. A statement on the way from
    `before` to `after` runs place by place, first place first or, backwards, last.
    """

    axis: str
    forwards: bool
    start: str
    before: str
    after: str
    last: str

    def under(self, names: Mapping[str, str]) -> Carry:
        """The same of tensors under other names."""
        start, before, after, last = (names.get(n, n) for n in (self.start, self.before, self.after, self.last))
        return Carry(self.axis, self.forwards, start, before, after, last)


@dataclass(frozen=True)
class Program:
    """Straight-line code: what it is given, its statements, what it returns, and what is carried along an axis."""

    name: str
    given: tuple[tuple[str, tuple[str, ...]], ...]  # tensors, each with its axes
    scalars: tuple[str, ...]
    statements: tuple[Statement, ...]
    returns: tuple[str, ...]
    carries: tuple[Carry, ...] = ()

    def __str__(self) -> str:
        given = ", ".join([f"{n}[{', '.join(a)}]" for n, a in self.given] + list(self.scalars))
        lines = [f"{self.name}({given}):", *(f"  {s}" for s in self.statements)]
        return "\n".join([*lines, f"  return {', '.join(self.returns)}"])

    @property
    def names(self) -> set[str]:
        """All that a new name must differ from."""
        return {n for n, _ in self.given} | set(self.scalars) | {s.name for s in self.statements}

    @property
    def carried(self) -> set[str]:
        """What it is given by its own recurrences."""
        return {n for c in self.carries for n in (c.before, c.last)}

    @property
    def ends(self) -> tuple[str, ...]:
        """The tensors that are read behind the statements: returned, or carried to the next place."""
        return (*self.returns, *(n for c in self.carries for n in (c.start, c.after)))

    @property
    def added_to(self) -> set[str]:
        """The tensors that a scatter adds to: no statement alone says what they hold."""
        return {s.name for s in self.statements if isinstance(s, Scatter)}

    @property
    def assigned(self) -> dict[str, Assign]:
        """The statements that alone say what a tensor holds, by its name."""
        added_to = self.added_to
        return {s.name: s for s in self.statements if isinstance(s, Assign) and s.name not in added_to}

    def with_values(self, change: Callable[[Node], Node]) -> Program:
        """The same statements, the value of each changed; the very program where none is."""
        values = [change(s.value) for s in self.statements]
        if all(map(is_, values, (s.value for s in self.statements))):
            return self
        return replace(self, statements=tuple(map(_with_value, self.statements, values)))


def _with_value(s: Statement, value: Node) -> Statement:
    return s if value is s.value else replace(s, value=value)


def base(axis: str) -> str:
    """The axis whose size a bound copy shares."""
    return axis.split("'")[0]
