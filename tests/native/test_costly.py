"""Functions that cost more than a place in memory are computed once for each place of their own axes."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest
import torch

from derive.backends.cpu.schedule.early import costly_first
from derive.backends.cpu.statements.normal import Loop, Normal
from derive.ir.program import AxisValue, Call, Index, Node, Num, Program, Read, Window
from tests.derive.live import assert_alike

pytestmark = pytest.mark.usefixtures("kernels")

SPECS = """from derive import *

n, o, k = axes("n o k")


@op
def folded(f, x: tensor[n, k], w: tensor[o, k], g: tensor[n, o]):
    f.y[n] = sum(sqrt(1 + (sin(x[n, k]) * w[o, k] + g[n, o]) ** 2), over=(o, k))
    return f.y


@op
def repeated(f, x: tensor[n], g: tensor[n, o, k]):
    f.y[n, o, k] = g[n, o, k] * sin(x[n] * (k + 1))
    return f.y


@op
def of_a_number(f, x: tensor[n], a: tensor[()]):
    f.b[()] = exp(a[()])
    f.z[n] = x[n] ** 2
    f.y[n] = f.z[n] * sin(f.b[()]) + log(2) + sin(f.z[n])
    return f.y
"""
N, O, K = 5, 6, 3
G = Read("g", ("n", "o"))


def _around(source: str, function: str) -> list[set[str]]:
    """For every line that calls a function, the axes of the loops that it stands in."""
    open_loops: list[tuple[int, str]] = []
    found = []
    for line in source.splitlines():
        indent = len(line) - len(line.lstrip())
        open_loops = [(i, a) for i, a in open_loops if i < indent]
        loop = re.match(r"for \(int64_t i_(\w+?)(?:_block|_from)? =", line.strip())
        if loop:
            open_loops.append((indent, loop[1]))
        elif f"{function}(" in line:
            found.append({a for _, a in open_loops})
    return found


@pytest.mark.parametrize("name", ["folded", "repeated"])
def test_a_costly_function_is_outside_of_loops_over_other_axes(native: ModuleType, name: str) -> None:
    around = _around((Path(native.__path__[0]) / f"{name}.c").read_text(), "real_sin")
    assert around
    assert not any("o" in loops for loops in around)


def test_so_is_one_of_a_number_and_it_parts_no_loops(native: ModuleType) -> None:
    text = (Path(native.__path__[0]) / "of_a_number.c").read_text().partition("_backward(")[0]
    assert _around(text, "real_sin") == [set(), {"n"}]
    assert text.count("#pragma omp parallel") == 1, text


def _steps(value: Node) -> list[str]:
    """The loops of `y[n, o] = value`."""
    form = Normal(Program("f", (("x", ("n",)), ("g", ("n", "o"))), (), (), ("y",)))
    return [s.name for s in costly_first([Loop("y", ("n", "o"), value)], form)]


def test_what_only_a_choice_makes_readable_stays_there() -> None:
    def chosen(index: Index) -> Node:
        holds = Call("lt", (AxisValue("n"), Num(Fraction(2))))
        return Call("where", (holds, Call("mul", (Call("sin", (Read("x", (index,)),)), G)), G))

    assert _steps(chosen("n")) == ["y_sin", "y"]
    assert _steps(chosen(Window((("n", 1),), Num(Fraction(3))))) == ["y"]


def test_what_costs_no_more_than_a_place_in_memory_is_computed_again() -> None:
    negative = Call("neg", (Read("x", ("n",)),))
    assert _steps(Call("mul", (negative, G))) == ["y"]


CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "folded": (
        lambda x, w, g: (1 + (x.sin()[:, None] * w + g[..., None]) ** 2).sqrt().sum((1, 2)),
        ((N, K), (O, K), (N, O)),
    ),
    "repeated": (
        lambda x, g: g * (x[:, None, None] * torch.arange(1, K + 1, dtype=x.dtype)).sin(),
        ((N,), (N, O, K)),
    ),
    "of_a_number": (
        lambda x, a: x**2 * a.exp().sin() + torch.log(torch.tensor(2.0, dtype=x.dtype)) + (x**2).sin(),
        ((N,), ()),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(native: ModuleType, name: str) -> None:
    reference, shapes = CASES[name]
    inputs = [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shapes]
    assert_alike(getattr(native, name)(*inputs), reference(*inputs), inputs)
