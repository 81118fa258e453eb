"""What two products divide alike is divided once: no more divisions than a person would write."""

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from derive import axes, log, op, tensor
from derive.ir.equations import Op
from derive.ir.program import Assign, Call, Node, Program, Read
from derive.schedule.products import common_quotients
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

A, B, U, V = (Read(name, ("n", "d")) for name in "abuv")
G = Read("g", ("d",))
GIVEN = (*((r.name, ("n", "d")) for r in (A, B, U, V)), ("g", ("d",)))


def times(a: Node, b: Node) -> Call:
    return Call("mul", (a, b))


def over(a: Node, b: Node) -> Call:
    return Call("div", (a, b))


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        (over(times(A, B), U), over(times(V, A), U), ("a[n, d] / u[n, d] * b[n, d]", "v[n, d] * (a[n, d] / u[n, d])")),
        (over(times(A, B), U), over(A, U), ("a[n, d] / u[n, d] * b[n, d]", "a[n, d] / u[n, d]")),
        (over(times(A, B), G), over(times(A, V), G), ("a[n, d] * b[n, d] / g[d]", "a[n, d] * v[n, d] / g[d]")),
        (over(times(A, B), times(U, V)), times(over(A, V), G),
         ("a[n, d] / v[n, d] * b[n, d] / u[n, d]", "a[n, d] / v[n, d] * g[d]")),
        (over(times(G, B), U), over(times(G, V), U), ("g[d] * b[n, d] / u[n, d]", "g[d] * v[n, d] / u[n, d]")),
        (over(times(A, B), U), over(times(A, B), V), ("a[n, d] * b[n, d] / u[n, d]", "a[n, d] * b[n, d] / v[n, d]")),
    ],
    ids=["of two", "one alone", "by a small one", "of two divisors", "a small one stays a factor", "other divisors"],
)  # fmt: skip
def test_divided_first(first: Node, second: Node, texts: tuple[str, str]) -> None:
    statements = (Assign("x", ("n", "d"), first), Assign("y", ("n", "d"), second))
    program = common_quotients(Program("p", GIVEN, (), statements, ("x", "y")))
    assert tuple(str(s.value) for s in program.statements) == texts


n, r, c = axes("n r=2 c=2")


@op
def log_of_determinants(f, x: tensor[n, r, c]):
    f.y[n] = log(abs(x[n, 0, 0] * x[n, 1, 1] - x[n, 0, 1] * x[n, 1, 0]))
    return f.y


@op
def shares(f, a: tensor[n], b: tensor[n], k: tensor[n]):
    """A rate with saturation (Michaelis & Menten, 1913)."""
    f.y[n] = a[n] * b[n] / (k[n] + b[n])
    return f.y


def _shares(a: Tensor, b: Tensor, k: Tensor) -> Tensor:
    return a * b / (k + b)


@pytest.mark.parametrize(
    ("made", "plain", "shapes"),
    [
        (log_of_determinants.op, lambda x: torch.linalg.det(x).abs().log(), {"x": (7, 2, 2)}),
        (shares.op, _shares, dict.fromkeys("abk", (5,))),
    ],
)
def test_one_division(made: Op, plain, shapes: dict[str, tuple[int, ...]]) -> None:
    assert_derived(made, plain, shapes)
    code = "".join(line.partition("#")[0] for line in code_of(made).partition("_backward(")[2].splitlines(True))
    assert code.count(" / ") + code.count(".div") == 1, code


@pytest.mark.parametrize("seed", ["1", "3", "5", "7"])
def test_of_quotients_as_common_the_first_whatever_their_hashes(seed: str) -> None:
    script = (
        "from tests.derive.schedule.test_common_quotients import *\n"
        "both = over(times(times(A, B), times(U, V)), times(Read('p', ('n', 'd')), Read('q', ('n', 'd'))))\n"
        "given = (*GIVEN, ('p', ('n', 'd')), ('q', ('n', 'd')))\n"
        "statements = Assign('y', ('n', 'd'), both), Assign('z', ('n', 'd'), times(both, G))\n"
        "made = Program('two', given, (), statements, ('y', 'z'))\n"
        "print(common_quotients(made).statements[0])\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "y[n, d] = a[n, d] * b[n, d] * u[n, d] * (v[n, d] / p[n, d]) / q[n, d]\n"
