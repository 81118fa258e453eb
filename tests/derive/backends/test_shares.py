"""Shares of exponentials, and their logarithms, are one call of torch where nothing else reads the exponentials."""

import math

import pytest
import torch
from torch import Tensor

from derive.backends.torch.reductions.shares import with_shares
from derive.emit import render
from derive.ir.program import Assign, Call, Program, Read, Reduce, Shares
from derive.notation import amax, axes, exp, log, op, scalar, sum, tensor, where
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

n, c, k, i, j = axes("n c k i j")


@op
def plain(f, x: tensor[n, c, k]):
    """Along an axis in the middle, no largest score taken off."""
    f.u[n, c, k] = exp(x[n, c, k])
    f.p[n, c, k] = f.u[n, c, k] / sum(f.u[n, c, k], over=c)
    return f.p


@op
def at_a_temperature(f, x: tensor[..., c], t: scalar = 2):
    f.z[..., c] = x[..., c] / t
    f.m[...] = amax(f.z[..., c], over=c)
    f.p[..., c] = exp(f.z[..., c] - f.m[...]) / sum(exp(f.z[..., c] - f.m[...]), over=c)
    return f.p


@op
def logarithms(f, x: tensor[n, c]):
    f.m[n] = amax(x[n, c], over=c)
    f.l[n] = f.m[n] + log(sum(exp(x[n, c] - f.m[n]), over=c))
    f.y[n, c] = x[n, c] - f.l[n]
    return f.y


@op
def causal(f, q: tensor[i, k], s: tensor[j, k]):
    f.z[i, j] = where(j <= i, sum(q[i, k] * s[j, k], over=k), -math.inf)
    f.m[i] = amax(f.z[i, j], over=j)
    f.u[i, j] = exp(f.z[i, j] - f.m[i])
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    f.y[i, k] = sum(f.p[i, j] * s[j, k], over=j)
    return f.y


def causal_by_hand(q: Tensor, s: Tensor) -> Tensor:
    return torch.softmax((q @ s.T).masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf), 1) @ s


@op
def along_two(f, x: tensor[..., i, j]):
    f.m[...] = amax(x[..., i, j], over=(i, j))
    f.u[..., i, j] = exp(x[..., i, j] - f.m[...])
    f.p[..., i, j] = f.u[..., i, j] / sum(f.u[..., i, j], over=(j, i))
    return f.p


@op
def along_two_turned(f, x: tensor[i, j, n], w: tensor[n]):
    f.p[n, j, i] = w[n] * exp(x[i, j, n]) / sum(exp(x[i, j, n]), over=(j, i))
    return f.p


@op
def logarithms_along_two(f, x: tensor[n, i, j]):
    f.m[n] = amax(x[n, i, j], over=(i, j))
    f.y[n, i, j] = x[n, i, j] - f.m[n] - log(sum(exp(x[n, i, j] - f.m[n]), over=(i, j)))
    return f.y


def along_two_by_hand(x: Tensor) -> Tensor:
    return x.flatten(-2).softmax(-1).view_as(x)


def along_two_turned_by_hand(x: Tensor, w: Tensor) -> Tensor:
    return (along_two_by_hand(x.permute(2, 0, 1)) * w[:, None, None]).mT


def logarithms_along_two_by_hand(x: Tensor) -> Tensor:
    return along_two_by_hand(x).log()


@op
def of_returned_scores(f, q: tensor[i, k], s: tensor[j, k]):
    """The scores are read by others as well: they are one product all the same."""
    f.z[i, j] = sum(q[i, k] * s[j, k], over=k)
    f.p[i, j] = exp(f.z[i, j]) / sum(exp(f.z[i, j]), over=j)
    f.y[i, j] = f.p[i, j] * f.z[i, j]
    return f.y


def of_returned_scores_by_hand(q: Tensor, s: Tensor) -> Tensor:
    return (q @ s.T).softmax(1) * (q @ s.T)


@op
def of_a_plain_product(f, q: tensor[i, k], s: tensor[j, k], v: tensor[j, n]):
    """Its transposed factor turns nothing round: the scores are written over."""
    f.z[i, j] = sum(q[i, k] * s[j, k], over=k)
    f.m[i] = amax(f.z[i, j], over=j)
    f.p[i, j] = exp(f.z[i, j] - f.m[i]) / sum(exp(f.z[i, j] - f.m[i]), over=j)
    f.y[i, n] = sum(f.p[i, j] * v[j, n], over=j)
    return f.y


@op
def of_scores_without_a_name(f, q: tensor[i, k], s: tensor[j, k]):
    f.u[i, j] = exp(3 * sum(q[i, k] * s[j, k], over=k))
    f.p[i, j] = f.u[i, j] / sum(f.u[i, j], over=j)
    return f.p


@op
def of_turned_scores(f, q: tensor[n, i, k], s: tensor[i, k, j]):
    """What torch has made with other dimensions first is not written over, which compiled it refuses."""
    f.z[n, i, j] = sum(q[n, i, k] * s[i, k, j], over=k)
    f.p[n, i, j] = exp(f.z[n, i, j]) / sum(exp(f.z[n, i, j]), over=i)
    return f.p


def of_turned_scores_by_hand(q: Tensor, s: Tensor) -> Tensor:
    return torch.einsum("nik,ikj->nij", q, s).softmax(1)


ONE_CALL = [
    (plain, "p = torch.softmax(x, 1)", lambda x: x.softmax(1), {"x": (3, 5, 2)}),
    (at_a_temperature, "p = torch.softmax(z, -1)  #", lambda x: (x / 2).softmax(-1), {"x": (2, 3, 5)}),
    (logarithms, "y = torch.log_softmax(x, 1)", lambda x: x.log_softmax(1), {"x": (3, 5)}),
    (causal, "p = torch.softmax(z, 1, out=z)", causal_by_hand, {"q": (5, 2), "s": (5, 2)}),
    (
        along_two,
        "p = torch.softmax(x.flatten(-2, -1), -1).unflatten(-1, (i, j))",
        along_two_by_hand,
        {"x": (2, 3, 4, 5)},
    ),
    (
        along_two_turned,
        "torch.softmax(x.flatten(0, 1), 0).unflatten(0, (i, j)).transpose(0, 2)",
        along_two_turned_by_hand,
        {"x": (4, 5, 3), "w": (3,)},
    ),
    (
        logarithms_along_two,
        "y = torch.log_softmax(x.flatten(1, 2), 1).unflatten(1, (i, j))",
        logarithms_along_two_by_hand,
        {"x": (3, 4, 5)},
    ),
    (of_returned_scores, "p = torch.softmax(z, 1)", of_returned_scores_by_hand, {"q": (4, 2), "s": (5, 2)}),
    (
        of_a_plain_product,
        "p = torch.softmax(z, 1, out=z)",
        lambda q, s, v: (q @ s.T).softmax(1) @ v,
        {"q": (4, 2), "s": (5, 2), "v": (5, 3)},
    ),
    (
        of_scores_without_a_name,
        "p = torch.softmax(u_sum_2, 1, out=u_sum_2)",
        lambda q, s: (3 * q @ s.T).softmax(1),
        {"q": (4, 2), "s": (5, 2)},
    ),
    (of_turned_scores, "p = torch.softmax(z, 1)  #", of_turned_scores_by_hand, {"q": (3, 4, 2), "s": (4, 2, 5)}),
]


@pytest.mark.parametrize(("made", "line", "theirs", "shapes"), ONE_CALL, ids=[m.op.name for m, *_ in ONE_CALL])
def test_one_call(made, line, theirs, shapes) -> None:
    code = render(derivation_of(made.op))
    assert line in code, code
    assert ".amax" not in code
    assert_derived(made.op, theirs, shapes)


def test_scores_are_one_product() -> None:
    forward, _ = render(derivation_of(of_returned_scores.op)).split("def of_returned_scores_backward")
    assert forward.count(" @ ") == 1, forward


def test_it_compiles_as_one_graph() -> None:
    compiled = torch.compile(module(of_turned_scores.op).of_turned_scores, fullgraph=True, backend="aot_eager")
    q, s = torch.randn(3, 4, 2), torch.randn(4, 2, 5)
    torch.testing.assert_close(compiled(q, s), of_turned_scores_by_hand(q, s))


@op
def sum_is_kept(f, x: tensor[n, c]):
    f.s[n] = sum(exp(x[n, c]), over=c)
    f.p[n, c] = exp(x[n, c]) / f.s[n]
    return f.p, f.s


@op
def of_other_scores(f, x: tensor[n, c], z: tensor[n, c]):
    f.p[n, c] = exp(x[n, c]) / sum(exp(z[n, c]), over=c)
    return f.p


@op
def something_is_left(f, x: tensor[n, c]):
    f.p[n, c] = exp(x[n, c]) / (1 + sum(exp(x[n, c]), over=c))
    return f.p


@op
def over_two_axes_apart(f, x: tensor[n, c, k]):
    f.p[n, c, k] = exp(x[n, c, k]) / sum(exp(x[n, c, k]), over=(n, k))
    return f.p


@op
def over_leading_axes(f, x: tensor[..., c]):
    """There is no telling how many dimensions they are."""
    f.p[..., c] = exp(x[..., c]) / sum(exp(x[..., c]), over=...)
    return f.p


@op
def another_logarithm(f, x: tensor[n, c], z: tensor[n, c]):
    f.y[n, c] = z[n, c] - log(sum(exp(x[n, c]), over=c))
    return f.y


@op
def less_another_maximum(f, x: tensor[n, c]):
    """The largest of other rows is no number that all the shares have: it changes them."""
    f.m[n] = amax(x[n, c], over=c)
    f.s[c] = sum(exp(x[n, c] - f.m[n]), over=n)
    f.p[n, c] = exp(x[n, c] - f.m[n]) / f.s[c]
    return f.p


def less_another_maximum_by_hand(x: Tensor) -> Tensor:
    return (x - x.amax(1, keepdim=True)).softmax(0)


APART = [
    (sum_is_kept, lambda x: (x.softmax(1), x.exp().sum(1)), 1),
    (of_other_scores, lambda x, z: x.exp() / z.exp().sum(1, keepdim=True), 2),
    (something_is_left, lambda x: x.exp() / (1 + x.exp().sum(1, keepdim=True)), 1),
    (over_leading_axes, lambda x: x.softmax(0), 1),
    (over_two_axes_apart, lambda x: x.exp() / x.exp().sum((0, 2), keepdim=True), 1),
    (another_logarithm, lambda x, z: z - x.logsumexp(1, keepdim=True), 2),
]


def test_the_maximum_that_is_taken_off_is_along_the_same_axis() -> None:
    code = render(derivation_of(less_another_maximum.op))
    assert "torch.softmax(x - m, 0)" in code, code
    assert_derived(less_another_maximum.op, less_another_maximum_by_hand, {"x": (3, 5)})


@pytest.mark.parametrize(("made", "theirs", "inputs"), APART, ids=[m.op.name for m, *_ in APART])
def test_what_else_is_made_of_exponentials_is_made_of_them(made, theirs, inputs) -> None:
    assert "softmax" not in render(derivation_of(made.op))
    shape = (3, 5, 2) if made is over_two_axes_apart else (3, 5)
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(inputs)]
    ours, right = getattr(module(made.op), made.op.name)(*leaves), theirs(*leaves)
    pairs = zip(ours, right, strict=True) if isinstance(right, tuple) else [(ours, right)]
    for a, b in pairs:
        cotangent = torch.randn_like(b)
        found, expected = (torch.autograd.grad(y, leaves, cotangent, retain_graph=True) for y in (a, b))
        torch.testing.assert_close((a, found), (b, expected), rtol=1e-12, atol=1e-13)


def test_a_product_may_have_them_as_a_factor() -> None:
    exponential, w, v = Call("exp", (Read("x", ("n", "c")),)), Read("w", ("c",)), Read("v", ("n",))
    total = Reduce("sum", ("c",), exponential)
    value = Call("div", (Call("mul", (Call("div", (w, total)), exponential)), v))
    made = Assign("y", ("n", "c"), value)
    (found,) = with_shares(
        Program("p", (("x", ("n", "c")), ("w", ("c",)), ("v", ("n",))), (), (made,), ("y",))
    ).statements
    shares = Shares(("c",), Read("x", ("n", "c")))
    assert found.value == Call("div", (Call("mul", (w, shares)), v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_torch_writes_shares_over_their_scores(at: int, dtype: torch.dtype) -> None:
    """Generated code relies on it: each score is read before its share is written."""
    for shape in [(7, 33, 300), (3, 1100, 9), (1, 5000, 2), (2000, 3, 17)]:
        z = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
        z[..., 1::2] = -math.inf if at == 2 else 3.0
        right = torch.softmax(z, at), torch.log_softmax(z, at)
        over, logarithm = z.clone(), z.clone()
        torch.softmax(over, at, out=over)
        torch.log_softmax(logarithm, at, out=logarithm)
        assert torch.equal(over, right[0]) and torch.equal(logarithm, right[1])
