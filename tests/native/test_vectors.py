"""Loops become vectors: GCC says which of the printed loops did, of functions and what they are combined to."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import Package

SPECS = """
from sympy import acos, asin, atan, atan2, digamma, erfinv, loggamma

from derive import *

c, i, j, n, t = axes("c i j n t")

def pointwise(name, value):
    def forward(f, x: tensor[n, c], t: constant[n, c]):
        f.y[n, c] = value(x[n, c], t[n, c])
        return f.y
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)

def summed(name, value):
    def forward(f, x: tensor[n, c], t: constant[n, c]):
        f.loss[()] = sum(value(x[n, c], t[n, c]), over=(n, c))
        return f.loss
    forward.__name__, forward.__doc__ = name, name + "."
    return op(forward)

FORMS = {
    "log_of_logistic": lambda x, t: t*log(sigmoid(x)) + (1 - t)*log(1 - sigmoid(x)),
    "log_of_rectified": lambda x, t: (1 - t)*log(1 - relu(sigmoid(x) - 0.05)),
    "log1p_of_exp": lambda x, t: log1p(exp(2*x))*t + log1p(-exp(-x**2)),
    "turned": lambda x, t: sin(x)*t + cos(x),
    "powers": lambda x, t: x**4*t + (1 + x**2)**-6 + x**9,
    "mixed": lambda x, t: log(1 + x**4)*cos(t - x) + softplus(x),
    "chosen": lambda x, t: where(x > t, exp(-x**2)*t, tanh(x)) + erf(minimum(x, t)),
    "angles": lambda x, t: atan(x)*t + atan2(x, t) + asin(sigmoid(x)) + acos(tanh(x)),
    "factorials": lambda x, t: loggamma(x)*t + digamma(x) + erfinv(tanh(x)),
    "rectified_by_rows": lambda x, t: where(x > 0, x*(1 - relu(x)), -t),
}
for name, value in FORMS.items():
    globals()[name] = pointwise(name, value)
    globals()[name + "_sum"] = summed(name + "_sum", value)

@op
def by_rows(f, x: tensor[n, c], low: constant[n], scale: constant[n], shift: constant[()]):
    f.y[n, c] = where(x[n, c] > low[n], x[n, c]*scale[n]/(1 + shift[()]), log(1 + x[n, c]**2)*shift[()])
    return f.y

@op
def by_pairs(f, s: tensor[n, c], rank: constant[n, c]):
    f.pair[n, i, j] = where(rank[n, i] > rank[n, j], softplus(s[n, j] - s[n, i]), 0)
    f.count[n] = sum(where(rank[n, i] > rank[n, j], 1, 0), over=(i, j))
    f.loss[()] = mean(sum(f.pair[n, i, j], over=(i, j))/maximum(f.count[n], 1), over=n)
    return f.loss

@op
def picked(f, z: tensor[n, c], y: index(c)[n], eps: scalar = 1.0):
    f.top[n] = amax(z[n, c], over=c)
    f.lse[n] = f.top[n] + log(sum(exp(z[n, c] - f.top[n]), over=c))
    f.lp[n, c] = z[n, c] - f.lse[n]
    f.loss[()] = mean(eps*(1 - exp(f.lp[n, y[n]])) - f.lp[n, y[n]], over=n)
    return f.loss

@op
def unlikely(f, z: tensor[n, c], bad: constant[n, c]):
    f.top[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.top[n])
    f.loss[()] = -mean(sum(bad[n, c]*log(maximum(1 - f.u[n, c]/sum(f.u[n, c], over=c), 1e-6)), over=c), over=n)
    return f.loss

@op
def read_around_a_store(f, a: tensor[n, c], z: tensor[i, c], w: tensor[c]):
    f.t[n, i, c] = a[n, c] + z[i, c]
    f.s[n, i] = sum(w[c]*maximum(f.t[n, i, c], 0.2*f.t[n, i, c]), over=c)
    return f.s

@op
def by_columns(f, e: tensor[t, n, c], s: tensor[t, n, c], a: tensor[c], b: tensor[c], r: tensor[c]):
    f.y[t, n, c] = (e[t, n, c]/(0.1 + s[t, n, c])**a[c] + b[c])**r[c] - b[c]**r[c]
    return f.y
"""


_SCATTERED = re.compile(r"^\s*\w+\[[^=]*\w\[[^=]*\]\] \+= ")
"""What is added at places of an index: few processors store a vector's elements apart, and GCC weighs it for each."""


def _loops(path: Path) -> dict[range, int]:
    """The lines of every loop that is to become vectors, and how many loops of a compiler's that is."""
    lines, found = path.read_text().splitlines(), {}
    for k, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip().startswith("#pragma omp simd"):
            found[range(k + 2, lines.index(f"{indent}}}", k) + 2)] = 1
        elif line.strip().startswith(("IN_VECTORS(", "IN_FOURS(")):  # whole vectors, and the last one
            found[range(k + 1, lines.index(f"{indent})", k) + 2)] = 2
    return {loop: n for loop, n in found.items() if not any(_SCATTERED.search(lines[k - 1]) for k in loop)}


def _vectors(path: Path, library: ModuleType) -> Counter[int]:
    """The lines in which GCC says that it made vectors, or filled or copied memory as a whole, and how often.

    What it does before and after a sum stands in the pragma's.
    """
    flags = [f for f in (*library.TRIED[0], *library.FLAGS) if not f.startswith("-Wl")]
    command = [*library.compiler(), *flags, "-DREAL=float", "-fopt-info-vec-loop-optimized", "-c", "-o", "/dev/null"]
    said = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True, cwd=path.parent).stderr
    done = r"loop vectorized|Loop \d+ distributed: split to 0 loops"
    return Counter(int(k) for k in re.findall(rf"{path.name}:(\d+):\d+: optimized: (?:{done})", said))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="which loops become vectors is a matter of the processor")
def test_every_loop_over_elements_becomes_vectors(package: Package) -> None:
    made = package(specs=SPECS)
    library = sys.modules[f"{made.__name__}._library"]
    says = subprocess.run([*library.compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    if "clang" in says:
        pytest.skip("GCC says it in these words")
    for path in sorted(Path(made.__path__[0]).glob("[a-z]*.c")):
        loops, vectors = _loops(path), _vectors(path, library)
        assert loops
        assert [loop for loop, n in loops.items() if sum(vectors[k] for k in loop) < n] == [], path.name
