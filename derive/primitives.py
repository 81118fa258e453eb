"""The functions of the notation and of programs: a row has all that is known of one by its name.

Formulas are texts in `x`; of two arguments, in `x` and `y`. To add a function is to add a row: PyTorch calls it by its
name, and C, Python and the browser compute what it means where the row has nothing better: `means` as SymPy rewrites
it, which turns `erfc(-x)` into `2 - erfc(x)`; `in_c()` shows it. Where digits matter, `means` says it in pieces.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy
from sympy import Expr, Piecewise
from sympy.printing.codeprinter import PrintMethodNotImplementedError

FINITE, ENTIRE = "finite", "entire"
CAP = 60
"""An exponent whose exponential is finite in float32, also in sums of all that memory holds."""


@dataclass(frozen=True)
class Primitive:
    """One function. What a row leaves out is unknown, or is what SymPy or a class in `ir/terms` says."""

    name: str  # of its class, and of its calls in a program
    word: str = ""  # where a spec has it from: "derive" (and docs/notation.md says so) or "sympy"; "" is no word
    arity: int = 1
    means: str = ""  # by functions of SymPy's, computed so where nothing else is said
    slope: str = ""  # by functions of this table: by `x`, where the value is `y`; of two arguments, by both
    slope_by_value: str = ""  # the derivative by `y` alone
    latex: str = ""  # what stands before brackets, or has {x} and {power}; "" is the name
    torch: str = ""  # its name in `torch`, or a call with {x}; "" is the same name
    number: str = ""  # of Python's number {x}; "" is the function of `math`, or else of a tensor
    everywhere: bool = False  # `math` refuses no number
    units: float | None = None  # what native.h takes an element (backends/cpu/work.py); None: that of `means`
    js: str = ""  # in the browser
    work: float = 1.0  # in multiplications, by which backwards are ranked
    dear: bool = False  # in PyTorch, on a CPU, slower than 14 multiplications: than to write a tensor and read it again
    slope_work: float = 2.0  # elementary operations of PyTorch's backward kernel
    low: float = -math.inf  # no value is below it, -0 included where that is 0
    high: float = math.inf
    at_0: float | None = None
    at_minus_infinity: float | None = None
    finite: str = ""  # FINITE, `tanh`: it and its slope are where the argument is; ENTIRE, `exp`: but for overflow
    is_open: bool = False  # on paper it reaches neither end: a value that is one has been rounded
    only_0: bool = False  # it is 0 at 0, and at no other number
    rises: bool = False  # larger numbers never give smaller values
    takes: tuple[float, float] = (-math.inf, math.inf)  # it is a number between these two
    takes_ends: bool = False  # and at them
    is_periodic: bool = False  # of an infinite one it is no number
    is_whole: bool = False  # its values are whole; `keeps_whole`: those of whole numbers
    keeps_whole: bool = False
    chooses: bool = False  # its value is an argument, its opposite or a number: no digit is lost, the slope jumps

    @property
    def torch_name(self) -> str:
        """PyTorch's name for it, or a call with {x}."""
        return self.torch or self.name

    @property
    def in_place(self) -> bool:
        """Whether PyTorch has it as a method of tensors, that writes over them, by the same name."""
        return bool(self.word) and self.arity == 1 and self.torch_name == self.name

    @property
    def is_smooth(self) -> bool:
        """Whether it has neither pole nor kink."""
        return bool(self.finite) and not self.chooses

    @property
    def positive(self) -> bool:
        """Whether it is above 0 on paper, of every real number."""
        return self.low > 0 or (self.low == 0 and self.is_open)

    @property
    def is_within_one(self) -> bool:
        return self.is_smooth and self.low >= -1 and self.high <= 1


ROWS = (
    Primitive("exp", "derive", slope_by_value="y", units=3, work=3, slope_work=1, low=0, at_minus_infinity=0,
              finite=ENTIRE, is_open=True, rises=True),
    Primitive("expm1", "derive", means="exp(x) - 1", slope="exp(x)", latex=r"\left(e^{{{x}}} - 1\right){power}",
              js="Math.expm1(x)", units=4, work=3, low=-1, at_0=0, at_minus_infinity=-1, finite=ENTIRE,
              is_open=True, only_0=True, rises=True),
    Primitive("log", "derive", units=4, work=3, slope_work=1, at_0=-math.inf, rises=True, takes=(0, math.inf)),
    Primitive("log1p", "derive", means="log(1 + x)", slope="1 / (1 + x)", latex=r"\log{power}\left(1 + {x}\right)",
              js="Math.log1p(x)", units=5, work=3, at_0=0, only_0=True, rises=True, takes=(-1, math.inf)),
    Primitive("sqrt", "derive", units=0.2, work=1.5, slope_by_value="1 / (2 * y)", low=0, at_0=0,
              only_0=True, rises=True, takes=(0, math.inf), takes_ends=True),
    Primitive("rsqrt", "derive", means="1 / sqrt(x)", js="1 / Math.sqrt(x)", units=0.2, work=1.5,
              slope_by_value="-(y**3) / 2", slope_work=3, at_0=math.inf),  # and -oo at -0
    Primitive("tanh", "derive", everywhere=True, units=5, work=4, dear=True, slope_by_value="1 - y**2", slope_work=3,
              low=-1, high=1, at_0=0, at_minus_infinity=-1, finite=FINITE, is_open=True, only_0=True, rises=True),
    Primitive("sigmoid", "derive", means="1 / (1 + exp(-x))", slope="y * (1 - y)", slope_by_value="y * (1 - y)",
              latex=r"\sigma", number="(math.exp(min({x}, 0)) / (1 + math.exp(-abs({x}))))", js="sigmoid(x)", units=4,
              work=4, slope_work=3, low=0, high=1, at_minus_infinity=0, finite=FINITE,
              is_open=True, rises=True),
    Primitive("softplus", "derive", means="log(1 + exp(x))", slope="sigmoid(x)",
              torch="functional.softplus({x}, threshold=40)", number="(max({x}, 0) + math.log1p(math.exp(-abs({x}))))",
              js="Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))", units=7, work=4, dear=True, slope_work=5, low=0,
              at_minus_infinity=0, finite=FINITE, is_open=True, rises=True),
    Primitive("logaddexp", "derive", 2, means="log(exp(x) + exp(y))", slope="sigmoid(x - y); sigmoid(y - x)", units=8,
              work=4, finite=FINITE),
    Primitive("erf", "derive", everywhere=True, js="erf(x)", units=5, work=4, slope_work=7, low=-1, high=1, at_0=0,
              at_minus_infinity=-1, finite=FINITE, is_open=True, only_0=True, rises=True),
    Primitive("erfc", "sympy", means="erfc(x)", slope="-2 * exp(-(x**2)) / sqrt(pi)", everywhere=True, js="erfc(x)",
              units=40, work=4, low=0, high=2, at_minus_infinity=2, finite=FINITE, is_open=True),
    Primitive("erfcx", "derive", torch="special.erfcx", means="where(x < 12, exp(x**2) * erfc(x), 1 / sqrt(pi) / (x + "
              "0.5 / (x + 1 / (x + 1.5 / (x + 2 / (x + 2.5 / (x + 3 / x)))))))",  # Laplace's continued fraction
              slope="2 * x * y - 2 / sqrt(pi)", work=4, low=0, finite=ENTIRE, is_open=True),
    Primitive("erfinv", "sympy", units=20, work=4, at_0=0, only_0=True, takes=(-1, 1)),
    Primitive("sin", "derive", units=10, work=3, slope_work=4, low=-1, high=1, at_0=0, finite=FINITE,
              is_periodic=True),
    Primitive("cos", "derive", units=10, work=3, slope_work=4, low=-1, high=1, finite=FINITE, is_periodic=True),
    Primitive("sinc", "derive", means="where(eq(x, 0), 1, sin(pi * x) / (pi * x))",
              slope="where(eq(x, 0), 0, (cos(pi * x) - y) / x)", work=4, low=-0.2172337, high=1, finite=FINITE,
              is_periodic=True),
    Primitive("tan", "sympy", units=40, work=4, at_0=0, takes=(-1.5, 1.5), is_periodic=True),
    Primitive("asin", "sympy", units=6, work=4, at_0=0,
              low=-1.6, high=1.6, only_0=True, takes=(-1, 1), takes_ends=True),
    Primitive("acos", "sympy", units=6, work=4, low=0, high=3.2, takes=(-1, 1), takes_ends=True),
    Primitive("atan", "sympy", everywhere=True, units=6, work=4, dear=True, low=-1.6, high=1.6, at_0=0, finite=FINITE,
              is_open=True, only_0=True, rises=True),
    Primitive("atan2", "sympy", 2, means="atan2(x, y)", everywhere=True, units=8, work=4, slope=(
        "where(eq(x**2 + y**2, 0), 0, y / (x**2 + y**2)); where(eq(x**2 + y**2, 0), 0, -x / (x**2 + y**2))")),
    Primitive("sinh", "sympy", units=7, work=4, at_0=0, finite=ENTIRE, is_open=True, only_0=True, rises=True),
    Primitive("cosh", "sympy", units=7, work=4, low=1, finite=ENTIRE),
    Primitive("asinh", "sympy", everywhere=True, units=40, work=4, dear=True, at_0=0, finite=FINITE,
              is_open=True, only_0=True, rises=True),
    Primitive("acosh", "sympy", units=40, work=4, dear=True, low=0, takes=(1, math.inf), takes_ends=True),
    Primitive("atanh", "sympy", units=15, work=4, at_0=0, only_0=True, takes=(-1, 1)),
    Primitive("loggamma", "sympy", means="loggamma(x)", slope="digamma(x)", latex=r"\log\Gamma", torch="lgamma",
              units=30, work=4, dear=True, at_0=math.inf, takes=(0, math.inf)),
    Primitive("digamma", "sympy", units=20, work=4, dear=True, takes=(0, math.inf)),
    Primitive("polygamma", "", 2, units=20, work=4, dear=True),
    Primitive("relu", "derive", means="Max(x, 0)", slope_by_value="(y > 0) * 1.0", number="max({x}, 0)", units=0.2,
              low=0, at_0=0, at_minus_infinity=0, finite=FINITE, chooses=True, rises=True, keeps_whole=True),
    Primitive("sign", "derive", means="sign(x)", slope="0", number="(({x} > 0) - ({x} < 0))", units=0.2, low=-1, high=1,
              at_0=0, at_minus_infinity=-1, finite=FINITE, chooses=True, only_0=True, rises=True, is_whole=True),
    Primitive("absolute", "", means="Abs(x)", latex=r"\left|{x}\right|{power}", torch="abs", number="abs({x})",
              units=0.2, low=0, at_0=0, finite=FINITE, chooses=True, only_0=True),
    Primitive("maximum", "derive", 2, means="Max(x, y)", latex=r"\max", number="max({x}, {y})", units=0.2, slope_work=3,
              finite=FINITE, chooses=True),
    Primitive("minimum", "derive", 2, means="Min(x, y)", latex=r"\min", number="min({x}, {y})", units=0.2, slope_work=3,
              finite=FINITE, chooses=True),
    Primitive("stop", "derive", means="x", slope="0", torch="{x}", number="{x}", units=0, js="x", work=0, slope_work=0,
              at_0=0, finite=FINITE, chooses=True, only_0=True, rises=True, keeps_whole=True),
    # what a spec does not call by its name
    Primitive("capped", means=f"Min(x, {CAP})", slope="1", latex=rf"\min\left({{x}}, {CAP}\right){{power}}",
              torch=f"torch.clamp({{x}}, max={CAP})", units=0.2),
    Primitive("power", "", 2, means="x**y", torch="pow", units=60),
    Primitive("pow", "", 2, means="x**y", units=60, work=4, dear=True),
    Primitive("floor", units=0.2, at_0=0, rises=True, is_whole=True),
    Primitive("Mod", "", 2, torch="remainder", units=0.2),
    # what C has beside them: 1 + erf(x) with the digits of its tail, and a sigmoid of the exponential of -|x|
    Primitive("one_plus_erf", means="1 + erf(x)", units=5, low=0, high=2, is_open=True),
    Primitive("sigmoid_of_size", means="1 / (1 + exp(-x))", units=4, low=0, high=1, is_open=True),
)  # fmt: skip
PRIMITIVES = {row.name: row for row in ROWS}
_OTHER = Primitive("", units=0.2)


def row(name: str) -> Primitive:
    """The row of a function; of an operation that has none, such as `add`, one that says nothing."""
    return PRIMITIVES.get(name, _OTHER)


def names(holds: Callable[[Primitive], object]) -> frozenset[str]:
    """The functions of whose row something holds."""
    return frozenset(r.name for r in ROWS if holds(r))


def formula(text: str, words: dict[str, Any]) -> Callable[..., Any]:
    """A row's text as a function of `x` and `y`, in these words. Raises RuntimeError, with the text, else."""
    try:
        tree = ast.parse(f"lambda x, y=None: {text}", mode="eval")
    except SyntaxError as error:
        raise RuntimeError(f"primitives.py, {text!r}: {error.msg}") from None
    known = {*words, *vars(builtins), "x", "y"}
    for name in (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in known):
        raise RuntimeError(f"primitives.py, {text!r}: {name} is no word there")
    function: Callable[..., Any] = eval(compile(tree, "primitives.py", "eval"), words)
    return function


@cache
def meaning(row: Primitive) -> Callable[..., Any]:
    """The function by SymPy's own, which knows its value of any number."""
    words = {**vars(sympy), "eq": sympy.Eq, "where": lambda c, a, b: Piecewise((a, c), (b, True))}
    return formula(row.means, words) if row.means else getattr(sympy, row.name)


@cache
def meant(row: Primitive) -> Expr:
    """What it means, of symbols `x` and `y`."""
    return meaning(row)(*sympy.symbols("x y")[: row.arity])


@cache
def is_of_exponentials(row: Primitive) -> bool:
    """Whether it is made of exponentials of its argument, which are soon too large: `tanh`, `softplus`."""
    found = meant(row).rewrite(sympy.exp) if row.finite else sympy.S.Zero
    return bool(found.has(sympy.exp) and not found.has(sympy.I))


@cache
def numeric(row: Primitive) -> Callable[..., float] | None:
    """The function of Python's numbers; None where neither `math` nor the row has it."""
    if row.number:
        return formula(row.number.format(x="x", y="y"), {"math": math})
    made = sympy.lambdify(sympy.symbols("x y")[: row.arity], meant(row), "math") if row.means else None
    return getattr(math, row.torch_name, made)


@cache
def in_c() -> str:
    """C for what native.h lacks: a function of a double, and that of a real."""
    lines = []
    for r in (r for r in ROWS if r.units is None and r.means):
        names = "xy"[: r.arity]
        double, real = (", ".join(f"{kind} {x}" for x in names) for kind in ("double", "real"))
        code = " ".join(sympy.ccode(meant(r), strict=True).split())
        of_doubles = f"number_{r.name}({', '.join(f'(double){x}' for x in names)})"
        lines += [f"INLINE double number_{r.name}({double}) {{ return {code}; }}",
                  f"INLINE real real_{r.name}({real}) {{ return (real){of_doubles}; }}"]  # fmt: skip
    return "\n".join(lines)


@cache
def in_javascript() -> str:
    """The entries of the browser's table of functions: those of one argument that it can compute."""
    known = {r.name: r.name for r in ROWS if r.js}
    entries = []
    for r in (r for r in ROWS if r.arity == 1):
        with suppress(PrintMethodNotImplementedError):
            code = r.js or sympy.jscode(meant(r), user_functions=known, strict=True)
            entries.append(f"{r.name}: (x) => {' '.join(code.split())}")
    return ",\n    ".join(entries)
