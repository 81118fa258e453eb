"""Lengths that no input says by name: a kernel has them from those they follow from, in as many steps as it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.conftest import Package

pytestmark = [pytest.mark.usefixtures("kernels"), pytest.mark.filterwarnings("error")]

SPECS = """from derive import *

c, d, i, j, n, s, t, u, three = axes("c d i j n s t u three=3")


@op
def rooted_gram(f, x: tensor[n, c, s]):
    f.G[n, (i, j)] = mean(x[n, i, s] * x[n, j, s], over=s)
    f.y[n, d] = sign(f.G[n, d]) * sqrt(abs(f.G[n, d]) + 1)
    return f.y


@op
def unit_gram(f, x: tensor[n, c, s]):
    f.G[n, (i, j)] = mean(x[n, i, s] * x[n, j, s], over=s)
    f.r[n, d] = sign(f.G[n, d]) * sqrt(abs(f.G[n, d]) + 1)
    f.y[n, d] = f.r[n, d] / sqrt(sum(f.r[n, d] ** 2, over=d))
    return f.y


@op
def flat_gram(f, x: tensor[c, s]):
    f.G[((i, j),)] = sum(x[i, s] * x[j, s], over=s)
    f.y[()] = sum(f.G[d] ** 2, over=d)
    return f.y


@op
def off_its_mean(f, a: tensor[s, s]):
    f.z[s, t] = a[s, t] - mean(a[s, t], over=t)
    f.y[()] = sum(f.z[s, t] ** 3, over=(s, t))
    return f.y


@op
def crossed(f, a: tensor[n, three], b: tensor[n, three]):
    f.z[n, three] = concat(
        a[n, 1] * b[n, 2] - a[n, 2] * b[n, 1],
        a[n, 2] * b[n, 0] - a[n, 0] * b[n, 2],
        a[n, 0] * b[n, 1] - a[n, 1] * b[n, 0],
        along=three,
    )
    f.y[n, three] = f.z[n, three] * rsqrt(sum(f.z[n, three] ** 2, over=three) + 1)
    return f.y


@op
def steps_of_pairs(f, x: tensor[c]):
    f.p[((i, j),)] = tanh(x[i] * x[j])
    f.q[t] = f.p[t] ** 2
    f.y[u] = tanh(f.q[u + 1] - f.q[u])
    return f.y


@op
def bends(f, x: tensor[s, t]):
    f.y[s, t] = where((s >= 1) & (s + 1 < size(s)), x[s + 1, t] - 2 * x[s, t] + x[s - 1, t], 0)
    return f.y


@op
def mean_error(f, x: tensor[n, d], w: tensor[d], count: length(d)):
    f.y[()] = sum((x[n, d] - w[d]) ** 2, over=(n, d)) / size(d)
    return f.y


@op
def part_error(f, x: tensor[n, d], w: tensor[d], part: length(t)):
    f.ms[n] = mean(x[n, t] ** 2, over=t)
    f.y[()] = mean(sum(x[n, d] * w[d], over=d) * rsqrt(f.ms[n] + 1), over=n)
    return f.y
"""

X = torch.linspace(-1.3, 1.7, 105, dtype=torch.float64).sin().reshape(3, 5, 7)


def _rooted(x: torch.Tensor) -> torch.Tensor:
    g = (x @ x.transpose(-1, -2) / x.shape[-1]).flatten(1)
    return g.sign() * (g.abs() + 1).sqrt()


def _unit(x: torch.Tensor) -> torch.Tensor:
    r = _rooted(x)
    return r / (r**2).sum(1, keepdim=True).sqrt()


def _crossed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = torch.linalg.cross(a, b)
    return z * ((z**2).sum(1, keepdim=True) + 1).rsqrt()


def _steps(x: torch.Tensor) -> torch.Tensor:
    return (x[:, None] * x).tanh().flatten().square().diff().tanh()


@pytest.mark.parametrize(
    ("name", "forward", "inputs"),
    [
        ("rooted_gram", _rooted, (X,)),
        ("unit_gram", _unit, (X,)),
        ("flat_gram", lambda x: ((x @ x.T) ** 2).sum(), (X[0],)),
        ("steps_of_pairs", _steps, (X[0, 0],)),
        ("crossed", _crossed, (X.reshape(35, 3), X.flip(0).reshape(35, 3).exp())),
        ("off_its_mean", lambda a: ((a - a.mean(1, keepdim=True)) ** 3).sum(), (X[0, :, :5],)),
    ],
)
def test_lengths_follow_from_others(
    native: ModuleType, name: str, forward: Callable[..., torch.Tensor], inputs: tuple[Any, ...]
) -> None:
    ours, theirs = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
    y, expected = getattr(native, name)(*ours), forward(*theirs)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    weight = torch.linspace(0.3, 1.1, y.numel(), dtype=torch.float64).reshape(y.shape)
    gradients = torch.autograd.grad(y, ours, weight)
    for found, right in zip(gradients, torch.autograd.grad(expected, theirs, weight), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_between_ends_there_may_be_no_place(native: ModuleType, length: int) -> None:
    """No place is off an axis then, and the kernel runs."""
    x = X[0, :length].clone().requires_grad_()
    y, expected = native.bends(x), functional.pad(x.diff(n=2, dim=0), (0, 0, 1, 1)) if length > 2 else 0 * x
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    found, right = (torch.autograd.grad(value, x, X[1, :length])[0] for value in (y, expected))
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


def test_a_fixed_length_is_a_number(native: ModuleType) -> None:
    """Loops over it have no ends to look for; another length is PyTorch's to refuse."""
    source = Path(native.__path__[0], "crossed.c").read_text()
    assert "static const int64_t n_three = 3;" in source
    assert "if (given_n_three != 3) return BAD_INDEX;" in source


def test_another_length_than_the_fixed_one_is_refused(package: Package) -> None:
    with pytest.raises(ValueError, match="three"):
        package(specs=SPECS).crossed_forward(torch.ones(5, 4), torch.ones(5, 4))


NEIGHBOURS = """from derive import *

c, h, i, w = axes("c h i w")


@op
def neighbours(f, x: tensor[c, h, w]):
    f.y[()] = sum(x[c, i + 1, w] * x[c, i, w], over=(c, i, w))
    f.z[()] = sum(where(h + 1 < size(h), tanh(x[c, h, w] * x[c, h + 1, w]), 0), over=(c, h, w))
    return f.y, f.z
"""


@pytest.mark.parametrize("shape", [(3, 1, 5), (3, 2, 5), (1, 1, 1)])
def test_rows_of_no_places_where_no_input_is_empty(package: Package, shape: tuple[int, ...]) -> None:
    """The first of several axes' rows was found by a division by the length of an axis that is 0."""
    made = package(specs=NEIGHBOURS)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y, z = made.neighbours(x)
    want = (x[:, 1:] * x[:, :-1]).sum(), (x[:, 1:] * x[:, :-1]).tanh().sum()
    torch.testing.assert_close((y, z), want)
    found, right = (torch.autograd.grad(one + 2 * two, x)[0] for one, two in ((y, z), want))
    torch.testing.assert_close(found, right)


WIDE = """
from derive import *

n, t, k, u = axes("n t k u")

@op
def pooled(f, x: tensor[n, t], width: length(k)):
    f.y[n, u] = mean(x[n, u + k], over=k)
    return f.y

@op
def labelled(f, z: tensor[n, t], y: index(t)[n]):
    f.l[n] = z[n, y[n]]
    return f.l
"""


@pytest.mark.parametrize("width", [2.0, 2.5, None, "2"], ids=repr)
def test_a_length_that_is_no_whole_number_is_refused_as_by_the_torch_form(package: Package, width: object) -> None:
    made = package(specs=WIDE, workspace=True)
    x, forward, over = torch.randn(2, 5), made.pooled_forward, made.pooled_module.pooled_forward_out
    said = f"width is a {type(width).__name__}, expected a whole number; give an int"
    for _ in range(2):  # also where the last call was right, which 2.0 would be like
        for function in (made.pooled, forward, lambda x, w: over(x, w, out=forward(x, 2))):
            with pytest.raises(TypeError, match=rf"^pooled: {said}"):
                function(x, width)
        results = forward(x, 2)
        assert over(x, 2, out=results)[0] is results[0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bool, torch.float32], ids=str)
def test_an_index_of_another_dtype_is_refused_as_by_the_torch_form(package: Package, dtype: torch.dtype) -> None:
    made = package(specs=WIDE)
    z, y = torch.randn(3, 5), torch.tensor([0, 1, 1])
    torch.testing.assert_close(made.labelled(z, y.int()), z[range(3), y])
    with pytest.raises(TypeError, match=rf"^labelled: y has dtype {dtype}, expected int64 or int32; give y.long\(\)"):
        made.labelled(z, y.to(dtype))


PARTS = {
    "mean_error": (
        lambda x, w, count: ((x - w) ** 2).sum() / count, 7, "mean_error: count is {}, but axis d is 7 in x",
    ),
    "part_error": (
        lambda x, w, part: (x @ w * (x[:, :part].square().mean(1) + 1).rsqrt()).mean(), 3,
        "part_error, equation ms: x[n, t] must fit into axis d, but d = 7 and part = {}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_lengths_that_are_arguments(native: ModuleType, name: str) -> None:
    """Also of an axis that an input has, or of the first places of one."""
    forward, length, _ = PARTS[name]
    ours, theirs = ([x.clone().requires_grad_() for x in (X[0], X[1, 0])] for _ in range(2))
    y, expected = getattr(native, name)(*ours, length), forward(*theirs, length)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    for found, right in zip(torch.autograd.grad(y, ours), torch.autograd.grad(expected, theirs), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PARTS)
def test_such_lengths_are_checked(package: Package, name: str) -> None:
    """Wherever a kernel is called, right after a call that ran it; nothing is written before."""
    native = package(specs=SPECS, step=True, workspace=True)
    functions, (_, right, says) = vars(vars(native)[f"{name}_module"]), PARTS[name]
    x, w = X[0].clone(), X[1, 0].clone()
    calls = [name, f"{name}_forward", f"{name}_with_gradients", f"{name}_sgd"]
    for call in calls:
        rate = (0.1,) if call.endswith("sgd") else ()
        functions[call](x.clone(), w.clone(), right, *rate)
        for wrong in (8, 99):
            with pytest.raises(ValueError, match=re.escape(says.format(wrong))):
                functions[call](x, w, wrong, *rate)
        with pytest.raises((TypeError, ValueError), match="-1"):
            functions[call](x, w, -1, *rate)
        if f"{call}_out" in functions:
            out = functions[call](x, w, right)
            with pytest.raises(ValueError, match=re.escape(says.format(9))):
                functions[f"{call}_out"](x, w, 9, out=out)
    torch.testing.assert_close(x, X[0], rtol=0, atol=0)
    torch.testing.assert_close(w, X[1, 0], rtol=0, atol=0)
