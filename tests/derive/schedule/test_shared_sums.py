"""Sums start from what they have in common where that is less work, and are still the same numbers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from derive import axes, exp, length, mean, op, rsqrt, sum, tensor
from derive.contract.distributivity import distributed
from derive.contract.shared_sums import shared_sums
from derive.facts.lengths.nominal import Nominal
from derive.ir.equations import Op
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.program import Assign, Call, Merged, Node, PartOf, Program, Read, Reduce, SizeOf
from derive.pipeline import derive_op
from tests.derive.live import module

n, c, d, g, k, s = axes("n c d g k s")
GIVEN = {"x": "n c s", "z": "n c s", "w": "n g k s", "a": "c", "b": "n", "e": "n c s"}
LENGTHS = Nominal({"c": 32, "g": 4, "k": 8})
X, Z, E = (Read(name, ("n", "c", "s")) for name in "xze")
A, B = Read("a", ("c",)), Read("b", ("n",))


def program(*statements: Assign) -> Program:
    given = tuple((name, tuple(axes.split())) for name, axes in GIVEN.items())
    return Program("p", given, (), statements, tuple(s.name for s in statements if s.name.islower()))


def total(name: str, axes: str, over: str, *factors: Node, kind: str = "sum") -> Assign:
    return Assign(name, tuple(axes.split()), Reduce(kind, tuple(over.split()), multiplied([*factors])))


def texts(made: Program) -> list[str]:
    return [str(s) for s in made.statements]


@pytest.mark.parametrize(
    ("small", "large", "text"),
    [
        ("sum", "sum", "sum(part[n, c], over=n)"),
        ("mean", "mean", "mean(part[n, c], over=n)"),
        ("mean", "sum", "size(s) * sum(part[n, c], over=n)"),
        ("sum", "mean", "mean(part[n, c], over=n) / size(s)"),
    ],
)
def test_from_a_sum_that_is_there(small: str, large: str, text: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    part, whole = total("part", "n c", "s", X, kind=small), total("whole", "c", "n s", X, kind=large)
    for order in [(part, whole), (whole, part)]:
        assert texts(shared_sums(program(*order), LENGTHS)) == [str(part), f"whole[c] = {text}"]
    inner = getattr(x, small)(2)
    outer = getattr(inner, large)(0) * {("mean", "sum"): 5, ("sum", "mean"): 1 / 5}.get((small, large), 1)
    np.testing.assert_allclose(outer, getattr(x, large)((0, 2)))


def test_what_they_have_in_common_gets_a_name() -> None:
    made = shared_sums(program(total("da", "c", "n s", B, X, Z), total("db", "n", "c s", A, Z, X)), LENGTHS)
    assert texts(made) == [
        "sum_x_z[n, c] = sum(x[n, c, s] * z[n, c, s], over=s)",
        "da[c] = sum(b[n] * sum_x_z[n, c], over=n)",
        "db[n] = sum(a[c] * sum_x_z[n, c], over=c)",
    ]


def test_axes_have_other_names_and_views_are_seen_through() -> None:
    """`(g, k)` of one sum is `c` of the other, whose view is defined later; a product with a name is taken apart."""
    parts = tuple(PartOf("c", i, (SizeOf("g"), SizeOf("k"))) for i in (0, 1))
    ax = Assign("AX", ("n", "c", "s"), multiplied([A, X]))
    first = total("m", "n g", "k s", Read("AX", ("n", Merged(("g", "k")), "s")), Read("w", ("n", "g", "k", "s")))
    view = Assign("V", ("n", "c", "s"), Read("w", ("n", *parts, "s")))
    second = total("da", "c", "n' s'", Read("x", ("n'", "c", "s'")), Read("V", ("n'", "c", "s'")))
    assert texts(shared_sums(program(ax, first, view, second), LENGTHS)) == [
        "V[n, c, s] = w[n, c // size(k), c % size(k), s]",
        "sum_x_V[n, c] = sum(x[n, c, s] * V[n, c, s], over=s)",
        "m[n, g] = sum(a[(g, k),] * sum_x_V[n, (g, k)], over=k)",
        "da[c] = sum(sum_x_V[n', c], over=n')",
    ]


@pytest.mark.parametrize(
    "pair",
    [
        (total("u", "n s", "c", A, X), total("da", "c", "n s", X, Z)),  # what is left depends on all that is summed
        (total("u", "n c", "s", X), Assign("v", ("n", "c"), Reduce("amax", ("s",), X))),
        (total("u", "n c", "s", X), total("v", "c", "n s", Read("x", ("n", "s", "c")))),  # transposed
        (total("u", "c", "n s", X), total("v", "c", "n s", Z)),
    ],
)
def test_what_has_no_smaller_sum_in_common_stays(pair: tuple[Assign, Assign]) -> None:
    assert shared_sums(program(*pair), LENGTHS).statements == pair


# --- small factors inside sums --------------------------------------------------------------------------------------


def minus(*terms: Node) -> Node:
    out, *rest = terms
    for t in rest:
        out = Call("sub", (out, t))
    return out


def test_a_small_factor_goes_in_where_every_term_has_one() -> None:
    ax = Assign("AX", ("n", "c", "s"), multiplied([A, X]))
    inside = minus(Read("AX", ("n", "c", "s")), multiplied([B, Z]), B)
    y = Assign("y", ("n", "c", "s"), multiplied([B, inside]))
    made = distributed(program(ax, y), LENGTHS)
    assert texts(made) == ["y[n, c, s] = b[n] * a[c] * x[n, c, s] - b[n]**2 * z[n, c, s] - b[n]**2"]


@pytest.mark.parametrize("factors", [(B, minus(X, multiplied([A, Z]))), (E, minus(multiplied([A, X]), B))])
def test_a_factor_stays_outside_where_that_is_as_short(factors: tuple[Node, Node]) -> None:
    y = Assign("y", ("n", "c", "s"), multiplied([*factors]))
    assert distributed(program(y), LENGTHS).statements == (y,)


# --- derived ops ----------------------------------------------------------------------------------------------------


@op
def rms_groups(f, x: tensor[n, c, s], gamma: tensor[c], groups: length(g)):
    f.z[n, g, k, s] = x[n, (g, k), s]
    f.r[n, g] = rsqrt(mean(f.z[n, g, k, s] ** 2, over=(k, s)) + 0.1)
    f.xhat[n, (g, k), s] = f.z[n, g, k, s] * f.r[n, g]
    f.y[n, c, s] = gamma[c] * f.xhat[n, c, s]
    return f.y


@op
def channels_norm(f, x: tensor[n, c, s], gamma: tensor[c], beta: tensor[c]):
    f.mu[n] = mean(x[n, c, s], over=(c, s))
    f.rstd[n] = rsqrt(mean((x[n, c, s] - f.mu[n]) ** 2, over=(c, s)) + 0.1)
    f.xhat[n, c, s] = (x[n, c, s] - f.mu[n]) * f.rstd[n]
    f.y[n, c, s] = gamma[c] * f.xhat[n, c, s] + beta[c]
    return f.y


@op
def two_gains(f, x: tensor[n, c, s], a: tensor[c], b: tensor[n]):
    f.y[n, c, s] = a[c] * b[n] * x[n, c, s]
    return f.y


def rms_groups_(x: Tensor, gamma: Tensor) -> Tensor:
    z = x.unflatten(1, (3, -1))
    return gamma[:, None] * (z * torch.rsqrt(z.square().mean((2, 3), keepdim=True) + 0.1)).flatten(1, 2)


def channels_norm_(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    centred = x - x.mean((1, 2), keepdim=True)
    xhat = centred * torch.rsqrt(centred.square().mean((1, 2), keepdim=True) + 0.1)
    return gamma[:, None] * xhat + beta[:, None]


def two_gains_(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return a[:, None] * b[:, None, None] * x


@pytest.mark.parametrize(
    ("spec", "plain", "sums", "last"),
    [
        (rms_groups.op, rms_groups_, 1, (3,)),
        (channels_norm.op, channels_norm_, 2, ()),
        (two_gains.op, two_gains_, 1, ()),
    ],
    ids=["groups", "channels", "gains"],
)
def test_gradients(spec: Op, plain: Callable[..., Tensor], sums: int, last: tuple[int, ...]) -> None:
    """As right as autograd's in float64, as exact in float32; each large product is summed once, in place `s`."""
    backward = derive_op(spec).backward
    assert str(backward).count("over=s)") == sums and "over=(k, s)" not in str(backward)
    run = getattr(module(spec), spec.name)
    torch.manual_seed(0)
    count = len(spec.operands) - len(last)
    shapes = [(5, 6, 70), (6,), (5,) if spec.name == "two_gains" else (6,)][:count]
    inputs = [torch.randn(shape, dtype=torch.float64) + 2 for shape in shapes]
    dy = torch.randn(5, 6, 70, dtype=torch.float64)

    def gradients(f: Callable[..., Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
        own = [x.to(dtype).requires_grad_() for x in inputs]
        return torch.autograd.grad(f(*own), own, dy.to(dtype))

    exact = gradients(plain, torch.float64)
    torch.testing.assert_close(gradients(lambda *t: run(*t, *last), torch.float64), exact, rtol=1e-11, atol=1e-11)
    ours, theirs = gradients(lambda *t: run(*t, *last), torch.float32), gradients(plain, torch.float32)
    for mine, other, right in zip(ours, theirs, exact, strict=True):
        assert (mine - right).abs().max() <= 2 * (other - right).abs().max() + 1e-6 * right.abs().max()


def test_a_named_product_in_what_is_shared_keeps_its_name():
    @op
    def scaled_keys(f, q: tensor[n, g, d], v: tensor[n, k, d], w: tensor[d]):
        f.s[n, g, k] = exp(sum(q[n, g, d] * w[d] * v[n, k, d], over=d))
        return f.s

    values = [str(s.value) for s in derive_op(scaled_keys.op).backward.statements]
    assert "sum(ds_sum[n, g, k] * v[n, k, d], over=k)" in values
    assert [v.count("ds[n, g, k]") for v in values] == [1, 0, 0, 0, 0]
