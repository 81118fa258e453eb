"""Every row of `derive/primitives.py` is tested by being one, and a function is added by adding one."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mpmath
import playwright
import pytest
import torch
from sympy import Float, I, N, nan, zoo

from derive.ir.terms.axes import Axis
from derive.ir.terms.elements import At, Tensor
from derive.ir.terms.functions import CLASSES
from derive.primitives import FINITE, PRIMITIVES, ROWS, Primitive, in_javascript, meaning, numeric
from derive.show.book.render import asset
from derive.verify.places import FUNCTIONS, World
from tests.conftest import Package
from tests.documents import ROOT

ORDINARY = tuple(torch.randn(12, generator=torch.Generator().manual_seed(3), dtype=torch.float64).mul(1.7).tolist())
EXTREME = (0.0, -0.0, 1e-300, -1e-300, 1e-8, 0.5, 1.0, -1.0, 2.0, 11.99, 12.01, 19.5, -19.5, 1e4, -1e4, 1e15, -1e15)
INFINITE = (1e300, -1e300, math.inf, -math.inf)
DIGITS = {"digamma": 1e-9}
"""The slopes of which PyTorch has fewer digits, and so have kernels: `trigamma(0.5)` is off by 3e-10."""
OF_ONE = [r for r in ROWS if r.arity == 1 and r.name in CLASSES and r.name in FUNCTIONS]
OF_TWO = [r for r in ROWS if r.arity == 2 and r.word]
SLOPED = [r for r in OF_ONE if r.name not in ("floor", "capped", "stop")]  # "stop" has another slope on purpose


def truth(row: Primitive, *at: float) -> float:
    """The function with all digits of float64; nan where it has no real value."""
    try:
        found = N(meaning(row)(*(Float(x, 60) for x in at)), 30)
    except ValueError:  # mpmath of `erfinv(2)`
        return math.nan
    return math.nan if found.has(I, nan, zoo) or not found.is_real else float(found)


def slope_of(row: Primitive, *at: float, by: int = 0) -> float:
    """The slope by differences between values of 120 digits."""

    def along(x: mpmath.mpf) -> mpmath.mpf:
        return N(meaning(row)(*(Float(x if k == by else a, 120) for k, a in enumerate(at))), 120)._to_mpmath(400)

    with mpmath.workdps(120):
        h = mpmath.mpf(10) ** -12
        return float((along(mpmath.mpf(at[by]) + h) - along(mpmath.mpf(at[by]) - h)) / (2 * h))


def of_class(
    row: Primitive, *at: list[float], by: int | None = None, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """What the reference makes of the function of the notation, or of its derivative."""
    names, axis = "xy"[: row.arity], Axis("n")
    reads = [At(Tensor(name), axis) for name in names]
    value = CLASSES[row.name](*reads)
    value = value if by is None else value.diff(reads[by])
    tensors = {name: torch.tensor(t, dtype=dtype) for name, t in zip(names, at, strict=True)}
    return World({"n": len(at[0])}, tensors).tensor(value, [axis])


def domain(row: Primitive, points: tuple[float, ...]) -> list[float]:
    return [x for x in points if math.isfinite(truth(row, x))]


def named(row: Primitive) -> str:
    return row.name


# --- values and slopes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", OF_ONE, ids=named)
def test_the_reference_python_and_the_meaning_agree(row: Primitive) -> None:
    points = domain(row, (*ORDINARY, *EXTREME))
    assert len(points) >= 10
    wanted = torch.tensor([truth(row, x) for x in points], dtype=torch.float64)
    torch.testing.assert_close(of_class(row, points), wanted, rtol=2e-13, atol=1e-16)  # sin(pi) is none of 0
    own = numeric(row)
    for x, value in zip(points, wanted.tolist(), strict=True):
        if own is not None and abs(x) < 20:  # what is too large for `math` is asked of tensors
            assert own(x) == pytest.approx(value, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("row", SLOPED, ids=named)
def test_the_derivative_is_that_of_differences(row: Primitive) -> None:
    points = [x for x in domain(row, (*ORDINARY, 0.3, -0.7, 11.99, 12.01, 19.5, -4.5)) if x not in (1, -1)]
    wanted = torch.tensor([slope_of(row, x) for x in points], dtype=torch.float64)
    torch.testing.assert_close(of_class(row, points, by=0), wanted, rtol=DIGITS.get(row.name, 1e-11), atol=3e-16)


@pytest.mark.parametrize("row", OF_TWO, ids=named)
def test_of_two_arguments_value_and_derivatives_agree(row: Primitive) -> None:
    a, b = list(ORDINARY[:6]), list(ORDINARY[6:])
    wanted = torch.tensor([truth(row, *p) for p in zip(a, b, strict=True)], dtype=torch.float64)
    torch.testing.assert_close(of_class(row, a, b), wanted, rtol=1e-13, atol=0)
    for by in (0, 1):
        wanted = torch.tensor([slope_of(row, *p, by=by) for p in zip(a, b, strict=True)], dtype=torch.float64)
        torch.testing.assert_close(of_class(row, a, b, by=by), wanted, rtol=1e-11, atol=0)


@pytest.mark.parametrize("row", [r for r in SLOPED if r.slope_by_value], ids=named)
def test_the_derivative_by_the_value_is_the_derivative(row: Primitive) -> None:
    points = [x for x in domain(row, ORDINARY) if x]
    by_value = eval(f"lambda y: {row.slope_by_value}")
    found = by_value(of_class(row, points)).double()
    torch.testing.assert_close(found, of_class(row, points, by=0), rtol=1e-12, atol=1e-15)


# --- what is claimed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", OF_ONE, ids=named)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_claims_of_a_row_hold(row: Primitive, dtype: torch.dtype) -> None:
    x = torch.tensor([*ORDINARY, *EXTREME, *INFINITE], dtype=dtype)
    y = FUNCTIONS[row.name](x)
    real = y[~y.isnan()].double()
    assert (real >= row.low).all() and (real <= row.high).all()
    for at, value in ((0.0, row.at_0), (-math.inf, row.at_minus_infinity)):
        assert value is None or FUNCTIONS[row.name](torch.tensor([at], dtype=dtype)).item() == value
    if row.finite:  # with what it is of, and its slope as well
        x = x[x.abs() < (1e30 if row.finite == FINITE else 4)]
        slope = of_class(row, x.double().tolist(), by=0)
        assert FUNCTIONS[row.name](x).isfinite().all() and slope.isfinite().all()
    if row.chooses:
        assert all(v in (a, -a, 0, 1, -1) for a, v in zip(x.tolist(), FUNCTIONS[row.name](x).tolist(), strict=True))
    if row.positive:
        assert all(truth(row, a) > 0 for a in ORDINARY)


@pytest.mark.parametrize("row", OF_ONE, ids=named)
def test_the_range_of_a_row_is_no_wider_than_its_values(row: Primitive) -> None:
    """Else the row leaves out a fact; what 1e300 makes no larger than 10 is bounded."""
    x = torch.tensor([*ORDINARY, *EXTREME, *INFINITE, *(k / 64 for k in range(-640, 640))], dtype=torch.float64)
    real = (y := FUNCTIONS[row.name](x))[~y.isnan()]
    for bound, reached in ((row.low, real.min().item()), (row.high, real.max().item())):
        assert abs(reached) > 10 or abs(bound - reached) < 0.1


@pytest.mark.parametrize("row", OF_ONE, ids=named)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_from_float32(row: Primitive, dtype: torch.dtype) -> None:
    points = torch.tensor(domain(row, ORDINARY)).to(dtype).float().tolist()
    wide = of_class(row, points, dtype=torch.float32)
    torch.testing.assert_close(of_class(row, points, dtype=dtype), wide.to(dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("row", [r for r in OF_ONE if r.in_place], ids=named)
def test_it_writes_over_a_tensor_by_its_name(row: Primitive) -> None:
    x = torch.tensor([0.25, 0.75], dtype=torch.float64)
    wanted = getattr(torch, row.name)(x)
    assert getattr(x, f"{row.name}_")() is x
    torch.testing.assert_close(x, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("row", [r for r in ROWS if r.everywhere], ids=named)
def test_math_refuses_no_number_of_it(row: Primitive) -> None:
    for x in (*EXTREME, *INFINITE, math.nan):
        getattr(math, row.name)(*[x] * row.arity)


def test_a_bound_is_the_least_number_that_holds() -> None:
    """Of those that are no limit: the first minimum of `sinc`."""
    found = FUNCTIONS["sinc"](torch.linspace(1.4, 1.46, 10**5, dtype=torch.float64)).min().item()
    assert found - 1e-7 < PRIMITIVES["sinc"].low <= found


# --- C, and the browser -----------------------------------------------------------------------------------------------


def spec_of(rows: list[Primitive], name: str) -> str:
    """An op with an input and an output for each function."""
    words = ["abs" if r.name == "absolute" else r.name for r in rows]
    return "\n".join((
        "@op",
        f"def {name}(f, {', '.join(f'x_{word}: tensor[n]' for word in words)}):",
        *(f"    f.y_{word}[n] = {word}(x_{word}[n])" for word in words),
        f"    return {', '.join(f'f.y_{word}' for word in words)}\n\n",
    ))


def test_kernels_have_every_function_and_its_slope(package: Package) -> None:
    far = (-9.3, 19.5, -19.5, -15.2)  # where a formula that is right on paper is infinite, or has no digits left
    points = {r.name: [x for x in domain(r, far + ORDINARY * 5) if abs(x) != 1][:15] for r in SLOPED}
    groups = {f"some_{k}": SLOPED[k : k + 8] for k in range(0, len(SLOPED), 8)}
    of_sympy = ", ".join(r.name for r in SLOPED if r.word == "sympy")
    head = f"from sympy import {of_sympy}\nfrom derive import *\n\nn = axes('n')\n\n\n"
    made = package(specs=head + "".join(spec_of(rows, name) for name, rows in groups.items()))
    for name, rows in groups.items():
        inputs = [torch.tensor(points[r.name], dtype=torch.float64).requires_grad_() for r in rows]
        outputs = getattr(made, name)(*inputs)
        slopes = torch.autograd.grad(outputs, inputs, [torch.ones_like(y) for y in outputs])
        for r, y, dx in zip(rows, outputs, slopes, strict=True):
            wanted = [torch.tensor([f(r, x) for x in points[r.name]], dtype=torch.float64) for f in (truth, slope_of)]
            torch.testing.assert_close(y, wanted[0], rtol=1e-11, atol=1e-13, msg=lambda m, r=r: f"{r.name}: {m}")
            digits = DIGITS.get(r.name, 1e-10)
            torch.testing.assert_close(dx, wanted[1], rtol=digits, atol=1e-13, msg=lambda m, r=r: f"{r.name}: {m}")


def test_the_browser_has_what_it_can_compute() -> None:
    """All but the gamma functions and `erfinv`, run by Node."""
    has = {line.split(":")[0].strip() for line in in_javascript().splitlines()}
    assert {r.name for r in OF_ONE} - has == {"loggamma", "digamma", "erfinv"} & {r.name for r in OF_ONE}
    node = Path(playwright.__file__).parent / "driver" / "node"  # Playwright brings its own
    rows = [r for r in OF_ONE if r.name in has]
    points = {r.name: domain(r, (*ORDINARY, 0.0, 3.5, 12.5, -3.5, 1e-9)) for r in rows}
    programs = [
        {"given": [["x", ["n"]]], "returns": ["y"],
         "statements": [{"name": "y", "axes": ["n"], "value": ["call", r.name, [["read", "x", ["n"]]]]}]}
        for r in rows
    ]  # fmt: skip
    run = "([p, x]) => Evaluate.run(p, {x: Evaluate.tensor([x.length], x)}, {}, {}).tensors.y.data"
    given = json.dumps([[p, points[r.name]] for p, r in zip(programs, rows, strict=True)])
    script = f"{asset('evaluate.js')}; console.log(JSON.stringify({given}.map({run})))"
    found = json.loads(subprocess.run([str(node), "-e", script], check=True, capture_output=True, text=True).stdout)
    for r, values in zip(rows, found, strict=True):
        assert values == pytest.approx([truth(r, x) for x in points[r.name]], rel=1e-11, abs=1e-15), r.name


# --- one row a function -----------------------------------------------------------------------------------------------

ROW = """    Primitive("ndtr", "derive", torch="special.ndtr", means="erfc(-x / sqrt(2)) / 2", work=4, low=0, high=1,
              slope="exp(-(x**2) / 2) / sqrt(2 * pi)", latex=r"\\Phi", at_minus_infinity=0, finite=FINITE),
"""
"""The distribution function of the normal distribution."""
SPEC = """
from derive import *

n, d = axes("n d")

@op
def probit(f, x: tensor[n, d], w: tensor[d], shift: scalar = 0.25):
    f.p[n] = ndtr(sum(x[n, d] * w[d], over=d) + ndtr(shift))
    f.loss[()] = mean((f.p[n] - 0.5) ** 2, over=n)
    return f.loss
"""
USE = """
from pathlib import Path

import torch
from derive.cli import app
from derive.catalogue import load_file
from derive.output.live import build
from derive.output.package import write_package
from derive.show.book.render import asset
from typer.testing import CliRunner

(op,) = load_file(Path("specs.py"))
made = build(op)
assert "torch.special.ndtr(" in made.source, made.source
write_package([op], Path("kernels"), backend="cpu")
assert "number_ndtr(" in open("kernels/probit.c").read()
import kernels
x, w = torch.randn(7, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
results = []
for function in (made.function, kernels.probit):
    leaves = [t.clone().requires_grad_() for t in (x, w)]
    loss = function(*leaves)
    results.append((loss.detach(), *torch.autograd.grad(loss, leaves)))
leaves = [t.clone().requires_grad_() for t in (x, w)]
shift = torch.special.ndtr(torch.tensor(0.25, dtype=torch.float64))
loss = (torch.special.ndtr(leaves[0] @ leaves[1] + shift) - 0.5).square().mean()
wanted = (loss.detach(), *torch.autograd.grad(loss, leaves))
for got in results:
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)
assert "ndtr: (x) =>" in asset("evaluate.js")
for arguments in (["verify", "probit", "--from", "specs.py"], ["explain", "probit", "--from", "specs.py"]):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
"""


def test_one_row_teaches_a_function(tmp_path: Path) -> None:
    """In a copy of the project with one row more: a word, derived, proved, verified, a kernel, typeset, in the book."""
    for folder in ("derive", "templates"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    rows = tmp_path / "derive" / "primitives.py"
    text = rows.read_text(encoding="utf-8")
    rows.write_text(text.replace("ROWS = (\n", f"ROWS = (\n{ROW}", 1), encoding="utf-8")
    (tmp_path / "specs.py").write_text(SPEC, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("text", "why"), [("log(x))", "unmatched"), ("log(1 + t)", "t is no word")])
def test_a_mistake_in_a_row_is_told_as_one(text: str, why: str) -> None:
    with pytest.raises(RuntimeError, match=rf"primitives\.py, {re.escape(repr(text))}: .*{why}"):
        meaning(Primitive("mistaken", means=text))
